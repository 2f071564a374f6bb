//! Random programs against definitions taken literally.
#![allow(clippy::unwrap_used, reason = "a test: helpers may fail it, too")]

mod combine;
mod dead;
mod intra;
mod order;
mod patterns;
mod program;
mod replay;
mod training;
