//! Registry of analyses: one file and one line in [`ALL`] per analysis.
//!
//! The modules of HTA's and TraceLens' analyses are public: tests compare their tables with those of the tools, under
//! definitions and thresholds that no option selects.

mod checks;
mod clocks;
mod counters;
pub(crate) mod coverage;
mod devices;
mod fused_operators;
mod gpu_lines;
mod gpu_time;
pub mod hta_annotations;
pub mod hta_comm_comp_overlap;
pub mod hta_counters;
pub mod hta_idle_time;
pub mod hta_kernel_breakdown;
pub mod hta_launch_stats;
pub mod hta_memory_bandwidth;
pub mod hta_queue_length;
pub mod hta_temporal_breakdown;
mod logical_parents;
pub(crate) mod operators;
mod samples;
mod spans;
mod steps;
pub mod tl_coll_analysis;
pub mod tl_gpu_timeline;
pub mod tl_kernel_summary;
pub mod tl_ops_summary;
pub mod tl_ops_summary_by_category;
pub mod tl_ops_unique_args;
pub mod tl_short_kernels;

use crate::{Analysis, TableCommand};

/// All registered analyses, in the order in which commands print their tables.
#[rustfmt::skip]
pub const ALL: &[Analysis] = &[
    gpu_time::ANALYSIS,
    gpu_lines::ANALYSIS,
    steps::STEPS,
    operators::OPERATORS,
    tl_coll_analysis::COLL_ANALYSIS,
    hta_comm_comp_overlap::ANALYSIS,
    coverage::COVERAGE,
    tl_gpu_timeline::GPU_TIMELINE,
    tl_kernel_summary::KERNEL_SUMMARY,
    tl_ops_summary_by_category::OPS_SUMMARY_BY_CATEGORY,
    tl_ops_summary::OPS_SUMMARY,
    tl_ops_unique_args::OPS_UNIQUE_ARGS,
    spans::ANALYSIS,
    fused_operators::ANALYSIS,
    tl_short_kernels::SHORT_KERNELS,
    hta_temporal_breakdown::ANALYSIS,
    hta_idle_time::ANALYSIS,
    hta_kernel_breakdown::ANALYSIS,
    hta_launch_stats::ANALYSIS,
    hta_queue_length::ANALYSIS,
    hta_memory_bandwidth::ANALYSIS,
    hta_annotations::ANALYSIS,
    hta_counters::ANALYSIS,
    counters::ANALYSIS,
    samples::ANALYSIS,
    logical_parents::ANALYSIS,
    devices::ANALYSIS,
    clocks::CLOCKS,
    checks::CHECKS,
];

/// Analyses of a command, in the order of its tables.
pub fn analyses_for(command: TableCommand) -> impl Iterator<Item = &'static Analysis> {
    ALL.iter().filter(move |analysis| analysis.commands.contains(&command))
}

/// Find a registered analysis by name; `None` if no analysis has this name.
pub fn find(name: &str) -> Option<&'static Analysis> {
    ALL.iter().find(|a| a.name == name)
}

#[cfg(test)]
mod tests {
    use super::ALL;
    use crate::Display;

    #[test]
    fn commands_print_all_analyses_and_hide_tables_that_exist() {
        for analysis in ALL {
            assert!(!analysis.commands.is_empty(), "no command prints {}", analysis.name);
            if let Display::Except(hidden) = analysis.display {
                assert!(hidden.iter().all(|table| analysis.tables.contains(table)), "{}", analysis.name);
            }
        }
    }
}
