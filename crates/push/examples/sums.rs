//! Sums near storage: pages of orders, a filter and a sum per region computed by page functions on
//! the device's cores, beside the same in plain Rust.
//!
//! ```text
//! cargo run -p littoral-push --example sums
//! ```

#![allow(clippy::print_stdout)] // an example prints

use std::collections::BTreeMap;

use littoral_push::api::{About, DataSet, Host, Local, Plan, Scan, Settings};
use littoral_push::error::Error;
use littoral_push::page::{Column, Format, Record, Schema, Value};

const REGIONS: i64 = 4;
const ORDERS: i64 = 10_000;

fn order(n: i64) -> Record {
    vec![Value::Int(n % REGIONS), Value::Int(n * 37 % 1000), Value::Int(n % 50)]
}

/// Quantities of orders above a price, by region.
fn plain() -> BTreeMap<i64, i64> {
    let mut sums = BTreeMap::new();
    for n in (0..ORDERS).filter(|n| n * 37 % 1000 > 500) {
        *sums.entry(n % REGIONS).or_insert(0) += n % 50;
    }
    sums
}

fn main() -> Result<(), Error> {
    let columns = vec![
        Column::int("region", 0, REGIONS),
        Column::int("price", 0, 1000),
        Column::int("qty", 0, 50),
    ];
    let about = About::new(&Schema::new(columns)?, Format::Columns, 4096);
    let set = DataSet::of_records(&about, (0..ORDERS).map(|n| Ok(order(n))))?;
    // A device in this process; `Remote` is one behind a socket.
    let mut host = Host::new(Local::new(set, Settings::default()), 1, 16);

    let scan = Scan {
        filter: Some("price > 500".to_owned()),
        keys: vec!["region".to_owned()],
        sums: vec!["qty".to_owned()],
        columns: vec![],
    };
    let about = host.about()?;
    let (program, shown) = scan.plan(&about)?;
    let outcome = host.scan(&program, Plan::Push)?;
    println!("{} of {} pages computed on the device", outcome.on_device, about.pages);

    let rows = shown.rows(&about, &program, &outcome.answer)?;
    let wanted = plain();
    assert_eq!(rows.len(), wanted.len());
    println!("{}", shown.headings.join(", "));
    for (row, (region, sum)) in rows.iter().zip(&wanted) {
        println!("{row:?}");
        assert_eq!(row[0].as_deref(), Some(region.to_string().as_str()));
        assert_eq!(row.last(), Some(&Some(sum.to_string())), "region {region}");
    }
    Ok(())
}
