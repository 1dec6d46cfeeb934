//! Tiers against each other: random programs with branches, loops, faults and budgets that end
//! anywhere, run by two tiers and compared at every exit in trap, count, registers and memory.
//!
//! - A program is [`PARTS`] random blocks behind each other and a branch back, in a random state;
//!   after a trap both sides go on behind the trapping instruction.
//! - Some stays of the translator end by a signal of a timer, at any instruction of the host; the
//!   interpreter then gets as many instructions as the translator counted.
//! - The cause field of the FCSR is left out where the translator has computed: see
//!   `docs/design/la64-jit.md`.

use super::cases::{INDEX, LINK, POINTER};
use super::{CODE_WORDS, Case, Cases, SLOT_AT, Shape, X_AT, load, runner};
use littoral_la64::bare::{Alarm, Bare};
use littoral_la64::interp::{Identity, Store, Tier, Trap};
use littoral_la64::isa;
use littoral_la64::state::{State, fcsr};
use std::ops::Range;
use std::sync::Arc;

/// Blocks of a program.
const PARTS: usize = 4;
/// Where programs are.
const CODE: u64 = 0x8000;
/// Where programs are whose code is kept, and where it is read: above short addresses.
const PLACES: [u64; 2] = [(5 << 30) + CODE, (7 << 30) + 0x9000];
/// Memory of these.
const PLACES_LEN: u64 = 8 << 30;
/// Stays of one program in a tier.
const STAYS: u32 = 6;

/// What a comparison found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Blocks run.
    pub blocks: u64,
    /// Instructions retired by either side.
    pub instructions: u64,
    /// Exits compared.
    pub exits: u64,
    /// Exits that were traps other than the end of a budget.
    pub traps: u64,
    /// Stays of the translator that a signal ended.
    pub interrupted: u64,
    /// Regions that were translated.
    pub regions: u64,
    /// Blocks that were read from a store instead of translated.
    pub blocks_read: u64,
    /// What differed, the first few.
    pub different: Vec<String>,
}

struct Side(Bare);

impl Side {
    fn new(tier: Tier) -> Side {
        Side(Bare::on(tier, runner::MEMORY_LEN))
    }

    /// With a window beside which the host refuses accesses, where there is a translator.
    fn between_refusals(tier: Tier) -> Side {
        Bare::between_refusals(tier, runner::MEMORY_LEN).map_or_else(|| Side::new(tier), Side)
    }

    /// With so many refused bytes beside the window that sums with short numbers need no check.
    fn between_many(tier: Tier) -> Side {
        let core = Bare::between(tier, runner::MEMORY_LEN, (1 << 36) + (1 << 16));
        core.map_or_else(|| Side::between_refusals(tier), Side)
    }

    fn prepare(&mut self, case: &Case, at: u64, code: &[u32]) {
        let bytes: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
        let stored = self.0.write(at, &bytes).and(self.0.write(case.address(), &case.0));
        stored.expect("invariant: inside");
        load(self.0.state_mut(), case);
        self.0.state_mut().pc = at;
        self.0.forget_code();
    }

    fn bytes(&self, from: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.0.read(from, &mut bytes).expect("invariant: inside");
        bytes
    }
}

/// Registers as both tiers must have them.
fn comparable(state: &State) -> State {
    State { fcsr: state.fcsr & !fcsr::CAUSE, ..state.clone() }
}

/// Runs at least `blocks` random blocks from `seed` on tier 0 and `tier`.
pub fn compare(tier: Tier, seed: u64, blocks: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let mut cases = Cases::new(seed, Shape::Tiers);
    let tiers = [Tier::Interpreter, tier];
    let sides = [Side::new, Side::between_refusals, Side::between_many];
    let mut pairs = sides.map(|side| tiers.map(side));
    let mut programs = 0;
    let alarm = Alarm::new();
    while outcome.blocks < blocks && outcome.different.len() < 5 {
        let mut case = cases.case();
        let code = program(&mut cases, &mut case, CODE);
        case.set64(SLOT_AT, CODE);
        programs += 1;
        let pair = &mut pairs[programs / 2 % 3];
        pair.iter_mut().for_each(|s| s.prepare(&case, CODE, &code));
        // Results are tested for NaNs in some programs, and invalid operations fault in the others.
        pair[1].0.catch_invalid(programs % 3 != 0);
        if programs % 5 == 0 {
            // The trap on invalid operations alone, which translated code serves, too.
            pair.iter_mut().for_each(|s| s.0.state_mut().fcsr |= fcsr::ENABLE_INVALID);
        }
        // Loops get registers of their own only in code that is not compared with memory; no
        // program here stores into its code.
        pair.iter_mut().for_each(|s| s.0.may_write_code(programs % 4 == 0));
        outcome.blocks += PARTS as u64;
        let alarm = alarm.as_ref().filter(|_| programs % 4 == 1);
        let budgets = budgets(tier);
        if let Err(what) = compare_program(&mut cases, pair, (budgets, alarm), &mut outcome) {
            outcome.different.push(format!("program {programs} {code:08x?}: {what}"));
        }
    }
    outcome
}

/// As [`compare`], with code that another engine has made of the same program elsewhere: it is
/// kept as a file and read. `None` where there is no translator.
pub fn compare_kept(seed: u64, blocks: u64) -> Option<Outcome> {
    let mut outcome = Outcome::default();
    let mut cases = Cases::new(seed, Shape::Tiers);
    let side = |tier| Bare::between_refusals(tier, PLACES_LEN).map(Side);
    let pair = || Some([side(Tier::Interpreter)?, side(Tier::Blocks)?]);
    let mut pairs = [pair()?, pair()?];
    let maker = pairs[0][1].0.maker()?;
    let identity = Identity::of_build_id(b"a program");
    let mut programs = 0;
    while outcome.blocks < blocks && outcome.different.len() < 5 {
        let mut case = cases.case();
        let code = program(&mut cases, &mut case, PLACES[0]);
        programs += 1;
        outcome.blocks += PARTS as u64;
        let mut kept = None;
        for (pair, at) in pairs.iter_mut().zip(PLACES) {
            moved(&mut case, at);
            pair.iter_mut().for_each(|s| s.prepare(&case, at, &code));
            pair[1].0.catch_invalid(programs % 3 != 0);
            if programs % 5 == 0 {
                pair.iter_mut().for_each(|s| s.0.state_mut().fcsr |= fcsr::ENABLE_INVALID);
            }
            pair[0].0.may_write_code(false);
            let store = Arc::new(Store::new(maker, 1 << 24));
            if let Some(refused) = store.add(identity, kept.take()).1 {
                outcome.different.push(format!("program {programs}: its file is {refused:?}"));
            }
            pair[1].0.keep_code(&store, 0, at & !0xfff);
            let budgets = (budgets(Tier::Blocks), None);
            if let Err(what) = compare_program(&mut cases, pair, budgets, &mut outcome) {
                let what = format!("program {programs} at {at:x} {code:08x?}: {what}");
                outcome.different.push(what);
            }
            outcome.blocks_read += pair[1].0.blocks_read();
            kept = Some(store.file(0, None));
        }
    }
    Some(outcome)
}

/// Lets a case's addresses of its program be those of the program in another place.
fn moved(case: &mut Case, to: u64) {
    let from = case.word64(X_AT + 8 * 18);
    let link = case.word64(X_AT + 8 * LINK as usize);
    case.set64(SLOT_AT, to);
    case.set64(X_AT + 8 * 18, to);
    case.set64(X_AT + 8 * LINK as usize, link.wrapping_sub(from).wrapping_add(to));
}

/// The words of a program that will be at an address.
fn program(cases: &mut Cases, case: &mut Case, at: u64) -> Vec<u32> {
    let nop = isa::find("andi").expect("invariant: in the table").row().word;
    let mut code = Vec::new();
    for _ in 0..PARTS {
        let mut part = cases.block(case);
        part.resize(CODE_WORDS, nop);
        code.append(&mut part);
    }
    case.set64(X_AT + 8 * 18, at);
    case.set64(X_AT + 8 * LINK as usize, at + 4 * cases.below((PARTS * CODE_WORDS) as u64));
    if cases.below(2) == 0 {
        stride(cases, case, &mut code);
    }
    code.push(cases.back(code.len()));
    code.push(0);
    code
}

/// Lets the registers of addresses advance in each round, or begin outside of the memory.
fn stride(cases: &mut Cases, case: &mut Case, code: &mut Vec<u32>) {
    let id = isa::find("addi.d").expect("invariant: in the table");
    for register in [POINTER, INDEX].into_iter().take(1 + cases.below(2) as usize) {
        let step = [8, 24, 200, 1000, 2047][cases.below(5) as usize];
        let operands = [register.into(), register.into(), step];
        code.push(isa::encode(id, &operands).expect("invariant: operands fit"));
    }
    if cases.below(4) == 0 {
        let far = [8, 3 << 15][cases.below(2) as usize] + cases.below(64);
        let below = cases.below(2) == 1;
        if below {
            // From below the memory, steps would lead through the code, which no program writes.
            code.truncate(PARTS * CODE_WORDS);
        }
        let place = if below { far.wrapping_neg() } else { runner::MEMORY_LEN + far };
        case.set64(X_AT + 8 * POINTER as usize, place);
    }
}

/// Instructions of a stay: on tier 2 some hundred pass before a loop is a region.
fn budgets(tier: Tier) -> Range<u64> {
    if tier == Tier::Regions { 100..8000 } else { 100..2600 }
}

fn compare_program(
    cases: &mut Cases,
    [first, second]: &mut [Side; 2],
    (budgets, alarm): (Range<u64>, Option<&Alarm>),
    outcome: &mut Outcome,
) -> Result<(), String> {
    let regions = second.0.regions();
    for _ in 0..STAYS {
        let budget = budgets.start + cases.below(budgets.end - budgets.start);
        let traps = match alarm {
            None => [first.0.run(budget), second.0.run(budget)],
            Some(alarm) => interrupted(cases, [first, second], alarm, outcome),
        };
        outcome.exits += 1;
        if traps[0] != traps[1] {
            return Err(format!("{traps:?}"));
        }
        let states = [comparable(first.0.state()), comparable(second.0.state())];
        if states[0] != states[1] {
            return Err(format!("{:?} {}", traps[0], differences(&states[0], &states[1])));
        }
        let behind = matches!(traps[0], Trap::Syscall | Trap::CodeChanged);
        match traps[0] {
            Trap::Fetch(_) => break,
            Trap::OutOfBudget => {}
            _ => outcome.traps += 1,
        }
        for side in [&mut *first, &mut *second] {
            let state = side.0.state_mut();
            state.fcsr &= !fcsr::CAUSE;
            if traps[0] != Trap::OutOfBudget && !behind {
                state.pc += 4;
            }
        }
    }
    outcome.instructions += first.0.state().instructions;
    outcome.regions += second.0.regions() - regions;
    let records = (super::RECORDS, runner::MEMORY_LEN - super::RECORDS);
    if first.bytes(records.0, records.1) != second.bytes(records.0, records.1) {
        return Err("memory differs".into());
    }
    Ok(())
}

/// Both sides' traps, the second one's first: a signal stops it at any instruction of the host, and
/// the other one gets as many instructions as it counted.
fn interrupted(
    cases: &mut Cases,
    [first, second]: [&mut Side; 2],
    alarm: &Alarm,
    outcome: &mut Outcome,
) -> [Trap; 2] {
    /// Rounds of a program take a microsecond or so; some have to be translated first.
    const NS_MAX: [u64; 4] = [1_000, 10_000, 50_000, 200_000];
    const BUDGET: u64 = 1 << 20;
    let ns_max = NS_MAX[cases.below(4) as usize];
    let before = second.0.state().instructions;
    let ns = 1 + cases.below(ns_max) as u32;
    let trap = second.0.run_until(alarm, ns, BUDGET);
    if trap != Trap::Attention {
        return [first.0.run(BUDGET), trap];
    }
    outcome.interrupted += 1;
    let retired = second.0.state().instructions.wrapping_sub(before);
    match first.0.run(retired) {
        // Where there is no instruction, the interpreter finds that before the end of its budget.
        trap @ Trap::Fetch(_) => [trap, trap],
        trap => [trap, Trap::OutOfBudget],
    }
}

/// The registers that differ.
fn differences(a: &State, b: &State) -> String {
    let mut words = Vec::new();
    for n in 0..33 {
        if a.x[n] != b.x[n] {
            words.push(format!("x{n} {:x} {:x}", a.x[n], b.x[n]));
        }
    }
    for n in 0..32 {
        if a.v[n] != b.v[n] {
            words.push(format!("v{n} {:x?} {:x?}", a.v[n].0, b.v[n].0));
        }
    }
    let rest = |s: &State| {
        let link = (s.link_address, s.link_value, s.link_value_high);
        format!(
            "pc {:x} count {} fcsr {:x} {:?} {link:x?} {:?}",
            s.pc, s.instructions, s.fcsr, s.fcc, s.lbt
        )
    };
    if rest(a) != rest(b) {
        words.push(format!("{} / {}", rest(a), rest(b)));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_found() {
        let mut cases = Cases::new(1, Shape::Tiers);
        let mut pair = [Side::new(Tier::Interpreter), Side::new(Tier::Blocks)];
        let mut case = cases.case();
        let code = program(&mut cases, &mut case, CODE);
        pair.iter_mut().for_each(|s| s.prepare(&case, CODE, &code));
        pair[1].0.state_mut().x[2] ^= 1;
        assert!(
            compare_program(&mut cases, &mut pair, (100..2600, None), &mut Outcome::default())
                .is_err()
        );
    }
}
