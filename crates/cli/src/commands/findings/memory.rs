//! Findings of files of memory alone, and the memory beside traces.

use crate::args::Common;
use crate::commands::memory::described;
use crate::failure::{one_alone, wrong_use};
use crate::session::Session;
use anyhow::{Error, Result};
use stackline_analyze::findings::{Finding, Findings, Options};
use stackline_engine::OpenOptions;
use stackline_model::{MemoryTrace, TraceSet};
use std::path::{Path, PathBuf};

/// The file that is of memory alone, if that is why opening traces ended.
pub(super) fn path_of(error: &Error) -> Option<PathBuf> {
    match error.downcast_ref() {
        Some(stackline_engine::Error::OnlyMemory { path }) => Some(path.clone()),
        _ => None,
    }
}

/// Of a file of memory alone.
pub(super) fn alone<'a>(
    (inputs, path): (&[PathBuf], &Path),
    common: &'a Common,
    (options, has_own): (&Options, bool),
    keep: &dyn Fn(&Finding) -> bool,
) -> Result<(Session<'a>, Findings)> {
    one_alone(inputs, path)?;
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
    let found = stackline_engine::findings_of_memory(&trace, options, keep);
    let mut session = Session::empty(common);
    session.set = TraceSet { traces: vec![described(&trace)] };
    Ok((session, found))
}

/// The memory trace that the input holds beside its traces.
pub(super) fn beside(inputs: &[PathBuf], options: &OpenOptions) -> Result<Option<MemoryTrace>> {
    let [path] = inputs else { return Ok(None) };
    Ok(stackline_engine::memory_beside(path, options)?)
}
