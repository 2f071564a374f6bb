//! Commands that only print tables, such as `steps` and `kernels`, with the analyses of each.

use crate::args::{Common, Format, Inputs, options_for};
use crate::failure::command_line;
use crate::output::Answer;
use crate::session::{self, Session};
use crate::view::{number, without_gpu};
use anyhow::Result;
use serde_json::Value;
use stackline_analyze::analyses::analyses_for;
use stackline_analyze::{Analysis, Display, TableCommand};
use stackline_engine::{CollectiveEnds, RunOptions, is_read_once};
use stackline_model::{Table, Trace};
use stackline_present::json::Extra;
use stackline_present::terminal;
use stackline_query::{INSTEAD_OF_OPERATORS, RunChecks};
use stackline_timeline::steps::StepSelection;
use stackline_timeline::{Scope, step_marks};
use std::path::PathBuf;

/// Commands whose tables are of the steps by default.
const OF_STEPS: [TableCommand; 4] =
    [TableCommand::Kernels, TableCommand::Operators, TableCommand::Collectives, TableCommand::Timeline];

/// Tables that a command computes from one trace, with the selected steps.
struct OfTrace {
    tables: Vec<Table>,
    /// Selected steps, for commands with tables of steps.
    looked: Option<StepSelection>,
    /// Note on the source of steps, for `steps`.
    marks: Option<String>,
    /// For `collectives`, to compare clocks.
    ends: Option<CollectiveEnds>,
    /// For `collectives`, checks that need the events.
    run_checks: Option<RunChecks>,
}

impl OfTrace {
    /// Run the analyses of a command on one trace, and collect notes on its steps and the ends of collectives.
    fn compute(
        trace: &Trace,
        (command, default_analyses): (TableCommand, &[&'static Analysis]),
        options: &RunOptions,
    ) -> Result<Self> {
        Ok(Self {
            tables: stackline_engine::run_trace(trace, default_analyses, options)?,
            looked: OF_STEPS.contains(&command).then(|| StepSelection::select(trace, &Scope::default())),
            marks: if command == TableCommand::Steps { step_marks::note(trace) } else { None },
            ends: (command == TableCommand::Collectives).then(|| CollectiveEnds::from_trace(trace)),
            run_checks: (command == TableCommand::Collectives).then(|| RunChecks::of_trace(trace)),
        })
    }
}

/// Tables of a command over all traces of a run, with sentences on the window and the source of steps.
struct OfRun {
    tables: Vec<Table>,
    /// Default window as a sentence, for commands with tables of steps.
    window: Option<String>,
    /// Notes on the source of steps, for `steps`.
    marks: Vec<String>,
}

impl OfRun {
    /// Join the tables of all traces by rank, with the comparison of rank clocks for `collectives`.
    fn merge(of_traces: Vec<OfTrace>, command: TableCommand, session: &Session<'_>) -> Self {
        let (mut of_each, mut looked, mut marks, mut ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for trace_tables in of_traces {
            of_each.push(trace_tables.tables);
            looked.extend(trace_tables.looked);
            marks.extend(trace_tables.marks);
            ends.extend(trace_tables.ends);
        }
        let mut tables = session.combined(of_each);
        if command == TableCommand::Collectives && session.infos.len() > 1 {
            let ranks: Vec<i64> = session.infos.iter().map(|info| info.rank).collect();
            tables.push(stackline_engine::rank_clock_table(&ranks, &ends));
        }
        Self { tables, window: session.window_sentence(&looked), marks }
    }
}

/// Run a command that only prints tables, such as `steps`: compute its analyses and print their tables.
pub(crate) fn run(name: &str, command: TableCommand, inputs: &Inputs, common: &Common) -> Result<()> {
    let is_named = |analysis: &Analysis| common.tables.iter().any(|table| analysis.tables.contains(&table.as_str()));
    let (default_analyses, requested_analyses): (Vec<&Analysis>, Vec<&Analysis>) =
        analyses_for(command).partition(|analysis| analysis.display != Display::OnRequest || is_named(analysis));
    let of_trace = |trace: &Trace, options: &RunOptions| OfTrace::compute(trace, (command, &default_analyses), options);
    let (session, of_traces) = Session::map(session::run_of(&inputs.inputs, common)?, common, &of_trace)?;
    let session = session.with_run_checks(RunChecks::sum(of_traces.iter().filter_map(|t| t.run_checks.as_ref())));
    let OfRun { tables, window, marks } = OfRun::merge(of_traces, command, &session);
    let tables = session.select_tables(tables)?;
    let (mut head, mut shown) = (String::new(), None);
    if common.format == Format::Table && common.tables.is_empty() {
        let of_host = session.has_no_gpu_work();
        let lacks_gpu = of_host && [TableCommand::Kernels, TableCommand::Timeline].contains(&command);
        head = match lacks_gpu {
            true => format!("{NO_GPU}{}\n", operators_next(&inputs.inputs, common)),
            false => window.clone().unwrap_or_default() + &notes(marks),
        };
        let has_window = window.is_some();
        let view = TextView {
            default_analyses: &default_analyses,
            requested_analyses: &requested_analyses,
            has_window,
            of_host,
            lacks_gpu,
        };
        shown = Some(view.visible(&tables, &mut head));
    }
    let text = window.map_or(Value::Null, |text| text.trim_end().into());
    let extra = if OF_STEPS.contains(&command) { vec![("window", Extra::Value(text))] } else { Vec::new() };
    Answer { command: name, session: &session, extra, tables, head, shown }.write(common)
}

/// Criteria to choose the tables that text output shows.
struct TextView<'a> {
    default_analyses: &'a [&'static Analysis],
    requested_analyses: &'a [&'static Analysis],
    /// The head names the default window.
    has_window: bool,
    /// No trace has GPU work.
    of_host: bool,
    /// The command is about GPU work, and no trace has any.
    lacks_gpu: bool,
}

impl TextView<'_> {
    /// Tables to show, with notes that name the hidden ones. Text that concerns several tables is appended to `head`.
    fn visible(&self, tables: &[Table], head: &mut String) -> Vec<Table> {
        let operators = tables.iter().any(|t| t.name == "operators" && t.rows() > 0);
        let bulky = |name: &str| {
            self.default_analyses.iter().any(|analysis| analysis.hides(name))
                || (name == INSTEAD_OF_OPERATORS && operators)
        };
        let mut hidden: Vec<&str> = tables.iter().map(|t| t.name.as_str()).filter(|n| bulky(n)).collect();
        hidden.dedup();
        let mut visible: Vec<_> = tables.iter().filter(|t| !bulky(&t.name)).cloned().collect();
        if self.of_host {
            visible = without_gpu(visible);
        }
        if self.has_window && remove_whole_trace_notes(&mut visible) {
            head.push_str(
                "Tables named hta_… cover the whole trace except the last of several profiler steps, as in Holistic \
                 Trace Analysis (HTA).\n",
            );
        }
        if self.lacks_gpu {
            visible.retain(has_numbers);
        }
        if let (Some(last), false) = (visible.last_mut(), hidden.is_empty()) {
            last.notes.push(format!(
                "Tables not shown: {}. Print one with --table NAME, or all with --format json.",
                hidden.join(", ")
            ));
        }
        if let (Some(last), false) = (visible.last_mut(), self.requested_analyses.is_empty()) {
            let names: Vec<&str> =
                self.requested_analyses.iter().flat_map(|analysis| analysis.tables).copied().collect();
            last.notes.push(format!(
                "Tables not shown, because they have one row per record: {}. Print one with --table NAME.",
                names.join(", ")
            ));
        }
        visible
    }
}

/// Note for inputs without GPU work.
const NO_GPU: &str = "No GPU work was recorded: GPU tables are omitted.";

/// Remove the notes that tables cover the whole trace; return true if there were any. The header contains the
/// information instead.
fn remove_whole_trace_notes(tables: &mut [Table]) -> bool {
    let is_of_whole = |note: &String| note.starts_with(stackline_engine::OF_WHOLE_TRACE);
    let had_any = tables.iter().any(|table| table.notes.iter().any(is_of_whole));
    tables.iter_mut().for_each(|table| table.notes.retain(|note| !is_of_whole(note)));
    had_any
}

/// Check if a table contains any number other than 0.
fn has_numbers(table: &Table) -> bool {
    (0..table.rows())
        .any(|row| table.columns.iter().any(|column| number(table, &column.name, row).is_some_and(|n| n != 0.0)))
}

/// Lines `Note: …` on inferred or possible steps of programs that do not mark them, from the notes of each trace.
fn notes(mut marks: Vec<String>) -> String {
    marks.dedup();
    terminal::clean_lines(&marks.iter().map(|text| format!("Note: {text}.\n")).collect::<String>())
}

/// Text that suggests `stackline operators` as the next command; empty for a pipe, which cannot be read again.
fn operators_next(inputs: &[PathBuf], common: &Common) -> String {
    if inputs.iter().any(|input| is_read_once(input)) {
        return String::new();
    }
    format!(" Next: {}", command_line("operators", inputs, &options_for("operators", common, None)))
}
