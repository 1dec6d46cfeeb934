//! The decoder's decision tree: each node picks a run of bits that all its rows fix and branches on
//! it; a leaf is one row, to be confirmed against its mask.
//!
//! Encoding: `TREE[n..]` of node `n` is `[lo | width << 8, child; 1 << width]`; a child below
//! `LEAF` is a node, `LEAF + row` a row, `NONE` no instruction.

use crate::Row;
use std::fmt::Write as _;

const LEAF: u32 = 0x8000_0000;
const NONE: u32 = 0xffff_ffff;
const WIDTH_MAX: u32 = 7;

pub(crate) fn render(rows: &[Row]) -> String {
    let mut tree = Vec::new();
    let all: Vec<usize> = (0..rows.len()).collect();
    let root = build(rows, &all, 0, &mut tree);
    assert_eq!(root, 0, "the root is the first node");
    let mut out = String::new();
    writeln!(out, "static TREE: [u32; {}] = {tree:?};", tree.len()).expect("string");
    out
}

/// Builds the node of `set`, whose bits in `used` already agree, and returns the child reference.
fn build(rows: &[Row], set: &[usize], used: u32, tree: &mut Vec<u32>) -> u32 {
    match set {
        [] => return NONE,
        [one] => return LEAF + *one as u32,
        _ => {}
    }
    let common = set.iter().fold(!used, |m, &i| m & rows[i].mask);
    let (lo, width) = run(common);
    let node = tree.len();
    tree.push(lo | width << 8);
    tree.resize(node + 1 + (1 << width), NONE);
    for value in 0..1u32 << width {
        let matching: Vec<usize> = set
            .iter()
            .copied()
            .filter(|&i| rows[i].word >> lo & ((1 << width) - 1) == value)
            .collect();
        let child = build(rows, &matching, used | ((1 << width) - 1) << lo, tree);
        tree[node + 1 + value as usize] = child;
    }
    node as u32
}

/// The highest run of set bits, at most `WIDTH_MAX` long.
fn run(common: u32) -> (u32, u32) {
    assert_ne!(common, 0, "rows of a node share a fixed bit");
    let high = 31 - common.leading_zeros();
    let width = (common << (31 - high)).leading_ones().min(WIDTH_MAX);
    (high + 1 - width, width)
}
