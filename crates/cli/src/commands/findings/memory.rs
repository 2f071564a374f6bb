//! Findings about memory, beside those about time or alone.

use crate::args::Common;
use crate::commands::memory::described;
use crate::failure::wrong_use;
use crate::session::Session;
use anyhow::Result;
use stackline_analyze::findings::{Finding, Findings, MemoryFindings, Options};
use stackline_engine::{OpenOptions, is_recording, memory_findings};
use stackline_memory::Study;
use stackline_model::{MemoryTrace, Severity, Trace, TraceSet};
use std::path::{Path, PathBuf};

/// Findings are told of the highest peak of each device.
const PEAKS: usize = 1;

type Keep<'k> = &'k dyn Fn(&Finding) -> bool;

/// Of a file of memory alone.
pub(super) fn alone<'a>(
    path: &Path,
    common: &'a Common,
    (options, has_own): (&Options, bool),
    keep: Keep<'_>,
) -> Result<(Session<'a>, Findings)> {
    if has_own {
        return Err(wrong_use(format!(
            "rules of your own look at what ran, and {} is of memory alone; leave out --rules",
            path.display()
        )));
    }
    if common.steps.is_some() {
        return Err(wrong_use("a memory trace has neither steps nor ranks to choose from"));
    }
    let open = OpenOptions { threads: common.threads, ..OpenOptions::default() };
    let trace = stackline_engine::open_memory(path, &open)?;
    let found = memory_findings(&Study::new(&trace, PEAKS), options.least_percent, keep);
    let mut session = Session::empty(common);
    session.set = TraceSet { traces: vec![described(&trace)] };
    Ok((session, Findings::of_memory_alone(found)))
}

/// The memory trace that the input holds beside its traces.
pub(super) fn beside(inputs: &[PathBuf], options: &OpenOptions) -> Result<Option<MemoryTrace>> {
    let [path] = inputs else { return Ok(None) };
    Ok(stackline_engine::memory_beside(path, options)?)
}

/// Of the rank that was chosen: the memory of a recording is that of a process, and not known to be this rank's.
pub(super) fn of_rank(
    found: Findings,
    (inputs, trace): (&[PathBuf], &Trace),
    options: &Options,
    keep: Keep<'_>,
) -> Findings {
    if !inputs.iter().any(|path| is_recording(path)) {
        return added(found, stackline_engine::memory_within(trace).as_ref(), options, keep);
    }
    let mut found = found;
    found.notes.push("memory is looked at only without --rank".to_owned());
    found
}

/// Adds what is found in the memory of a run, or that it tells nothing of memory.
pub(super) fn added(found: Findings, memory: Option<&MemoryTrace>, options: &Options, keep: Keep<'_>) -> Findings {
    let Some(trace) = memory else { return found.with_memory(MemoryFindings::unchecked()) };
    let of_memory = memory_findings(&Study::new(trace, PEAKS), options.least_percent, keep);
    let mut found = found.with_memory(of_memory);
    if options.scope.steps.is_some() {
        found.notes.push("what is found in memory is of the whole run, whatever the steps".to_owned());
    }
    if trace.report.problems.iter().any(|problem| problem.severity != Severity::Note) {
        found.notes.push("not all of the memory could be read as it stands: `stackline memory` tells what".to_owned());
    }
    found
}
