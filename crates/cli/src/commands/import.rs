//! `import`: store traces, memory traces or a profile as a run directory.

use super::calls::{of_rank, read_report_of};
use super::memory::described;
use crate::args::{Common, ImportArgs};
use crate::failure::{command_line, wrong_use};
use crate::output::{may_become_run, print_message, print_read_report, save_profile, save_run};
use crate::session::{Session, reading, run_of};
use anyhow::{Error, Result};
use stackline_engine::{Part, Run};
use stackline_model::{CallingContextTree, MemoryTrace, TraceSet};
use stackline_present::human;
use stackline_query::Content;
use std::path::{Path, PathBuf};

/// Run `stackline import`: store traces, memory traces or a profile as a run directory.
pub(crate) fn run(args: &ImportArgs, common: &Common) -> Result<()> {
    let Some(run) = &common.output else {
        return Err(wrong_use("import needs the name of a run directory: add -o NAME.stackline"));
    };
    if common.steps.is_some() {
        return Err(wrong_use("--steps does not apply, because import stores whole traces"));
    }
    may_become_run(run, args.force)?;
    let (mut memory, traces) = match split_inputs(&args.inputs.inputs, common)? {
        SplitInputs::Profile(tree) => return import_profile(&tree, (&args.inputs.inputs[0], run), args.force),
        SplitInputs::Others { memory, traces } => (memory, traces),
    };
    let Some(mut traces) = traces else {
        save_run(&TraceSet::default(), &memory, run, args.force)?;
        print_memory_note(&memory, run)?;
        return print_read_report(&TraceSet { traces: memory.iter().map(described).collect() });
    };
    let session = Session::from_run(&mut traces, common).map_err(of_profile_among_others)?;
    // Which process of a recording a rank is, its memory does not say.
    memory.extend(if common.rank.is_none() { traces.memories()? } else { traces.memories_of_traces()? });
    // Compute this before the run gets its name: cached results in the run directory must belong to this run.
    let whole =
        common.rank.is_none().then(|| Content::compute(&session.set, &session.infos, &session.run_options(), true));
    let report = whole.transpose()?;
    save_run(&session.set, &memory, run, args.force)?;
    if let Some(report) = report {
        report.store_in_cache(run);
    }
    let events: usize = session.infos.iter().map(|i| i.events).sum();
    let (events, next) = (human::count(events), command_line("report", std::slice::from_ref(run), &[]));
    let path = run.display();
    print_message(&match session.infos.len() {
        1 => format!("{path}: imported {events} events of 1 trace. Next: {next}"),
        traces => format!("{path}: imported {events} events of {traces} traces. Next: {next}"),
    })?;
    if !memory.is_empty() {
        print_memory_note(&memory, run)?;
    }
    session.print_read_report()
}

/// Inputs of an import by their content.
enum SplitInputs {
    /// Call tree of the only input: a profile, or a recording without individual calls.
    Profile(Box<CallingContextTree>),
    /// Any other inputs.
    Others {
        /// Memory traces of the inputs that contain only memory.
        memory: Vec<MemoryTrace>,
        /// Run of all other inputs, if there are any.
        traces: Option<Run>,
    },
}

/// Read a profile or memory traces, and open the run of all other inputs.
fn split_inputs(inputs: &[PathBuf], common: &Common) -> Result<SplitInputs> {
    if let [input] = inputs {
        // Reading a single input determines its kind.
        let run = run_of(inputs, common)?.with_memory(common.rank.is_none());
        let parts = reading(&run, Run::parts).map_err(|error| of_pipe(error, &run))?;
        return Ok(match parts[..] {
            [Part::Profile] => {
                let tree = of_rank(reading(&run, Run::profile)?, (input.as_path(), common.rank))?;
                SplitInputs::Profile(Box::new(tree))
            }
            [Part::Memory] => SplitInputs::Others { memory: run.memories()?, traces: None },
            _ => SplitInputs::Others { memory: Vec::new(), traces: Some(run) },
        });
    }
    let (mut memory, mut others) = (Vec::new(), Vec::new());
    for input in inputs {
        let run = run_of(std::slice::from_ref(input), common)?;
        // Errors of unreadable inputs are reported where the inputs are opened.
        if run.is_memory_alone().unwrap_or(false) {
            memory.extend(run.memories()?);
        } else {
            others.push(input.clone());
        }
    }
    let traces = if others.is_empty() { None } else { Some(run_of(&others, common)?) };
    Ok(SplitInputs::Others { memory, traces })
}

/// True if an error means that an input is a profile or a recording without individual calls.
fn lacks_traces(error: &Error) -> bool {
    let error = error.downcast_ref::<stackline_engine::Error>();
    matches!(error, Some(stackline_engine::Error::Lacks(lacks)) if lacks.has == [Part::Profile])
}

/// Error of a profile from a pipe: its kind is known only after it was read, and it cannot be read again.
fn of_pipe(error: Error, run: &Run) -> Error {
    if run.is_read_once() && lacks_traces(&error) {
        let input = run.name();
        return wrong_use(format!(
            "{input}: a profile that is read from a pipe cannot be imported; give the profile as a file"
        ));
    }
    error
}

/// Error of inputs, or of a folder, with a profile among them: a run directory stores only one, without traces.
fn of_profile_among_others(error: Error) -> Error {
    if lacks_traces(&error) {
        return wrong_use(format!("{error}. `import` stores a profile only if its file is the only input"));
    }
    error
}

/// Store a call tree as a run directory, and print its read report.
fn import_profile(tree: &CallingContextTree, (input, run): (&Path, &Path), force: bool) -> Result<()> {
    save_profile(tree, run, force)?;
    let paths = human::count(tree.nodes.len().saturating_sub(1));
    let (path, next) = (run.display(), command_line("calls", &[run.to_path_buf()], &[]));
    print_message(&format!("{path}: imported a profile with {paths} call paths. Next: {next}"))?;
    print_read_report(&TraceSet { traces: vec![read_report_of(input, tree)] })
}

fn print_memory_note(memory: &[MemoryTrace], run: &Path) -> Result<()> {
    let sum = |count: fn(&MemoryTrace) -> usize| human::count(memory.iter().map(count).sum::<usize>());
    let (objects, calls) = (sum(|trace| trace.objects.len()), sum(|trace| trace.calls.len()));
    let (path, next) = (run.display(), command_line("memory", &[run.to_path_buf()], &[]));
    print_message(&format!(
        "{path}: imported memory data with {objects} memory objects and {calls} memory calls. Next: {next}"
    ))
}
