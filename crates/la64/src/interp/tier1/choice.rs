//! Two masks and an `or` that choose one of two registers.

use super::block::{Block, Decoded};

/// A mask: where it goes, and what it keeps or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mask {
    pub(super) to: usize,
    pub(super) from: usize,
}

/// Two masks and an `or`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Select {
    pub(super) first: Mask,
    pub(super) second: Mask,
    pub(super) result: usize,
}

/// Whether the instructions behind the current one, which sets general register `n` and the flags
/// to a condition, are a choice by it that replaces it.
pub(super) fn replaces(b: &Block<'_>, n: usize) -> bool {
    let select = || {
        let first = b.ahead(1)?;
        choice(first, b.ahead(2)?, b.ahead(3)?).filter(|_| first.rk() == n)
    };
    select().is_some_and(|select| {
        let Select { first, second, result } = select;
        first.from != n && second.from != n && [first.to, second.to, result].contains(&n)
    })
}

/// The choice that these three instructions are.
pub(super) fn choice(d: &Decoded, second: &Decoded, or: &Decoded) -> Option<Select> {
    let names = [d, second, or].map(|d| d.lowering.map(|lowering| lowering.name));
    let opposite = match names[0]? {
        "maskeqz" => "masknez",
        "masknez" => "maskeqz",
        _ => return None,
    };
    if names[1..] != [Some(opposite), Some("or")] || second.rk() != d.rk() {
        return None;
    }
    let (t, u, result) = (d.rd(), second.rd(), or.rd());
    let chosen = [or.rj(), or.rk()];
    let is_choice = chosen == [t, u] || chosen == [u, t];
    let is_plain = t != u && t != 0 && u != 0 && result != 0 && t != d.rk() && t != second.rj();
    let select = Select {
        first: Mask { to: t, from: d.rj() },
        second: Mask { to: u, from: second.rj() },
        result,
    };
    (is_choice && is_plain).then_some(select)
}
