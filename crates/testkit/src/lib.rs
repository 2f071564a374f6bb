//! Generators of traces for tests, demos and benchmarks; not a part of released programs.
//!
//! * [`mini`]: a trace of a few events, written as text in the test that uses it.
//! * [`demo`] simulates a few training steps and writes them as PyTorch's profiler (Kineto) does.
//! * [`simulator`] generates and runs training programs with a known critical path.
//! * [`kineto`] writes the JSON of all three.
//! * [`replicate`] makes a trace of any length from a real one, with shifted times and new ids.
//! * [`recording`] makes the streams of `stackline record` for a small training program.
//! * [`xspace`] writes the files of JAX's and TensorFlow's profilers.
//! * [`damage`] damages a trace in ways that occur in real files.
//! * [`mutate`] changes arbitrary bytes, for tests of parsers.
//! * [`corpus`] finds real traces.
//! * [`tables`] reads columns of tables.
//!
//! The output of generators depends only on a seed: the same call gives the same bytes on every machine.
//!
//! ```
//! use stackline_testkit::{damage, demo};
//! let trace = demo::generate(&demo::Config { steps: 1, layers: 1, ..demo::Config::default() });
//! let broken = damage::apply(damage::kind("truncated-text").unwrap(), trace.as_bytes(), 1);
//! assert!(broken.len() < trace.len());
//! ```
#![forbid(unsafe_code)]

pub mod corpus;
pub mod damage;
pub mod demo;
mod error;
pub mod io;
pub mod kineto;
pub mod mini;
pub mod mutate;
pub mod recording;
pub mod replicate;
pub mod rng;
pub mod scan;
pub mod simulator;
pub mod tables;
pub mod xspace;

pub use error::{Error, Result};
