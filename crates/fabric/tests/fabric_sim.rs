//! The simulated fabric: LogGP's costs to the picosecond, replay, order, and jobs that would hang.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use littoral_base::rng::{self, Rng};
use littoral_base::units::{NodeId, Picos};
use littoral_device::Kind;
use littoral_fabric::board::{Board, DmaWrite};
use littoral_fabric::sim::{HEAD_BYTES, LogGp, SimFabric, SimReport, run};
use littoral_fabric::{Fabric, Liveness, Rmw};

const MODEL: LogGp = LogGp {
    latency: Picos(1_000_000),
    overhead: Picos(200_000),
    gap: Picos(50_000),
    byte: Picos(100),
    service: Picos(30_000),
    board: Picos(80_000),
};
const FOREVER: Duration = Duration::MAX;

fn on_wire(bytes: u64) -> u64 {
    (HEAD_BYTES + bytes) * 100
}

#[test]
fn a_read_costs_what_loggp_says() {
    let report = run(2, 64, MODEL, |f| {
        if f.me() == NodeId(0) {
            f.get(NodeId(1), 0, &mut [0; 32]).unwrap();
        }
        f.now()
    });
    let there = on_wire(8) + 1_000_000 + 30_000;
    let back = on_wire(32) + 1_000_000;
    assert_eq!(report.results[0], Picos(200_000 + there + back));
    assert_eq!((report.counts.messages, report.counts.bytes), (2, 2 * HEAD_BYTES + 8 + 32));
}

#[test]
fn the_gap_and_the_server_hold_a_stream_of_writes_back() {
    let report = run(2, 64, MODEL, |f| {
        if f.me() == NodeId(0) {
            for i in 1..=10u64 {
                f.put(NodeId(1), 0, &i.to_le_bytes()).unwrap();
            }
            f.flush(NodeId(1)).unwrap();
        } else {
            let mut last = 0;
            while last < 10 {
                let word = f.wait_word(0, last, FOREVER).unwrap().unwrap();
                assert!(word > last, "writes take effect in order");
                last = word;
            }
        }
        f.now()
    });
    // The processor's 200 ns a write is the narrowest part; the tail is one write's way and back.
    let sent = 10 * 200_000 + on_wire(8);
    assert_eq!(report.results[1], Picos(sent + 1_000_000 + 30_000));
    assert_eq!(report.results[0], Picos(sent + 1_000_000 + 30_000 + 1_000_000));
}

fn noisy(f: &SimFabric) -> u64 {
    let mut r = rng::stream(u64::from(f.me().0), "noise");
    let mut sum = 0;
    for _ in 0..200 {
        let to = NodeId(r.random_range(0..f.nodes()));
        match r.random_range(0..4) {
            0 => sum += f.rmw(to, 8, Rmw::Add(r.random_range(0..9))).unwrap(),
            1 => f.put(to, 16, &u64::from(f.me().0).to_le_bytes()).unwrap(),
            2 => f.post(to, &[1; 40]).unwrap(),
            _ => f.compute(Picos(r.random_range(0..3_000_000))),
        }
        if let Some((from, _)) = f.receive(Duration::from_micros(1)).unwrap() {
            sum = sum.wrapping_mul(31) + u64::from(from.0);
        }
    }
    sum
}

#[test]
fn equal_programs_give_equal_runs() {
    let once: SimReport<u64> = run(9, 64, MODEL, noisy);
    assert_eq!(once, run(9, 64, MODEL, noisy));
    let slower = LogGp { latency: Picos(2_000_000), ..MODEL };
    assert_ne!(once.end, run(9, 64, slower, noisy).end);
}

struct Adder(u64);

impl Board for Adder {
    fn write(&mut self, from: NodeId, data: &[u8], dma: &mut Vec<DmaWrite>) {
        self.0 += data.len() as u64;
        dma.push(DmaWrite { node: from, offset: 8, data: self.0.to_le_bytes().to_vec() });
    }
    fn read(&mut self, _: NodeId, question: &[u8], _: &mut Vec<DmaWrite>) -> Vec<u8> {
        let mut answer = question.to_vec();
        answer.extend(self.0.to_le_bytes());
        answer
    }
}

#[test]
fn a_board_is_written_read_and_writes_by_itself() {
    let report = run(3, 64, MODEL, |f| {
        if f.me() == NodeId(0) {
            f.host(Box::new(Adder(0)));
        }
        f.compute(Picos(5));
        f.board_write(NodeId(0), &[0; 7]).unwrap();
        let told = f.wait_word(8, 0, FOREVER).unwrap().unwrap();
        assert!(told.is_multiple_of(7), "{told}");
        f.pause(Duration::from_micros(50));
        assert_eq!(f.board_read(NodeId(0), &[9]).unwrap(), [9, 21, 0, 0, 0, 0, 0, 0, 0]);
        f.board_write(NodeId(1), &[]).unwrap_err().kind()
    });
    assert_eq!(report.results, [Kind::Unsupported; 3]);
    assert_eq!(report.counts.dma_writes, 3);
}

#[test]
fn waits_end_by_time_and_a_job_that_would_hang_is_told() {
    let report = run(2, 64, MODEL, |f| {
        let waited = f.wait_word(0, 0, Duration::from_micros(3)).unwrap();
        assert_eq!((waited, f.now()), (None, Picos(3_000_000)));
        if f.me() == NodeId(1) {
            return None;
        }
        let stuck = f.receive(FOREVER).unwrap_err();
        assert_eq!(f.liveness(NodeId(1)), Liveness::Dead("it left the job".into()));
        Some((stuck.kind(), stuck.to_string()))
    });
    let (kind, words) = report.results[0].clone().unwrap();
    assert_eq!(kind, Kind::Io);
    assert!(words.contains("nodes 0 wait for ever"), "{words}");
}

#[test]
fn a_node_that_panics_takes_the_job_down_and_no_wait_hangs() {
    let ended = catch_unwind(AssertUnwindSafe(|| {
        run(3, 64, MODEL, |f| {
            assert!(f.me() != NodeId(2), "on purpose");
            f.receive(FOREVER).unwrap_err().kind()
        })
    }));
    assert!(ended.is_err());
}
