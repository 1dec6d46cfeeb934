//! A second reader: prints a ZB+-tree's records from the file alone, by what `docs/design` says of
//! the bytes, and nothing else. It uses none of the readers under test.
//!
//! It is short because it refuses nothing that a whole store does not hold.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::collections::BTreeMap;
use std::path::Path;

use littoral_device::zoned::file::FileDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_index::index::{Engine, Index};
use littoral_index::kv::{Access, Kv, Options};

/// CRC32C, bit by bit, of the salt's eight bytes and then `bytes`.
fn checksum(salt: u64, bytes: &[u8]) -> u32 {
    let all = salt.to_le_bytes().into_iter().chain(bytes.iter().copied());
    !all.fold(!0u32, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(byte),
            |c, _| {
                if c & 1 == 1 { (c >> 1) ^ 0x82f6_3b78 } else { c >> 1 }
            },
        )
    })
}

fn verifies(block: &[u8], salt: u64) -> bool {
    let (body, sum) = block.split_at(block.len() - 4);
    sum == checksum(salt, body).to_le_bytes()
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut wide = [0; 8];
    wide[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(wide)
}

const SUPERBLOCK: u64 = 0x5355_5045_5242_4c4b;
const LOG_PART: u64 = 0x5055_4f52_4747_4f4c;

struct Reader {
    file: Vec<u8>,
    block: usize,
    conventional: u64,
    zones: u64,
    zone_blocks: u64,
    begin: usize,
    /// Pages as the redo log leaves them.
    pages: BTreeMap<u64, Vec<u8>>,
    /// Top page and height.
    root: (u64, u64),
    /// Key and value bytes; slots of a leaf, an interior page, a head.
    shape: [usize; 5],
    /// Groups of the redo log.
    groups: u64,
}

impl Reader {
    /// `docs/design/zoned.md`: header, zone records, where the zones begin.
    fn open(file: Vec<u8>) -> Reader {
        let header = &file[..512];
        assert!(header.starts_with(b"LITZONED") && verifies(header, 0));
        assert_eq!(number(header, 8, 4), 2);
        let (conventional, zones) = (number(header, 16, 4), number(header, 20, 4));
        let (block, zone_blocks) = (number(header, 12, 4) as usize, number(header, 24, 8));
        let table = 4096 + 32 * (conventional + zones) as usize;
        let begin = table.next_multiple_of(1 << 20);
        let mut reader = Reader {
            file,
            block,
            conventional,
            zones: conventional + zones,
            zone_blocks,
            begin,
            pages: BTreeMap::new(),
            root: (0, 0),
            shape: [0; 5],
            groups: 0,
        };
        reader.replay();
        reader
    }

    fn blocks(&self, at: u64) -> &[u8] {
        let from = self.begin + at as usize * self.block;
        &self.file[from..from + self.block]
    }

    fn written(&self, zone: u64) -> u64 {
        let at = 4096 + 32 * zone as usize;
        assert!(verifies(&self.file[at..at + 32], zone + 1));
        number(&self.file, at + 8, 8)
    }

    /// The newest superblock: the first four blocks of each conventional zone.
    fn superblock(&self) -> &[u8] {
        let places = (0..self.conventional).flat_map(|z| (0..4).map(move |b| (z, b)));
        let found = places.map(|(z, b)| self.blocks(z * self.zone_blocks + b));
        let ours = found.filter(|b| b.starts_with(b"LITSTORE") && verifies(b, SUPERBLOCK));
        ours.max_by_key(|b| number(b, 20, 8)).expect("a superblock")
    }

    fn replay(&mut self) {
        let s = self.superblock().to_vec();
        assert_eq!((number(&s, 8, 4), &s[12..20]), (2, &b"zb\0\0\0\0\0\0"[..]));
        let (id, epoch) = (number(&s, 28, 8), number(&s, 36, 8));
        let zone = number(&s, 44 + 4 * (epoch % 2) as usize, 4);
        assert!(zone < self.zones && number(&s, 62, 2) == 1, "page layout 1");
        self.shape = std::array::from_fn(|i| number(&s, 64 + 4 * i, 4) as usize);
        let (start, end) = (zone * self.zone_blocks, self.written(zone));
        let (mut at, mut sequence) = (0, 0);
        while at < end {
            let first = self.blocks(start + at);
            let part = if verifies(first, LOG_PART) { first } else { &first[..self.block / 2] };
            assert!(verifies(part, LOG_PART) && number(part, 0, 4) == 0x4f44_4552);
            let named = [number(part, 16, 8), number(part, 24, 8), number(part, 32, 8)];
            assert_eq!(named, [id, epoch, sequence]);
            let (data, len) = (number(part, 4, 4), number(part, 12, 4) as usize);
            let mut body = part[40..part.len() - 4].to_vec();
            for next in 1..data {
                let block = self.blocks(start + at + next);
                assert!(verifies(block, LOG_PART));
                body.extend_from_slice(&block[40..self.block - 4]);
            }
            self.apply(&body[..len]);
            at += data + 1;
            sequence += 1;
        }
        self.groups = sequence;
    }

    fn apply(&mut self, body: &[u8]) {
        let mut at = 0;
        while at < body.len() {
            let (tag, page) = (body[at], number(body, at + 1, 8));
            at += 9;
            match tag {
                1 => at = self.patch(page, body, at),
                2 => {
                    let len = number(body, at, 2) as usize;
                    let mut image = body[at + 2..at + 2 + len].to_vec();
                    image.resize(self.block, 0);
                    self.pages.insert(page, image);
                    at += 2 + len;
                }
                3 => {
                    self.root = (page, number(body, at, 4));
                    at += 12;
                }
                _ => panic!("no such entry"),
            }
        }
    }

    fn patch(&mut self, at_page: u64, body: &[u8], mut at: usize) -> usize {
        let mut page = self.page(at_page);
        let count = number(body, at, 2);
        at += 2;
        for _ in 0..count {
            let (kind, to, len) = (body[at], number(body, at + 1, 2), number(body, at + 3, 2));
            let (to, len) = (to as usize, len as usize);
            if kind == 0 {
                page[to..to + len].copy_from_slice(&body[at + 5..at + 5 + len]);
                at += 5 + len;
            } else {
                let (from, to, len) = (to, len, number(body, at + 5, 2) as usize);
                page.copy_within(from..from + len, to);
                at += 7;
            }
        }
        self.pages.insert(at_page, page);
        at
    }

    fn page(&self, at: u64) -> Vec<u8> {
        if let Some(page) = self.pages.get(&at) {
            return page.clone();
        }
        let block = self.blocks(at);
        let is_conventional = at < self.conventional * self.zone_blocks;
        assert!(verifies(block, if is_conventional { at | 1 << 63 } else { at }), "page {at}");
        block.to_vec()
    }

    /// The live records of a body: its slots, those of its log in their place.
    fn records(&self, body: u64, log: u64, slots: usize, record: usize) -> Vec<Vec<u8>> {
        let page = self.page(body);
        let log = (log != u64::MAX).then(|| self.page(log));
        let count = number(&page, 2, 2) as usize;
        let one = |i: usize| {
            let tag = log.as_ref().map_or(0, |l| l[16 + i]);
            let from = 16 + i * record;
            match tag {
                0 => Some(page[from..from + record].to_vec()),
                1 => {
                    let from = 16 + slots + i * record;
                    log.as_ref().map(|l| l[from..from + record].to_vec())
                }
                _ => None,
            }
        };
        (0..count).filter_map(one).collect()
    }

    fn head(&self, at: u64, height: u64, out: &mut Vec<Vec<u8>>) {
        let [key, value, leaf, interior, _] = self.shape;
        let page = self.page(at);
        assert_eq!((page[0], u64::from(page[1])), (3, height));
        for i in 0..number(&page, 2, 2) as usize {
            let slot = 16 + i * (key + 17) + key;
            let (body, log) = (number(&page, slot + 1, 8), number(&page, slot + 9, 8));
            if height == 0 {
                out.extend(self.records(body, log, leaf, key + value));
                continue;
            }
            for child in self.records(body, log, interior, key + 8) {
                self.head(number(&child, key, 8), height - 1, out);
            }
        }
    }
}

fn dump_of(path: &Path) -> Vec<Vec<u8>> {
    let reader = Reader::open(std::fs::read(path).unwrap());
    let mut records = Vec::new();
    reader.head(reader.root.0, reader.root.1, &mut records);
    records
}

fn open_to_read(dir: &Path) -> Kv {
    let device = FileDevice::open_to_read(&dir.join("zones")).unwrap();
    Kv::open_on(Box::new(device), Access::Read).unwrap()
}

#[test]
fn the_pages_of_the_design_are_enough_to_read_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let geometry = Geometry {
        block_bytes: 512,
        conventional_zones: 2,
        sequential_zones: 12,
        zone_blocks: 130,
        capacity_blocks: 101,
        open_zones_max: 3,
        active_zones_max: 5,
        append_blocks_max: 0,
    };
    for is_closed in [true, false] {
        let at = dir.path().join(is_closed.to_string());
        let options = Options { geometry, ..Options::new(Engine::Zb, 3) };
        std::fs::create_dir(&at).unwrap();
        let device = FileDevice::create(&at.join("zones"), options.geometry).unwrap();
        // An `Index` that is dropped leaves what a kill leaves; a `Kv` closes the store.
        let shape = options.shape(geometry.block_bytes).unwrap();
        let mut index = Index::create(device, Engine::Zb, shape, options.id).unwrap();
        for i in 0..2500u64 {
            let key = (i % 1100).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            if i % 9 == 4 {
                index.delete(&key).unwrap();
            } else {
                index.put(&key, &i.to_be_bytes()).unwrap();
            }
        }
        if is_closed {
            index.close().unwrap();
        }
        drop(index);
        let kv = open_to_read(&at);
        assert!(kv.stats().layers_count >= 4, "two pairs of levels");
        let mut wanted = Vec::new();
        kv.scan(None, None, |k, v| {
            wanted.push([k, v].concat());
            true
        })
        .unwrap();
        drop(kv);
        assert!(wanted.len() > 500);
        let reader = Reader::open(std::fs::read(at.join("zones")).unwrap());
        assert_eq!(reader.groups > 1, !is_closed, "{} groups", reader.groups);
        assert!(dump_of(&at.join("zones")) == wanted, "closed {is_closed}");
    }
}
