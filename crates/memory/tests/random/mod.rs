//! Random programs, compared with literal definitions.

mod combine;
mod dead;
mod intra;
mod order;
mod patterns;
mod program;
mod replay;
mod training;
