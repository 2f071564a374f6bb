//! Small documents made by hand, each for one form of the `chrome` format, with the rows that it must give.

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
