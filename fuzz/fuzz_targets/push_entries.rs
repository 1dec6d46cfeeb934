//! Entries, programs and headers between host and device: bytes are refused or are what encodes to
//! the same bytes.
//!
//! Canary: before the first input a command must come back, and its beginning must be refused.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_push::api::{About, Program};
use littoral_push::command::{Command, Completion, Opcode};

static CANARY: LazyLock<()> = LazyLock::new(|| {
    let command = Command {
        id: 1,
        session: 2,
        task: 3,
        attempt: 4,
        page: 5,
        buffer: 7,
        bytes: 8192,
        backlog: 8,
        host_page: 9,
        ..Command::plain(Opcode::ReadProc, 6)
    };
    let entry = command.encode();
    assert_eq!(Command::decode(&entry).ok(), Some(command), "canary: a command comes back");
    assert!(Command::decode(&entry[..63]).is_err(), "canary: a part is refused");
});

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&CANARY);
    if let Ok(command) = Command::decode(data) {
        assert_eq!(&command.encode()[..], data);
    }
    if let Ok(completion) = Completion::decode(data) {
        assert_eq!(&completion.encode()[..], data);
    }
    if let Ok(program) = Program::parse(data) {
        assert_eq!(Program::parse(&program.to_bytes()).ok(), Some(program));
    }
    if let Ok(about) = About::parse(data) {
        let again = About::parse(&about.to_bytes());
        assert_eq!(again.ok().map(|a| a.schema), Some(about.schema));
    }
});
