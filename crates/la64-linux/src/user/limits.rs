//! The limits that a guest's process has set itself, or was started with: of addresses, private
//! writable memory and the stack. Until then the host's limits are its own.
//!
//! - Mappings of the guest are held against them (see `space`); a limit of the stack is the length
//!   of the first stack of what the process runs next.
//! - A program that runs on the host gets them as the host's.

use super::raw::{self, Arg, empty_window};
use crate::limits::{Limit, Resource, UNLIMITED};

/// The shortest and the longest first stack that a limit gives, in bytes.
const STACK_LEN: (u64, u64) = (64 << 10, 1 << 30);
const PAGE: u64 = 4096;

/// Limits that are not the host's, as soft and hard ones, in the places of `Resource::ALL`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits([Option<[u64; 2]>; Resource::ALL.len()]);

impl Limits {
    pub(super) fn of(list: &[Limit]) -> Limits {
        let mut limits = Limits::default();
        list.iter().for_each(|limit| limits.set(limit.resource, [limit.soft, limit.hard]));
        limits
    }

    /// Those that are not the host's.
    pub(super) fn list(&self) -> Vec<Limit> {
        let limit = |resource: Resource| {
            let [soft, hard] = self.0[resource as usize]?;
            Some(Limit { resource, soft, hard })
        };
        Resource::ALL.into_iter().filter_map(limit).collect()
    }

    /// The soft and the hard limit.
    pub(super) fn get(&self, resource: Resource) -> [u64; 2] {
        self.0[resource as usize].unwrap_or_else(|| of_host(resource))
    }

    pub(super) fn set(&mut self, resource: Resource, limit: [u64; 2]) {
        self.0[resource as usize] = Some(limit);
    }

    /// The most bytes of a resource, if the guest's own limit bounds them.
    pub(super) fn most(&self, resource: Resource) -> Option<u64> {
        self.0[resource as usize].map(|[soft, _]| soft).filter(|&soft| soft != UNLIMITED)
    }

    /// The length of the first stack, if a limit gives it.
    pub(super) fn stack_len(&self) -> Option<u64> {
        let [soft, _] = self.0[Resource::Stack as usize]?;
        Some(soft.clamp(STACK_LEN.0, STACK_LEN.1).next_multiple_of(PAGE))
    }

    /// The text of /proc/self/limits, from the host's.
    pub(super) fn text(&self, host: &str) -> String {
        let list = self.list();
        let line = |line: &str| match list.iter().find(|l| line.starts_with(title(l.resource))) {
            Some(limit) => shown(limit),
            None => format!("{line}\n"),
        };
        host.lines().map(line).collect()
    }
}

/// A line of /proc/self/limits.
fn shown(limit: &Limit) -> String {
    let [soft, hard] = [limit.soft, limit.hard].map(|value| match value {
        UNLIMITED => String::from("unlimited"),
        bytes => bytes.to_string(),
    });
    format!("{:<25} {soft:<20} {hard:<20} bytes     \n", title(limit.resource))
}

/// What the kernel calls a resource in /proc/self/limits.
fn title(resource: Resource) -> &'static str {
    match resource {
        Resource::Data => "Max data size",
        Resource::Stack => "Max stack size",
        Resource::Addresses => "Max address space",
    }
}

/// The kernel's number.
fn number(resource: Resource) -> u64 {
    match resource {
        Resource::Data => libc::RLIMIT_DATA as u64,
        Resource::Stack => libc::RLIMIT_STACK as u64,
        Resource::Addresses => libc::RLIMIT_AS as u64,
    }
}

/// The resource of one of the kernel's numbers, if it is counted here.
pub(super) fn of_number(asked: u64) -> Option<Resource> {
    Resource::ALL.into_iter().find(|&resource| number(resource) == asked & 0xffff_ffff)
}

/// The host's limit of this process.
fn of_host(resource: Resource) -> [u64; 2] {
    host_limit(number(resource))
}

/// The host's limit of this process, soft and hard, by the kernel's number.
pub(super) fn host_limit(number: u64) -> [u64; 2] {
    let mut found = [0; 16];
    let list = &mut [Arg::Int(0), Arg::Int(number), Arg::Int(0), Arg::Out(&mut found)];
    let done = raw::call_now(&empty_window(), libc::SYS_prlimit64, list);
    let value = |at: usize| {
        u64::from_le_bytes(found[at..at + 8].try_into().expect("invariant: eight bytes"))
    };
    if done == 0 { [value(0), value(8)] } else { [UNLIMITED; 2] }
}

/// Makes limits the host's for this process, as far as its hard ones allow; those that were. Behind
/// the first of them no memory is allocated, which might be refused.
pub(super) fn exchange(limits: &[Limit]) -> Vec<Limit> {
    let mut before = Vec::with_capacity(limits.len());
    for &Limit { resource, soft, .. } in limits {
        let [was, hard] = of_host(resource);
        let mut new = [0; 16];
        new[..8].copy_from_slice(&soft.min(hard).to_le_bytes());
        new[8..].copy_from_slice(&hard.to_le_bytes());
        let list = &mut [Arg::Int(0), Arg::Int(number(resource)), Arg::In(&new), Arg::Int(0)];
        // One that the host refuses stays as it was.
        raw::call_now(&empty_window(), libc::SYS_prlimit64, list);
        before.push(Limit { resource, soft: was, hard });
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_the_guests_stand_in_proc() {
        let line = |name: &str, soft: &str, hard: &str, unit: &str| {
            format!("{name:<25} {soft:<20} {hard:<20} {unit:<10}\n")
        };
        let lines = |data: &str, addresses: &str| {
            [
                line("Limit", "Soft Limit", "Hard Limit", "Units"),
                line("Max data size", data, data, "bytes"),
                line("Max stack size", "8388608", "unlimited", "bytes"),
                line("Max address space", addresses, "unlimited", "bytes"),
            ]
            .concat()
        };
        let own = ["as=1GiB:unlimited", "data=4096"].map(|text| text.parse::<Limit>().unwrap());
        let text = Limits::of(&own).text(&lines("unlimited", "unlimited"));
        assert_eq!(text, lines("4096", "1073741824"));
    }

    #[test]
    fn a_limit_of_the_stack_gives_its_length() {
        let len = |text: &str| Limits::of(&[text.parse::<Limit>().unwrap()]).stack_len();
        assert_eq!(len("as=4096"), None);
        assert_eq!(len("stack=100000"), Some(102_400));
        assert_eq!(len("stack=0"), Some(STACK_LEN.0));
        assert_eq!(len("stack=unlimited"), Some(STACK_LEN.1));
    }
}
