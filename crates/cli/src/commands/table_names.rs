//! Table names by command, for a hint if the user requests a table from the wrong command.

use super::findings::IGNORED;
use stackline_analyze::TableCommand;
use stackline_analyze::analyses::analyses_for;
use stackline_calls::{CALL_LINES, CALLS};
use stackline_critical_path::exact;
use stackline_engine::RANK_CLOCKS;
use stackline_findings::{FINDINGS, UNCHECKED};
use stackline_memory::tables::{NAMES, NAMES_OF_COMPARISON};

/// Names of the tables of each command; the most relevant command of a shared table comes first.
fn tables() -> [(&'static str, Vec<&'static str>); 11] {
    let with_command = |command: TableCommand, more: &[&'static str]| {
        let tables = analyses_for(command).flat_map(|analysis| analysis.tables);
        tables.chain(more).copied().collect()
    };
    [
        ("steps", with_command(TableCommand::Steps, &[])),
        ("kernels", with_command(TableCommand::Kernels, &[])),
        ("operators", with_command(TableCommand::Operators, &[])),
        ("collectives", with_command(TableCommand::Collectives, &[RANK_CLOCKS])),
        ("timeline", with_command(TableCommand::Timeline, &[])),
        ("check", with_command(TableCommand::Check, &[])),
        ("critical-path", exact::TABLES.to_vec()),
        ("findings", vec![FINDINGS, UNCHECKED, IGNORED]),
        ("memory", NAMES.into_iter().chain([FINDINGS, UNCHECKED]).collect()),
        ("diff", NAMES_OF_COMPARISON.to_vec()),
        ("calls", vec![CALLS, CALL_LINES]),
    ]
}

/// Renamed tables: old name, new name.
const RENAMED: [(&str, &str); 3] =
    [("hops", "segments"), ("large_but_harmless", "false_hotspots"), ("story", "summary")];

/// New name of a table that an earlier version of the program named differently.
pub(crate) fn new_name(table: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(old, _)| *old == table).map(|(_, new)| *new)
}

/// Find another command that prints a table; `own` are the tables of the requested command.
pub(crate) fn command_with(table: &str, own: &[&str]) -> Option<&'static str> {
    let has = |tables: &[&str]| tables.contains(&table) && !own.iter().all(|name| tables.contains(name));
    tables().iter().find(|(_, tables)| has(tables)).map(|(command, _)| *command)
}

#[cfg(test)]
mod tests {
    use super::{RENAMED, command_with, new_name};

    #[test]
    fn renamed_tables_exist() {
        for (old, new) in RENAMED {
            assert_eq!((command_with(old, &["gpu_time"]), new_name(old)), (None, Some(new)), "{old}");
            assert_eq!(command_with(new, &["gpu_time"]), Some("critical-path"), "{new}");
        }
    }

    #[test]
    fn command_with_the_table_is_suggested() {
        let timeline = ["gpu_time", "coverage", "gpu_timeline"];
        for (table, command) in [
            ("fused_operators", Some("kernels")),
            ("ops_summary_by_module", Some("operators")),
            ("rank_clocks", Some("collectives")),
            ("false_hotspots", Some("critical-path")),
            ("ignored", Some("findings")),
            ("memory_waste", Some("memory")),
            ("memory_rules", Some("memory")),
            ("memory_diff", Some("diff")),
            ("fused_operator", None),
        ] {
            assert_eq!(command_with(table, &timeline), command, "{table}");
        }
        assert_eq!(command_with("memory_curve", &["memory_peaks", "findings"]), None, "it is that command");
        assert_eq!(command_with("spans", &["operators", "ops_summary_by_module"]), None, "it is that command");
    }
}
