//! The fields of a fabric's error say which node reports it, about which other node, and where.

#![allow(clippy::unwrap_used)]

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use littoral_base::units::NodeId;
use littoral_device::{Error, Kind};
use littoral_fabric::hostile::HostilePool;
use littoral_fabric::opened::{Carrier, FabricDevice};
use littoral_fabric::pool::{PoolFabric, PoolLayout};
use littoral_fabric::shm::{ShmFabric, ShmLayout};
use littoral_fabric::tcp::TcpFabric;
use littoral_fabric::{Fabric, Liveness};

const OTHER: NodeId = NodeId(1);
const NONE: NodeId = NodeId(9);

/// Kind, reporter, and the node that the error is about.
fn fields(e: &Error) -> (Kind, Option<u16>, Option<u16>) {
    (e.kind(), e.place().rank.map(|n| n.0), e.place().peer.map(|n| n.0))
}

fn tcp() -> [TcpFabric; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let all = listeners.each_ref().map(|l| l.local_addr().unwrap());
    std::thread::scope(|s| {
        let join = |n: usize| {
            let (all, listeners) = (&all, &listeners);
            s.spawn(move || TcpFabric::connect(NodeId(n as u16), all, &listeners[n], 64).unwrap())
        };
        [join(0), join(1)].map(|handle| handle.join().unwrap())
    })
}

fn shm() -> [ShmFabric; 2] {
    let layout = ShmLayout::new(2, 64);
    let file = tempfile::tempfile().unwrap();
    layout.create(&file).unwrap();
    [0, 1].map(|n| ShmFabric::attach(&file, layout, NodeId(n)).unwrap())
}

fn pool() -> [PoolFabric<littoral_fabric::hostile::HostileView>; 2] {
    let layout = PoolLayout::new(2, 64);
    let pool = HostilePool::new(layout.pool_bytes(), 7, 50);
    [0, 1].map(|n| PoolFabric::new(pool.view(n), layout, NodeId(n)).unwrap())
}

/// Node 0 of two: wrong requests, then a node that has left.
fn judged<F: Fabric>([here, other]: [F; 2]) {
    let refused = fields(&here.post(NONE, &[1]).unwrap_err());
    assert_eq!(refused, (Kind::IllegalRequest, Some(0), Some(9)));
    let outside = here.put(OTHER, 1 << 40, &[0; 8]).unwrap_err();
    assert_eq!((outside.kind(), outside.place().offset), (Kind::IllegalRequest, Some(1 << 40)));
    drop(other);
    while here.liveness(OTHER) == Liveness::Alive {
        std::thread::sleep(Duration::from_millis(1));
    }
    let gone = fields(&here.post(OTHER, &[1]).unwrap_err());
    assert_eq!(gone, (Kind::Io, Some(0), Some(1)));
}

#[test]
fn nodes_are_fields_of_every_fabrics_errors() {
    judged(tcp());
    judged(shm());
}

#[test]
fn a_node_that_does_not_join_is_a_field_of_the_error() {
    let layout = ShmLayout::new(2, 64);
    let file = tempfile::tempfile().unwrap();
    layout.create(&file).unwrap();
    let here = ShmFabric::attach(&file, layout, NodeId(0)).unwrap();
    let absent = fields(&here.wait_for_all(Duration::ZERO).unwrap_err());
    assert_eq!(absent, (Kind::Io, Some(0), Some(1)));
    let taken = ShmFabric::attach(&file, layout, NodeId(0)).map(drop).unwrap_err();
    assert_eq!(fields(&taken), (Kind::Busy, Some(0), None));
    let board = fields(&here.board_read(OTHER, &[]).unwrap_err());
    assert_eq!(board, (Kind::Unsupported, Some(0), Some(1)));
    let [here, _] = pool();
    let layout = PoolLayout::new(3, 64);
    let three = HostilePool::new(layout.pool_bytes(), 7, 50);
    let alone = PoolFabric::new(three.view(2), layout, NodeId(2)).unwrap();
    let absent = fields(&alone.wait_for_all(Duration::ZERO).unwrap_err());
    assert_eq!(absent, (Kind::Io, Some(2), Some(0)));
    let addition = fields(&here.fetch_add(OTHER, 0, 1).unwrap_err());
    assert_eq!(addition, (Kind::Unsupported, Some(0), Some(1)));
}

#[test]
fn an_address_or_file_that_is_taken_is_a_field_of_the_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let e = FabricDevice::open(Carrier::Tcp(vec![address]), 1, 64).map(drop).unwrap_err();
    assert_eq!((e.kind(), e.place().address), (Kind::Io, Some(address)), "{e}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let carrier = Carrier::Pool(Some(file.path().to_owned()));
    let e = FabricDevice::open(carrier, 1, 64).map(drop).unwrap_err();
    assert_eq!((e.kind(), e.place().path.as_deref()), (Kind::Exists, Some(file.path())), "{e}");
}
