//! Where translated code lies in the window, beside the guest's memory.
//!
//! - Code: areas of 16 MiB below 4 GiB, each named by the highest byte of its 32-bit addresses.
//! - Entries: for each address at which a guest instruction may begin, a word of 32 bits that holds
//!   the address of its LA64 code, or 0.
//!
//! An indirect jump of the guest loads the word of its target and jumps to what it finds. Where
//! instructions are 4 bytes long, the word lies at `target + entries`; a target that is no multiple
//! of 4 reads a mix of two words. Where they begin anywhere, the word lies at `4 * target +
//! entries`, and the product is made by a rotation, so a target beyond 2^62 reads a mix, too. Such
//! a mix never lies in a code area:
//! its highest byte is one of the lower three bytes of an entry, and [`Layout::admits`] refuses
//! entries in which one of these equals the highest byte of an area.
//!
//! A negative target reads in front of the table, which is the guest's memory: a guest that puts
//! the address of translated code there can jump to it. That harms the guest alone; the engine
//! answers [`crate::event::Event::Fetch`] where no region is.
//!
//! Invariants
//! - No mix of two entries leads into code. Checked by `no_mix_of_two_entries_leads_into_code`.

/// Bytes of a code area.
pub const AREA_BYTES: u64 = 1 << 24;

/// Addresses that a translator uses beside the guest's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Highest bytes of the code areas' addresses; each is 2 more than a multiple of 4.
    pub areas: Vec<u8>,
    /// Where the entry of guest address 0 lies.
    pub entries: u64,
    /// Guest addresses end here.
    pub guest_end: u64,
    /// Guest instructions begin at multiples of this: 1 or 4.
    pub alignment: u64,
}

impl Layout {
    /// The layout for a Linux program: code in four areas from 0xf2000000 on, entries behind
    /// `guest_end`.
    pub fn linux(guest_end: u64) -> Layout {
        let areas = (0..4).map(|n| 0xf2 + 4 * n).collect();
        Layout { areas, entries: guest_end, guest_end, alignment: 4 }
    }

    /// The same for a guest whose instructions begin anywhere.
    pub fn linux_of_bytes(guest_end: u64) -> Layout {
        Layout { alignment: 1, ..Layout::linux(guest_end) }
    }

    /// Whether a guest instruction may begin at an address.
    pub fn is_guest(&self, pc: u64) -> bool {
        pc < self.guest_end && pc.is_multiple_of(self.alignment)
    }

    /// Where the entry of a guest address lies.
    pub fn entry(&self, pc: u64) -> u64 {
        debug_assert!(self.is_guest(pc), "{pc:#x} has no entry");
        pc * (4 / self.alignment) + self.entries
    }

    /// Where code areas begin.
    pub fn begins(&self) -> impl Iterator<Item = u64> {
        (0..self.areas.len()).filter_map(move |n| self.area(n))
    }

    /// The memory that is the translator's: code areas as one range, and the table of entries.
    pub fn places(&self) -> Vec<std::ops::Range<u64>> {
        let code = self.begins().min().zip(self.begins().max());
        let code = code.map(|(first, last)| first..last + AREA_BYTES);
        let table = self.entries..self.entries + self.guest_end * (4 / self.alignment);
        code.into_iter().chain(std::iter::once(table)).collect()
    }

    /// Where the n-th code area begins.
    pub fn area(&self, n: usize) -> Option<u64> {
        self.areas.get(n).map(|&byte| u64::from(byte) << 24)
    }

    /// Whether an address lies in a code area.
    pub fn is_code(&self, address: u64) -> bool {
        address >> 32 == 0 && self.areas.contains(&((address >> 24) as u8))
    }

    /// Whether an address may be an entry.
    pub fn admits(&self, address: u64) -> bool {
        let bytes = (address as u32).to_le_bytes();
        self.is_code(address) && !bytes[..3].iter().any(|b| self.areas.contains(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mix_of_two_entries_leads_into_code() {
        let layout = Layout::linux(1 << 40);
        let mut entries = vec![0u64];
        let mut address = layout.area(0).expect("an area");
        while layout.is_code(address) {
            if layout.admits(address) {
                entries.push(address);
            }
            address += 0x1_014c;
        }
        assert!(entries.len() > 100);
        for &low in &entries {
            for &high in &entries {
                for bits in [8, 16, 24] {
                    let mix = (low >> bits | high << (32 - bits)) & 0xffff_ffff;
                    assert!(!layout.is_code(mix), "{low:x} {high:x} {bits}");
                }
            }
        }
    }
}
