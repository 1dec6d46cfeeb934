//! LA64 code of one region: blocks, marks, exits.
//!
//! - An instruction writes no guest register before its last access, so a fault finds the state as
//!   it was; what a group leaves out is in the mark's [`Fix`].
//! - `SCRATCH` and the spilled register carry nothing from one guest instruction to the next.
//! - A delay slot comes before its branch. If it writes what the branch reads, the branch comes
//!   first and the slot follows on both paths.

mod floating;
mod flow;
mod integer;
mod memory;
mod product;

use super::fuse::{Condition, Fused, Recover, Work};
use super::isa::{Code, FPR, Inst};
use super::region::{Block, End};
use super::registers::{
    COUNTS, FLOAT_SCRATCH, SCR_SPILL, SCRATCH, UPPER, UPPER_F31, UPPER_SPILL, la64,
};
use crate::code::{COUNTING, Counted, Exit, Fix, Mark, Region};
use littoral_la64::asm::{Asm, Label};
use littoral_la64::isa as host;
use std::collections::BTreeMap;

/// A stub at the region's end, to which a branch leads that leaves the region.
struct Stub {
    label: Label,
    pc: u64,
    branch: u32,
}

/// A region under construction.
pub(super) struct Lower {
    asm: Asm,
    base: u64,
    labels: BTreeMap<u64, Label>,
    stubs: Vec<Stub>,
    region: Region,
    /// Guest instructions are counted.
    counts: bool,
}

impl Lower {
    pub(super) fn new(base: u64, blocks: &[Block], counts: bool) -> Lower {
        let mut asm = Asm::default();
        let labels = blocks.iter().map(|b| (b.start, asm.label())).collect();
        Lower { asm, base, labels, stubs: Vec::new(), region: Region::default(), counts }
    }

    fn op(&mut self, mnemonic: &str, operands: &[i64]) {
        self.asm.op(mnemonic, operands);
    }

    /// An instruction on LA64 registers.
    fn rrr(&mut self, mnemonic: &str, d: u8, a: u8, b: u8) {
        self.asm.op(mnemonic, &[d.into(), a.into(), b.into()]);
    }

    /// A move between LA64 general registers.
    fn copy(&mut self, to: u8, from: u8) {
        if to != from {
            self.rrr("or", to, from, 0);
        }
    }

    fn word(&self) -> u32 {
        self.asm.len() as u32
    }

    /// Code of the instruction at `pc` begins, before which the guest's state is exact.
    fn mark(&mut self, pc: u64) {
        self.group(pc, pc, None);
    }

    /// Code of a group begins; a fault in it is one of the instruction at `fault_pc`.
    fn group(&mut self, pc: u64, fault_pc: u64, fix: Option<Fix>) {
        let (word, spilled) = (self.word(), [0; 2]);
        let is_exact = true;
        self.push(Mark { word, pc, fault_pc, is_exact, fix, spilled, spilled_float: None });
    }

    fn push(&mut self, mark: Mark) {
        match self.region.marks.last_mut() {
            Some(last) if last.word == mark.word => *last = mark,
            _ => self.region.marks.push(mark),
        }
    }

    /// From here on a fault finds these registers saved; 0 for none.
    fn faults_with(&mut self, spilled: [u8; 2]) {
        let last = *self.region.marks.last().expect("invariant: instructions are marked");
        self.push(Mark { word: self.word(), is_exact: false, spilled, ..last });
    }

    /// `body` finds a register of floating point saved in the scratch register, and so does a fault
    /// in it.
    fn spilled_float(&mut self, register: i64, body: impl FnOnce(&mut Lower)) {
        self.op("movfr2gr.d", &[SCRATCH.into(), register]);
        let last = *self.region.marks.last().expect("invariant: instructions are marked");
        let saved = |spilled_float| Mark { is_exact: false, spilled_float, ..last };
        self.push(Mark { word: self.word(), ..saved(Some(register as u8)) });
        body(self);
        self.push(Mark { word: self.word(), ..saved(None) });
    }

    fn exit(&mut self, exit: Exit) {
        let word = self.word();
        self.region.exits.push((word, exit));
        self.op("break", &[0]);
    }

    /// A general register whose value is saved while `body` uses it; not one of `avoided`.
    fn spilled(&mut self, avoided: &[u8], body: impl FnOnce(&mut Lower, u8)) {
        let free = (12..32).find(|r| *r != SCRATCH && !avoided.contains(r));
        let register = free.expect("invariant: few registers are avoided");
        self.op("movgr2scr", &[SCR_SPILL.into(), register.into()]);
        body(self, register);
        self.op("movscr2gr", &[register.into(), SCR_SPILL.into()]);
    }

    /// As [`Lower::spilled`], for a second register: saved in the upper half of a vector register.
    fn spilled_upper(&mut self, avoided: &[u8], body: impl FnOnce(&mut Lower, u8)) {
        let free = (12..32).find(|r| *r != SCRATCH && !avoided.contains(r));
        let register = free.expect("invariant: few registers are avoided");
        let upper = i64::from(UPPER_SPILL);
        self.op("vinsgr2vr.d", &[upper, register.into(), 1]);
        body(self, register);
        self.op("vpickve2gr.d", &[register.into(), upper, 1]);
    }

    pub(super) fn block(&mut self, block: &Block, fused: &Fused, next: Option<u64>) {
        let label = self.labels[&block.start];
        self.asm.bind(label);
        let word = self.word();
        self.region.entries.push((block.start, word));
        self.region.guest_count += block.body.len() as u64;
        if self.counts && !block.is_empty() {
            // A delay slot may stand in the block before and begin this one.
            self.region.counted.push(Counted { word, pcs: [].into() });
            self.mark(block.start);
            self.count(block.len());
            let pcs = (0..block.len() as u64).map(|n| block.start.wrapping_add(4 * n)).collect();
            self.region.counted.push(Counted { word: self.word(), pcs });
        }
        for work in &fused.work {
            self.work(work);
        }
        match block.end {
            End::Goes(at) => {
                self.mark(at);
                self.go(at, next);
            }
            End::Illegal(at, word) => {
                self.mark(at);
                self.exit(Exit::Illegal(word));
            }
            End::Branch(branch, slot) => {
                self.region.guest_count += 2;
                self.branch(&branch, &slot, fused.condition, next);
            }
        }
    }

    /// Counts guest instructions, and the LA64 instructions that do so.
    fn count(&mut self, instructions: usize) {
        if !self.counts {
            return;
        }
        let (scratch, counts) = (i64::from(SCRATCH), COUNTS as i64);
        for (lane, number) in [(3, instructions as i64), (2, COUNTING)] {
            self.op("xvpickve2gr.d", &[scratch, counts, lane]);
            self.op("addi.d", &[scratch, scratch, number]);
            self.op("xvinsgr2vr.d", &[counts, scratch, lane]);
        }
    }

    /// Control goes on at a guest address.
    fn go(&mut self, at: u64, next: Option<u64>) {
        if next == Some(at) {
            return;
        }
        match self.labels.get(&at).copied() {
            Some(label) => self.asm.branch("b", &[], label),
            None => {
                let branch = self.word();
                self.exit(Exit::Direct { pc: at, branch });
            }
        }
    }

    /// The label of a guest address; of a stub if it is outside. The branch is the next word.
    fn label_of(&mut self, at: u64) -> Label {
        if let Some(&label) = self.labels.get(&at) {
            return label;
        }
        let (label, branch) = (self.asm.label(), self.word());
        self.stubs.push(Stub { label, pc: at, branch });
        label
    }

    fn work(&mut self, work: &Work) {
        match *work {
            Work::Nothing => {}
            Work::One(inst) => {
                self.mark(inst.at);
                self.one(&inst);
            }
            Work::ShiftAdd { inst, shifted, other, amount, wide } => {
                self.mark(inst.at.wrapping_sub(4));
                let (d, a, b) = (d(&inst), la64(shifted), la64(other));
                let code = if wide { "alsl.d" } else { "alsl.w" };
                self.op(code, &[d.into(), a.into(), b.into(), amount.into()]);
            }
            Work::Constant { at, register, value } => {
                self.mark(at);
                self.asm.li(la64(register), value);
            }
            Work::Bits { inst, source, high, low } => {
                self.mark(inst.at.wrapping_sub(4));
                let operands = [d(&inst), la64(source), high, low].map(i64::from);
                self.op("bstrpick.d", &operands);
            }
            Work::Indexed { inst, base, index, sum } => {
                let fix = recovered(Recover::Sum(sum, base, index, 0));
                self.group(inst.at.wrapping_sub(4), inst.at, fix);
                self.with_f31(&inst, |lower| lower.indexed(&inst, la64(base), la64(index)));
            }
            Work::Whole { inst, code, offset } => {
                self.mark(inst.at);
                let (t, s) = (t(&inst), s(&inst));
                self.op(code, &[t.into(), s.into(), offset]);
            }
            Work::Product { inst, low, high } => {
                self.mark(inst.at);
                self.product_to(&inst, la64(low), la64(high));
            }
        }
    }

    /// `body` finds f31 in the scratch register if the instruction reads it, and leaves it there if
    /// the instruction writes it.
    fn with_f31(&mut self, inst: &Inst, body: impl FnOnce(&mut Lower)) {
        const F31: u8 = FPR + FLOAT_SCRATCH;
        let (scratch, upper) = (i64::from(FLOAT_SCRATCH), i64::from(UPPER));
        if inst.reads().has(F31) {
            self.op("xvpickve.d", &[scratch, upper, UPPER_F31.into()]);
        }
        body(self);
        if inst.writes().has(F31) {
            self.op("xvinsve0.d", &[upper, scratch, UPPER_F31.into()]);
        }
    }

    /// One instruction as it stands in the table.
    fn one(&mut self, inst: &Inst) {
        self.with_f31(inst, |lower| lower.on_registers(inst));
    }

    fn on_registers(&mut self, inst: &Inst) {
        match &inst.row.code {
            Code::Plain(row, sums) => {
                let mut operands: Vec<i64> = Vec::with_capacity(4);
                for sum in sums {
                    let value = sum.value(inst);
                    let is_general = sum.field().is_some_and(is_general);
                    operands.push(if is_general { la64(value as u8).into() } else { value });
                }
                // Fields that contradict each other: the manual leaves the result open.
                let is_range = matches!(row.row().stem(), "bstrpick" | "bstrins");
                let known = !is_range || operands[2] >= operands[3];
                match host::encode(*row, &operands).filter(|_| known) {
                    Some(_) => self.op(row.row().mnemonic, &operands),
                    None => self.exit(Exit::Illegal(inst.word)),
                }
            }
            Code::Special(kind, words) => self.special(inst, kind, words),
        }
    }

    fn special(&mut self, inst: &Inst, kind: &str, words: &[&'static str]) {
        match kind {
            "nothing" => {}
            "addi" => self.add_immediate(inst, words),
            "slti" | "logic" => self.with_immediate(inst, kind, words),
            "lui" => self.lui(inst),
            "movz" | "movn" => self.move_if(inst, kind == "movz"),
            "addtrap" | "daddtrap" => self.add_or_trap(inst, kind == "daddtrap", words),
            "trap" | "trapi" => self.trap(inst, kind == "trapi", words[0]),
            "mul" | "madd" | "mfhi" | "mflo" | "mthi" | "mtlo" => self.product(inst, kind, words),
            "load" | "store" => self.access(inst, words),
            "linked" => self.linked(inst, words[0]),
            "loadx" | "storex" => {
                self.op(words[0], &[float(inst).into(), s(inst).into(), t(inst).into()]);
            }
            "aligned" => self.access_aligned(inst, words[0]),
            "movcc" | "movzf" => self.move_over(inst, words),
            "rsqrt" => self.reciprocal_root(inst, words),
            "fused" => self.fused(inst, words),
            "cfc1" => self.read_control(inst),
            "ctc1" => self.write_control(inst),
            "lwl" | "lwr" | "ldl" | "ldr" => self.load_part(inst, kind),
            "swl" | "swr" | "sdl" | "sdr" => self.store_part(inst, kind),
            "syscall" => {
                self.region.calls.push(self.word());
                self.op("syscall", &[0]);
            }
            "break" => self.exit(Exit::Break(inst.get(super::isa::Field::K) as u32)),
            "synci" => self.exit(Exit::Changed(inst.at.wrapping_add(4))),
            "rdhwr" => self.hardware_register(inst),
            _ => unreachable!("the table names kind {kind}"),
        }
    }

    pub(super) fn finish(mut self) -> Region {
        for stub in std::mem::take(&mut self.stubs) {
            self.asm.bind(stub.label);
            self.mark(stub.pc);
            self.exit(Exit::Direct { pc: stub.pc, branch: stub.branch });
        }
        self.region.words = self.asm.finish().expect("invariant: the translator's code encodes");
        self.region
    }
}

fn is_general(field: super::isa::Field) -> bool {
    use super::isa::Field;
    matches!(field, Field::S | Field::T | Field::D)
}

/// A group's recovery in LA64 registers; none if nothing is to be written.
fn recovered(recover: Recover) -> Option<Fix> {
    Some(match recover {
        Recover::Sum(to, a, b, amount) => Fix::Sum(la64(to), la64(a), la64(b), amount),
        Recover::Less(to, a, b, unsigned) => Fix::Less(la64(to), la64(a), la64(b), unsigned),
    })
}

fn fix_of(condition: Option<Condition>) -> Option<Fix> {
    condition.and_then(|c| c.recover).and_then(recovered)
}

/// The register of an access: a general one or one of floating point.
fn value(inst: &Inst) -> u8 {
    if inst.is_float() { float(inst) } else { t(inst) }
}

/// The floating-point register that is loaded or stored.
fn float(inst: &Inst) -> u8 {
    use super::isa::Field;
    let is_store = inst.is("storex") || inst.row.mnemonic == "suxc1";
    match inst.row.mnemonic {
        "lwc1" | "ldc1" | "swc1" | "sdc1" => inst.reg(Field::Ft),
        _ if is_store => inst.reg(Field::Fs),
        _ => inst.reg(Field::Fd),
    }
}

/// The LA64 register of field d.
fn d(inst: &Inst) -> u8 {
    la64(inst.reg(super::isa::Field::D))
}

/// The LA64 register of field s.
fn s(inst: &Inst) -> u8 {
    la64(inst.reg(super::isa::Field::S))
}

/// The LA64 register of field t.
fn t(inst: &Inst) -> u8 {
    la64(inst.reg(super::isa::Field::T))
}
