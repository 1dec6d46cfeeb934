//! A store whose host has no room left.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_device::zoned::file::FileDevice;
use littoral_index::Kind;
use littoral_index::index::{Engine, Index};
use littoral_index::kv::Options;
use littoral_index::layout::Shape;

#[test]
fn a_host_without_room_for_what_a_store_keeps_is_refused_at_creation() {
    let dir = tempfile::tempdir().unwrap();
    let geometry = Options::new(Engine::Zb, 1).geometry;
    let mut device = FileDevice::create(&dir.path().join("zones"), geometry).unwrap();
    device.limit_host(1 << 20);
    let shape = Shape::fitting(4096, 8, 8).unwrap();
    let e = Index::create(device, Engine::Zb, shape, 1).unwrap_err();
    assert!(e.kind() == Kind::Full && e.to_string().contains("host"), "{e}");
}
