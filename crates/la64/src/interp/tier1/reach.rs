//! What an instruction does with general registers, and which accesses of a loop are checked once
//! ahead of it.
//!
//! - A register *stays* if the loop never writes it, and *steps* if the loop changes it only by
//!   adding immediates to it.
//! - An access by a register that stays needs its check ahead of the loop alone.
//! - So does one by a register that steps, if each round makes such an access and steps are short.
//!   While these accesses are inside the window, the next one is at most a round's steps and
//!   displacements away: inside, or in the slack beside it, where it faults. The slow way then
//!   traps, so the loop never goes on from outside.
//! - The same holds of the sum of two registers.

use super::layout::ACCESS_MAX;
use crate::isa::{FieldKind, Row};
use littoral_base::mutant;

/// How an instruction reaches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// At rj + immediate.
    Offset,
    /// At rj + rk.
    Index,
}

/// Stems of translated instructions that write rd without reading it.
const WRITE_ALONE: &[&str] = &[
    "add",
    "addi",
    "addu16i",
    "alsl",
    "and",
    "andi",
    "andn",
    "bstrpick",
    "bytepick",
    "clo",
    "clz",
    "cto",
    "ctz",
    "div",
    "ext",
    "lu12i",
    "lu52i",
    "maskeqz",
    "masknez",
    "mod",
    "mul",
    "mulh",
    "mulw",
    "nor",
    "or",
    "ori",
    "orn",
    "pcaddi",
    "pcaddu12i",
    "pcaddu18i",
    "pcalau12i",
    "revb",
    "rotr",
    "rotri",
    "sll",
    "slli",
    "slt",
    "slti",
    "sltu",
    "sltui",
    "sra",
    "srai",
    "srl",
    "srli",
    "sub",
    "xor",
    "xori",
];

/// What the operands of a row are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Operands {
    /// Which of rd, rj, rk and the fourth name general registers.
    general: [bool; 4],
    access: Option<Access>,
    /// rd is read as well, or alone.
    reads_rd: bool,
    /// rd is not written.
    keeps_rd: bool,
}

impl Operands {
    /// Those of a row.
    pub(in super::super) fn of(row: &Row) -> Operands {
        let at = |lo| row.fields.iter().any(|f| f.kind == FieldKind::Gpr && f.lo == lo);
        let stem = row.stem().trim_start_matches('x');
        let access = match stem.strip_prefix(['v', 'f']).unwrap_or(stem) {
            "ld" | "st" | "ldptr" | "stptr" | "ldrepl" | "stelm" => Some(Access::Offset),
            "ldx" | "stx" => Some(Access::Index),
            _ => None,
        };
        let loads = access.is_some() && stem.contains("ld");
        let keeps_rd = access.is_some() && !loads;
        let reads_rd = !loads && !WRITE_ALONE.contains(&row.stem());
        Operands { general: [0, 5, 10, 15].map(at), access, reads_rd, keeps_rd }
    }

    /// The access is at rj + immediate.
    pub(super) fn is_offset(&self) -> bool {
        self.access == Some(Access::Offset)
    }

    /// The access is at rj + rk.
    pub(super) fn is_index(&self) -> bool {
        self.access == Some(Access::Index)
    }

    /// rd is a general register that is read.
    pub(super) fn reads_general_rd(&self) -> bool {
        self.general[0] && self.reads_rd
    }

    /// rd is a general register that is written.
    pub(super) fn writes_general_rd(&self) -> bool {
        self.general[0] && !self.keeps_rd
    }

    /// The general registers among `numbers` that an instruction reads besides rd.
    pub(super) fn sources(self, numbers: [usize; 4]) -> impl Iterator<Item = usize> {
        let fields = self.general.into_iter().zip(numbers).skip(1);
        fields.filter_map(|(general, n)| general.then_some(n))
    }

    /// The general registers among `numbers` that an instruction reads; more where that is simpler.
    pub(super) fn reads(self, numbers: [usize; 4]) -> impl Iterator<Item = usize> {
        let read = [self.reads_rd, true, true, true];
        let fields = self.general.into_iter().zip(read).zip(numbers);
        fields.filter_map(|((general, read), n)| (general && read && n != 0).then_some(n))
    }
}

/// An instruction of a loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Its mnemonic, if it is translated.
    pub(super) name: Option<&'static str>,
    /// rd, rj, rk and the fourth.
    pub(super) numbers: [usize; 4],
    /// The immediate's magnitude.
    pub(super) imm: u64,
    pub(super) operands: Operands,
    /// It branches to a fixed address.
    pub(super) branches: bool,
    /// That is the loop's beginning.
    pub(super) leads_back: bool,
}

/// How a loop changes a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// By at most this much in a round.
    Steps(u64),
    /// Otherwise.
    Otherwise,
}

/// Registers, and sums of two, that accesses of a loop need no check for.
#[derive(Clone, Debug, Default)]
pub(super) struct Reach {
    bases: u32,
    pub(super) pairs: Vec<(usize, usize)>,
    /// Registers that the loop never writes.
    stay: u32,
    /// Those of them that it adds what is no step to.
    indexed: u32,
    /// Those of them that it uses for addresses rather than for anything else.
    addresses: u32,
    /// Those of them that accesses add to others, and that may be anything.
    hosts: u32,
}

/// The paths of a loop of several: each begins and ends at the beginning of one.
pub(super) trait Rounds {
    /// The greatest sum over the instructions of a path.
    fn most(&self, of: &dyn Fn(usize) -> u64) -> u64;

    /// Whether each path that goes on in the loop and has an instruction that `moves` has one that
    /// `holds`.
    fn hold(&self, moves: &dyn Fn(usize) -> bool, holds: &dyn Fn(usize) -> bool) -> bool;
}

/// Checks ahead of a loop.
const CHECKS_MAX: usize = 12;

impl Reach {
    /// Those of a loop, whose window has so much slack.
    pub(super) fn of_loop(list: &[Line], slack: u64) -> Reach {
        let changes = changes(list);
        let turn = list.iter().position(|d| d.leads_back);
        let turn = turn.unwrap_or(list.len() - 1);
        let stays = |n: usize| changes[n] == Change::Steps(0);
        let mut reach = Reach::default();
        (1..32).filter(|&n| stays(n)).for_each(|n| reach.stay |= 1 << n);
        let sure = |at: usize| at < turn || mutant!("la64_rare_access_unchecked");
        let offsets = || list.iter().enumerate().filter(|(_, d)| d.operands.is_offset());
        for (n, &change) in changes.iter().enumerate().skip(1) {
            let of_base = || offsets().filter(|(_, d)| d.numbers[1] == n);
            let Some(far) = of_base().map(|(_, d)| d.imm).max() else { continue };
            let Change::Steps(steps) = change else { continue };
            let sure = steps == 0 || of_base().any(|(at, _)| sure(at));
            if sure && 2 * far + steps + ACCESS_MAX <= slack && reach.len() < CHECKS_MAX {
                reach.bases |= 1 << n;
            }
        }
        for (at, d) in list.iter().enumerate() {
            let [_, j, k, _] = d.numbers;
            if d.operands.access != Some(Access::Index) || j == 0 || k == 0 || reach.has_pair(j, k)
            {
                continue;
            }
            let (Change::Steps(a), Change::Steps(b)) = (changes[j], changes[k]) else { continue };
            let sure = a + b == 0 || sure(at);
            if sure && a + b + ACCESS_MAX <= slack && reach.len() < CHECKS_MAX {
                reach.pairs.push((j, k));
            }
        }
        reach
    }

    /// Those of a loop of many paths. Between two accesses by a register that steps are at most two
    /// paths: the rest of one, and the next up to its access.
    /// Of the registers that it adds something else to, those in `indexed` are checked ahead.
    pub(super) fn of_rounds(
        list: &[Line],
        rounds: &impl Rounds,
        indexed: u32,
        slack: u64,
    ) -> Reach {
        let changes = changes(list);
        let steps = |n: usize| matches!(changes[n], Change::Steps(_));
        let mut reach = Reach::default();
        let stays = |n: &usize| changes[*n] == Change::Steps(0);
        (1..32).filter(stays).for_each(|n| reach.stay |= 1 << n);
        let step = |n: usize, at: usize| match list[at] {
            Line { name: Some("addi.d"), numbers: [d, ..], imm, .. } if d == n => imm,
            _ => 0,
        };
        let is_near = |registers: [usize; 2], far: u64, by: &dyn Fn(&Line) -> bool| {
            let step = |at: usize| registers.iter().map(|&n| step(n, at)).sum::<u64>();
            let steps = 2 * rounds.most(&step);
            let sure = steps == 0
                || rounds.hold(&|at| step(at) > 0, &|at| by(&list[at]))
                || mutant!("la64_region_rare_access_unchecked");
            sure && 2 * far + steps + ACCESS_MAX <= slack
        };
        for n in (1..32).filter(|&n| steps(n)) {
            let by = |d: &Line| d.operands.is_offset() && d.numbers[1] == n;
            let Some(far) = list.iter().filter(|d| by(d)).map(|d| d.imm).max() else { continue };
            if reach.len() < CHECKS_MAX && is_near([n, 0], far, &by) {
                reach.bases |= 1 << n;
            }
        }
        // What stays is probably an address, and what does not an index that may be small.
        for d in list.iter().filter(|d| d.operands.access == Some(Access::Index)) {
            let [_, j, k, _] = d.numbers;
            let stays = |n: usize| n != 0 && (reach.stay & indexed) >> n & 1 == 1;
            let one = [(j, k), (k, j)].into_iter().find(|&(a, b)| stays(a) && !steps(b));
            if let Some((n, _)) = one
                && reach.len() < CHECKS_MAX
            {
                reach.bases |= 1 << n;
                reach.indexed |= 1 << n;
            }
        }
        for d in list.iter().filter(|d| d.operands.access == Some(Access::Index)) {
            let [_, j, k, _] = d.numbers;
            if j == 0 || k == 0 || reach.has_pair(j, k) || !steps(j) || !steps(k) {
                continue;
            }
            let by = |d: &Line| {
                let [_, a, b, _] = d.numbers;
                d.operands.access == Some(Access::Index) && [[j, k], [k, j]].contains(&[a, b])
            };
            if reach.len() < CHECKS_MAX && is_near([j, k], 0, &by) {
                reach.pairs.push((j, k));
            }
        }
        reach.note_addresses(list);
        reach
    }

    /// Finds the registers checked ahead that are used for addresses rather than for anything else.
    fn note_addresses(&mut self, list: &[Line]) {
        let is_base = |d: &Line, field: usize| match d.operands.access {
            Some(Access::Offset) => field == 1,
            Some(Access::Index) => field == 1 || field == 2,
            None => false,
        };
        for n in 1..32 {
            let (mut as_base, mut otherwise) = (0, 0);
            for d in list {
                let named = (0..4).filter(|&f| d.operands.general[f] && d.numbers[f] == n);
                named.for_each(|f| *if is_base(d, f) { &mut as_base } else { &mut otherwise } += 1);
            }
            if self.stays_inside(n) && as_base > otherwise {
                self.addresses |= 1 << n;
            }
        }
    }

    /// The region uses a register that stays for addresses rather than for anything else.
    pub(super) fn is_address(&self, n: usize) -> bool {
        self.addresses >> n & 1 == 1
    }

    fn len(&self) -> usize {
        self.bases.count_ones() as usize + self.pairs.len()
    }

    /// Registers to be checked ahead of the loop.
    pub(super) fn bases(&self) -> impl Iterator<Item = usize> + use<> {
        let bases = self.bases;
        (1..32).filter(move |n| bases >> n & 1 == 1)
    }

    /// Of the registers that stay those are to be addresses of the host as well.
    pub(super) fn host(&mut self, registers: u32) {
        self.hosts = registers & self.stay;
    }

    /// Registers that the loop never writes.
    pub(super) fn staying(&self) -> u32 {
        self.stay
    }

    /// A register that the loop never writes is checked ahead of it.
    pub(super) fn stays_inside(&self, n: usize) -> bool {
        self.has_base(n) && self.stay >> n & 1 == 1
    }

    pub(super) fn has_base(&self, n: usize) -> bool {
        self.bases >> n & 1 == 1
    }

    pub(super) fn has_pair(&self, j: usize, k: usize) -> bool {
        self.pairs.contains(&(j, k)) || self.pairs.contains(&(k, j))
    }

    /// Registers that stay, in pairs of this loop, the most frequent first.
    pub(super) fn staying_in_pairs(&self) -> Vec<usize> {
        let count = |n: usize| {
            let pairs = self.pairs.iter().filter(|p| p.0 == n || p.1 == n).count();
            pairs + ((self.indexed | self.hosts) >> n & 1) as usize
        };
        let mut list: Vec<usize> =
            (1..32).filter(|&n| self.stay >> n & 1 == 1 && count(n) > 0).collect();
        list.sort_by_key(|&n| std::cmp::Reverse(count(n)));
        list
    }
}

/// How a loop changes each general register.
fn changes(list: &[Line]) -> [Change; 32] {
    let mut changes = [Change::Steps(0); 32];
    for d in list {
        let general = d.operands.general;
        let Some(name) = d.name else {
            // An instruction of tier 0 may write any of its registers.
            general.into_iter().zip(d.numbers).filter(|g| g.0).for_each(|(_, n)| {
                changes[n] = Change::Otherwise;
            });
            continue;
        };
        if d.branches {
            // A call writes register 1.
            changes[1] = if name == "bl" { Change::Otherwise } else { changes[1] };
            continue;
        }
        let [n, j, ..] = d.numbers;
        if !general[0] || d.operands.keeps_rd {
            continue;
        }
        changes[n] = match changes[n] {
            Change::Steps(so_far) if name == "addi.d" && j == n => Change::Steps(so_far + d.imm),
            Change::Steps(_) | Change::Otherwise => Change::Otherwise,
        };
    }
    changes
}
