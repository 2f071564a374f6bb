//! Run analyses over traces on several threads, with results independent of their number.

use crate::{Error, Progress, concatenate, ranks};
use stackline_analyze::Analysis;
use stackline_model::{Table, Trace, TraceSet};
use stackline_store::thread_count;
use stackline_timeline::steps::StepSelection;
use stackline_timeline::{DefaultWindow, Scope, ambiguous_cycles};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Settings for running analyses: scope, number of threads, cancel flag.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Selected part of the traces.
    pub scope: Scope,
    /// Number of threads; 0 uses all cores. The result does not depend on it.
    pub threads: usize,
    /// Cancel flag, checked between analyses.
    pub watch: Progress,
}

/// Run analyses over all traces of a set. Tables of equal names of several traces become one, with `rank` as first
/// column.
pub fn run(set: &TraceSet, analyses: &[&Analysis], options: &RunOptions) -> Result<Vec<Table>, Error> {
    let jobs: Vec<(&Trace, &Analysis)> =
        set.traces.iter().flat_map(|t| analyses.iter().map(move |a| (t, *a))).collect();
    let results = parallel(jobs.len(), thread_count(options.threads), |i| {
        if options.watch.is_cancelled() {
            return None;
        }
        let (trace, analysis) = jobs[i];
        Some(run_one(trace, analysis, &options.scope))
    });
    let mut results = results.into_iter();
    let mut per_rank = Vec::with_capacity(set.traces.len());
    for rank in ranks(set) {
        let mut tables = Vec::new();
        for result in results.by_ref().take(analyses.len()) {
            tables.extend(result.ok_or(Error::Cancelled)?);
        }
        per_rank.push((rank, tables));
    }
    Ok(concatenate(per_rank))
}

/// Run analyses over one trace, and return their tables in order.
///
/// # Errors
/// If the watch was canceled.
pub fn run_trace(trace: &Trace, analyses: &[&Analysis], options: &RunOptions) -> Result<Vec<Table>, Error> {
    let results = parallel(analyses.len(), thread_count(options.threads), |at| {
        (!options.watch.is_cancelled()).then(|| run_one(trace, analyses[at], &options.scope))
    });
    let mut tables = Vec::new();
    for result in results {
        tables.extend(result.ok_or(Error::Cancelled)?);
    }
    Ok(tables)
}

/// First words of the note on a table that covers the whole trace, although other tables cover only its steps.
pub const OF_WHOLE_TRACE: &str = "Covers the whole trace";

/// Prefix of tables that reproduce HTA's.
const OF_HTA: &str = "hta_";

/// Run one analysis over the selected part of one trace, by default over the analysis's own default window. Tables that
/// reproduce another tool keep that tool's window, with a note; other tables of the analysis cover the steps.
pub fn run_one(trace: &Trace, analysis: &Analysis, scope: &Scope) -> Vec<Table> {
    let tables = (analysis.run)(trace, &scope.resolve(analysis.window, trace));
    let DefaultWindow::WholeAs(tool) = analysis.window else { return tables };
    if *scope != Scope::default() || StepSelection::select(trace, scope).steps == 0 {
        return tables;
    }
    let has_others = tables.iter().any(|table| !table.name.starts_with(OF_HTA));
    let mut of_steps = if has_others { (analysis.run)(trace, &scope.resolved(trace)) } else { Vec::new() };
    let note = |is_of_hta: bool| {
        let except = if is_of_hta { " except the last of several profiler steps" } else { "" };
        format!("{OF_WHOLE_TRACE}{except}, as in {tool}, unless steps are selected.")
    };
    let one = |table: Table| {
        let is_of_hta = table.name.starts_with(OF_HTA);
        match of_steps.iter().position(|other| other.name == table.name) {
            Some(at) if !is_of_hta => of_steps.swap_remove(at),
            _ => table.note(note(is_of_hta)),
        }
    };
    tables.into_iter().map(one).collect()
}

/// Check that at least one trace has a step in the range of a scope; the error lists the existing steps. A scope
/// without steps passes.
pub fn check_steps(traces: &[Trace], scope: &Scope) -> Result<(), Error> {
    let Some((first, last)) = scope.steps else { return Ok(()) };
    let mut available: Vec<i64> = traces.iter().flat_map(|t| t.steps.iter().map(|s| s.number)).collect();
    available.sort_unstable();
    available.dedup();
    if available.iter().any(|s| (first..=last).contains(s)) {
        Ok(())
    } else {
        Err(Error::NoStep { first, last, available })
    }
}

/// Check that the step numbers of a scope belong to a single profiler cycle of a trace; the error lists the cycles.
pub fn check_cycles(trace: &Trace, scope: &Scope) -> Result<(), Error> {
    let Some((first, last)) = scope.steps else { return Ok(()) };
    match ambiguous_cycles(trace, (first, last)) {
        cycles if cycles.is_empty() => Ok(()),
        cycles => Err(Error::AmbiguousSteps { name: trace.meta.name.clone(), first, last, cycles }),
    }
}

/// Run `job` for each number from 0 to `count` - 1 on up to `threads` threads, with results in order. Each free thread
/// takes the next job.
pub(crate) fn parallel<T: Send>(count: usize, threads: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = threads.clamp(1, count.max(1));
    if threads == 1 {
        return (0..count).map(job).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= count {
                        break;
                    }
                    let result = job(i);
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((i, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_analyze::Display;
    use stackline_model::Unit;

    fn length(trace: &Trace, _: &Scope) -> Vec<Table> {
        vec![Table::new("length", "").i64("events", Unit::None, [trace.report.events as i64])]
    }

    const LENGTH: Analysis = Analysis {
        name: "length",
        about: "",
        tables: &["length"],
        window: DefaultWindow::Own,
        commands: &[],
        display: Display::All,
        run: length,
    };

    fn set() -> TraceSet {
        let trace = |i| {
            let mut trace = Trace::default();
            trace.report.events = i;
            trace
        };
        TraceSet { traces: (0..20).map(trace).collect() }
    }

    #[test]
    fn threads_do_not_change_the_result() {
        let with =
            |threads| run(&set(), &[&LENGTH, &LENGTH], &RunOptions { threads, ..RunOptions::default() }).unwrap();
        assert_eq!(with(1), with(8));
        assert_eq!(with(1)[0].rows(), 40);
    }

    #[test]
    fn a_cancelled_run_ends() {
        let options = RunOptions::default();
        options.watch.cancel();
        assert!(matches!(run(&set(), &[&LENGTH], &options), Err(Error::Cancelled)));
    }

    #[test]
    fn tables_of_hta_note_the_excluded_last_step() {
        let text = "1/1 user_annotation ProfilerStep#0 0+10\n1/1 user_annotation ProfilerStep#1 10+10";
        let json = stackline_testkit::mini::trace(text);
        let trace = stackline_ingest::read_bytes("trace", json.as_bytes(), &Default::default()).unwrap();
        let analysis = stackline_analyze::analyses::find("hta_temporal_breakdown").unwrap();
        let [table] = &run_one(&trace, analysis, &Scope::default())[..] else { panic!() };
        let note =
            "Covers the whole trace except the last of several profiler steps, as in HTA, unless steps are selected.";
        assert!(table.notes.iter().any(|known| known == note), "{:?}", table.notes);
        let chosen = run_one(&trace, analysis, &Scope::from_steps(Some((0, 0))));
        assert!(chosen.iter().flat_map(|table| &table.notes).all(|note| !note.starts_with(OF_WHOLE_TRACE)));
    }

    #[test]
    fn steps_that_do_not_exist_are_an_error() {
        let scope = Scope::from_steps(Some((2, 3)));
        assert!(matches!(check_steps(&set().traces, &scope), Err(Error::NoStep { .. })));
        assert!(check_steps(&set().traces, &Scope::default()).is_ok());
    }
}
