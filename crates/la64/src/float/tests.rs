//! Against the host's own arithmetic, which is IEEE in round-to-nearest: values, not flags (those
//! are compared with QEMU by `la64_qemu` of the crate `assure`).

use super::*;

fn cases() -> Vec<u64> {
    let mut list = vec![
        0,
        1,
        2,
        3,
        0x000f_ffff_ffff_ffff,
        0x0010_0000_0000_0000,
        0x3ff0_0000_0000_0000,
        0x3ff0_0000_0000_0001,
        0x3fef_ffff_ffff_ffff,
        0x7fef_ffff_ffff_ffff,
        0x7ff0_0000_0000_0000,
        0x4340_0000_0000_0000,
        0x43e0_0000_0000_0000,
        0x3fe0_0000_0000_0000,
        0x36a0_0000_0000_0000,
        0x3690_0000_0000_0000,
        0x380f_ffff_f000_0000,
        0x47ef_ffff_f000_0000,
    ];
    let mut x = 9u64;
    for _ in 0..300 {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        list.push(x ^ x >> 29);
        list.push((x >> 12) | 0x3ff0_0000_0000_0000);
    }
    let negative: Vec<u64> = list.iter().map(|b| b ^ 1 << 63).collect();
    list.extend(negative);
    list
}

fn same(ours: u64, host: f64, what: &str) {
    match host.is_nan() {
        true => assert!(f64::from_bits(ours).is_nan(), "{what}: {ours:x}"),
        false => assert_eq!(ours, host.to_bits(), "{what}: {} vs {host}", f64::from_bits(ours)),
    }
}

#[test]
fn doubles_agree_with_the_host() {
    let list = cases();
    for &a in &list {
        let x = f64::from_bits(a);
        let env = || Env::new(Rounding::NearestEven);
        same(sqrt::<Double>(a, &mut env()), x.sqrt(), "sqrt");
        for &b in &list {
            let y = f64::from_bits(b);
            same(add::<Double>(a, b, &mut env()), x + y, "add");
            same(sub::<Double>(a, b, &mut env()), x - y, "sub");
            same(mul::<Double>(a, b, &mut env()), x * y, "mul");
            same(div::<Double>(a, b, &mut env()), x / y, "div");
            let c = b.rotate_left(7) ^ a;
            let z = f64::from_bits(c);
            same(fma::<Double>(a, b, c, (false, false), &mut env()), x.mul_add(y, z), "fma");
        }
    }
}

#[test]
fn conversions_agree_with_the_host() {
    for a in cases() {
        let x = f64::from_bits(a);
        let mut env = Env::new(Rounding::Zero);
        assert_eq!(to_int::<Double>(a, 64, true, &mut env), x as i64 as u64, "{x}");
        assert_eq!(to_int::<Double>(a, 32, false, &mut env), u64::from(x as u32), "{x}");
        let mut env = Env::new(Rounding::NearestEven);
        let single = convert::<Double, Single>(a, &mut env);
        if !x.is_nan() {
            assert_eq!(single, u64::from((x as f32).to_bits()), "{x}");
            let back = f64::from(f32::from_bits(single as u32)).to_bits();
            assert_eq!(convert::<Single, Double>(single, &mut env), back);
            let exact = env.flags & flag::INEXACT == 0;
            assert_eq!(exact, back == a, "{x}: {}", env.flags);
        }
        assert_eq!(from_int::<Double>(i128::from(a as i64), &mut env), (a as i64 as f64).to_bits());
        same(round_to_int::<Double>(a, &mut env), x.round_ties_even(), "rint");
    }
}

#[test]
fn directed_rounding_brackets_the_exact_value() {
    let list = cases();
    for (&a, &b) in list.iter().zip(list.iter().rev()) {
        let at = |r| mul::<Double>(a, b, &mut Env::new(r));
        let (down, up) = (f64::from_bits(at(Rounding::Down)), f64::from_bits(at(Rounding::Up)));
        let nearest = f64::from_bits(at(Rounding::NearestEven));
        let zero = f64::from_bits(at(Rounding::Zero));
        if !nearest.is_nan() {
            assert!(down <= nearest && nearest <= up);
            assert_eq!(zero, if nearest.is_sign_negative() { up } else { down });
        }
    }
}

#[test]
fn flags_of_known_cases() {
    let flags = |f: &dyn Fn(&mut Env)| {
        let mut env = Env::new(Rounding::NearestEven);
        f(&mut env);
        env.flags
    };
    let bits = f64::to_bits;
    let third = flags(&|e| _ = div::<Double>(bits(1.0), bits(3.0), e));
    assert_eq!(third, flag::INEXACT);
    assert_eq!(flags(&|e| _ = div::<Double>(bits(1.0), 0, e)), flag::DIVIDE_BY_ZERO);
    assert_eq!(flags(&|e| _ = sqrt::<Double>(bits(-1.0), e)), flag::INVALID);
    let huge = flags(&|e| _ = mul::<Double>(bits(f64::MAX), bits(2.0), e));
    assert_eq!(huge, flag::OVERFLOW | flag::INEXACT);
    let tiny = flags(&|e| _ = mul::<Double>(1, bits(0.5), e));
    assert_eq!(tiny, flag::UNDERFLOW | flag::INEXACT);
    assert_eq!(flags(&|e| _ = mul::<Double>(2, bits(0.5), e)), 0, "exact subnormal");
    let signalling = 0x7ff0_0000_0000_0001;
    assert_eq!(flags(&|e| _ = add::<Double>(signalling, 0, e)), flag::INVALID);
    assert_eq!(flags(&|e| _ = compare::<Double>(Double::NAN, 0, false, e)), 0);
    assert_eq!(flags(&|e| _ = compare::<Double>(Double::NAN, 0, true, e)), flag::INVALID);
}
