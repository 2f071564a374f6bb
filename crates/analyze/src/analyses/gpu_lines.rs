//! Table of GPU time by line of the user's source code.
//!
//! `gpu_lines`: operations by the innermost line of the user's own code. In compiled programs (XLA) this is the line of
//! the operator's definition; otherwise it is the line, or function, that launched the operation. Durations are summed
//! over streams, as in `gpu_kernels`.

use crate::{Analysis, Display, TableCommand};
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, INSTRUCTION_SAMPLE, StrId, Table, Trace, Unit};
use stackline_timeline::source_location::{SourceLocations, launch_of};
use stackline_timeline::stats::percent;
use stackline_timeline::{DefaultWindow, Scope};
use std::collections::BTreeMap;

/// The registered analysis.
pub(super) const ANALYSIS: Analysis = Analysis {
    name: "gpu_lines",
    about: "GPU time by source line",
    tables: &["gpu_lines"],
    window: DefaultWindow::Own,
    commands: &[TableCommand::Kernels],
    display: Display::All,
    run,
};

/// GPU operations of one source line: count, total time, and time by kernel name; in ns.
#[derive(Default)]
struct Line {
    count: i64,
    total: i64,
    by_name: FxHashMap<StrId, i64>,
}

/// Create table `gpu_lines`: GPU operations of the scope by the source line that launched them, largest time first.
fn run(trace: &Trace, scope: &Scope) -> Vec<Table> {
    // Samples of instructions have lines of device code.
    let is_of_program = |&event: &EventId| trace.category(event) != INSTRUCTION_SAMPLE;
    let has_lines =
        trace.stacks.event.iter().any(is_of_program) || trace.events.kind.contains(&EventKind::PythonFunction);
    let empty = |text: &str| vec![table(&[]).note(text)];
    if trace.gpu.is_empty() {
        return empty("The trace has no GPU operations in this scope.");
    }
    if !has_lines {
        return empty("The trace has neither Python frames nor source lines of a compiled program.");
    }
    let work = scope.resolved(trace);
    let work = work.gpu_work(trace);
    let places = SourceLocations::new(trace);
    let line_of = |event: EventId| {
        let own = places.line_key(event);
        if places.is_own(own) {
            return own;
        }
        // The thread of autograd's engine runs work on behalf of the forward pass.
        let launch = launch_of(trace, event);
        let around = std::iter::once(launch).chain(trace.ancestors(launch));
        around
            .filter_map(|at| trace.forward_of(at))
            .map(|(forward, _)| places.line_key(forward))
            .find(|&key| places.is_own(key))
            .unwrap_or(own)
    };
    let mut texts: FxHashMap<_, Option<String>> = FxHashMap::default();
    let mut lines: BTreeMap<Option<String>, Line> = BTreeMap::new();
    for gpu in trace.gpu.ids().filter(|&gpu| work.has(gpu)) {
        let event = trace.gpu.event[gpu.index()];
        if trace.events.is_plausible(event) {
            let (name, dur) = (trace.events.name[event.index()], trace.events.dur[event.index()]);
            let key = line_of(event);
            let text = texts.entry(key).or_insert_with(|| {
                Some(places.place(key)).filter(|place| place.file.is_some()).map(|place| place.text())
            });
            let line = match lines.get_mut(text) {
                Some(line) => line,
                None => lines.entry(text.clone()).or_default(),
            };
            line.count += 1;
            line.total = line.total.saturating_add(dur);
            *line.by_name.entry(name).or_default() += dur;
        }
    }
    let longest = |line: &Line| {
        let kernels = line.by_name.iter().map(|(&name, &dur)| (dur, std::cmp::Reverse(trace.strings.get(name))));
        kernels.max().map(|(_, name)| name.0.to_owned())
    };
    let row = |(text, line): (Option<String>, Line)| Row {
        longest: longest(&line),
        line: text,
        count: line.count,
        total: line.total,
    };
    let mut rows: Vec<Row> = lines.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total));
    vec![table(&rows)]
}

/// Row of table `gpu_lines`: a source line with count, total time in ns and longest kernel.
struct Row {
    /// `None` for operations without a known line.
    line: Option<String>,
    count: i64,
    total: i64,
    /// Name of the operation with the most time of this line.
    longest: Option<String>,
}

/// Create table `gpu_lines` from its rows, with the share of each line in the GPU time.
fn table(rows: &[Row]) -> Table {
    let all = rows.iter().fold(0i64, |sum, row| sum.saturating_add(row.total));
    Table::new("gpu_lines", "GPU operations by source line")
        .text("line", rows.iter().map(|row| row.line.clone()))
        .f64("percent", Unit::Percent, rows.iter().map(|row| percent(row.total as f64, all as f64)))
        .i64("total_ns", Unit::Ns, rows.iter().map(|row| row.total))
        .i64("count", Unit::None, rows.iter().map(|row| row.count))
        .text("longest", rows.iter().map(|row| row.longest.clone()))
}
