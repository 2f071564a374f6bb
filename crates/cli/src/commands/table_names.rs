//! Names of tables by the command that prints them, for who asks another command.

/// The tables of each command; a table of several commands is first in that which is about it.
const TABLES: [(&str, &[&str]); 10] = [
    ("steps", &["steps", "steps_spread", "coverage"]),
    (
        "kernels",
        &[
            "gpu_time",
            "gpu_kernels",
            "gpu_lines",
            "coverage",
            "kernel_summary",
            "fused_operators",
            "short_kernels_summary",
            "short_kernel_histogram",
            "hta_kernel_types",
            "hta_kernels",
            "hta_kernels_top",
            "launch_stats",
            "hta_launch_stats",
            "hta_launches",
        ],
    ),
    (
        "operators",
        &[
            "operators",
            "operator_tree",
            "coverage",
            "ops_summary_by_category",
            "ops_summary",
            "ops_unique_args",
            "ops_unique_args_kernels",
            "spans",
        ],
    ),
    ("collectives", &["coll_analysis", "comm_comp_overlap", "hta_comm_comp_overlap", "coverage", "rank_clocks"]),
    (
        "timeline",
        &[
            "gpu_time",
            "gpu_kernels",
            "coverage",
            "gpu_timeline",
            "hta_temporal_breakdown",
            "idle_time",
            "hta_idle_time",
            "hta_idle_intervals",
            "hta_queue_length_summary",
            "hta_full_queue",
            "hta_queue_length",
            "memory_bandwidth",
            "hta_memory_bandwidth_summary",
            "hta_memory_bandwidth",
            "kernels_by_annotation",
            "hta_gpu_annotations",
            "hta_cpu_annotations",
            "hta_kernels_by_annotation",
            "hta_counters",
            "counters",
            "samples",
            "logical_parents",
            "devices",
            "clocks",
        ],
    ),
    ("check", &["checks", "check_events"]),
    ("critical-path", &["bound_by", "story", "top", "large_but_harmless", "steps", "hops", "slack"]),
    ("findings", &["findings", "not_checked", "ignored"]),
    (
        "memory",
        &[
            "memory_peaks",
            "memory_composition",
            "memory_at_peak",
            "memory_alive",
            "memory_allocator",
            "memory_out_of_memory",
            "memory_waste",
            "memory_suggestions",
            "memory_applied",
            "memory_objects",
            "memory_curve",
            "memory_ranks",
            "memory_rank_difference",
            "memory_series",
            "memory_growth",
            "findings",
            "not_checked",
        ],
    ),
    ("calls", &["calls", "call_lines"]),
];

/// The other command that prints a table, for a command that prints the tables `own`.
pub(crate) fn command_with(table: &str, own: &[&str]) -> Option<&'static str> {
    let has = |tables: &[&str]| tables.contains(&table) && !own.iter().all(|name| tables.contains(name));
    TABLES.iter().find(|(_, tables)| has(tables)).map(|(command, _)| *command)
}

#[cfg(test)]
mod tests {
    use super::{TABLES, command_with};
    use crate::commands::tables::{CHECK, COLLECTIVES, KERNELS, OPERATORS, STEPS, TIMELINE};
    use crate::session;
    use stackline_ingest::{ReadOptions, read_bytes};
    use stackline_testkit::mini;

    #[test]
    fn the_tables_of_each_command_are_known() {
        let json = mini::trace(
            "1/1     user_annotation  ProfilerStep#0    0..200
             1/1     cpu_op           aten::mul         0..20
             1/1     cuda_runtime     cudaLaunchKernel  5..10   correlation=1
             gpu0/7  kernel           product           30..40  correlation=1",
        );
        let trace = read_bytes("t", json.as_bytes(), &ReadOptions::default()).unwrap();
        let commands = [
            ("steps", STEPS),
            ("kernels", KERNELS),
            ("operators", OPERATORS),
            ("collectives", COLLECTIVES),
            ("timeline", TIMELINE),
            ("check", CHECK),
        ];
        for (command, analyses) in commands {
            let (_, known) = TABLES.iter().find(|(name, _)| *name == command).unwrap();
            let tables =
                stackline_engine::run_trace(&trace, &session::analyses(analyses), &Default::default()).unwrap();
            for table in tables {
                assert!(known.contains(&&*table.name), "{command} prints {}", table.name);
            }
        }
    }

    #[test]
    fn another_command_is_named() {
        let timeline = ["gpu_time", "coverage", "gpu_timeline"];
        assert_eq!(command_with("fused_operators", &timeline), Some("kernels"));
        assert_eq!(command_with("memory_waste", &timeline), Some("memory"));
        assert_eq!(command_with("fused_operator", &timeline), None);
        assert_eq!(command_with("memory_curve", &["memory_peaks", "findings"]), None, "it is that command");
    }
}
