//! Computing near storage (paper 001, Summarizer): a device that runs page functions on pages as
//! they leave the flash, and a policy that splits the work with the host by load.

pub mod cost;
pub mod error;
pub mod function;
pub mod page;
