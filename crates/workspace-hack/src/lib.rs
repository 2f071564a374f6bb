//! Dependencies only: see `Cargo.toml`.
#![forbid(unsafe_code)]
