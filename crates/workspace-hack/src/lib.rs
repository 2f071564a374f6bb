//! Nothing but dependencies: see `Cargo.toml`.
#![forbid(unsafe_code)]
