//! Guest programs for tests: a two-pass assembler on our own encoder, so that no tool is needed,
//! and running them through the `la64` binary.
//!
//! Code and data share one segment that is readable, writable and executable; data are 8-byte
//! words behind the code.

#![allow(dead_code)]

use littoral_la64::{elf, isa};
use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

pub(crate) const AT: u64 = 0x1_2000_0000;
/// Where the code of an [`elf::executable`] begins.
const HEADERS_LEN: u64 = 120;

pub(crate) const RA: i64 = 1;
pub(crate) const TP: i64 = 2;
pub(crate) const SP: i64 = 3;
pub(crate) const A0: i64 = 4;
pub(crate) const A1: i64 = 5;
pub(crate) const A2: i64 = 6;
pub(crate) const A3: i64 = 7;
pub(crate) const A4: i64 = 8;
pub(crate) const A5: i64 = 9;
pub(crate) const A7: i64 = 11;
pub(crate) const T0: i64 = 12;
pub(crate) const T1: i64 = 13;
pub(crate) const T2: i64 = 14;
pub(crate) const T3: i64 = 15;
pub(crate) const FP: i64 = 22;
pub(crate) const S0: i64 = 23;
pub(crate) const S1: i64 = 24;
pub(crate) const S2: i64 = 25;

pub(crate) fn word(mnemonic: &str, operands: &[i64]) -> u32 {
    isa::encode(isa::find(mnemonic).expect(mnemonic), operands).expect("operands fit")
}

/// An instruction whose last operand may be the distance to a label.
struct Line {
    mnemonic: &'static str,
    operands: Vec<i64>,
    label: Option<&'static str>,
}

/// A program under construction.
#[derive(Default)]
pub(crate) struct Asm {
    lines: Vec<Line>,
    labels: HashMap<&'static str, usize>,
    data: Vec<(&'static str, Vec<u64>)>,
}

impl Asm {
    pub(crate) fn op(&mut self, mnemonic: &'static str, operands: &[i64]) -> &mut Asm {
        self.lines.push(Line { mnemonic, operands: operands.to_vec(), label: None });
        self
    }

    /// A branch to a label.
    pub(crate) fn to(
        &mut self,
        mnemonic: &'static str,
        registers: &[i64],
        label: &'static str,
    ) -> &mut Asm {
        let operands = registers.to_vec();
        self.lines.push(Line { mnemonic, operands, label: Some(label) });
        self
    }

    pub(crate) fn label(&mut self, name: &'static str) -> &mut Asm {
        self.labels.insert(name, self.lines.len());
        self
    }

    /// How many instructions there are so far.
    pub(crate) fn here(&self) -> usize {
        self.lines.len()
    }

    /// The address of a label or of data.
    pub(crate) fn address(&mut self, register: i64, label: &'static str) -> &mut Asm {
        self.to("pcaddi", &[register], label)
    }

    /// A constant of 32 bits, sign-extended.
    pub(crate) fn constant(&mut self, register: i64, value: i64) -> &mut Asm {
        let value = value as i32;
        self.op("lu12i.w", &[register, i64::from(value >> 12)]);
        self.op("ori", &[register, register, i64::from(value & 0xfff)])
    }

    /// A system call whose arguments are in place.
    pub(crate) fn call(&mut self, number: i64) -> &mut Asm {
        self.op("ori", &[A7, 0, number]).op("syscall", &[0])
    }

    /// Ends the program.
    pub(crate) fn exit(&mut self, status: i64) -> &mut Asm {
        self.op("ori", &[A0, 0, status]).call(94)
    }

    /// Ends the program with `status` unless the registers are equal.
    pub(crate) fn expect_equal(&mut self, a: i64, b: i64, status: i64) -> &mut Asm {
        self.op("beq", &[a, b, 16]).exit(status)
    }

    pub(crate) fn data(&mut self, name: &'static str, words: &[u64]) -> &mut Asm {
        self.data.push((name, words.to_vec()));
        self
    }

    pub(crate) fn words(&self) -> Vec<u32> {
        let mut labels = self.labels.clone();
        // Data are aligned to 32 bytes in the file's one segment.
        let place = |index: usize| HEADERS_LEN as usize + 4 * index;
        let mut index = self.lines.len();
        while place(index) % 32 != 0 {
            index += 1;
        }
        let padding = index - self.lines.len();
        for (name, words) in &self.data {
            labels.insert(name, index);
            index += 2 * words.len();
        }
        let mut code: Vec<u32> = (self.lines.iter().enumerate())
            .map(|(at, line)| {
                let mut operands = line.operands.clone();
                if let Some(label) = line.label {
                    let to = *labels.get(label).expect(label) as i64;
                    let distance = to - at as i64;
                    operands.push(if line.mnemonic == "pcaddi" { distance } else { 4 * distance });
                }
                word(line.mnemonic, &operands)
            })
            .collect();
        code.extend(std::iter::repeat_n(0, padding));
        let data = self.data.iter().flat_map(|d| &d.1);
        code.extend(data.flat_map(|w| [*w as u32, (*w >> 32) as u32]));
        code
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        elf::executable(AT, &self.words())
    }

    /// Runs it with `--stats` on the translator. The interpreter and the translator of regions,
    /// which run it first, end it in the same way.
    pub(crate) fn run(&self) -> Output {
        let others =
            [&["--stats", "--tier", "0"][..], &["--stats", "--tier", "2", "--look", "300"]];
        let others = others.map(|options| (options, run_file(&self.file(), options)));
        let translated = self.run_once();
        for (options, other) in others {
            let text = String::from_utf8_lossy(&other.stderr);
            assert_eq!(other.status, translated.status, "{options:?}: {text}");
        }
        translated
    }

    /// Runs it with `--stats` on the translator alone: what it leaves behind is in the way of a
    /// second run, or it runs for long.
    pub(crate) fn run_once(&self) -> Output {
        run_file(&self.file(), &["--stats"])
    }
}

pub(crate) fn write_program(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("write program");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
}

/// Runs the bytes of a program with options of `la64 run`.
pub(crate) fn run_file(bytes: &[u8], options: &[&str]) -> Output {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("program");
    write_program(&path, bytes);
    la64().args(options).arg(&path).output().expect("la64 runs")
}

pub(crate) fn la64() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_la64"));
    command.arg("run");
    command
}

/// The instructions that `--stats` reports.
pub(crate) fn count(output: &Output) -> u64 {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|l| l.contains("instructions retired")).expect("a count");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}

/// The address of an instruction by its number.
pub(crate) fn place(index: usize) -> u64 {
    AT + HEADERS_LEN + 4 * index as u64
}

/// A program with a symbol table: functions by name, address and length.
pub(crate) fn with_functions(mut file: Vec<u8>, functions: &[(&str, u64, u64)]) -> Vec<u8> {
    const SYMBOL_BYTES: u64 = 24;
    let (mut names, mut symbols) = (vec![0u8], vec![0u8; SYMBOL_BYTES as usize]);
    for (name, address, len) in functions {
        symbols.extend((names.len() as u32).to_le_bytes());
        // A global function in section 1.
        symbols.extend([0x12, 0, 1, 0]);
        symbols.extend([address.to_le_bytes(), len.to_le_bytes()].concat());
        names.extend(name.bytes().chain([0]));
    }
    let symbols_at = file.len() as u64;
    file.extend(&symbols);
    let names_at = file.len() as u64;
    file.extend(&names);
    let table = file.len() as u64;
    // Kind, offset, length and link: nothing, the symbols, their names.
    let sections = [(0, 0, 0, 0), (2, symbols_at, symbols.len(), 2), (3, names_at, names.len(), 0)];
    for (kind, offset, len, link) in sections {
        file.extend([0u32, kind].map(u32::to_le_bytes).concat());
        file.extend([0, 0, offset, len as u64].map(u64::to_le_bytes).concat());
        file.extend([link, 0u32].map(u32::to_le_bytes).concat());
        file.extend([1, SYMBOL_BYTES].map(u64::to_le_bytes).concat());
    }
    file[40..48].copy_from_slice(&table.to_le_bytes());
    file[60..62].copy_from_slice(&(sections.len() as u16).to_le_bytes());
    file
}

/// A program that asks for an interpreter: headers, its name, no code to speak of.
pub(crate) fn with_interpreter(name: &str) -> Vec<u8> {
    const INTERPRETER: u32 = 3;
    let mut file = elf::executable(AT, &[0; 32]);
    // A second program header behind the first, in the place of code.
    file[56..58].copy_from_slice(&2u16.to_le_bytes());
    let at = file.len() as u64;
    let len = name.len() as u64 + 1;
    let mut header = [INTERPRETER.to_le_bytes(), 4u32.to_le_bytes()].concat();
    for field in [at, AT + at, AT + at, len, len, 1] {
        header.extend(field.to_le_bytes());
    }
    file[120..176].copy_from_slice(&header);
    file.extend(name.as_bytes());
    file.push(0);
    file
}
