//! Operation names of Meta's MTIA. Its control processor records waits, transfers and calls of other devices in
//! addition to compute jobs.

use crate::kernel_type::KernelType::{Communication, Memory, Other};
use crate::kernel_type::NameTest::{Exact, Prefix};
use crate::kernel_type::Rule;

/// Names of MTIA's operations that do not compute.
pub(super) const RULES: &[Rule] = &[
    (Exact("event_wait"), Other),
    (Exact("event_record"), Other),
    (Exact("dma_request"), Memory),
    (Exact("remote"), Other),
    (Prefix("remote_"), Other),
    (Prefix("collective_subgraph_execution"), Communication),
];
