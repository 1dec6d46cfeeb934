//! Ordered indexes on zoned storage.
//!
//! - [`zb`]: the ZB+-tree of paper 000, repaired: leaves and inner bodies in conventional or
//!   sequential zones, heads that cut the cascade of updates, logs matched by slot.
//! - [`cow`]: the copy-on-write B+-tree that it is measured against.
//! - [`tree`]: what both have in common.
//! - [`index`]: either tree on a store: room kept, zones collected, power cuts survived.
//! - [`inspect`]: which pages a tree can have written; asked once of each page read.
//! - [`kv`]: an index on an opened device, as the command line uses it.
//! - [`salvage`]: what can be saved of a damaged store; [`backup`]: a store at rest as one file.
//! - [`layout`]: page layouts shared by both.
//!
//! Both trees are generic over [`littoral_store::pages::Pages`]: the same code runs in figure mode,
//! where blocks are only counted, and on a store that survives power cuts. Records have fixed
//! sizes; keys are compared as bytes.

#![forbid(unsafe_code)]

pub mod backup;
pub mod cow;
mod engine;
mod gathered;
mod guess;
pub mod index;
pub mod inspect;
pub mod kv;
pub mod layout;
pub mod salvage;
pub mod tree;
pub mod zb;

pub use littoral_store::{Error, Kind, Result};
