//! A store of one page in place.

use littoral_base::units::Lba;
use littoral_device::zoned::model::ModelDevice;
use littoral_store::pages::{Pages as _, Root};
use littoral_store::store::Store;

use crate::common::geometry;

/// A store with this name and id whose one page, `first`, is in a checkpoint, and the page.
pub(crate) fn one_page(name: [u8; 8], id: u64) -> (Store<ModelDevice>, Lba) {
    let device = ModelDevice::new(geometry(1)).unwrap();
    let mut store = Store::create(device, name, &[], id).unwrap();
    let page = store.allocate().unwrap();
    store.put(page, b"first").unwrap();
    store.set_root(Root { top: page, height: 0, records: 1 });
    store.commit().unwrap();
    store.checkpoint().unwrap();
    store.checkpoint().unwrap();
    (store, page)
}
