//! LSX and LASX against a second oracle, written from the manual's text by element width and
//! sharing nothing with the interpreter: every lane is an `i128`, every operation one line.
//!
//! - A 256-bit row is its 128-bit namesake on both halves; the rows that move data between halves,
//!   touch memory, condition flags or general registers, and `vldi` are not modelled here.
//! - Scalar host arithmetic decides floating point where rounding is to nearest and no operand and
//!   no result is a NaN.
//! - What the manual leaves open (division by zero, a shuffle index out of range) is not compared.

#![allow(clippy::unwrap_used)]

use littoral_assure::la64::{Cases, Ours, Shape};
use littoral_la64::isa::{self, Group};
use std::collections::BTreeMap;

/// Operands of one 128-bit half.
struct Half {
    d: u128,
    j: u128,
    k: u128,
    a: u128,
    imm: i64,
    rk: u64,
}

/// Width and signedness of a suffix letter.
fn kind(letter: &str) -> Option<(u32, bool)> {
    let bits = match letter.trim_end_matches('u') {
        "b" => 8,
        "h" => 16,
        "w" => 32,
        "d" => 64,
        "q" => 128,
        "v" => 128,
        _ => return None,
    };
    Some((bits, letter.ends_with('u')))
}

fn value(lane: u128, bits: u32, unsigned: bool) -> i128 {
    let shift = 128 - bits;
    match unsigned {
        true => (lane << shift >> shift) as i128,
        false => (lane << shift) as i128 >> shift,
    }
}

fn lanes(v: u128, (bits, unsigned): (u32, bool)) -> Vec<i128> {
    (0..128 / bits).map(|n| value(v >> (n * bits), bits, unsigned)).collect()
}

fn join(list: &[i128], bits: u32) -> u128 {
    let cut = |x: i128| x as u128 & (u128::MAX >> (128 - bits));
    list.iter().enumerate().fold(0, |v, (n, &x)| v | cut(x) << (n as u32 * bits))
}

fn clamp(x: i128, bits: u32, unsigned: bool) -> i128 {
    match unsigned {
        true => x.clamp(0, (1 << bits) - 1),
        false => x.clamp(-1 << (bits - 1), (1 << (bits - 1)) - 1),
    }
}

/// x >> n of a `bits`-wide lane, logically or arithmetically, rounded half up if asked.
fn shifted(x: i128, n: u32, bits: u32, arithmetic: bool, round: bool) -> i128 {
    let x = value(x as u128, bits, !arithmetic);
    if n == 0 {
        return x;
    }
    let shift = |by: u32| if arithmetic { x >> by } else { (x as u128 >> by) as i128 };
    shift(n).wrapping_add(if round { shift(n - 1) & 1 } else { 0 })
}

fn high_product(a: i128, b: i128, bits: u32, unsigned: bool) -> i128 {
    match unsigned {
        true => ((a as u128).wrapping_mul(b as u128) >> bits) as i128,
        false => a.wrapping_mul(b) >> bits,
    }
}

/// Operations of two lanes (the second may be the immediate) to one of the same width.
fn pairwise(stem: &str, a: i128, b: i128, d: i128, t: (u32, bool)) -> Option<i128> {
    let (bits, unsigned) = t;
    let n = b as u32 & (bits - 1);
    let mask = |holds: bool| -i128::from(holds);
    let bit = 1i128.checked_shl(n).unwrap();
    let rotated = |x: u128| if n == 0 { x as i128 } else { (x >> n | x << (bits - n)) as i128 };
    Some(match stem {
        "vadd" | "vaddi" => a.wrapping_add(b),
        "vsub" | "vsubi" => a.wrapping_sub(b),
        "vmul" => a.wrapping_mul(b),
        "vmadd" => d.wrapping_add(a.wrapping_mul(b)),
        "vmsub" => d.wrapping_sub(a.wrapping_mul(b)),
        "vadda" => a.abs() + b.abs(),
        "vabsd" => (a - b).abs(),
        "vavg" => (a + b) >> 1,
        "vavgr" => (a + b + 1) >> 1,
        "vmax" | "vmaxi" => a.max(b),
        "vmin" | "vmini" => a.min(b),
        "vmuh" => high_product(a, b, bits, unsigned),
        "vsadd" => clamp(a + b, bits, unsigned),
        "vssub" => clamp(a - b, bits, unsigned),
        "vdiv" if b != 0 => a / b,
        "vmod" if b != 0 => a % b,
        "vsigncov" => a.signum() * b,
        "vseq" | "vseqi" => mask(a == b),
        "vsle" | "vslei" => mask(a <= b),
        "vslt" | "vslti" => mask(a < b),
        "vsll" | "vslli" => ((a as u128) << n) as i128,
        "vsrl" | "vsrli" => shifted(a, n, bits, false, false),
        "vsra" | "vsrai" => shifted(a, n, bits, true, false),
        "vsrlr" | "vsrlri" => shifted(a, n, bits, false, true),
        "vsrar" | "vsrari" => shifted(a, n, bits, true, true),
        "vrotr" | "vrotri" => rotated(value(a as u128, bits, true) as u128),
        "vbitclr" | "vbitclri" => a & !bit,
        "vbitset" | "vbitseti" => a | bit,
        "vbitrev" | "vbitrevi" => a ^ bit,
        "vandi" => a & b,
        "vori" => a | b,
        "vxori" => a ^ b,
        "vnori" => !(a | b),
        "vsat" if unsigned => a.min((1 << (n + 1)) - 1),
        "vsat" => a.clamp(-1 << n, (1 << n) - 1),
        _ => return None,
    })
}

/// Operations of one lane.
fn single(stem: &str, a: i128, bits: u32) -> Option<i128> {
    let plain = value(a as u128, bits, true);
    let leading = (plain as u128).leading_zeros() - (128 - bits);
    Some(match stem {
        "vneg" => a.wrapping_neg(),
        "vpcnt" => plain.count_ones().into(),
        "vclz" => leading.into(),
        "vclo" => {
            let inverted = value(!plain as u128, bits, true) as u128;
            i128::from(inverted.leading_zeros() - (128 - bits))
        }
        _ => return None,
    })
}

/// On the whole half: logic and moves by bytes.
fn whole(stem: &str, o: &Half) -> Option<u128> {
    // Cores take the count modulo the register's bytes (measured ones published by the
    // unofficial intrinsics guide).
    let by = 8 * (o.imm as u32 % 16);
    Some(match stem {
        "vand" => o.j & o.k,
        "vor" => o.j | o.k,
        "vxor" => o.j ^ o.k,
        "vnor" => !(o.j | o.k),
        "vandn" => !o.j & o.k,
        "vorn" => o.j | !o.k,
        "vbitsel" => o.a & o.k | !o.a & o.j,
        "vbsll" => o.j << by,
        "vbsrl" => o.j >> by,
        _ => return None,
    })
}

/// From two lanes of half the width to one: `wide` of which the suffixes say how to read them.
fn widening(stem: &str, suffix: &str, o: &Half) -> Option<u128> {
    let mut parts = suffix.split('.').map(kind);
    let (to, from) = (parts.next()??, parts.next()??);
    let other = parts.next().unwrap_or(Some(from))?;
    let (j, k) = (lanes(o.j, from), lanes(o.k, other));
    let d = lanes(o.d, (to.0, false));
    let half = j.len() / 2;
    let each = |f: &dyn Fn(usize) -> i128| Some(join(&(0..half).map(f).collect::<Vec<_>>(), to.0));
    let (core, odd) = match (stem.strip_suffix("wev"), stem.strip_suffix("wod")) {
        (Some(core), _) => (core, 0),
        (_, Some(core)) => (core, 1),
        _ => (stem, 0),
    };
    let pair = move |n: usize| 2 * n + odd;
    match core {
        "vadd" => each(&|n| j[pair(n)] + k[pair(n)]),
        "vsub" => each(&|n| j[pair(n)] - k[pair(n)]),
        "vmul" => each(&|n| j[pair(n)].wrapping_mul(k[pair(n)])),
        "vmadd" => each(&|n| d[n].wrapping_add(j[pair(n)].wrapping_mul(k[pair(n)]))),
        "vhaddw" => each(&|n| j[2 * n + 1] + k[2 * n]),
        "vhsubw" => each(&|n| j[2 * n + 1] - k[2 * n]),
        "vexth" => each(&|n| j[half + n]),
        "vextl" => each(&|n| j[n]),
        "vsllwil" => each(&|n| j[n] << o.imm),
        _ => None,
    }
}

/// Shifts that halve the width, from j (and with an immediate also from d).
fn narrowing(stem: &str, suffix: &str, o: &Half) -> Option<u128> {
    let (to, from) = suffix.split_once('.')?;
    let (to, from) = (kind(to)?, kind(from)?);
    let immediate = stem.ends_with("ni");
    let core = stem.trim_end_matches('i').strip_suffix('n')?;
    let (core, saturate) = match core.strip_prefix("vss") {
        Some(rest) => (rest, true),
        None => (core.strip_prefix("vs")?, false),
    };
    let (arithmetic, round) = match core {
        "rl" => (false, false),
        "ra" => (true, false),
        "rlr" => (false, true),
        "rar" => (true, true),
        _ => return None,
    };
    let counts = lanes(o.k, (from.0, true));
    let reduced = |v: u128| -> Vec<i128> {
        let one = |(n, x): (usize, i128)| {
            let by = if immediate { o.imm as u32 } else { counts[n] as u32 & (from.0 - 1) };
            let x = shifted(x, by, from.0, arithmetic, round);
            // A logical shift by nothing of a 128-bit lane is the one result beyond an i128.
            let x = if saturate && !arithmetic && x < 0 { i128::MAX } else { x };
            if saturate { clamp(x, to.0, to.1) } else { x }
        };
        lanes(v, (from.0, false)).into_iter().enumerate().map(one).collect()
    };
    let low = join(&reduced(o.j), to.0);
    Some(if immediate { low | join(&reduced(o.d), to.0) << 64 } else { low })
}

/// Moves of lanes.
fn moves(stem: &str, t: (u32, bool), o: &Half) -> Option<u128> {
    let (d, j, k) = (lanes(o.d, t), lanes(o.j, t), lanes(o.k, t));
    let (len, imm) = (j.len(), o.imm as usize);
    let made = |f: &dyn Fn(usize) -> i128| Some(join(&(0..len).map(f).collect::<Vec<_>>(), t.0));
    let two = |n: usize| if n < len { k[n] } else { j[n - len] };
    match stem {
        "vpackev" => made(&|n| if n % 2 == 0 { k[n] } else { j[n - 1] }),
        "vpackod" => made(&|n| if n % 2 == 0 { k[n + 1] } else { j[n] }),
        "vilvl" => made(&|n| if n % 2 == 0 { k[n / 2] } else { j[n / 2] }),
        "vilvh" => made(&|n| if n % 2 == 0 { k[(len + n) / 2] } else { j[(len + n) / 2] }),
        "vpickev" => made(&|n| two(2 * n)),
        "vpickod" => made(&|n| two(2 * n + 1)),
        "vreplve" => made(&|_| j[o.rk as usize % len]),
        "vreplvei" | "vrepl128vei" => made(&|_| j[imm]),
        "vshuf" if t.0 == 8 => {
            let index = lanes(o.a, (8, true));
            let fits = index.iter().all(|&n| n < 32);
            fits.then(|| made(&|n| two(index[n] as usize)))?
        }
        "vshuf" => {
            let fits = d.iter().all(|&n| (0..2 * len as i128).contains(&n));
            fits.then(|| made(&|n| two(d[n] as usize)))?
        }
        "vshuf4i" if t.0 == 64 => {
            let all = [d[0], d[1], j[0], j[1]];
            made(&|n| all[imm >> (2 * n) & 3])
        }
        "vshuf4i" => made(&|n| j[n & !3 | imm >> (2 * (n & 3)) & 3]),
        "vpermi" if t.0 == 32 => {
            made(&|n| if n < 2 { j[imm >> (2 * n) & 3] } else { d[imm >> (2 * n) & 3] })
        }
        "vextrins" => {
            made(&|n| if n == (imm >> 4) & (len - 1) { j[imm & (len - 1)] } else { d[n] })
        }
        "vfrstp" | "vfrstpi" => {
            let place = if stem == "vfrstp" { k[0] as usize } else { imm } % len;
            let first = j.iter().position(|&x| x < 0).unwrap_or(len);
            made(&|n| if n == place { first as i128 } else { d[n] })
        }
        "vmskltz" | "vmskgez" | "vmsknz" => {
            let test = |x: i128| match stem {
                "vmskltz" => x < 0,
                "vmskgez" => x >= 0,
                _ => x != 0,
            };
            Some((0..len).fold(0, |m, n| m | u128::from(test(j[n])) << n))
        }
        _ => None,
    }
}

/// One rounding to nearest by the host, numbers only.
fn floating(stem: &str, suffix: &str, o: &Half) -> Option<u128> {
    macro_rules! by_lane {
        ($f:ty, $u:ty) => {{
            let bits = <$u>::BITS;
            let at = |v: u128, n: u32| <$f>::from_bits((v >> (n * bits)) as $u);
            let mut out = 0u128;
            for n in 0..128 / bits {
                let (x, y, z) = (at(o.j, n), at(o.k, n), at(o.a, n));
                let r = match stem {
                    "vfadd" => x + y,
                    "vfsub" => x - y,
                    "vfmul" => x * y,
                    "vfdiv" => x / y,
                    "vfsqrt" => x.sqrt(),
                    "vfmadd" => x.mul_add(y, z),
                    "vfmsub" => x.mul_add(y, -z),
                    "vfnmadd" => -x.mul_add(y, z),
                    "vfnmsub" => -x.mul_add(y, -z),
                    _ => return None,
                };
                if r.is_nan() {
                    return None;
                }
                out |= u128::from(r.to_bits()) << (n * bits);
            }
            Some(out)
        }};
    }
    match suffix {
        "s" => by_lane!(f32, u32),
        "d" => by_lane!(f64, u64),
        _ => None,
    }
}

fn model(stem: &str, suffix: &str, nearest: bool, o: &Half) -> Option<u128> {
    if suffix.contains('.') {
        return narrowing(stem, suffix, o).or_else(|| widening(stem, suffix, o));
    }
    if suffix == "s" || stem.starts_with("vf") && !stem.starts_with("vfrstp") {
        return floating(stem, suffix, o).filter(|_| nearest);
    }
    let t = kind(suffix)?;
    if stem == "vbitseli" {
        return Some(o.d & join(&[o.imm.into(); 16], 8) | !o.d & o.j);
    }
    if let Some(v) = whole(stem, o).or_else(|| moves(stem, t, o)) {
        return Some(v);
    }
    let (d, j, k) = (lanes(o.d, t), lanes(o.j, t), lanes(o.k, t));
    // An immediate form ends in i, or is one of those that have no other.
    let immediate = stem.ends_with('i') || stem == "vsat";
    let lane = |n: usize| {
        let b = if immediate { o.imm.into() } else { k[n] };
        single(stem, j[n], t.0).or_else(|| pairwise(stem, j[n], b, d[n], t))
    };
    let list: Option<Vec<i128>> = (0..j.len()).map(lane).collect();
    Some(join(&list?, t.0))
}

#[test]
fn vector_rows_agree_with_a_model_by_element() {
    let (mut cases, mut ours) = (Cases::new(11, Shape::Single), Ours::default());
    let mut compared: BTreeMap<&str, u32> = BTreeMap::new();
    let mut different: BTreeMap<&str, String> = BTreeMap::new();
    for _ in 0..150_000 {
        let case = cases.case();
        let word = case.instruction(0);
        let row = isa::decode(word).unwrap().row();
        let halves = match row.group {
            Group::Lsx => 1,
            Group::Lasx => 2,
            _ => continue,
        };
        let stem = if halves == 2 { row.stem().strip_prefix('x') } else { Some(row.stem()) };
        let Some(stem) = stem else { continue };
        let after = ours.execute(&case);
        let [d, j, k, a] = [0, 5, 10, 15].map(|lo| (word >> lo & 31) as usize);
        for half in 0..halves {
            let part = |n: usize| {
                let v = case.vector(n);
                u128::from(v[2 * half]) | u128::from(v[2 * half + 1]) << 64
            };
            let imm = row.immediate(word, 0).into();
            let o =
                Half { d: part(d), j: part(j), k: part(k), a: part(a), imm, rk: case.general(k) };
            let Some(wanted) = model(stem, row.suffix(), case.rounds_to_nearest(), &o) else {
                continue;
            };
            *compared.entry(row.mnemonic).or_default() += 1;
            let v = after.vector(d);
            let found = u128::from(v[2 * half]) | u128::from(v[2 * half + 1]) << 64;
            if found != wanted {
                let text = isa::disassemble(word).unwrap();
                different.entry(row.mnemonic).or_insert_with(|| {
                    format!(
                        "{text}: {found:032x}, model {wanted:032x} (d {:032x} j {:032x} k {:032x})",
                        o.d, o.j, o.k
                    )
                });
            }
        }
    }
    assert!(different.is_empty(), "{} rows: {different:#?}", different.len());
    // So that a model which answers nothing any more cannot pass.
    assert!(compared.len() > 950, "only {} rows were compared", compared.len());
}

#[test]
fn the_model_itself_is_not_trivial() {
    let o = Half { d: 0, j: 0x80, k: 0x7f, a: 0, imm: 1, rk: 0 };
    assert_eq!(model("vsadd", "b", true, &o), Some(0xff));
    assert_eq!(model("vsadd", "bu", true, &o), Some(0xff));
    assert_eq!(model("vssub", "b", true, &o), Some(0x80));
    assert_eq!(model("vsrli", "b", true, &o), Some(0x40));
    assert_eq!(model("vsrai", "b", true, &o), Some(0xc0));
    assert_eq!(model("vdiv", "b", true, &Half { k: 0, ..o }), None);
}
