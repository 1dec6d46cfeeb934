//! Random commands against a textbook zone: the emulated device must agree on every answer, on
//! every byte, and on what a power cut may leave.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::emulated::{Emulated, Medium};
use littoral_device::zoned::file::FileDevice;
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_device::zoned::{ZoneState, ZonedDevice};
use proptest::prelude::*;

const BLOCK: usize = 512;

fn geometry(open: u32, active: u32) -> Geometry {
    Geometry {
        block_bytes: BLOCK as u32,
        conventional_zones: 1,
        sequential_zones: 4,
        zone_blocks: 7,
        capacity_blocks: 5,
        open_zones_max: open,
        active_zones_max: active,
        append_blocks_max: 2,
    }
}

#[derive(Clone, Debug)]
enum Op {
    Write { zone: u32, offset: u64, blocks: usize },
    Append { zone: u32, blocks: usize },
    Open(u32),
    Close(u32),
    Finish(u32),
    Reset(u32),
    Flush,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let zone = 0u32..6;
    let op = prop_oneof![
        4 => (zone.clone(), 0u64..7, 1usize..4)
            .prop_map(|(zone, offset, blocks)| Op::Write { zone, offset, blocks }),
        4 => (zone.clone(), 1usize..4).prop_map(|(zone, blocks)| Op::Append { zone, blocks }),
        1 => zone.clone().prop_map(Op::Open),
        1 => zone.clone().prop_map(Op::Close),
        1 => zone.clone().prop_map(Op::Finish),
        2 => zone.prop_map(Op::Reset),
        1 => Just(Op::Flush),
    ];
    proptest::collection::vec(op, 1..60)
}

/// The textbook: one `Vec` a zone, no cleverness, written from the standard and not from the
/// device.
struct Textbook {
    g: Geometry,
    data: Vec<Vec<u8>>,
    state: Vec<char>,
    opened: Vec<usize>,
}

impl Textbook {
    fn new(g: Geometry) -> Self {
        let n = g.zones() as usize;
        let mut state = vec!['e'; n];
        state[0] = 'c';
        let mut data = vec![Vec::new(); n];
        data[0] = vec![0; 7];
        Textbook { g, data, state, opened: vec![] }
    }

    fn activate(&mut self, z: usize, to: char) -> bool {
        let closed = self.state.iter().filter(|&&s| s == 'k').count();
        if self.state[z] == 'i' || self.state[z] == 'x' {
            if self.state[z] != to && to == 'x' {
                self.opened.retain(|&o| o != z);
                self.opened.push(z);
                self.state[z] = 'x';
            }
            return true;
        }
        let active = self.opened.len() + closed;
        if self.g.active_zones_max > 0
            && self.state[z] != 'k'
            && active >= self.g.active_zones_max as usize
        {
            return false;
        }
        if self.g.open_zones_max > 0 && self.opened.len() >= self.g.open_zones_max as usize {
            let Some(v) = self.opened.iter().copied().find(|&o| self.state[o] == 'i') else {
                return false;
            };
            self.opened.retain(|&o| o != v);
            self.state[v] = 'k';
        }
        self.state[z] = to;
        self.opened.push(z);
        true
    }

    fn write(&mut self, z: usize, offset: usize, blocks: usize, tag: u8) -> bool {
        if z >= self.data.len() || offset + blocks > 7 {
            return false;
        }
        if self.state[z] == 'c' {
            self.data[z][offset..offset + blocks].fill(tag);
            return true;
        }
        if self.state[z] == 'f' || offset != self.data[z].len() || offset + blocks > 5 {
            return false;
        }
        if !self.activate(z, 'i') {
            return false;
        }
        self.data[z].extend(vec![tag; blocks]);
        if self.data[z].len() == 5 {
            self.leave(z, 'f');
        }
        true
    }

    fn leave(&mut self, z: usize, to: char) {
        self.opened.retain(|&o| o != z);
        self.state[z] = to;
    }

    fn run(&mut self, op: &Op, tag: u8) -> bool {
        let known = |z: u32| (1..5).contains(&z);
        match *op {
            Op::Write { zone, offset, blocks } => {
                self.write(zone as usize, offset as usize, blocks, tag)
            }
            Op::Append { zone, blocks } => {
                known(zone) && blocks <= 2 && {
                    let at = self.data[zone as usize].len();
                    self.write(zone as usize, at, blocks, tag)
                }
            }
            Op::Open(z) => {
                known(z) && self.state[z as usize] != 'f' && self.activate(z as usize, 'x')
            }
            Op::Close(z) => {
                known(z)
                    && match self.state[z as usize] {
                        'i' | 'x' => {
                            let to = if self.data[z as usize].is_empty() { 'e' } else { 'k' };
                            self.leave(z as usize, to);
                            true
                        }
                        s => s == 'k',
                    }
            }
            Op::Finish(z) => {
                known(z) && {
                    self.data[z as usize].resize(5, 0);
                    self.leave(z as usize, 'f');
                    true
                }
            }
            Op::Reset(z) => {
                known(z) && {
                    self.data[z as usize].clear();
                    self.leave(z as usize, 'e');
                    true
                }
            }
            Op::Flush => true,
        }
    }
}

fn run_device<M: Medium>(dev: &mut Emulated<M>, op: &Op, tag: u8) -> bool {
    let data = |blocks: usize| vec![tag; blocks * BLOCK];
    match *op {
        Op::Write { zone, offset, blocks } => {
            let written = dev.write(Lba(u64::from(zone) * 7 + offset), &data(blocks));
            written.and_then(|t| dev.wait(t)).is_ok()
        }
        Op::Append { zone, blocks } => {
            dev.append(ZoneId(zone), &data(blocks)).and_then(|t| dev.wait(t)).is_ok()
        }
        Op::Open(z) => dev.open(ZoneId(z)).is_ok(),
        Op::Close(z) => dev.close(ZoneId(z)).is_ok(),
        Op::Finish(z) => dev.finish(ZoneId(z)).is_ok(),
        Op::Reset(z) => dev.reset(ZoneId(z)).is_ok(),
        Op::Flush => dev.flush().is_ok(),
    }
}

fn contents<M: Medium>(dev: &Emulated<M>) -> Vec<u8> {
    let mut bytes = vec![0; 5 * 7 * BLOCK];
    dev.read(Lba(0), &mut bytes).unwrap();
    bytes.chunks(BLOCK).map(|b| b[0]).collect()
}

fn expected(t: &Textbook) -> Vec<u8> {
    let pad =
        |z: &Vec<u8>| z.iter().copied().chain(std::iter::repeat(0)).take(7).collect::<Vec<_>>();
    t.data.iter().flat_map(pad).collect()
}

fn letter(s: ZoneState) -> char {
    match s {
        ZoneState::NotWritePointer => 'c',
        ZoneState::Empty => 'e',
        ZoneState::ImplicitOpen => 'i',
        ZoneState::ExplicitOpen => 'x',
        ZoneState::Closed => 'k',
        ZoneState::Full => 'f',
        ZoneState::ReadOnly | ZoneState::Offline => '!',
    }
}

fn agree<M: Medium>(dev: &mut Emulated<M>, ops: &[Op], open: u32, active: u32) {
    let mut book = Textbook::new(geometry(open, active));
    for (i, op) in ops.iter().enumerate() {
        let tag = i as u8 + 1;
        assert_eq!(run_device(dev, op, tag), book.run(op, tag), "operation {i}: {op:?}");
        let states: Vec<_> =
            dev.report(ZoneId(0), 5).unwrap().iter().map(|r| letter(r.state)).collect();
        assert_eq!(states, book.state, "states after operation {i}: {op:?}");
    }
    assert_eq!(contents(dev), expected(&book));
}

proptest! {
    #![proptest_config(littoral_testing::standard())]
    #[test]
    fn the_model_agrees_with_the_textbook(ops in ops(), open in 0u32..4, active in 0u32..5) {
        let active = if active > 0 { active.max(open) } else { 0 };
        agree(&mut ModelDevice::new(geometry(open, active)).unwrap(), &ops, open, active);
    }

    #[test]
    fn after_a_power_cut_each_zone_is_a_prefix_that_keeps_what_was_flushed(ops in ops(), seed: u64) {
        let mut dev = ModelDevice::new(geometry(0, 0)).unwrap();
        let mut book = Textbook::new(geometry(0, 0));
        let mut flushed = expected(&book);
        let mut reset_since = [false; 5];
        for (i, op) in ops.iter().enumerate() {
            let tag = i as u8 + 1;
            run_device(&mut dev, op, tag);
            if book.run(op, tag) {
                match op {
                    Op::Flush => (flushed, reset_since) = (expected(&book), [false; 5]),
                    Op::Reset(z) => reset_since[*z as usize] = true,
                    _ => {}
                }
            }
        }
        dev.power_cycle(seed);
        let (after, full) = (contents(&dev), expected(&book));
        for (z, reset) in reset_since.iter().enumerate().skip(1) {
            let r = &dev.report(ZoneId(z as u32), 1).unwrap()[0];
            let kept = (r.write_pointer.0 - r.start.0) as usize;
            let zone = |v: &[u8]| v[z * 7..z * 7 + 7].to_vec();
            prop_assert!(zone(&after)[kept..].iter().all(|&b| b == 0), "nothing past the pointer");
            if !reset {
                prop_assert_eq!(&zone(&after)[..kept], &zone(&full)[..kept]);
                let floor = zone(&flushed).iter().take_while(|&&b| b != 0).count();
                prop_assert!(kept >= floor, "flushed blocks are kept: {} < {}", kept, floor);
            }
        }
    }
}

proptest! {
    #![proptest_config(littoral_testing::cases(40))]
    #[test]
    fn the_file_agrees_with_the_textbook_and_survives_its_process(ops in ops(), open in 0u32..4) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zones");
        let mut dev = FileDevice::create(&path, geometry(open, 0)).unwrap();
        agree(&mut dev, &ops, open, 0);
        let (before, pointers) = (contents(&dev), dev.report(ZoneId(0), 5).unwrap());
        drop(dev);
        let dev = FileDevice::open(&path).unwrap();
        prop_assert_eq!(contents(&dev), before);
        for (a, b) in dev.report(ZoneId(0), 5).unwrap().iter().zip(&pointers) {
            prop_assert_eq!(a.write_pointer, b.write_pointer);
            prop_assert!(!matches!(a.state, ZoneState::ImplicitOpen | ZoneState::ExplicitOpen));
        }
    }
}
