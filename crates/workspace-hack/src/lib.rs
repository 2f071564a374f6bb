//! Empty crate that only unifies dependency features of the workspace: see `Cargo.toml`.
#![forbid(unsafe_code)]
