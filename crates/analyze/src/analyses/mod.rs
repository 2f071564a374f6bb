//! The registry of analyses: one file each, one line each in [`ALL`].

mod coverage;
pub mod tl_coll_analysis;
pub mod tl_gpu_timeline;
pub mod tl_kernel_summary;
mod tl_operators;
pub mod tl_ops_summary;
pub mod tl_ops_summary_by_category;
pub mod tl_ops_unique_args;
pub mod tl_short_kernels;
mod tl_steps;

use crate::Analysis;

/// Every registered analysis, in the order of `--help`.
#[rustfmt::skip]
pub const ALL: &[Analysis] = &[
    coverage::COVERAGE,
    tl_gpu_timeline::GPU_TIMELINE,
    tl_kernel_summary::KERNEL_SUMMARY,
    tl_ops_summary_by_category::OPS_SUMMARY_BY_CATEGORY,
    tl_ops_summary::OPS_SUMMARY,
    tl_ops_unique_args::OPS_UNIQUE_ARGS,
    tl_operators::OPERATORS,
    tl_short_kernels::SHORT_KERNELS,
    tl_coll_analysis::COLL_ANALYSIS,
    tl_steps::STEPS,
];

/// The analysis with this name.
pub fn find(name: &str) -> Option<&'static Analysis> {
    ALL.iter().find(|a| a.name == name)
}
