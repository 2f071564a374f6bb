//! Commands that only print tables, with the analyses of each.

use crate::args::{Common, Format, Inputs, options_for};
use crate::failure::command_line;
use crate::output::Answer;
use crate::session::{self, Session};
use crate::view::{number, without_gpu};
use anyhow::Result;
use serde_json::Value;
use stackline_analyze::steps::Looked;
use stackline_analyze::{Scope, step_marks};
use stackline_engine::{CollectiveEnds, RunOptions, is_read_once};
use stackline_model::{Table, Trace};
use stackline_present::json::Extra;
use stackline_present::terminal;
use stackline_query::INSTEAD_OF_OPERATORS;
use std::path::PathBuf;

/// Analyses of a command in display order. Text output omits [`BULKY`] tables and lists their names.
pub(crate) type Analyses = &'static [&'static str];

pub(crate) const STEPS: Analyses = &["steps", "coverage"];
pub(crate) const KERNELS: Analyses = &[
    "gpu_time",
    "gpu_lines",
    "coverage",
    "kernel_summary",
    "fused_operators",
    "short_kernels",
    "hta_kernel_breakdown",
    "hta_launch_stats",
];
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
    "counters",
    "samples",
    "logical_parents",
    "devices",
    "clocks",
];

/// Of `check`, which shows its tables in its own way.
pub(crate) const CHECK: Analyses = &["checks"];

/// Tables with a row per operation or per point in time, and wide ones: shown to people only where asked for with `--table`.
const BULKY: &[&str] = &[
    "hta_launches",
    "hta_queue_length",
    "hta_memory_bandwidth",
    "hta_counters",
    "operator_tree",
    "hta_idle_intervals",
    "launches",
    "devices",
    "fused_operators",
];

/// Analyses with a row per record, of which traces may have millions: run only where asked for with `--table`.
const ON_DEMAND: &[&str] = &["counters", "samples", "logical_parents"];

/// Commands whose tables are of the steps by default.
const OF_STEPS: [Analyses; 4] = [KERNELS, OPERATORS, COLLECTIVES, TIMELINE];

/// Data of one trace for a command.
struct OfTrace {
    tables: Vec<Table>,
    /// Selected steps, for commands with tables of steps.
    looked: Option<Looked>,
    /// Note on the source of steps, for `steps`.
    marks: Option<String>,
    /// For `collectives`, to compare clocks.
    ends: Option<CollectiveEnds>,
}

impl OfTrace {
    fn compute(trace: &Trace, (of, wanted): (Analyses, &[&str]), options: &RunOptions) -> Result<Self> {
        Ok(Self {
            tables: stackline_engine::run_trace(trace, &session::analyses(wanted), options)?,
            looked: OF_STEPS.contains(&of).then(|| Looked::at(trace, &Scope::default())),
            marks: if of == STEPS { step_marks::note(trace) } else { None },
            ends: (of == COLLECTIVES).then(|| CollectiveEnds::from_trace(trace)),
        })
    }
}

/// Runs analyses and prints their tables.
pub(crate) fn run(command: &str, analyses: Analyses, inputs: &Inputs, common: &Common) -> Result<()> {
    let is_wanted = |name: &&&str| !ON_DEMAND.contains(*name) || common.tables.iter().any(|asked| asked == **name);
    let wanted: Vec<&str> = analyses.iter().filter(is_wanted).copied().collect();
    let of_trace = |trace: &Trace, options: &RunOptions| OfTrace::compute(trace, (analyses, &wanted), options);
    let (session, of_traces) = Session::map(session::run_of(&inputs.inputs, common)?, common, &of_trace)?;
    let (mut of_each, mut looked, mut marks, mut ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for of in of_traces {
        of_each.push(of.tables);
        looked.extend(of.looked);
        marks.extend(of.marks);
        ends.extend(of.ends);
    }
    let is_of_steps = OF_STEPS.contains(&analyses);
    let window = if is_of_steps { session.looked_at(&looked) } else { None };
    let mut tables = session.together(of_each);
    if analyses == COLLECTIVES && session.infos.len() > 1 {
        let ranks: Vec<i64> = session.infos.iter().map(|info| info.rank).collect();
        tables.push(stackline_engine::rank_clock_table(&ranks, &ends));
    }
    let tables = session.pick(tables)?;
    let people = common.format == Format::Table && common.tables.is_empty();
    let of_host = session.is_of_host_alone();
    let of_gpu = [KERNELS, TIMELINE].contains(&analyses);
    let mut head = window.clone().filter(|_| people).unwrap_or_default();
    if people && analyses == STEPS {
        head.push_str(&notes(marks));
    }
    if people && of_host && of_gpu {
        head = format!("{NO_GPU}{}\n", operators_next(&inputs.inputs, common));
    }
    let shown = people.then(|| {
        let operators = tables.iter().any(|t| t.name == "operators" && t.rows() > 0);
        let bulky = |name: &str| BULKY.contains(&name) || (name == INSTEAD_OF_OPERATORS && operators);
        let mut hidden: Vec<&str> = tables.iter().map(|t| t.name.as_str()).filter(|n| bulky(n)).collect();
        hidden.dedup();
        let mut shown: Vec<_> = tables.iter().filter(|t| !bulky(&t.name)).cloned().collect();
        if of_host {
            shown = without_gpu(shown);
        }
        if window.is_some() && without_window_notes(&mut shown) {
            head.push_str("Tables named hta_… cover the whole trace, as in HTA.\n");
        }
        if of_host && of_gpu {
            shown.retain(has_numbers);
        }
        if let (Some(last), false) = (shown.last_mut(), hidden.is_empty()) {
            last.notes.push(format!("Not shown: {}. Select one with --table NAME, or use JSON.", hidden.join(", ")));
        }
        let on_demand: Vec<&str> = analyses.iter().filter(|name| !wanted.contains(*name)).copied().collect();
        if let (Some(last), false) = (shown.last_mut(), on_demand.is_empty()) {
            last.notes.push(format!("One row per record: {}. Select one with --table NAME.", on_demand.join(", ")));
        }
        shown
    });
    let text = window.map_or(Value::Null, |text| text.trim_end().into());
    let extra = if is_of_steps { vec![("window", Extra::Value(text))] } else { Vec::new() };
    Answer { command, session: &session, extra, tables, head, shown }.write(common)
}

/// Note for inputs without GPU work.
const NO_GPU: &str = "No GPU work was recorded: GPU tables are omitted.";

/// Takes the notes away that tables are of the whole trace, since the head says so; whether there were any.
fn without_window_notes(tables: &mut [Table]) -> bool {
    let is_of_whole = |note: &String| note.starts_with(stackline_engine::OF_WHOLE_TRACE);
    let had_any = tables.iter().any(|table| table.notes.iter().any(is_of_whole));
    tables.iter_mut().for_each(|table| table.notes.retain(|note| !is_of_whole(note)));
    had_any
}

/// Check if a table has non-zero numbers.
fn has_numbers(table: &Table) -> bool {
    (0..table.rows())
        .any(|row| table.columns.iter().any(|column| number(table, &column.name, row).is_some_and(|n| n != 0.0)))
}

/// Notes on inferred or possible steps of programs that do not mark them.
fn notes(mut marks: Vec<String>) -> String {
    marks.dedup();
    terminal::clean_lines(&marks.iter().map(|text| format!("Note: {text}.\n")).collect::<String>())
}

/// Suggested command for operators; `None` for a pipe, which cannot be read again.
fn operators_next(inputs: &[PathBuf], common: &Common) -> String {
    if inputs.iter().any(|input| is_read_once(input)) {
        return String::new();
    }
    format!(" Next: {}", command_line("operators", inputs, &options_for("operators", common, None)))
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
