//! From a mnemonic to its translation.
//!
//! A mnemonic without a row here is translated as a call of its tier-0 handler.

use super::block::Lowering;
use super::{access, assist, atomic, branch, fields, float, integer, multiply, select, vector};

/// The translation of a mnemonic.
pub(in super::super) fn lowering(mnemonic: &str) -> Option<&'static Lowering> {
    let tables = [integer::TABLE, integer::SHIFT_TABLE, multiply::TABLE, select::TABLE];
    let found = tables
        .into_iter()
        .chain([fields::TABLE, access::TABLE, branch::TABLE, float::TABLE, float::MOVE_TABLE])
        .chain([assist::TABLE, assist::OTHER_TABLE])
        .flatten()
        .find(|l| l.name == mnemonic);
    found.or_else(|| atomic::find(mnemonic)).or_else(|| vector::find(mnemonic))
}
