//! The whole protocol as a state machine: inputs are a program's operations and messages, outputs
//! are messages and "the operation is done". No input or output happens here, so every interleaving
//! can be explored (`tests/model_scope.rs`).
//!
//! Home-based, multiple-writer, write-invalidate, scope consistent (paper 002, the protocol of
//! JIAJIA). [`rank::Rank`] is one rank: its pages, its open sections, the homes and managers it
//! hosts. [`lock`] and [`barrier`] are the managers, [`diff`] what a page's writer sends home,
//! [`message`] what travels and [`wire`] its bytes. [`shared`] is what ranks of one machine tell
//! each other in memory instead.

pub mod barrier;
pub mod diff;
pub mod frames;
pub mod lock;
pub mod message;
pub(crate) mod pages;
pub mod rank;
pub mod shared;
pub mod wire;
