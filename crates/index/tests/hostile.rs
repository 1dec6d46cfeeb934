//! Pages that verify and were never written: each is refused with its place. Random ones are tested
//! by `index_damage` of the crate `assure`.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;

use littoral_base::codec::seal;
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::{ZoneKind, ZonedDevice as _};
use littoral_index::Kind;
use littoral_index::index::{Engine, Index};
use littoral_index::layout::{self, PageKind, Shape};
use littoral_store::gc;

use common::{GEOMETRY, key};

/// A ZB+-tree of two levels at rest: every page is in its place.
fn store() -> ModelDevice {
    store_of(Engine::Zb)
}

fn store_of(engine: Engine) -> ModelDevice {
    let device = ModelDevice::new(GEOMETRY).unwrap();
    let shape = Shape::paper(4, 8, 8);
    let mut index = Index::create(device, engine, shape, 7).unwrap();
    index.store_mut().set_durability(littoral_store::store::Durability::Batch);
    for i in 0..120u64 {
        index.put(&key(i), &i.to_be_bytes()).unwrap();
    }
    index.close().unwrap();
    // A second checkpoint leaves no images in the log.
    index.store_mut().checkpoint().unwrap();
    index.into_device()
}

/// Changes the first page of this kind with `change` and seals it; the block.
fn forge(
    device: &mut ModelDevice,
    kind: PageKind,
    change: impl Fn(&Shape, &mut [u8]),
) -> Option<u64> {
    forge_from(device, 4, kind, change)
}

fn forge_from(
    device: &mut ModelDevice,
    from: u64,
    kind: PageKind,
    change: impl Fn(&Shape, &mut [u8]),
) -> Option<u64> {
    let shape = Shape::paper(4, 8, 8);
    for at in from..130 {
        let mut page = [0; 512];
        device.read(Lba(at), &mut page).unwrap();
        if layout::kind(&page) == Some(kind) {
            change(&shape, &mut page);
            seal(&mut page, at | 1 << 63);
            let ticket = device.write(Lba(at), &page).unwrap();
            device.wait(ticket).unwrap();
            return Some(at);
        }
    }
    None
}

#[test]
fn a_head_that_points_where_no_body_can_be_is_refused_with_its_page() {
    for target in [0, 1, 129, 130, 5000, u64::MAX, u64::MAX - 1] {
        let mut device = store();
        let at = forge(&mut device, PageKind::Head, |shape, page| {
            let slot = 16 + shape.key_bytes + 1;
            page[slot..slot + 8].copy_from_slice(&target.to_le_bytes());
        });
        let refused = Index::open_to_read(&mut device).err();
        let refused = refused.or_else(|| Index::open_to_read(&mut device).unwrap().check().err());
        let e = refused.unwrap_or_else(|| panic!("a body at {target} was taken from {at:?}"));
        assert!(e.kind() == Kind::Corrupt && e.place().page.is_some(), "{target}: {e}");
    }
}

#[test]
fn an_interior_page_that_points_at_no_head_is_refused_with_its_page() {
    for target in [0u64, 3, 130, 131, 400, u64::MAX] {
        let mut device = store();
        let at = forge(&mut device, PageKind::Interior, |shape, page| {
            let child = 16 + shape.key_bytes;
            page[child..child + 8].copy_from_slice(&target.to_le_bytes());
        });
        let at = at.expect("a tree of two levels has an interior page in place");
        let e = Index::open_to_read(&mut device).unwrap_err();
        assert_eq!((e.kind(), e.place().page), (Kind::Corrupt, Some(at)), "{target}: {e}");
    }
}

#[test]
fn counts_orders_and_levels_that_cannot_be_are_refused() {
    type Change = fn(&mut [u8]);
    let changes: [(PageKind, Change); 6] = [
        (PageKind::Leaf, |p| p[2..4].copy_from_slice(&5000u16.to_le_bytes())),
        (PageKind::Head, |p| p[2..4].fill(0xff)),
        (PageKind::Head, |p| p[2..4].fill(0)),
        (PageKind::Head, |p| p[1] = 9),
        (PageKind::Interior, |p| p[2..4].fill(0)),
        (PageKind::Interior, |p| p[1] = 200),
    ];
    for (n, (kind, change)) in changes.into_iter().enumerate() {
        let mut device = store();
        // The first of them need not be in use: all are changed.
        let mut from = 4;
        while let Some(at) = forge_from(&mut device, from, kind, |_, page| change(page)) {
            from = at + 1;
        }
        assert!(from > 4, "{kind:?}");
        let refused = match Index::open_to_read(&mut device) {
            Err(e) => e,
            Ok(index) => index.check().unwrap_err(),
        };
        assert_eq!(refused.kind(), Kind::Corrupt, "{n}: {refused}");
    }
}

/// A device with the same blocks, leaves changed by `change` and sealed anew.
fn with_leaves(device: &ModelDevice, change: impl Fn(u64, &mut [u8])) -> (ModelDevice, u32) {
    let (mut copy, mut changed) = (ModelDevice::new(GEOMETRY).unwrap(), 0);
    for zone in device.report(ZoneId(0), device.limits().zones).unwrap() {
        let is_in_place = zone.kind == ZoneKind::Conventional;
        let end =
            if is_in_place { zone.start.0 + zone.capacity_blocks } else { zone.write_pointer.0 };
        for at in zone.start.0..end {
            let mut page = [0; 512];
            device.read(Lba(at), &mut page).unwrap();
            if layout::kind(&page) == Some(PageKind::Leaf) {
                change(at, &mut page);
                seal(&mut page, if is_in_place { at | 1 << 63 } else { at });
                changed += 1;
            }
            let ticket = copy.write(Lba(at), &page).unwrap();
            copy.wait(ticket).unwrap();
        }
    }
    (copy, changed)
}

/// A leaf whose keys lie outside the range that its parents give it would hide the records that
/// belong there: reading or changing it is refused.
#[test]
fn a_leaf_outside_its_parents_range_is_refused() {
    let is_range = |e: &littoral_index::Error| e.to_string().contains("outside the page's range");
    for engine in [Engine::Zb, Engine::Cow] {
        for lowest in [0, u64::MAX - 4] {
            let (mut device, changed) = with_leaves(&store_of(engine), |_, page| {
                for i in 0..layout::count(page) {
                    page[16 + 16 * i..][..8].copy_from_slice(&(lowest + i as u64).to_be_bytes());
                }
            });
            assert!(changed > 20, "{engine:?}: {changed} leaves");
            let index = Index::open_to_read(&mut device).unwrap();
            let refused = (0..120).filter(|&i| index.get(&key(i)).is_err_and(|e| is_range(&e)));
            // The leaf at that end of the order may hold these keys.
            assert!(refused.count() >= 110, "{engine:?} from {lowest}");
            drop(index);
            let mut index = Index::open(device).unwrap();
            let refused =
                (0..120).filter(|&i| index.put(&key(i), &[0; 8]).is_err_and(|e| is_range(&e)));
            assert!(refused.count() >= 100, "{engine:?} from {lowest}");
        }
    }
}

/// The collector moves a live leaf and asks the tree who uses it. A leaf that its own keys do not
/// lead to is damaged: taken for unused, it would be freed while its parent names it.
#[test]
fn a_live_page_that_its_own_key_does_not_lead_to_is_not_moved() {
    let (whole, mut refused) = (store(), 0);
    for target in GEOMETRY.zone_blocks..GEOMETRY.blocks() {
        let is_changed = std::cell::Cell::new(false);
        let (mut device, _) = with_leaves(&whole, |at, page| {
            if at == target {
                is_changed.set(true);
                for (i, record) in page[16..].chunks_exact_mut(16).take(4).enumerate() {
                    record[..8].copy_from_slice(&(u64::MAX - 9 + i as u64).to_be_bytes());
                }
            }
        });
        let mut index = Index::open(&mut device).unwrap();
        let missed = (0..120).filter_map(|i| index.get(&key(i)).err());
        let missed: Vec<_> = missed.map(|e| (e.kind(), e.place().page)).collect();
        assert!(missed.iter().all(|e| *e == (Kind::Corrupt, Some(target))), "{missed:?}");
        // Leaves that were changed since are not in use.
        if !is_changed.get() || missed.is_empty() {
            continue;
        }
        refused += 1;
        let e = gc::move_page(&mut index, Lba(target)).expect_err("a leaf in use");
        assert_eq!((e.kind(), e.place().page), (Kind::Corrupt, Some(target)), "{e}");
        index.store_mut().abort();
        let still = (0..120).filter(|&i| index.get(&key(i)).is_err()).count();
        assert_eq!(still, missed.len(), "nothing else is lost");
    }
    assert!(refused > 3, "{refused} leaves in sequential zones are in use");
}

/// Two slots that name one page: found when the store is opened, and no walk runs for ever.
#[test]
fn a_page_used_twice_is_refused() {
    let mut device = store();
    forge(&mut device, PageKind::Head, |shape, page| {
        let stride = shape.head_slot_bytes();
        let first: Vec<u8> = page[16 + 8..16 + stride].to_vec();
        page[16 + stride + 8..16 + 2 * stride].copy_from_slice(&first);
    });
    let e = Index::open_to_read(&mut device).unwrap_err();
    assert!(e.to_string().contains("used twice"), "{e}");
    assert!(device.report(ZoneId(0), 1).is_ok());
}
