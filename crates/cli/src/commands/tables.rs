//! The commands that only print tables: which analyses each of them runs.

use crate::args::{Common, Format, Inputs};
use crate::output::Answer;
use crate::session::Session;
use crate::view::without_gpu;
use anyhow::Result;
use stackline_query::INSTEAD_OF_OPERATORS;

/// Analyses of a command, in the order shown. The names of [`BULKY`] tables are left out of what people see.
pub(crate) type Analyses = &'static [&'static str];

pub(crate) const STEPS: Analyses = &["steps", "coverage"];
pub(crate) const KERNELS: Analyses =
    &["gpu_time", "coverage", "kernel_summary", "short_kernels", "hta_kernel_breakdown", "hta_launch_stats"];
pub(crate) const OPERATORS: Analyses =
    &["operators", "coverage", "ops_summary_by_category", "ops_summary", "ops_unique_args", "spans"];
pub(crate) const COLLECTIVES: Analyses = &["coll_analysis", "hta_comm_comp_overlap", "coverage"];
pub(crate) const TIMELINE: Analyses = &[
    "gpu_time",
    "coverage",
    "gpu_timeline",
    "hta_temporal_breakdown",
    "hta_idle_time",
    "hta_queue_length",
    "hta_memory_bandwidth",
    "hta_annotations",
    "hta_counters",
    "clocks",
];

/// Of `check`, which shows its tables in its own way.
pub(crate) const CHECK: Analyses = &["checks"];

/// Tables with a row per operation or per point in time: shown to people only where asked for with `--table`.
const BULKY: &[&str] = &[
    "hta_launches",
    "hta_queue_length",
    "hta_memory_bandwidth",
    "hta_counters",
    "operator_tree",
    "hta_idle_intervals",
    "launches",
];

/// Runs analyses and prints their tables.
pub(crate) fn run(command: &str, analyses: Analyses, inputs: &Inputs, common: &Common) -> Result<()> {
    let session = Session::open(&inputs.inputs, common)?;
    let mut tables = session.run(analyses)?;
    if analyses == COLLECTIVES && session.set.traces.len() > 1 {
        tables.push(stackline_engine::rank_clock_table(&session.set));
    }
    let tables = session.pick(tables)?;
    let people = common.format == Format::Table && common.tables.is_empty();
    let of_host = session.is_of_host_alone() && matches!(command, "steps" | "operators");
    let shown = people.then(|| {
        let operators = tables.iter().any(|t| t.name == "operators" && t.rows() > 0);
        let bulky = |name: &str| BULKY.contains(&name) || (name == INSTEAD_OF_OPERATORS && operators);
        let mut hidden: Vec<&str> = tables.iter().map(|t| t.name.as_str()).filter(|n| bulky(n)).collect();
        hidden.dedup();
        let mut shown: Vec<_> = tables.iter().filter(|t| !bulky(&t.name)).cloned().collect();
        if of_host {
            shown = without_gpu(shown);
        }
        if let (Some(last), false) = (shown.last_mut(), hidden.is_empty()) {
            last.notes.push(format!("Not shown here: {}. Ask with --table NAME, or for JSON.", hidden.join(", ")));
        }
        shown
    });
    Answer { command, session: &session, extra: Vec::new(), tables, head: String::new(), shown }.write(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_analysis_is_registered_and_every_registered_one_is_shown() {
        let used: Vec<&str> = [STEPS, KERNELS, OPERATORS, COLLECTIVES, TIMELINE, CHECK].concat();
        for name in &used {
            assert!(stackline_analyze::analyses::find(name).is_some(), "{name} is not registered");
        }
        for analysis in stackline_analyze::analyses::ALL {
            assert!(used.contains(&analysis.name), "no command shows {}", analysis.name);
        }
    }
}
