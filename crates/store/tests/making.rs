//! A store that is being made: refused while it is not whole, replaced by the next one, and neither
//! afterwards.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;

use littoral_base::fault::Plan;
use littoral_device::zoned::model::ModelDevice;
use littoral_store::error::{Kind, Result};
use littoral_store::pages::{Heat, Pages as _, Root};
use littoral_store::store::Store;

use common::{BLOCK_BYTES, geometry};

const TAG: [u8; 8] = *b"making\0\0";

/// A store that is begun, and what it holds when it is whole.
fn begun(device: &mut ModelDevice, id: u64) -> Result<Store<&mut ModelDevice>> {
    let mut store = Store::begin(device, TAG, &[], id)?;
    let top = store.append(Heat::Hot, &[7; BLOCK_BYTES / 2])?;
    store.set_root(Root { top, height: 0, records: id });
    store.commit()?;
    Ok(store)
}

fn made(device: &mut ModelDevice, id: u64) -> Result<()> {
    begun(device, id)?.made()
}

fn is_part(e: &littoral_store::Error) -> bool {
    e.kind() == Kind::Foreign && e.to_string().contains("cut short")
}

/// The second making, over what the first one has left, is cut at each of its requests.
#[test]
fn a_store_that_is_not_whole_is_refused_and_replaced_wherever_power_is_cut() {
    for conventional_zones in [1, 0] {
        let (mut refused, mut cuts) = (0, 0..);
        loop {
            let mut device = ModelDevice::new(geometry(conventional_zones)).unwrap();
            let mut store = begun(&mut device, 1).unwrap();
            store.checkpoint().unwrap();
            drop(store);
            assert!(is_part(&Store::open(&mut device).map(drop).unwrap_err()));
            assert!(is_part(&Store::open_damaged(&mut device).map(drop).unwrap_err()));
            let cut = cuts.next().unwrap();
            device.install(Plan::none().cut_at(cut)).unwrap();
            let is_made = made(&mut device, 2).is_ok();
            if !is_made {
                device.power_cycle(cut);
            }
            device.install(Plan::none()).unwrap();
            let found = Store::open(&mut device).map(|found| {
                assert!(found.read(found.root().top).unwrap().starts_with(&[7; BLOCK_BYTES / 2]));
                (found.root().records, found.engine().0)
            });
            match found {
                Ok(whole) => assert_eq!(whole, (2, TAG), "cut at {cut}"),
                Err(e) => {
                    refused += 1;
                    assert!(!is_made && is_part(&e), "cut at {cut}: {e}");
                    made(&mut device, 3).unwrap_or_else(|e| panic!("after a cut at {cut}: {e}"));
                }
            }
            // Whole ones are not replaced.
            assert_eq!(made(&mut device, 4).unwrap_err().kind(), Kind::Foreign, "cut at {cut}");
            if is_made {
                break;
            }
        }
        assert!(refused > 10, "{conventional_zones} conventional zones: {refused} refused");
    }
}

/// A blank device on which a creation is cut at each of its requests takes the next creation.
#[test]
fn a_creation_that_was_cut_short_is_begun_again() {
    for cut in 0.. {
        let mut device = ModelDevice::new(geometry(1)).unwrap();
        device.install(Plan::none().cut_at(cut)).unwrap();
        let is_begun = begun(&mut device, 1).is_ok();
        if !is_begun {
            device.power_cycle(cut);
        }
        device.install(Plan::none()).unwrap();
        made(&mut device, 2).unwrap_or_else(|e| panic!("after a cut at {cut}: {e}"));
        assert_eq!(Store::open(&mut device).unwrap().root().records, 2);
        if is_begun {
            break;
        }
    }
}
