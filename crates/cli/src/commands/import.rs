//! `import`: traces and memory traces to a run directory.

use crate::args::{Common, ImportArgs};
use crate::failure::wrong_use;
use crate::output::{may_become_run, save_run, say, say_read_report};
use crate::session::{Session, open_options};
use anyhow::Result;
use stackline_model::{MemoryTrace, Trace, TraceSet};
use stackline_present::human;
use stackline_query::Content;
use std::path::{Path, PathBuf};

/// Runs the command.
pub(crate) fn run(args: &ImportArgs, common: &Common) -> Result<()> {
    let Some(run) = &common.output else {
        return Err(wrong_use("import needs a place for the run: add -o NAME.stackline"));
    };
    if common.steps.is_some() {
        return Err(wrong_use("import takes traces whole: --steps is for the commands that look at them"));
    }
    may_become_run(run, args.force)?;
    let inputs = &args.inputs.inputs;
    // A single input is told by being opened.
    let opened = if inputs.len() == 1 { Some(Session::open(inputs, common)) } else { None };
    let (mut memory, traces) = match &opened {
        Some(Ok(_)) => (Vec::new(), inputs.clone()),
        _ => apart(inputs)?,
    };
    if traces.is_empty() {
        save_run(&TraceSet::default(), &memory, run, args.force)?;
        say_memory(&memory, run)?;
        return say_read_report(&described(&memory));
    }
    let session = opened.unwrap_or_else(|| Session::open(&traces, common))?;
    // Which process of a recording a rank is, its memory does not say.
    let whole = if common.rank.is_none() { &traces[..] } else { &[] };
    memory.extend(stackline_engine::all_memory(whole, &session.set, &open_options(common))?);
    // Worked out before the run gets its name: what is kept there must be of this run and no other.
    let whole =
        common.rank.is_none().then(|| Content::compute(&session.set, &session.infos, &session.run_options(), true));
    let report = whole.transpose()?;
    save_run(&session.set, &memory, run, args.force)?;
    if let Some(report) = report {
        report.keep(run);
    }
    let events: usize = session.infos.iter().map(|i| i.events).sum();
    say(&format!(
        "{}: {} events of {} {}. Next: stackline report {}",
        run.display(),
        human::count(events),
        session.infos.len(),
        if session.infos.len() == 1 { "trace" } else { "traces" },
        run.display()
    ))?;
    if !memory.is_empty() {
        say_memory(&memory, run)?;
    }
    session.say_read_report()
}

/// The memory traces of inputs that are of memory alone, and the other inputs.
fn apart(inputs: &[PathBuf]) -> Result<(Vec<MemoryTrace>, Vec<PathBuf>)> {
    let (mut memory, mut others) = (Vec::new(), Vec::new());
    for input in inputs {
        match stackline_engine::only_memory(input)? {
            Some(of_memory) => memory.extend(of_memory),
            None => others.push(input.clone()),
        }
    }
    Ok((memory, others))
}

/// Traces that are nothing but the read reports of memory traces.
fn described(memory: &[MemoryTrace]) -> TraceSet {
    let describe = |memory: &MemoryTrace| {
        let mut trace = Trace::default();
        trace.meta.name.clone_from(&memory.label);
        trace.report = memory.report.clone();
        trace
    };
    TraceSet { traces: memory.iter().map(describe).collect() }
}

fn say_memory(memory: &[MemoryTrace], run: &Path) -> Result<()> {
    let sum = |count: fn(&MemoryTrace) -> usize| human::count(memory.iter().map(count).sum::<usize>());
    say(&format!(
        "{}: memory of {} objects, {} calls. Next: stackline memory {}",
        run.display(),
        sum(|trace| trace.objects.len()),
        sum(|trace| trace.calls.len()),
        run.display()
    ))
}
