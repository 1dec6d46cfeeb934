//! Named counts with units, cheap to bump and easy to print.
//!
//! A component declares its counters as a plain struct through [`counters!`](crate::counters!); the
//! struct snapshots, subtracts and lists itself, so reports never spell a counter's name twice.
//!
//! Invariant: a counter only grows; a difference of two snapshots is what happened between them.
//! Checked by `snapshots_subtract_and_add`.

/// One counter as a report sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Name with the unit last, such as `reads_count` or `read_bytes`.
    pub name: &'static str,
    /// What is counted, in one sentence.
    pub meaning: &'static str,
    /// The count.
    pub value: u64,
}

/// Declares a struct of `Cell<u64>` counters for one thread, and its plain-`u64` snapshot.
///
/// ```
/// littoral_base::counters! {
///     /// What a device did.
///     pub struct DeviceCounters => DeviceCounts {
///         /// Read requests accepted.
///         reads_count,
///         /// Bytes delivered.
///         read_bytes,
///     }
/// }
/// let c = DeviceCounters::default();
/// c.reads_count.set(c.reads_count.get() + 1);
/// assert_eq!(c.snapshot().reads_count, 1);
/// assert_eq!(c.snapshot().readings()[0].name, "reads_count");
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$doc:meta])* $vis:vis struct $live:ident => $snap:ident {
        $($(#[doc = $meaning:literal])+ $name:ident),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        $vis struct $live {
            $($(#[doc = $meaning])+ pub $name: ::std::cell::Cell<u64>,)*
        }

        /// A snapshot of the counters of the same name.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $snap {
            $($(#[doc = $meaning])+ pub $name: u64,)*
        }

        impl $live {
            /// The counts so far.
            $vis fn snapshot(&self) -> $snap {
                $snap { $($name: self.$name.get(),)* }
            }
        }

        impl $snap {
            /// What happened since `earlier`.
            #[must_use]
            $vis fn since(&self, earlier: &$snap) -> $snap {
                $snap { $($name: self.$name - earlier.$name,)* }
            }

            /// The sum with another snapshot, counter by counter.
            #[must_use]
            $vis fn plus(&self, other: &$snap) -> $snap {
                $snap { $($name: self.$name + other.$name,)* }
            }

            /// Every counter with its name and meaning.
            $vis fn readings(&self) -> Vec<$crate::counters::Reading> {
                vec![$($crate::counters::Reading {
                    name: stringify!($name),
                    meaning: concat!($($meaning),+).trim_ascii(),
                    value: self.$name,
                },)*]
            }
        }
    };
}

/// Adds `by` to a one-thread counter.
#[inline(always)]
pub fn bump(counter: &std::cell::Cell<u64>, by: u64) {
    counter.set(counter.get() + by);
}

#[cfg(test)]
mod tests {
    use super::bump;

    counters! {
        /// For the test.
        struct Live => Snap {
            /// First.
            a_count,
            /// Second.
            b_bytes,
        }
    }

    #[test]
    fn snapshots_subtract_and_add() {
        let live = Live::default();
        bump(&live.a_count, 2);
        let before = live.snapshot();
        bump(&live.a_count, 3);
        bump(&live.b_bytes, 64);
        let d = live.snapshot().since(&before);
        assert_eq!(d, Snap { a_count: 3, b_bytes: 64 });
        assert_eq!(d.plus(&before), live.snapshot());
        assert_eq!(d.readings()[1].meaning, "Second.");
    }
}
