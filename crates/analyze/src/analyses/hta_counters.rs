//! Hardware counters of kernels (CUPTI profiler ranges) with the operators that launched them.
//!
//! A trace with counters has ranges instead of kernels, without links to launches. As in HTA 0.6.1
//! (`get_cupti_counter_data_with_operators`), ranges are paired in order of start with calls whose name begins with
//! `cudaLaunchKernel`. If their numbers differ, no pairing is possible. Operators are those that enclose the call,
//! outermost first. Each argument of a range is a counter with its own column.

use crate::hta_rows::{HtaRows, Row};
use crate::{Analysis, Display, TableCommand};
use stackline_model::{EventKind, StrId, Table, Trace, Unit};
use stackline_timeline::DefaultWindow;
use std::collections::BTreeSet;

/// The registered analysis.
pub const ANALYSIS: Analysis = Analysis {
    name: "hta_counters",
    about: "Hardware counters of each kernel, with the operators that launched it",
    tables: &["hta_counters"],
    window: DefaultWindow::WholeAs("HTA"),
    commands: &[TableCommand::Timeline],
    display: Display::Except(&["hta_counters"]),
    run: |trace, scope| vec![counters(&HtaRows::load(trace, scope))],
};

/// Maximum number of counter columns. A GPU counts some dozens of events at a time; the limit keeps tables of traces
/// with a name per range small.
pub const MAX_COUNTERS: usize = 256;

const RANGE: &str = "cuda_profiler_range";

/// Rows that pass a test, in order of start.
fn by_start<'a>(rows: &'a HtaRows, is_selected: impl Fn(&Row) -> bool) -> Vec<&'a Row> {
    let mut found: Vec<&Row> = rows.rows.iter().filter(|r| is_selected(r)).collect();
    found.sort_by(|a, b| a.ts.total_cmp(&b.ts));
    found
}

/// Table `hta_counters`: hardware counters, one row per profiler range.
pub fn counters(rows: &HtaRows) -> Table {
    let trace: &Trace = rows.trace;
    let ranges = by_start(rows, |r| trace.category(r.event) == RANGE);
    let launches = by_start(rows, |r| {
        trace.category(r.event).starts_with("cuda_runtime") && trace.strings.get(r.name).starts_with("cudaLaunchKernel")
    });
    let table = Table::new("hta_counters", "Hardware counters per kernel");
    if ranges.is_empty() {
        return table.note("The trace has no profiler ranges (records of CUPTI with hardware counters).");
    }
    if ranges.len() != launches.len() {
        return table.note(format!(
            "The trace has {} profiler ranges but {} kernel launches, so the counters of a range cannot be assigned \
             to a kernel.",
            ranges.len(),
            launches.len()
        ));
    }
    // Outermost first.
    let stacks: Vec<Vec<&str>> = launches
        .iter()
        .map(|launch| {
            let mut operators: Vec<&str> = trace
                .ancestors(launch.event)
                .filter(|&e| trace.kind(e) == EventKind::Operator)
                .map(|e| trace.name(e))
                .collect();
            operators.reverse();
            operators
        })
        .collect();
    let text = |s: Option<&&str>| s.map(|s| (*s).to_owned());
    let mut table = table
        .i64("event_index", Unit::None, ranges.iter().map(|r| r.index))
        .text("name", ranges.iter().map(|r| trace.strings.get(r.name).to_owned()))
        .text("top_level_op", stacks.iter().map(|s| text(s.first())))
        .text("bottom_level_op", stacks.iter().map(|s| text(s.last())))
        .text("op_stack", stacks.iter().map(|s| s.join("|")));
    let keys: BTreeSet<&str> =
        ranges.iter().flat_map(|r| trace.attrs.of_event(r.event)).map(|(k, _)| name(trace, k)).collect();
    if keys.len() > MAX_COUNTERS {
        table = table
            .note(format!("The trace has {} different counters; only the first {MAX_COUNTERS} are shown.", keys.len()));
    }
    for key in keys.into_iter().take(MAX_COUNTERS) {
        let column = trace.attr(key);
        table = table.f64(key, Unit::None, ranges.iter().map(|r| column.f64(r.event)));
    }
    table
}

/// Name of an argument of a profiler range.
fn name(trace: &Trace, key: StrId) -> &str {
    trace.strings.get(key)
}
