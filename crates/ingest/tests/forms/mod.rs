//! Small hand-made documents, each for one form of the `chrome` format, with the expected rows.

mod categories;
mod codes;
mod device_rows;
mod dump;
mod identity;
mod kineto;
mod launches;
mod plain;
mod spans;
mod streams;
mod xprof;
