//! Hostile pages: checked, and where they verify run by interpreter, twin, host form and reference;
//! any panic and any difference is a finding.
//!
//! An input's first byte chooses the format, text or columns, and the query: Q1, Q6, Q14 or the
//! similarity join. The rest is patches of {place, byte} on a small valid page, with its checksum
//! made good again, so that what lies behind the checksum is reached.
//!
//! Canary: before the first input the whole page must verify, and with one flipped bit and the old
//! checksum it must not.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_base::codec;
use littoral_push::data::{dblp_like, join_schema, lineitem, lineitem_schema, promo_parts};
use littoral_push::function::{
    Answer, Compiled, Machine, PageResult, Query as JoinQuery, reference,
};
use littoral_push::page::{self, Format, Record, Schema, Value};
use littoral_push::query::Query;

const PAGE_BYTES: usize = 4096;
const FORMATS: [Format; 2] = [Format::Text, Format::Columns];

/// A valid page, the function that runs on it, and the query.
struct Bench {
    schema: Schema,
    query: Query,
    whole: Vec<u8>,
    compiled: Compiled,
}

/// A bench per query and format.
static BENCHES: LazyLock<Vec<Bench>> = LazyLock::new(|| {
    let mut benches = Vec::new();
    let queries = [Query::q1(), Query::q6(), Query::q14(promo_parts(0.001))];
    for query in queries {
        let query = query.expect("the query is constant");
        let schema = lineitem_schema().expect("the schema is constant");
        let lines: Vec<Record> = lineitem(0.0002).take(60).collect();
        benches.extend(FORMATS.map(|format| bench(&schema, &query, &lines, format)));
    }
    let data = dblp_like(40, 3);
    let own = JoinQuery::new(data.records[20].clone(), 4, 5).expect("the query is constant");
    let query = Query::join(own).expect("the query is constant");
    let schema = join_schema().expect("the schema is constant");
    let records: Vec<Record> = data.records().collect();
    benches.extend(FORMATS.map(|format| bench(&schema, &query, &records, format)));
    benches
});

fn bench(schema: &Schema, query: &Query, records: &[Record], format: Format) -> Bench {
    let pages = page::write_all(schema, format, PAGE_BYTES, records.iter().cloned());
    let whole = pages.expect("records fit").swap_remove(0);
    assert!(page::check(&whole, schema).is_ok(), "canary: the whole page verifies");
    let mut flipped = whole.clone();
    flipped[40] ^= 1;
    assert!(page::check(&flipped, schema).is_err(), "canary: a flipped bit went unseen");
    let compiled = Compiled::new(&query.whole, format).expect("the query compiles");
    Bench { schema: schema.clone(), query: query.clone(), whole, compiled }
}

/// Makes the checksum good again, over the valid size that the page now names.
fn reseal(page: &mut [u8]) {
    let valid = u32::from_le_bytes([page[12], page[13], page[14], page[15]]) as usize;
    if (32..=page.len()).contains(&valid) {
        let crc = codec::crc_append(codec::crc(&page[..28]), &page[32..valid]);
        page[28..32].copy_from_slice(&crc.to_le_bytes());
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((first, patches)) = data.split_first() else { return };
    let Bench { schema, query, whole, compiled } = &BENCHES[usize::from(*first) % BENCHES.len()];
    let mut page = littoral_fuzz::edited(whole, patches);
    reseal(&mut page);
    let Ok(header) = page::check(&page, schema) else {
        assert!(compiled.twin(&query.params, &page).is_err());
        return;
    };
    let Ok(run) = compiled.twin(&query.params, &page) else { return };
    let host = compiled.host_on(&query.params, &page, &header).expect("the twin takes the page");
    assert_eq!((&host.result, host.instructions), (&run.result, run.instructions));
    let mut core = Machine::new(compiled, &query.params).expect("the function loads");
    let (result, instructions) = core.run(&page, 1 << 24).expect("a page function ends");
    assert_eq!((&result, instructions), (&run.result, run.instructions));
    // Lists that do not ascend are none that a page may have; only the forms of one function agree
    // on them.
    let records = page::read(&page, schema).expect("the twin takes the page");
    let ascends = |value: &Value| value.list().is_sorted_by(|a, b| a < b);
    if result != PageResult::Spilled && records.iter().flatten().all(ascends) {
        let mut answer = Answer::default();
        answer.add(compiled, &result).expect("a result adds up");
        let expected = reference::answer(&query.whole, &query.params, &page);
        assert_eq!(answer, expected.expect("a page that verifies"));
    }
});
