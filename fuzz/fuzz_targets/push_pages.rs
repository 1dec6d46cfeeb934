//! Hostile pages: checked, and where they verify run by interpreter, twin and reference; any panic
//! and any difference is a finding.
//!
//! An input is patches of {place, byte} on a small valid page, text or columns by its first byte,
//! with its checksum made good again, so that what lies behind the checksum is reached.
//!
//! Canary: before the first input the whole page must verify, and with one flipped bit and the old
//! checksum it must not.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_base::codec;
use littoral_push::data::{lineitem, lineitem_schema};
use littoral_push::function::{Answer, Compiled, Machine, PageResult, reference};
use littoral_push::page::{self, Format, Schema};
use littoral_push::query::Query;

const PAGE_BYTES: usize = 4096;

/// A page of either format, its function, and the query.
struct Bench {
    schema: Schema,
    query: Query,
    of: [(Vec<u8>, Compiled); 2],
}

static BENCH: LazyLock<Bench> = LazyLock::new(|| {
    let schema = lineitem_schema().expect("the schema is constant");
    let query = Query::q1().expect("the query is constant");
    let of = [Format::Text, Format::Columns].map(|format| {
        let pages = page::write_all(&schema, format, PAGE_BYTES, lineitem(0.0002).take(60));
        let whole = pages.expect("records fit").swap_remove(0);
        assert!(page::check(&whole, &schema).is_ok(), "canary: the whole page verifies");
        let mut flipped = whole.clone();
        flipped[40] ^= 1;
        assert!(page::check(&flipped, &schema).is_err(), "canary: a flipped bit went unseen");
        (whole, Compiled::new(&query.whole, format).expect("the query compiles"))
    });
    Bench { schema, query, of }
});

/// Makes the checksum good again, over the valid size that the page now names.
fn reseal(page: &mut [u8]) {
    let valid = u32::from_le_bytes([page[12], page[13], page[14], page[15]]) as usize;
    if (32..=page.len()).contains(&valid) {
        let crc = codec::crc_append(codec::crc(&page[..28]), &page[32..valid]);
        page[28..32].copy_from_slice(&crc.to_le_bytes());
    }
}

fuzz_target!(|data: &[u8]| {
    let bench = &*BENCH;
    let Some((first, patches)) = data.split_first() else { return };
    let (whole, compiled) = &bench.of[usize::from(first & 1)];
    let mut page = littoral_fuzz::edited(whole, patches);
    reseal(&mut page);
    if page::check(&page, &bench.schema).is_err() {
        assert!(compiled.twin(&bench.query.params, &page).is_err());
        return;
    }
    let Ok(run) = compiled.twin(&bench.query.params, &page) else { return };
    let mut core = Machine::new(compiled, &bench.query.params).expect("the function loads");
    let (result, instructions) = core.run(&page, 1 << 24).expect("a page function ends");
    assert_eq!((&result, instructions), (&run.result, run.instructions));
    if result != PageResult::Spilled {
        let mut answer = Answer::default();
        answer.add(compiled, &result).expect("a result adds up");
        let expected = reference::answer(&bench.query.whole, &bench.query.params, &page);
        assert_eq!(answer, expected.expect("a page that verifies"));
    }
});
