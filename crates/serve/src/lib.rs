//! The page: a server for the browser ([`serve`](serve())), and the page with all that it shows in one file ([`report`](report())).
//!
//! Both give the page the same answers of `stackline-query`; it does not know which of them it has.
#![forbid(unsafe_code)]

mod guard;
mod page;
mod report;
mod request_coalescing;
mod server;

pub use page::is_built;
pub use report::{Pruned, ReportOptions, report};
pub use server::{Running, ServeError, Server, serve};
