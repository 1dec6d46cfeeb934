//! The operations of `jia_reduce`: a kind of element and what is done to two of them.
//!
//! | | int | float | double |
//! |---|---|---|---|
//! | sum | 0 | 10 | 20 |
//! | greatest | 1 | 11 | 21 |
//! | least | 2 | 12 | 22 |
//!
//! The numbers are those of JIAJIA 2.1: `SUM_INT`, `MAX_INT`, `MIN_INT` and so on. Ranks are
//! combined in their order, so that equal runs give equal sums.

use littoral_base::mutant;

/// The name of an operation's code, if it is one.
pub fn element_bytes(op: i32) -> Option<usize> {
    match op {
        0..=2 | 10..=12 => Some(4),
        20..=22 => Some(8),
        _ => None,
    }
}

/// Combines `with` into `into`, element by element; both are whole elements of `op`.
pub fn combine(op: i32, into: &mut [u8], with: &[u8]) {
    match op / 10 {
        0 => each(into, with, i32::from_ne_bytes, i32::to_ne_bytes, |a, b| match op {
            0 => a.wrapping_add(b),
            1 if mutant!("jia_greatest_is_the_product") => a.wrapping_mul(b),
            1 => a.max(b),
            _ => a.min(b),
        }),
        1 => each(into, with, f32::from_ne_bytes, f32::to_ne_bytes, |a, b| match op {
            10 => a + b,
            11 => a.max(b),
            _ => a.min(b),
        }),
        _ => each(into, with, f64::from_ne_bytes, f64::to_ne_bytes, |a, b| match op {
            20 => a + b,
            21 => a.max(b),
            _ => a.min(b),
        }),
    }
}

fn each<const N: usize, T>(
    into: &mut [u8],
    with: &[u8],
    read: impl Fn([u8; N]) -> T,
    write: impl Fn(T) -> [u8; N],
    act: impl Fn(T, T) -> T,
) {
    let (into, _) = into.as_chunks_mut::<N>();
    for (a, b) in into.iter_mut().zip(with.as_chunks::<N>().0) {
        *a = write(act(read(*a), read(*b)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_does_what_its_row_says() {
        let ints = |v: [i32; 2]| v.map(i32::to_ne_bytes).concat();
        for (op, expected) in [(0, [5, -1]), (1, [3, 2]), (2, [2, -3])] {
            let mut into = ints([2, 2]);
            combine(op, &mut into, &ints([3, -3]));
            assert_eq!(into, ints(expected), "{op}");
        }
        let doubles = |v: [f64; 2]| v.map(f64::to_ne_bytes).concat();
        for (op, expected) in [(20, [3.5, 0.0]), (21, [2.0, 2.0]), (22, [1.5, -2.0])] {
            let mut into = doubles([1.5, 2.0]);
            combine(op, &mut into, &doubles([2.0, -2.0]));
            assert_eq!(into, doubles(expected), "{op}");
        }
        let mut into = 1.5f32.to_ne_bytes();
        combine(11, &mut into, &2f32.to_ne_bytes());
        assert_eq!(into, 2f32.to_ne_bytes());
        assert_eq!([3, 13, 23, -1, 30].map(element_bytes), [None; 5]);
    }
}
