//! The web page of a run: an HTTP server for the browser ([`serve`](serve())), and a single HTML file with its data
//! ([`report`](report())).
//!
//! Both give the page the same answers of `stackline-query`; the page does not depend on the source of its answers.
#![forbid(unsafe_code)]

mod guard;
mod page;
mod report;
mod request_coalescing;
mod server;

pub use page::is_built;
pub use report::{ReportOptions, WrittenReport, report};
pub use server::{Running, ServeError, Server, serve};
