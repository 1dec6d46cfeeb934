//! A hash map that grows, cut off at every store: what was acknowledged is found, nothing leaks.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)]

use littoral_device::pmem::Sim;
use littoral_device::pmem::trace::{Enumerate, Tear};
use littoral_stm::structures::{HashMap, Map};
use littoral_stm::{Options, Pool, Restart, Thread, type_name};

const KEYS: u64 = 24;

fn get(th: &mut Thread<'_, Sim>, map: &HashMap, key: u64) -> Result<Option<u64>, String> {
    th.read_only(|tx| map.get(tx, key)).map_err(|e| e.to_string())
}

/// Keys below the first that is missing, none beyond it; each has its value.
fn prefix(th: &mut Thread<'_, Sim>, map: &HashMap) -> Result<u64, String> {
    let found = (0..KEYS).map(|k| get(th, map, k)).collect::<Result<Vec<_>, _>>()?;
    let n = found.iter().take_while(|v| v.is_some()).count();
    let sound = found.iter().enumerate().all(|(k, v)| *v == (k < n).then_some(k as u64 * 3));
    if sound { Ok(n as u64) } else { Err(format!("{found:?}")) }
}

fn alive(pool: &Pool<Sim>, name: &str) -> u64 {
    let types = pool.info().unwrap().types;
    let named = types.iter().filter(|t| type_name(t.tag) == Some(name));
    named.map(|t| t.objects_count).sum()
}

/// Recovers an image, goes on where it stopped, and empties the map again.
fn judge(words: &[u64], at: u64, acknowledged: u64) -> Result<(), String> {
    let pool = Pool::open(Sim::from_image(words), Restart::Lazy).map_err(|e| e.to_string())?;
    let mut th = pool.thread().map_err(|e| e.to_string())?;
    let open = th.read_only(|tx| HashMap::open(tx, littoral_stm::Ref::from_offset(at)));
    let map = open.map_err(|e| e.to_string())?;
    let n = prefix(&mut th, &map)?;
    if n != acknowledged && n != acknowledged + 1 {
        return Err(format!("{n} keys, {acknowledged} acknowledged"));
    }
    for key in n..KEYS {
        th.atomically(|tx| map.insert(tx, key, key * 3)).map_err(|e| e.to_string())?;
    }
    if prefix(&mut th, &map)? != KEYS {
        return Err("keys put in after recovery are missing".to_owned());
    }
    for key in 0..KEYS {
        th.atomically(|tx| map.remove(tx, key)).map_err(|e| e.to_string())?;
    }
    let buckets = alive(&pool, "littoral.hash.bucket/1");
    let left = (alive(&pool, "littoral.hash.node/1"), prefix(&mut th, &map)?);
    if left != (0, 0) || buckets < 3 {
        return Err(format!("{left:?} nodes and keys left, {buckets} buckets"));
    }
    Ok(())
}

#[test]
fn growth_cut_off_anywhere_loses_no_key_and_no_node() {
    let options = Options { threads_max: 2, slab_bytes: Some(1024) };
    let pool = Pool::create(Sim::new(24 << 10), &options).unwrap();
    let mut th = pool.thread().unwrap();
    let map = th.atomically(|tx| HashMap::create(tx, 1)).unwrap();
    pool.domain().settle();
    for key in 0..KEYS {
        th.atomically(|tx| map.insert(tx, key, key * 3)).unwrap();
    }
    assert!(alive(&pool, "littoral.hash.bucket/1") > 3, "it grew on the way");
    for tear in [Tear::LinePrefix, Tear::Words] {
        let how = Enumerate { tear, images_per_point_max: 3, seed: 5 };
        let trace = pool.domain().trace();
        let coverage = trace
            .enumerate(&how, |image| judge(image.words, map.at().offset(), image.acknowledged));
        assert_eq!(coverage.failure, None);
        assert!(coverage.images_count > 300, "{coverage:?}");
    }
}
