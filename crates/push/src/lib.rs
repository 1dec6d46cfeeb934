//! Computing near storage (paper 001, Summarizer): a device that runs page functions on pages as
//! they leave the flash, and a policy that splits the work with the host by load.

pub mod api;
pub mod catalogue;
pub mod command;
pub mod cost;
pub mod data;
pub mod device;
pub mod error;
pub mod fault;
pub mod fluid;
pub mod function;
pub mod oracle;
pub mod page;
pub mod policy;
pub mod query;
pub mod queue;
pub mod roads;
pub mod serve;
