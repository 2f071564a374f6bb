//! Session of commands that read traces: open inputs, select the rank, check the steps.

use crate::args::Common;
use crate::commands::table_names::{command_with, new_name};
use crate::failure::{did_you_mean, wrong_use};
use crate::output;
use crate::progress::ProgressDisplay;
use anyhow::Result;
use stackline_analyze::Analysis;
use stackline_engine::{Error, Job, Mapped, OpenOptions, Progress, Run, RunOptions};
use stackline_model::{ReadReport, Severity, Table, Trace, TraceMeta, TraceSet};
use stackline_present::{TraceInfo, human};
use stackline_query::RunChecks;
use stackline_timeline::Scope;
use stackline_timeline::steps::{StepSelection, default_window};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Error if an output file is one of the inputs, because writing would destroy the input.
pub(crate) fn not_an_input(target: &Path, inputs: &[PathBuf]) -> Result<()> {
    let Ok(target_file) = std::fs::canonicalize(target) else { return Ok(()) };
    if target_file.is_file() && inputs.iter().any(|i| std::fs::canonicalize(i).is_ok_and(|i| i == target_file)) {
        return Err(wrong_use(format!(
            "{} is an input and would be overwritten; choose another name",
            target.display()
        )));
    }
    Ok(())
}

/// Convert the common command-line options to options for opening inputs.
pub(crate) fn open_options(common: &Common) -> OpenOptions {
    OpenOptions {
        threads: common.threads,
        clip_overlaps: common.clip_overlaps,
        step_annotation: common.step_annotation.clone(),
        cycle: common.steps.and_then(|steps| steps.cycle),
        ..OpenOptions::default()
    }
}

/// Open the inputs of a command as a run. If they are recordings of totals per rank, `--rank` selects one. Error if the
/// output file is an input.
pub(crate) fn run_of(inputs: &[PathBuf], common: &Common) -> Result<Run> {
    if let Some(target) = &common.output {
        not_an_input(target, inputs)?;
    }
    let run = Run::open(inputs, &open_options(common))?;
    Ok(match common.rank {
        Some(rank) => run.recording_of_rank(rank)?,
        None => run,
    })
}

/// Call `read` on a run, and show a progress bar during the call.
pub(crate) fn reading<T>(run: &Run, read: impl FnOnce(&Run) -> Result<T, Error>) -> Result<T> {
    let _progress = ProgressDisplay::start(&run.options().watch);
    Ok(read(run)?)
}

/// Sentence that names the first trace with missing records; `None` if no records are missing. Missing records make
/// negative results uncertain.
pub(crate) fn incomplete_part<'r>(
    infos: &[TraceInfo],
    mut reports: impl Iterator<Item = &'r ReadReport>,
) -> Option<String> {
    let is_lost = |report: &ReadReport| report.problems.iter().any(|problem| problem.severity == Severity::Lost);
    let at = reports.position(is_lost)?;
    Some(format!("{}: records are missing; `stackline doctor` lists the reasons", infos.get(at)?.name))
}

/// Opened traces of a command, with the options of the command line.
pub(crate) struct Session<'a> {
    pub(crate) set: Arc<TraceSet>,
    pub(crate) infos: Vec<TraceInfo>,
    pub(crate) scope: Scope,
    pub(crate) common: &'a Common,
    /// Counts of the checks that need events, if the session doesn't keep the events of its traces.
    run_checks: Option<RunChecks>,
    watch: Progress,
}

impl<'a> Session<'a> {
    /// Open the inputs of a command as a session with their traces.
    pub(crate) fn open(inputs: &[PathBuf], common: &'a Common) -> Result<Self> {
        Self::from_run(&mut run_of(inputs, common)?, common)
    }

    /// Read the traces of a run, limited to the rank that `--rank` selects, as a session.
    pub(crate) fn from_run(run: &mut Run, common: &'a Common) -> Result<Self> {
        let mut set = reading(run, Run::traces)?;
        // Ranks are numbered and described before one is picked: a rank that no file names keeps its position.
        let ranks = stackline_engine::ranks(&set);
        let mut infos: Vec<_> = set.traces.iter().zip(ranks).map(|(t, rank)| TraceInfo::new(t, rank)).collect();
        if let Some(rank) = common.rank {
            drop(set);
            run.select_rank(rank)?;
            set = run.traces()?;
            infos.retain(|info| info.rank == rank);
        }
        let scope = common.scope();
        stackline_engine::check_steps(&set.traces, &scope)?;
        set.traces.iter().try_for_each(|trace| stackline_engine::check_cycles(trace, &scope))?;
        Ok(Self { set, infos, scope, common, run_checks: None, watch: run.options().watch.clone() })
    }

    /// Read the traces of a run one by one, apply a function to each, and keep only descriptions of the traces.
    pub(crate) fn map<T: Send>(
        mut run: Run,
        common: &'a Common,
        map: &(dyn Fn(&Trace, &RunOptions) -> Result<T> + Sync),
    ) -> Result<(Self, Vec<T>)> {
        // The results of all other ranks would be discarded.
        if common.rank.is_some() {
            let session = Self::from_run(&mut run, common)?;
            let results = stackline_engine::map(&session.set, &session.run_options(), map)?;
            return Ok((session, results));
        }
        let (watch, scope) = (run.options().watch.clone(), common.scope());
        let progress = ProgressDisplay::start(&watch);
        let described = |trace: &Trace, options: &RunOptions| {
            stackline_engine::check_cycles(trace, &scope)?;
            Ok((TraceInfo::new(trace, 0), map(trace, options)?))
        };
        let mapped: Result<Mapped<_>> = run.map_traces(scope, &described);
        drop(progress);
        let Mapped { set, results } = mapped?;
        stackline_engine::check_steps(&set.traces, &scope)?;
        let (mut infos, results): (Vec<TraceInfo>, Vec<T>) = results.into_iter().unzip();
        for ((info, trace), rank) in infos.iter_mut().zip(&set.traces).zip(stackline_engine::ranks(&set)) {
            info.rank = rank;
            info.rank_from_file = trace.meta.rank == Some(rank);
        }
        Ok((Self { set: Arc::new(set), infos, scope, common, run_checks: None, watch }, results))
    }

    /// Create a session from descriptions and read reports of traces, without their events.
    pub(crate) fn described(infos: &[TraceInfo], reports: &[ReadReport], common: &'a Common) -> Self {
        let describe = |(info, report): (&TraceInfo, &ReadReport)| {
            let mut trace = Trace::default();
            trace.meta.name.clone_from(&info.name);
            trace.meta.rank = info.rank_from_file.then_some(info.rank);
            trace.report = report.clone();
            trace
        };
        Self { infos: infos.to_vec(), ..Self::from_reports(infos.iter().zip(reports).map(describe).collect(), common) }
    }

    /// Set the counts of the checks that need events, for a session without the events of its traces.
    pub(crate) fn with_run_checks(self, run_checks: RunChecks) -> Self {
        Self { run_checks: Some(run_checks), ..self }
    }

    /// Counts of the checks that need the events of the traces.
    pub(crate) fn run_checks(&self) -> RunChecks {
        self.run_checks.clone().unwrap_or_else(|| RunChecks::of_traces(&self.set.traces))
    }

    /// Create a session from traces that contain only read reports, for commands whose results come from other data.
    pub(crate) fn from_reports(traces: Vec<Trace>, common: &'a Common) -> Self {
        Self { set: Arc::new(TraceSet { traces }), ..Self::empty(common) }
    }

    /// Create a session without traces, for commands whose results come from other data.
    pub(crate) fn empty(common: &'a Common) -> Self {
        let (set, infos, scope) = (Arc::default(), Vec::new(), Scope::default());
        Self { set, infos, scope, common, run_checks: None, watch: Progress::new() }
    }

    /// Run analyses over all traces of the session and return their tables.
    pub(crate) fn run(&self, analyses: impl IntoIterator<Item = &'static Analysis>) -> Result<Vec<Table>> {
        Ok(stackline_engine::run(&self.set, &analyses.into_iter().collect::<Vec<_>>(), &self.run_options())?)
    }

    /// Join the tables of all traces, given per trace, into tables with a column for the rank. Tables of a single trace
    /// are unchanged.
    pub(crate) fn combined(&self, of_each: Vec<Vec<Table>>) -> Vec<Table> {
        stackline_engine::concatenate(self.infos.iter().map(|info| info.rank).zip(of_each).collect())
    }

    /// Options for analyses from the command line: scope, threads and progress.
    pub(crate) fn run_options(&self) -> RunOptions {
        RunOptions { scope: self.scope, threads: self.common.threads, watch: self.watch.clone() }
    }

    /// Sentence that names the default time range of the tables. `None` if the range is the whole trace or the user
    /// selected it.
    pub(crate) fn window_sentence(&self, looked: &[StepSelection]) -> Option<String> {
        let (window, notes) = default_window(looked).filter(|_| self.scope == Scope::default())?;
        let notes: String = notes.iter().map(|note| format!("Note: {note}.\n")).collect();
        Some(format!("Shown: {window}; --whole shows the whole trace.\n{notes}"))
    }

    /// Keep only the trace with the longest selected steps (or selection, if no trace has steps), and its selection.
    /// The result is a sentence that names the trace, if there were several.
    pub(crate) fn select_slowest_trace(&mut self, looked: &mut Vec<StepSelection>) -> Option<String> {
        if self.set.traces.len() < 2 || looked.len() != self.set.traces.len() {
            return None;
        }
        let lengths = self.set.traces.iter().zip(looked.iter()).map(|(trace, looked)| length(trace, looked));
        let lengths: Vec<(i64, usize)> = lengths.collect();
        // The whole of a trace without steps is no step.
        let have_steps = lengths.iter().any(|(_, steps)| *steps > 0);
        let is_candidate = |at: &usize| !have_steps || lengths[*at].1 > 0;
        let longest = (0..lengths.len()).filter(is_candidate).max_by_key(|&at| (lengths[at].0, std::cmp::Reverse(at)));
        let slowest = longest?;
        let ranks = self.ranks();
        *looked = vec![looked.swap_remove(slowest)];
        let set = Arc::make_mut(&mut self.set);
        set.traces = vec![set.traces.swap_remove(slowest)];
        self.infos = vec![self.infos.swap_remove(slowest)];
        let (length, steps) = lengths[slowest];
        let rank = self.infos.first()?.rank;
        let (took, each) = (human::duration(length), if steps > 1 { " per step" } else { "" });
        Some(format!(
            "shown is rank {rank}, the slowest of {} ranks ({took}{each}); --rank {ranks} selects another",
            lengths.len()
        ))
    }

    /// Check if the traces are ranks of one job, or a single trace.
    pub(crate) fn is_one_job(&self) -> bool {
        let mut job = Job::default();
        self.infos.iter().all(|info| {
            let (name, rank) = (info.name.clone(), info.rank_from_file.then_some(info.rank));
            job.add(&TraceMeta { name, rank, world_size: info.world_size, ..TraceMeta::default() }).is_ok()
        })
    }

    /// Check if none of the traces has GPU work.
    pub(crate) fn has_no_gpu_work(&self) -> bool {
        self.infos.iter().all(|info| info.gpu_operations == 0)
    }

    /// Tables that `--table` selects; all tables without that option.
    pub(crate) fn select_tables(&self, tables: Vec<Table>) -> Result<Vec<Table>> {
        self.select_tables_or(tables, &[])
    }

    /// Tables that `--table` selects; the error for unknown names also lists tables made on demand.
    pub(crate) fn select_tables_or(&self, tables: Vec<Table>, on_demand: &[&str]) -> Result<Vec<Table>> {
        let requested = &self.common.tables;
        let mut names: Vec<&str> = tables.iter().map(|t| t.name.as_str()).collect();
        names.extend(on_demand.iter().filter(|name| !tables.iter().any(|t| t.name == **name)));
        if let Some(name) = requested.iter().find(|w| !names.contains(&w.as_str())) {
            if let Some(new) = new_name(name).filter(|new| names.contains(new)) {
                return Err(wrong_use(format!("the table {name:?} is now called {new:?}")));
            }
            if let Some(command) = command_with(name, &names) {
                return Err(wrong_use(format!("this command has no table {name:?}; `stackline {command}` prints it")));
            }
            let near = did_you_mean(name, names.iter().copied());
            return Err(wrong_use(format!(
                "this command has no table {name:?}{near} Its tables are: {}",
                names.join(", ")
            )));
        }
        Ok(tables.into_iter().filter(|t| requested.is_empty() || requested.contains(&t.name)).collect())
    }

    /// Ranks of the traces for messages, ascending, such as `0|1|2`.
    pub(crate) fn ranks(&self) -> String {
        let mut ranks: Vec<i64> = self.infos.iter().map(|i| i.rank).collect();
        ranks.sort_unstable();
        ranks.iter().map(i64::to_string).collect::<Vec<_>>().join("|")
    }

    /// Print the read report on standard error, for commands that write a file.
    pub(crate) fn print_read_report(&self) -> Result<()> {
        output::print_read_report(&self.set)
    }
}

/// Length of the selected window in ns, divided by the number of steps if there are any; and the number of steps. A
/// rank with fewer steps is not faster.
fn length(trace: &Trace, looked: &StepSelection) -> (i64, usize) {
    let window = looked.path_window(trace).map_or(0, |(start, end)| end.saturating_sub(start));
    (window / looked.steps.max(1) as i64, looked.steps)
}
