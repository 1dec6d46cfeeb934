//! Why a guest stopped: what its owner (a Linux process, a test) must answer. The same for the
//! translator and for the exact interpreter.

pub use littoral_la64::front::Event;
