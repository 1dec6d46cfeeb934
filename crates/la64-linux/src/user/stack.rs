//! The stack a program starts with: strings, argument and environment pointers, auxiliary vector.

use super::space::page_len;
use littoral_la64::memory::Window;

/// What the auxiliary vector says about the program.
pub(super) struct Auxiliary {
    pub(super) headers: u64,
    pub(super) headers_count: u64,
    pub(super) base: u64,
    pub(super) entry: u64,
    pub(super) machine: super::abi::Auxiliary,
}

struct Stack<'a> {
    window: &'a Window,
    bottom: u64,
    sp: u64,
}

impl Stack<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> Option<u64> {
        self.sp =
            self.sp.checked_sub(bytes.len() as u64).filter(|&sp| sp > self.bottom + page_len())?;
        self.window.write(self.sp, bytes)?;
        Some(self.sp)
    }

    fn string(&mut self, text: &[u8]) -> Option<u64> {
        self.bytes(&[text, b"\0"].concat())
    }

    fn strings(&mut self, list: &[Vec<u8>]) -> Option<Vec<u64>> {
        list.iter().map(|s| self.string(s)).collect()
    }
}

/// Builds it below `top`: the stack pointer and the auxiliary vector, or `None` if it does not fit
/// above `bottom`.
pub(super) fn build(
    window: &Window,
    bottom: u64,
    top: u64,
    argv: &[Vec<u8>],
    envp: &[Vec<u8>],
    name: &[u8],
    auxiliary: &Auxiliary,
) -> Option<(u64, Vec<u8>)> {
    let mut stack = Stack { window, bottom, sp: top - 8 };
    let name = stack.string(name)?;
    let platform = stack.string(auxiliary.machine.platform.1.as_bytes())?;
    let environment = stack.strings(envp)?;
    let arguments = stack.strings(argv)?;
    let random = stack.bytes(&entropy())?;
    let vector = vector(auxiliary, [name, platform, random]);
    let mut words = vec![arguments.len() as u64];
    words.extend(arguments);
    words.push(0);
    words.extend(environment);
    words.push(0);
    words.extend(&vector);
    stack.sp = (stack.sp - 8 * words.len() as u64) & !15;
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let sp = stack.sp;
    (sp > bottom + page_len()).then_some(())?;
    window.write(sp, &bytes)?;
    Some((sp, vector.iter().flat_map(|w| w.to_le_bytes()).collect()))
}

fn vector(a: &Auxiliary, [name, platform, random]: [u64; 3]) -> Vec<u64> {
    let id = |number| super::raw::call_now(&no_window(), number, &mut []) as u64;
    let mut pairs = vec![
        (3, a.headers),
        (4, 56),
        (5, a.headers_count),
        (6, page_len()),
        (7, a.base),
        (8, 0),
        (9, a.entry),
        (11, id(libc::SYS_getuid)),
        (12, id(libc::SYS_geteuid)),
        (13, id(libc::SYS_getgid)),
        (14, id(libc::SYS_getegid)),
        (a.machine.platform.0, platform),
        (16, a.machine.capabilities),
        (17, 100),
        (23, 0),
        (25, random),
        (31, name),
    ];
    pairs.extend(a.machine.stack_min.map(|len| (51, len)));
    pairs.push((0, 0));
    pairs.into_iter().flat_map(|(k, v)| [k, v]).collect()
}

/// Sixteen bytes from the host for the guest's stack protector.
fn entropy() -> [u8; 16] {
    use super::raw::Arg;
    let mut bytes = [0; 16];
    let args = &mut [Arg::Out(&mut bytes), Arg::Int(16), Arg::Int(0)];
    super::raw::call_now(&no_window(), libc::SYS_getrandom, args);
    bytes
}

/// A window for calls without guest addresses.
pub(super) fn no_window() -> Window {
    super::raw::empty_window()
}
