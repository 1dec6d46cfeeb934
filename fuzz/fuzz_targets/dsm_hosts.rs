//! Hosts files, raw and as edits of a whole one: refused by line, or hosts that come back from the
//! line that names them.
//!
//! Canary: before the first input the whole file must be taken and a name without a port refused.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_dsm::launch::hosts::parse;

const WHOLE: &str =
    "# two hosts\n10.0.0.1:7000 ip netns exec a\n\n[::1]:7001 ssh -T there # here\n";

fn read(text: &str) -> Option<usize> {
    let hosts = match parse(text) {
        Ok(hosts) => hosts,
        Err(e) => {
            assert!(e.to_string().contains("line "), "{e}");
            return None;
        }
    };
    let line =
        |h: &littoral_dsm::launch::hosts::Host| format!("{} {}\n", h.address, h.command.join(" "));
    let again = parse(&hosts.iter().map(line).collect::<String>());
    assert_eq!(again.ok().as_ref(), Some(&hosts), "{text:?}");
    Some(hosts.len())
}

static CANARY: LazyLock<()> = LazyLock::new(|| {
    assert_eq!(read(WHOLE), Some(2), "canary: the whole file");
    assert_eq!(read(&WHOLE.replace(":7000", "")), None, "canary: no port");
});

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&CANARY);
    littoral_fuzz::text(WHOLE, data).map(|text| read(&text));
});
