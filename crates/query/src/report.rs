//! Content of a report, independent of its format: computed from traces, or loaded from the run directory of `import`.

use crate::RunChecks;
use crate::critical_path::{AfterStepsTime, CriticalPath, ExactSummary, FoundPath, StartUpTime, hta_json};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stackline_analyze::Analysis;
use stackline_critical_path::CriticalPathError;
use stackline_critical_path::exact::large_calls::{LargeCall, large_calls};
use stackline_critical_path::exact::{Category, Exact, ExactReport, WindowChoice, reasons_in_words};
use stackline_engine::{Error, RunOptions, cache};
use stackline_model::{ReadReport, Table, Trace, TraceMeta, TraceSet};
use stackline_present::{TraceInfo, human};
use stackline_timeline::Scope;
use stackline_timeline::after_steps::AfterSteps;
use stackline_timeline::inferred_steps::{RankSteps, no_shared_steps_note};
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::step_marks;
use stackline_timeline::steps::{StartUp, StepSelection};
use std::path::Path;

/// Table that replaces operators in a report without any.
pub const INSTEAD_OF_OPERATORS: &str = "spans";

const OPERATORS: &str = "operators";
const ANALYSES: [&str; 6] = ["steps", "gpu_time", "gpu_lines", "coverage", OPERATORS, "coll_analysis"];
/// Tables of these analyses that a report is too short for.
const LEFT_OUT: [&str; 1] = ["operator_tree"];
/// Name of the entry in a run's cache.
const ENTRY: &str = "report";

/// Complete content of a report: traces, read reports, tables and critical paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// The traces.
    pub infos: Vec<TraceInfo>,
    /// Read report of each trace.
    pub read_reports: Vec<ReadReport>,
    /// Steps, time of GPUs, operators, collectives.
    pub tables: Vec<Table>,
    /// The critical path of each.
    pub paths: Vec<PathSummary>,
    /// Reason why the traces are not ranks of one job, by the ranks that their files name; none without a contradiction.
    #[serde(default)]
    pub rank_conflict: Option<String>,
    /// Counts of the checks that need the events of the traces.
    #[serde(default)]
    pub run_checks: RunChecks,
}

/// Content of a report about one trace, before its rank is known.
#[derive(Clone, Debug)]
pub struct OfTrace {
    read_report: ReadReport,
    /// Name, rank and number of ranks, as the file has them.
    meta: TraceMeta,
    tables: Vec<Table>,
    /// Tables that replace operators if no trace has any.
    instead: Vec<Table>,
    run_checks: RunChecks,
    path: PathOfTrace,
    /// The path of the whole trace, for a rank with inferred steps: other ranks may have other steps.
    whole: Option<Box<PathOfTrace>>,
}

/// Options for the critical path of a report.
#[derive(Clone, Copy, Debug)]
pub struct PathOptions {
    /// Compute HTA's path, which only documents contain.
    pub with_hta: bool,
    /// True if the report has no other rank.
    pub is_alone: bool,
}

/// Critical path of one trace in a report: JSON document and sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathSummary {
    /// For programs.
    pub json: Value,
    /// For people: a sentence.
    pub line: String,
    /// The path covers inferred steps, unlike other numbers of the report.
    pub is_of_inferred_steps: bool,
}

/// Tables that are computed fastest: lengths of steps, and utilization of GPUs.
const FIRST: [&str; 2] = ["steps", "gpu_time"];

/// Table with a row per step, of which there may be thousands. Only the report has it.
const BY_STEP: &str = "steps";

/// Compute the tables of a report that are fastest, except the one with a row per step.
///
/// # Errors
/// If the options' watch was canceled.
pub(crate) fn first_tables(set: &TraceSet, options: &RunOptions) -> Result<Vec<Table>, Error> {
    let analyses: Vec<&Analysis> = FIRST.iter().filter_map(|name| stackline_analyze::analyses::find(name)).collect();
    let mut tables = stackline_engine::run(set, &analyses, &for_selected_steps(options))?;
    tables.retain(|table| table.name != BY_STEP);
    Ok(tables)
}

/// Copy the options so that all tables of a report cover the same selected steps, instead of the default window of each
/// analysis.
fn for_selected_steps(options: &RunOptions) -> RunOptions {
    RunOptions { scope: Scope { chosen: true, ..options.scope }, ..options.clone() }
}

impl Content {
    /// Compute the tables and critical paths of a report on all traces. HTA's path, which only documents contain, is
    /// optional.
    ///
    /// # Errors
    /// If the options' watch was canceled.
    pub fn compute(set: &TraceSet, infos: &[TraceInfo], options: &RunOptions, with_hta: bool) -> Result<Self, Error> {
        let path = PathOptions { with_hta, is_alone: set.traces.len() == 1 };
        let of_trace = |trace: &Trace, options: &RunOptions| OfTrace::compute(trace, options, path);
        Ok(Self::merge(stackline_engine::map(set, options, &of_trace)?, infos))
    }

    /// Merge the reports of all traces into one: tables by rank, and a critical path for each rank.
    pub fn merge(mut all: Vec<OfTrace>, infos: &[TraceInfo]) -> Self {
        let note = unify_steps(&mut all, infos);
        let has_operators =
            all.iter().flat_map(|tables_of_trace| &tables_of_trace.tables).any(|t| t.name == OPERATORS && t.rows() > 0);
        let many = infos.len() > 1;
        let rank_conflict = stackline_engine::rank_conflict(all.iter().map(|of_trace| &of_trace.meta));
        let (mut read_reports, mut per_rank, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        let run_checks = RunChecks::sum(all.iter().map(|of_trace| &of_trace.run_checks));
        for (tables_of_trace, info) in all.into_iter().zip(infos) {
            let instead = if has_operators { Vec::new() } else { tables_of_trace.instead };
            read_reports.push(tables_of_trace.read_report);
            per_rank.push((info.rank, tables_of_trace.tables, instead));
            paths.push(tables_of_trace.path.of_rank(info.rank, many));
        }
        if let (Some(note), Some(first)) = (note, paths.first_mut()) {
            first.line.push_str(&format!("\nNote: {note}."));
        }
        let (tables, instead) = per_rank.into_iter().map(|(rank, tables, more)| ((rank, tables), (rank, more))).unzip();
        let mut tables = stackline_engine::concatenate(tables);
        tables.extend(stackline_engine::concatenate(instead));
        Self { infos: infos.to_vec(), read_reports, tables, paths, rank_conflict, run_checks }
    }

    /// Load the report that `import` stored in a run directory; `None` if it is missing or outdated.
    pub fn load_cached(run: &Path) -> Option<Self> {
        let whole = stackline_engine::is_run(run) && stackline_engine::is_complete(run);
        whole.then(|| cache::load(run, ENTRY)).flatten()
    }

    /// Store the report in a run directory that was just written. Errors are ignored, because a missing report is
    /// computed again.
    pub fn store_in_cache(&self, run: &Path) {
        cache::keep(run, ENTRY, self);
    }
}

impl OfTrace {
    /// Compute the tables and the critical path of one trace for a report.
    ///
    /// # Errors
    /// If the options' watch was canceled.
    pub fn compute(trace: &Trace, options: &RunOptions, path: PathOptions) -> Result<Self, Error> {
        let of_steps = for_selected_steps(options);
        let run = |names: &[&str]| {
            let analyses: Vec<&Analysis> = names.iter().filter_map(|n| stackline_analyze::analyses::find(n)).collect();
            stackline_engine::run_trace(trace, &analyses, &of_steps)
        };
        let mut tables = run(&ANALYSES)?;
        tables.retain(|t| !LEFT_OUT.contains(&t.name.as_str()));
        let has_operators = tables.iter().any(|t| t.name == OPERATORS && t.rows() > 0);
        let instead = if has_operators { Vec::new() } else { run(&[INSTEAD_OF_OPERATORS])? };
        let scope = &options.scope;
        let looked = StepSelection::select_or_infer(trace, scope);
        let has_other_ranks = !path.is_alone && trace.meta.rank.is_some() && trace.meta.world_size != Some(1);
        let whole = (looked.are_inferred() && has_other_ranks).then(|| StepSelection::select(trace, scope));
        // Where steps are inferred, the notes of the window say so.
        let marks = if looked.are_inferred() { None } else { step_marks::note(trace) };
        let of_window =
            |looked: &StepSelection| PathOfTrace::from_trace(trace, (path.with_hta, scope), looked, marks.clone());
        let whole = whole.map(|whole| Box::new(of_window(&whole)));
        let path = of_window(&looked);
        let TraceMeta { name, rank, world_size, .. } = &trace.meta;
        let meta = TraceMeta { name: name.clone(), rank: *rank, world_size: *world_size, ..TraceMeta::default() };
        let run_checks = RunChecks::of_trace(trace);
        Ok(Self { read_report: trace.report.clone(), meta, tables, instead, run_checks, path, whole })
    }
}

/// Replace all critical paths by those of the whole traces if the ranks of a job cannot share inferred steps. Returns
/// the note added to each path; `None` if unchanged.
fn unify_steps(all: &mut [OfTrace], infos: &[TraceInfo]) -> Option<String> {
    let steps = |(of_trace, info): (&OfTrace, &TraceInfo)| RankSteps {
        rank: info.rank,
        steps: of_trace.path.steps,
        are_inferred: of_trace.path.is_of_inferred_steps,
    };
    let note = no_shared_steps_note(&all.iter().zip(infos).map(steps).collect::<Vec<_>>())?;
    let has_whole = |of_trace: &OfTrace| !of_trace.path.is_of_inferred_steps || of_trace.whole.is_some();
    if !infos.iter().all(|info| info.rank_from_file) || !all.iter().all(has_whole) {
        return None;
    }
    for of_trace in all {
        if let Some(whole) = of_trace.whole.take() {
            of_trace.path = *whole;
        }
        of_trace.path.add_window_note(&note);
    }
    Some(note)
}

/// The critical path of a trace whose rank is not yet known.
#[derive(Clone, Debug)]
struct PathOfTrace {
    json: Value,
    /// The steps that it is of, as a label has them.
    window_label: String,
    /// Number of the steps; 0 for the whole trace.
    steps: usize,
    is_of_inferred_steps: bool,
    sentence: String,
    /// Additional lines, each with its first word.
    additional_lines: Vec<(&'static str, String)>,
}

impl PathOfTrace {
    /// Compute the critical path of a trace in a window: JSON document and sentence. The sentence is about the exact
    /// path; HTA's path is only in the document, under its historical keys.
    fn from_trace(
        trace: &Trace,
        (with_hta, scope): (bool, &Scope),
        looked: &StepSelection,
        marks: Option<String>,
    ) -> Self {
        // The page asks for the steps of the default window by their numbers.
        let StepSelection { choice, notes, is_default, .. } = looked;
        let start_up = StartUp::from_trace(trace).filter(|_| *is_default);
        let after = AfterSteps::from_trace(trace).filter(|_| *is_default);
        let window_label = match choice {
            WindowChoice::Whole => String::new(),
            choice => format!(" of {}", choice.in_words()),
        };
        let (exact, hta) = std::thread::scope(|threads| {
            let hta = with_hta.then(|| threads.spawn(|| hta_json(trace, scope.steps.is_some())));
            let exact = exact_path(trace, looked);
            (exact, hta.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
        });
        let sentence = match &exact {
            Ok(ExactPath { report, calls, wait_line, .. }) => {
                sentence(report) + &waits_sentence(report, wait_line.as_ref()) + &large_calls_sentence(calls)
            }
            Err(error) => format!("none: {error}."),
        };
        let marks = marks.into_iter().chain(small_part_note(trace, looked)).chain(notes.iter().cloned());
        let start = start_up.map(|start_up| ("Start-up", start_up.to_string()));
        let start = start.into_iter().chain(after.as_ref().map(|after| ("After the last step", after.to_string())));
        let warm_ups = exact.as_ref().map(|exact| exact.warm_ups.clone()).unwrap_or_default();
        let additional_lines = start.chain(marks.chain(warm_ups).map(|note| ("Note", note))).collect();
        let exact = match &exact {
            Ok(ExactPath { report, calls, .. }) => ExactSummary::Found(FoundPath::new(report, looked, calls)),
            Err(error) => ExactSummary::Failed { error: error.to_string() },
        };
        let start_up = start_up.map(|StartUp { before_ns, imports_ns }| StartUpTime { before_ns, imports_ns });
        let after_steps =
            after.map(|AfterSteps { after_ns, main_location }| AfterStepsTime { after_ns, mostly: main_location });
        let document = CriticalPath { rank: 0, hta: hta.unwrap_or_default(), exact, start_up, after_steps };
        // All keys are texts: there is no error.
        let json = serde_json::to_value(&document).unwrap_or_default();
        let (steps, is_of_inferred_steps) = (looked.steps, looked.are_inferred());
        Self { json, window_label, steps, is_of_inferred_steps, sentence, additional_lines }
    }

    /// Append a note on the window to the JSON document of the critical path.
    fn add_window_note(&mut self, note: &str) {
        if let Some(notes) = self.json.pointer_mut("/exact/window_notes").and_then(Value::as_array_mut) {
            notes.push(note.into());
        }
    }

    /// Set the rank in the JSON document, and build the lines of text for the report.
    fn of_rank(mut self, number: i64, many: bool) -> PathSummary {
        if let Some(rank) = self.json.get_mut("rank") {
            *rank = number.into();
        }
        let rank = if many { format!(", rank {number}") } else { String::new() };
        let mut line = format!("Critical path{}{rank}: {}", self.window_label, self.sentence);
        for (word, text) in self.additional_lines {
            line.push_str(&format!("\n{word}{rank}: {text}."));
        }
        PathSummary { json: self.json, line, is_of_inferred_steps: self.is_of_inferred_steps }
    }
}

/// Note that the selected steps cover less than half of the trace; `None` if they cover more.
fn small_part_note(trace: &Trace, looked: &StepSelection) -> Option<String> {
    let (start, end) = looked.window(trace)?;
    let (first, last) = trace.span()?;
    let (steps, all) = (end.saturating_sub(start), last.saturating_sub(first));
    let sentence_of = || {
        format!(
            "the steps cover only {} of the trace, which lasts {}; to report the whole trace, use --whole",
            human::duration(steps),
            human::duration(all)
        )
    };
    (steps < all / 2).then(sentence_of)
}

/// Exact critical path of the selected window, with large calls, sampled waits and excluded warm-up steps.
struct ExactPath {
    report: ExactReport,
    calls: Vec<LargeCall>,
    /// Source line with most time in sampled waits.
    wait_line: Option<SourceLocation>,
    /// Causes of the time of excluded warm-up steps, a sentence each.
    warm_ups: Vec<String>,
}

/// Compute the exact critical path of the selected steps, with its large calls, main source line of waits, and causes
/// of excluded warm-up steps.
fn exact_path(trace: &Trace, looked: &StepSelection) -> Result<ExactPath, CriticalPathError> {
    let exact = Exact::new(trace);
    let path = exact.path(&looked.choice)?;
    let warm_up = |&step: &i64| {
        let path = exact.path(&WindowChoice::Steps(step, step)).ok()?;
        let report = exact.report(&path);
        let bounds = largest_causes(&report, 2);
        Some(format!("step {step} takes {}, bound by {bounds}", human::duration(report.path_ns)))
    };
    let warm_ups = looked.warm_ups.iter().filter_map(warm_up).collect();
    let (calls, wait_line) = (large_calls(trace, &path), exact.wait_line(&path));
    Ok(ExactPath { report: exact.report(&path), calls, wait_line, warm_ups })
}

/// Sentence on large calls in the critical path's window; empty if there are none.
fn large_calls_sentence(calls: &[LargeCall]) -> String {
    let one = |call: &LargeCall| {
        let times =
            if call.count == 1 { "1 call".to_owned() } else { format!("{} calls", human::count(call.count as u64)) };
        format!(
            "{} takes {:.0} % of the time ({times}; {:.0} % of the critical path)",
            call.name,
            call.percent.max(call.path_percent),
            call.path_percent
        )
    };
    let calls: Vec<String> = calls.iter().map(one).collect();
    if calls.is_empty() { String::new() } else { format!(" Large calls: {}.", calls.join("; ")) }
}

/// Causes that the line names.
const NAMED: usize = 5;

/// Minimum share of the path, in percent, of waits whose line is named.
const LEAST_WAIT_PERCENT: f64 = 10.0;

/// Sentence on the source line at which sampled threads were mostly blocked; empty if such waits are small.
fn waits_sentence(report: &ExactReport, line: Option<&SourceLocation>) -> String {
    let percent = report.bound_by.get(Category::HostBlocked.name()).copied().unwrap_or(0.0);
    match line.filter(|_| percent >= LEAST_WAIT_PERCENT) {
        Some(line) => format!(
            " According to samples, the host was blocked mostly at {} (in a sleep, lock, queue or pipe, or waiting for a \
             process).",
            line.text()
        ),
        None => String::new(),
    }
}

/// Sentence on the length of the critical path, its largest causes, and the share that is inferred.
fn sentence(report: &ExactReport) -> String {
    let inferred = 100.0 * report.inferred_ns as f64 / report.window_ns.max(1) as f64;
    if let Some(reasons) = reasons_in_words(report.unreliable()) {
        return format!(
            "{}; {reasons}. In the existing records, the critical path is bound by {} ({inferred:.1} % of its time is \
            inferred or unknown).",
            human::duration(report.path_ns),
            largest_causes(report, NAMED)
        );
    }
    format!(
        "{}, bound by {} ({inferred:.1} % of the critical path is inferred or unknown).",
        human::duration(report.path_ns),
        largest_causes(report, NAMED)
    )
}

/// Text with the largest causes of a critical path's time in percent, at most `most`.
fn largest_causes(report: &ExactReport, most: usize) -> String {
    let mut causes: Vec<(&str, f64)> = report.bound_by.iter().map(|(cause, p)| (*cause, *p)).collect();
    causes.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let named = causes.iter().filter(|(_, p)| *p >= 0.1).take(most);
    let named: Vec<String> = named.map(|(cause, p)| format!("{} {p:.1} %", cause.replace('_', " "))).collect();
    if named.is_empty() { "nothing".to_owned() } else { named.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::Content;

    #[test]
    fn stored_report_without_a_conflict_of_ranks_is_read() {
        let stored = r#"{"infos": [], "read_reports": [], "tables": [], "paths": []}"#;
        assert_eq!(serde_json::from_str::<Content>(stored).unwrap().rank_conflict, None);
    }
}
