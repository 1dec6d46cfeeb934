//! `jia_error`, whose arguments vary as `printf`'s do.
//!
//! Stable Rust defines no such functions. On x86-64 the entry point stores the registers that may
//! hold arguments as the calling convention says and hands the C library a `va_list`; on other
//! machines the text is printed without its arguments.

use std::ffi::{CStr, c_char};
#[cfg(target_arch = "x86_64")]
use std::ffi::{c_int, c_void};

use super::life::die;

/// Bytes of a message, longer ones are cut.
#[cfg(target_arch = "x86_64")]
const TEXT_BYTES: usize = 1024;

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    fn vsnprintf(into: *mut c_char, n: usize, format: *const c_char, list: *mut c_void) -> c_int;
}

/// Prints a message as `printf` does and ends the whole job with code 1.
///
/// # Safety
/// `format` is a string whose conversions fit the arguments.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn jia_error(format: *const c_char) {
    // The list: offsets of the next integer and floating argument, the arguments on the stack, and
    // the saved registers, whose first is the format.
    core::arch::naked_asm!(
        "sub rsp, 216",
        "mov [rsp + 40], rsi",
        "mov [rsp + 48], rdx",
        "mov [rsp + 56], rcx",
        "mov [rsp + 64], r8",
        "mov [rsp + 72], r9",
        "test al, al",
        "je 2f",
        "movaps [rsp + 80], xmm0",
        "movaps [rsp + 96], xmm1",
        "movaps [rsp + 112], xmm2",
        "movaps [rsp + 128], xmm3",
        "movaps [rsp + 144], xmm4",
        "movaps [rsp + 160], xmm5",
        "movaps [rsp + 176], xmm6",
        "movaps [rsp + 192], xmm7",
        "2:",
        "mov dword ptr [rsp], 8",
        "mov dword ptr [rsp + 4], 48",
        "lea rax, [rsp + 224]",
        "mov [rsp + 8], rax",
        "lea rax, [rsp + 32]",
        "mov [rsp + 16], rax",
        "mov rsi, rsp",
        "call {end}",
        "ud2",
        end = sym formatted,
    )
}

/// Formats and ends.
#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn formatted(format: *const c_char, list: *mut c_void) -> ! {
    if format.is_null() {
        die("jia_error with no text", 1);
    }
    let mut text = [0u8; TEXT_BYTES];
    // SAFETY: the buffer has so many bytes; the caller promises a format that fits its arguments,
    // which the list was built of.
    unsafe { vsnprintf(text.as_mut_ptr().cast(), TEXT_BYTES, format, list) };
    end(CStr::from_bytes_until_nul(&text).unwrap_or_default())
}

/// Prints a message and ends the whole job with code 1; its arguments are not read here.
///
/// # Safety
/// `format` is a string.
#[cfg(not(target_arch = "x86_64"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jia_error(format: *const c_char) {
    if format.is_null() {
        die("jia_error with no text", 1);
    }
    // SAFETY: the caller promises a string.
    end(unsafe { CStr::from_ptr(format) })
}

fn end(text: &CStr) -> ! {
    die(text.to_string_lossy().trim_end(), 1)
}
