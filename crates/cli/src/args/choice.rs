//! Choices on the command line: one word for each variant of a library's enum.
//!
//! - A variant has its word in one place: the library's `name`, or the list below.
//! - The lists match on every variant, so that a new one does not compile until it has a word.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use littoral::dsm::memory::Mechanism;
use littoral::dsm::virtual_time::Compute;
use littoral::graph::builder::Order;
use littoral::graph::generate::Model;
use littoral::graph::import::Ids;
use littoral::index::index::Engine;
use littoral::push::page::Format;
use littoral_bench::ycsb::Distribution;

/// A library's enum whose variants are words of the command line.
pub(crate) trait Words: Copy + Send + Sync + 'static {
    const ALL: &'static [OneOf<Self>];
    fn word(self) -> &'static str;
}

/// One of them, as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OneOf<T>(pub(crate) T);

impl<T: Words> ValueEnum for OneOf<T> {
    fn value_variants<'a>() -> &'a [Self] {
        T::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.word()))
    }
}

/// Lists the variants of an enum, each with its word.
macro_rules! words {
    ($type:ident: $($variant:ident = $word:expr),+ $(,)?) => {
        impl Words for $type {
            const ALL: &'static [OneOf<Self>] = &[$(OneOf($type::$variant)),+];

            fn word(self) -> &'static str {
                match self {
                    $($type::$variant => $word,)+
                }
            }
        }
    };
}

words!(Engine: Zb = Engine::Zb.name(), Cow = Engine::Cow.name());
words!(Distribution:
    Zipfian = Distribution::Zipfian.name(),
    Uniform = Distribution::Uniform.name(),
    Latest = Distribution::Latest.name());
words!(Format: Columns = Format::Columns.name(), Text = Format::Text.name());
words!(Ids: Numbers = "numbers", Text = "text");
words!(Order: Degree = "degree", Input = "input", Bfs = "bfs", Auto = "auto");
words!(Model:
    Kron = Model::Kron.name(),
    Urand = Model::Urand.name(),
    Road = Model::Road.name());
words!(Compute: Declared = Compute::Declared.name(), Processor = Compute::Processor.name());
words!(Mechanism:
    Userfaultfd = Mechanism::Userfaultfd.name(),
    Mprotect = Mechanism::Mprotect.name());

#[cfg(test)]
mod tests {
    use super::*;

    fn differ<T: Words>() {
        let words: Vec<&str> = T::ALL.iter().map(|c| c.0.word()).collect();
        let mut sorted = words.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), words.len(), "{words:?}");
        for (choice, word) in T::ALL.iter().zip(words) {
            let parsed = <OneOf<T> as ValueEnum>::from_str(word, false).unwrap();
            assert_eq!(parsed.0.word(), choice.0.word());
        }
    }

    #[test]
    fn every_variant_has_a_word_of_its_own() {
        differ::<Engine>();
        differ::<Distribution>();
        differ::<Format>();
        differ::<Ids>();
        differ::<Order>();
        differ::<Model>();
        differ::<Compute>();
        differ::<Mechanism>();
    }
}
