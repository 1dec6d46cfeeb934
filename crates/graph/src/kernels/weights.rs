//! Which weights a kernel uses: those in the file, or seeded ones where a file has none.

use littoral_base::rng::mix;

use crate::error::{Error, Kind, Result};
use crate::format::file::GraphFile;

/// Where the weights of edges come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// From the file where it has weights, else seeded.
    #[default]
    Auto,
    /// From the file; a file without weights is refused.
    Stored,
    /// Seeded whole numbers from 1 to 255, whatever the file has ([`seeded_weight`]).
    Seeded,
}

impl Weights {
    pub(super) const ALL: [Weights; 3] = [Weights::Auto, Weights::Stored, Weights::Seeded];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Weights::Auto => "auto",
            Weights::Stored => "stored",
            Weights::Seeded => "seeded",
        }
    }

    /// The source of that name.
    ///
    /// # Errors
    /// `Kind::Argument`, naming the legal ones.
    pub fn named(name: &str) -> Result<Weights> {
        let found = Weights::ALL.into_iter().find(|source| source.name() == name);
        found.ok_or_else(|| {
            let legal = Weights::ALL.map(Weights::name).join(", ");
            Error::new(Kind::Argument, format!("--weights {name}: it is one of {legal}"))
        })
    }

    /// Whether the weights of `graph` are read from its file.
    ///
    /// # Errors
    /// `Kind::Argument` when they are asked for and the file has none.
    pub(super) fn are_stored(self, graph: &GraphFile) -> Result<bool> {
        match (self, graph.is_weighted()) {
            (Weights::Seeded, _) | (Weights::Auto, false) => Ok(false),
            (Weights::Auto | Weights::Stored, true) => Ok(true),
            (Weights::Stored, false) => {
                let context = format!(
                    "{} has no weights; --weights seeded gives each edge one from 1 to 255, the \
                     same in every run",
                    graph.path().display()
                );
                Err(Error::new(Kind::Argument, context))
            }
        }
    }
}

/// The seeded weight of the edge between two vertices: a whole number from 1 to 255 that depends on
/// the two ids alone, the same in both directions.
///
/// Both ends are numbers of one numbering: in a kernel the internal ids of the file.
#[inline(always)]
pub fn seeded_weight(a: u32, b: u32) -> f32 {
    const SEED: u64 = 27_491_095;
    let pair = u64::from(a.min(b)) << 32 | u64::from(a.max(b));
    // The high bits of a product are the remainder's without a division.
    let draw = mix(pair ^ SEED) >> 32;
    (1 + ((draw * 255) >> 32)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_weights_are_symmetric_whole_and_even_over_their_range() {
        let mut counts = [0u32; 256];
        for a in 0..1000u32 {
            for b in 0..100 {
                let weight = seeded_weight(a, b);
                assert_eq!(weight.to_bits(), seeded_weight(b, a).to_bits());
                assert_eq!(weight.fract(), 0.0);
                counts[weight as usize] += 1;
            }
        }
        assert_eq!(counts[0], 0);
        assert!(counts[1..].iter().all(|&c| (200..600).contains(&c)), "{counts:?}");
    }
}
