//! What a counted fabric counts, and that counting changes nothing else.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;

use std::time::Duration;

use common::MODEL;
use littoral_base::units::NodeId;
use littoral_fabric::counted::{Counted, FabricCounts};
use littoral_fabric::hostile::HostilePool;
use littoral_fabric::pool::{PoolFabric, PoolLayout};
use littoral_fabric::sim::{SimFabric, run};
use littoral_fabric::{Fabric, Kind, Rmw};

#[test]
fn what_stays_on_the_node_and_what_is_refused_is_not_counted() {
    let report = run(2, 64, MODEL, |fabric: &SimFabric| {
        let node = Counted::new(fabric);
        let (me, other) = (node.me(), NodeId(1 - node.me().0));
        node.put(me, 0, &[1; 8]).unwrap();
        node.get(me, 0, &mut [0; 8]).unwrap();
        node.fetch_add(me, 0, 1).unwrap();
        node.signal(me, 8, 1).unwrap();
        assert_eq!(node.counts(), FabricCounts::default(), "its own window");
        assert_eq!(node.put(other, 60, &[1; 8]).unwrap_err().kind(), Kind::IllegalRequest);
        assert_eq!(node.get(other, 60, &mut [0; 8]).unwrap_err().kind(), Kind::IllegalRequest);
        assert_eq!(node.rmw(other, 4, Rmw::Add(1)).unwrap_err().kind(), Kind::IllegalRequest);
        assert_eq!(node.board_write(other, &[1]).unwrap_err().kind(), Kind::Unsupported);
        assert_eq!(node.counts().operations(), 0, "refused");
        node.put(other, 16, &[1; 24]).unwrap();
        node.signal(other, 40, 7).unwrap();
        node.get(other, 16, &mut [0; 16]).unwrap();
        node.rmw(other, 48, Rmw::Add(1)).unwrap();
        node.post(other, b"words").unwrap();
        node.receive(Duration::from_millis(1)).unwrap();
        node.counts()
    });
    let wanted = FabricCounts {
        puts_count: 2,
        gets_count: 1,
        rmws_count: 1,
        posts_count: 1,
        operation_bytes: 24 + 8 + 16 + 8 + 5,
        ..FabricCounts::default()
    };
    assert_eq!(report.results, [wanted, wanted]);
}

#[test]
fn a_node_that_is_counted_or_borrowed_still_shows_life() {
    let layout = PoolLayout::new(1, 64);
    let pool = HostilePool::new(layout.pool_bytes(), 1, u32::MAX);
    let node = PoolFabric::new(pool.view(0), layout, NodeId(0)).unwrap();
    let beat = || pool.medium_word(0);
    let before = beat();
    Counted::new(&node).show_life().unwrap();
    assert_eq!(beat(), before + 1, "through what counts and what borrows");
}
