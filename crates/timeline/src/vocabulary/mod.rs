//! Names used by frameworks, libraries and tools, as data: one module per producer.

pub mod allocations;
pub mod aten;
pub mod autograd;
pub mod categories;
pub mod cuda;
mod deep_ep;
mod engines;
pub mod kernels;
pub(crate) mod libraries;
mod mtia;
pub(crate) mod packages;
pub mod python;
pub mod recorders;
mod rocm;
pub mod xla;

use crate::kernel_type::{KernelType, Rule, by_name};

/// Rules of all producers, in order of precedence: communication before copies.
const PARTS: [&[Rule]; 6] = [libraries::RULES, deep_ep::RULES, engines::RULES, rocm::RULES, mtia::RULES, xla::RULES];

/// Number of the rules of all producers.
const fn total() -> usize {
    let (mut sum, mut part) = (0, 0);
    while part < PARTS.len() {
        sum += PARTS[part].len();
        part += 1;
    }
    sum
}

/// Concatenate the rules of all producers at compile time.
const fn all() -> [Rule; total()] {
    let mut rules = [PARTS[0][0]; total()];
    let (mut at, mut part) = (0, 0);
    while part < PARTS.len() {
        let mut rule = 0;
        while rule < PARTS[part].len() {
            rules[at] = PARTS[part][rule];
            at += 1;
            rule += 1;
        }
        part += 1;
    }
    rules
}

/// Rules of all producers in one list.
pub(crate) const KERNEL_RULES: [Rule; total()] = all();

/// Test if a collective kernel is one of an inference engine, whose next operation usually needs its result.
#[must_use]
pub fn is_of_engine(kernel: &str) -> bool {
    let is_collective = |rules: &[Rule]| by_name(rules, kernel) == KernelType::Communication;
    is_collective(engines::RULES) && !is_collective(libraries::RULES)
}

/// Kernel argument with stall samples by reason: `{"memory_dependency": 120, …}`.
pub const STALL_REASON: &str = "stall_reasons";
