//! Traces for tests, demos and benchmarks; nothing that ships uses them.
//!
//! * [`mini`]: a trace of a few events, written as text in the test that needs it.
//! * [`demo`] simulates a few training steps and writes them as PyTorch's profiler (Kineto) would.
//! * [`simulator`] draws and runs training programs whose critical path is known.
//! * [`kineto`] writes the JSON of all three.
//! * [`replicate`] makes a trace of any length out of a real one: shifted times, fresh ids.
//! * [`recording`] makes the streams that `stackline record` would have of a small training program.
//! * [`xspace`] writes the files of JAX's and TensorFlow's profilers.
//! * [`damage`] breaks a trace in each of the ways that were seen in files from the wild.
//! * [`mutate`] changes any bytes blindly, for tests of parsers.
//! * [`corpus`] finds real traces.
//! * [`tables`] takes columns of tables apart.
//!
//! What is generated is fixed by a seed: the same call gives the same bytes on every machine.
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
