//! `import`: store traces and memory traces as a run directory.

use super::memory::described;
use crate::args::{Common, ImportArgs};
use crate::failure::{command_line, wrong_use};
use crate::output::{may_become_run, print_message, print_read_report, save_run};
use crate::session::{Session, reading, run_of};
use anyhow::Result;
use stackline_engine::{Part, Run};
use stackline_model::{MemoryTrace, TraceSet};
use stackline_present::human;
use stackline_query::Content;
use std::path::{Path, PathBuf};

/// Run `stackline import`: store traces and memory traces as a run directory.
pub(crate) fn run(args: &ImportArgs, common: &Common) -> Result<()> {
    let Some(run) = &common.output else {
        return Err(wrong_use("import needs the name of a run directory: add -o NAME.stackline"));
    };
    if common.steps.is_some() {
        return Err(wrong_use("--steps does not apply, because import stores whole traces"));
    }
    may_become_run(run, args.force)?;
    let (mut memory, traces) = split_memory_inputs(&args.inputs.inputs, common)?;
    let Some(mut traces) = traces else {
        save_run(&TraceSet::default(), &memory, run, args.force)?;
        print_memory_note(&memory, run)?;
        return print_read_report(&TraceSet { traces: memory.iter().map(described).collect() });
    };
    let session = Session::from_run(&mut traces, common)?;
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

/// Memory traces of the inputs that contain only memory, and the run of all other inputs, if there are any.
fn split_memory_inputs(inputs: &[PathBuf], common: &Common) -> Result<(Vec<MemoryTrace>, Option<Run>)> {
    if let [_] = inputs {
        // Reading a single input determines its kind.
        let run = run_of(inputs, common)?.with_memory(common.rank.is_none());
        let is_memory = reading(&run, Run::parts)? == [Part::Memory];
        return Ok(if is_memory { (run.memories()?, None) } else { (Vec::new(), Some(run)) });
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
    let others = if others.is_empty() { None } else { Some(run_of(&others, common)?) };
    Ok((memory, others))
}

fn print_memory_note(memory: &[MemoryTrace], run: &Path) -> Result<()> {
    let sum = |count: fn(&MemoryTrace) -> usize| human::count(memory.iter().map(count).sum::<usize>());
    let (objects, calls) = (sum(|trace| trace.objects.len()), sum(|trace| trace.calls.len()));
    let (path, next) = (run.display(), command_line("memory", &[run.to_path_buf()], &[]));
    print_message(&format!(
        "{path}: imported memory data with {objects} memory objects and {calls} memory calls. Next: {next}"
    ))
}
