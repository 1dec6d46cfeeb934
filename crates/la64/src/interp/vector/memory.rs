//! Vector loads and stores. A store that faults stores nothing.

use super::super::operation::VectorEntry;
use super::super::{Cpu, Cursor, Exit, Handler, Trap};
use super::lanes::{Lane, build};
use crate::memory::raw::Word;

fn load<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>, at: u64) -> Exit {
    let register = &mut cpu.state.v[i.rd.number() & 31].0;
    let loaded = match WIDE {
        true => cpu.window.load_vector::<4>(at, register),
        false => cpu.window.load_vector::<2>(at, register),
    };
    match loaded {
        Some(()) => i.chain(cpu),
        None => cpu.fault(i, Trap::Load(at)),
    }
}

fn store<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>, at: u64) -> Exit {
    let register = &cpu.state.v[i.rd.number() & 31].0;
    let stored = match WIDE {
        true => cpu.window.store_vector::<4>(at, register),
        false => cpu.window.store_vector::<2>(at, register),
    };
    match stored {
        Some(()) => i.chain(cpu),
        None => cpu.fault(i, Trap::Store(at)),
    }
}

fn at_offset(cpu: &Cpu, i: Cursor<'_>) -> u64 {
    cpu.x(i.rj).wrapping_add(i.imm as u64)
}

fn at_index(cpu: &Cpu, i: Cursor<'_>) -> u64 {
    cpu.x(i.rj).wrapping_add(cpu.x(i.rk))
}

fn vld<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    load::<WIDE>(cpu, i, at_offset(cpu, i))
}

fn vst<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    store::<WIDE>(cpu, i, at_offset(cpu, i))
}

fn vldx<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    load::<WIDE>(cpu, i, at_index(cpu, i))
}

fn vstx<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    store::<WIDE>(cpu, i, at_index(cpu, i))
}

fn vldrepl<T: Lane + Word, const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let at = at_offset(cpu, i);
    match cpu.window.load::<T>(at) {
        Some(lane) => super::halves::<WIDE>(cpu, i, |_, _, _, _| build(|_| lane)),
        None => cpu.fault(i, Trap::Load(at)),
    }
}

fn vstelm<T: Lane + Word, const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let at = at_offset(cpu, i);
    let bit = u32::from(i.imm2) * T::BITS;
    let half = cpu.half(i.rd, (bit / 128) as usize & usize::from(WIDE));
    match cpu.window.store(at, T::cut(half >> (bit % 128))) {
        Some(()) => i.chain(cpu),
        None => cpu.fault(i, Trap::Store(at)),
    }
}

macro_rules! pair {
    ($name:literal, $f:ident $(, $type:ty)?) => {
        ($name, [$f::<$($type,)? false> as Handler, $f::<$($type,)? true> as Handler])
    };
}

pub(super) static TABLE: &[VectorEntry] = &[
    pair!("vld", vld),
    pair!("vst", vst),
    pair!("vldx", vldx),
    pair!("vstx", vstx),
    pair!("vldrepl.b", vldrepl, u8),
    pair!("vldrepl.h", vldrepl, u16),
    pair!("vldrepl.w", vldrepl, u32),
    pair!("vldrepl.d", vldrepl, u64),
    pair!("vstelm.b", vstelm, u8),
    pair!("vstelm.h", vstelm, u16),
    pair!("vstelm.w", vstelm, u32),
    pair!("vstelm.d", vstelm, u64),
];
