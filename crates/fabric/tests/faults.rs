//! The fault plan on a fabric, and that no fault of a plan is without an adapter.

#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

mod common;

use std::time::Duration;

use common::MODEL;
use littoral_base::fault::{Adapter, FAULTS, Op, Plan, TaskFaults, Verdict};
use littoral_base::units::NodeId;
use littoral_device::flash::emulator::Rule;
use littoral_device::flash::emulator::faults::ReadFaults;
use littoral_device::pmem::sim::MemoryFaults;
use littoral_device::zoned::emulated::ZoneFaults;
use littoral_fabric::faulty::{Faults, Faulty, SendFaults};
use littoral_fabric::sim::{SimFabric, run};
use littoral_fabric::{Fabric, Kind, Liveness, Result, Rmw};

fn adapters() -> [&'static dyn Adapter; 5] {
    [&ReadFaults(Rule::Word), &ZoneFaults, &MemoryFaults, &SendFaults, &TaskFaults]
}

#[test]
fn every_operation_and_every_fault_has_an_adapter() {
    for op in Op::ALL {
        let served = adapters().iter().any(|a| a.ops().contains(op));
        assert!(served, "no adapter judges {}", op.name());
    }
    for (name, make) in FAULTS {
        let acts = |a: &&dyn Adapter| a.ops().iter().any(|&op| a.refusal(op, make(0)).is_none());
        assert!(adapters().iter().any(acts), "no adapter acts {name} out");
    }
    for adapter in adapters() {
        for op in adapter.ops() {
            assert_eq!(adapter.refusal(*op, Verdict::Pass), None);
            assert_eq!(adapter.refusal(*op, Verdict::Cut), None, "every device can be cut");
        }
    }
}

#[test]
fn what_a_fabric_cannot_act_out_is_refused_by_name() {
    for text in ["send:torn=1/2", "send:corrupt=1/2", "@3=misdirect", "send:shuffle=1/9"] {
        let e = Faults::new(2, text.parse().unwrap()).unwrap_err();
        assert_eq!(e.kind(), Kind::Unsupported);
        assert!(e.context().contains(text), "{e}");
    }
    assert!(Faults::new(2, "read:torn=1/2 send:drop=1/2".parse().unwrap()).is_ok());
}

const WAIT: Duration = Duration::from_millis(50);

/// Two nodes in virtual time: node 0 sends under `plan`, node 1 takes what comes.
fn messages(plan: &str, count: u8) -> (Vec<Result<()>>, Vec<u8>) {
    let faults = Faults::new(2, plan.parse().unwrap()).unwrap();
    let report = run(2, 64, MODEL, |fabric: &SimFabric| {
        let node = Faulty::new(fabric, faults.clone());
        if node.me() == NodeId(0) {
            let sent = (0..count).map(|n| node.post(NodeId(1), &[n])).collect();
            return (sent, Vec::new());
        }
        let next = || node.receive(WAIT).unwrap_or(None);
        (Vec::new(), std::iter::from_fn(next).map(|(_, m)| m[0]).collect())
    });
    let [(sent, _), (_, got)] = report.results.try_into().unwrap();
    (sent, got)
}

#[test]
fn messages_are_dropped_doubled_failed_and_cut_where_the_plan_says() {
    let all: Vec<u8> = (0..8).collect();
    assert_eq!(messages("seed=1", 8).1, all);
    let (sent, got) = messages("seed=1 @2=drop @5=duplicate", 8);
    assert!(sent.iter().all(Result::is_ok), "a loss is not reported");
    assert_eq!(got, [0, 1, 3, 4, 5, 5, 6, 7]);
    let (sent, got) = messages("seed=1 @3=fail", 5);
    assert_eq!(sent.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, true, false, true]);
    assert_eq!(got, [0, 1, 2, 4]);
    let (sent, got) = messages("seed=1 cut=2", 5);
    assert!(sent[2..].iter().all(|s| s.as_ref().is_err_and(|e| e.kind() == Kind::Io)));
    assert_eq!(got, [0, 1]);
}

#[test]
fn delayed_messages_arrive_in_order_and_all_of_them() {
    let all: Vec<u8> = (0..60).collect();
    for seed in 0..20 {
        let plan = format!("seed={seed} send:delay=1/3");
        let (sent, got) = messages(&plan, 60);
        assert!(sent.iter().all(Result::is_ok));
        assert_eq!(got, all, "{plan}");
    }
}

#[test]
fn a_plan_and_its_replay_string_give_equal_runs() {
    let plan = "seed=9 send:drop=1/5 send:duplicate=1/5 send:delay=1/4 @7=fail";
    let words = |plan: &str| {
        let (sent, got) = messages(plan, 80);
        (sent.iter().map(Result::is_ok).collect::<Vec<bool>>(), got)
    };
    let replay = plan.parse::<Plan>().unwrap().replay();
    assert_eq!(words(plan), words(&replay));
    assert_ne!(words(plan).1, (0..80).collect::<Vec<u8>>(), "the plan strikes");
}

#[test]
fn one_sided_operations_meet_their_fates_in_program_order() {
    let faults = Faults::new(2, "seed=2 @0=delay".parse().unwrap()).unwrap();
    run(2, 64, MODEL, |fabric: &SimFabric| {
        let node = Faulty::new(fabric, faults.clone());
        if node.me() == NodeId(1) {
            return;
        }
        let other = NodeId(1);
        node.put(other, 8, &7u64.to_le_bytes()).unwrap();
        node.put(other, 8, &9u64.to_le_bytes()).unwrap();
        let mut word = [0; 8];
        node.get(other, 8, &mut word).unwrap();
        assert_eq!(u64::from_le_bytes(word), 9, "the held write came first");
    });
    let faults = Faults::new(2, "seed=2 @0=duplicate @1=drop @2=drop".parse().unwrap()).unwrap();
    run(2, 64, MODEL, |fabric: &SimFabric| {
        let node = Faulty::new(fabric, faults.clone());
        if node.me() == NodeId(1) {
            return;
        }
        let other = NodeId(1);
        assert_eq!(node.fetch_add(other, 0, 5).unwrap(), 0, "the first answer");
        assert_eq!(node.rmw(other, 0, Rmw::Add(1)).unwrap_err().kind(), Kind::Io);
        node.signal(other, 0, 99).unwrap();
        assert_eq!(node.fetch_add(other, 0, 0).unwrap(), 10, "added twice, then lost twice");
    });
}

#[test]
fn a_node_that_is_cut_off_is_dead_to_the_others() {
    let faults = Faults::new(3, "seed=1 cut=1".parse().unwrap()).unwrap();
    run(3, 64, MODEL, |fabric: &SimFabric| {
        let node = Faulty::new(fabric, faults.clone());
        match node.me() {
            NodeId(0) => {
                node.post(NodeId(1), b"first").unwrap();
                assert_eq!(node.post(NodeId(1), b"second").unwrap_err().kind(), Kind::Io);
                assert_eq!(node.receive(WAIT).unwrap_err().kind(), Kind::Io);
            }
            NodeId(1) => {
                assert_eq!(node.receive(WAIT).unwrap().unwrap().1, b"first");
                assert_eq!(node.receive(WAIT).unwrap(), None);
                assert!(matches!(node.liveness(NodeId(0)), Liveness::Dead(_)));
                assert_eq!(node.post(NodeId(0), b"x").unwrap_err().kind(), Kind::Io);
                node.post(NodeId(2), b"still here").unwrap();
            }
            _ => assert_eq!(node.receive(10 * WAIT).unwrap().unwrap().1, b"still here"),
        }
    });
    assert_eq!((faults.struck(), faults.is_cut(NodeId(0))), (1, true));
}

#[test]
fn operations_on_the_own_window_meet_no_fault() {
    let faults = Faults::new(2, "seed=1 @0=fail @1=fail @2=fail".parse().unwrap()).unwrap();
    run(2, 64, MODEL, |fabric: &SimFabric| {
        let node = Faulty::new(fabric, faults.clone());
        if node.me() == NodeId(1) {
            return;
        }
        let me = NodeId(0);
        node.put(me, 0, &7u64.to_le_bytes()).unwrap();
        assert_eq!(node.fetch_add(me, 0, 1).unwrap(), 7);
        node.get(me, 0, &mut [0; 8]).unwrap();
        assert_eq!(node.put(NodeId(1), 0, &[1; 8]).unwrap_err().kind(), Kind::Io, "the plan is on");
    });
}
