//! The parts of an opened run: traces, calls, memory.

use crate::{Error, OpenOptions, has_calls, note_lost, open, open_calls_watched, open_memory};
use stackline_model::{CallTree, MemoryTrace, TraceSet};
use std::path::PathBuf;

/// An opened run: each part is there if an input holds it.
#[derive(Debug, Default)]
pub struct Parts {
    /// Single events, one trace per rank or file. Empty if no input holds any.
    pub traces: TraceSet,
    /// The calling context tree of a recording or a profile.
    pub calls: Option<CallTree>,
    /// Memory of a file that tells of nothing else; what traces tell of it is left in them.
    pub memory: Option<MemoryTrace>,
    /// Why there are no traces, where another part is all there is.
    pub without_traces: Option<Error>,
}

impl Parts {
    /// Opens inputs: their traces or, where they hold none, what else there is.
    ///
    /// # Errors
    /// If nothing of an input can be read.
    pub fn open(inputs: &[PathBuf], options: &OpenOptions) -> Result<Self, Error> {
        Self::of(inputs, (open(inputs, options), None), options)
    }

    /// The same, and the calls of a recording beside its traces: both stand in the same streams, and are read at the same time.
    ///
    /// # Errors
    /// If nothing of an input can be read, or its calls cannot.
    pub fn open_with_calls(inputs: &[PathBuf], options: &OpenOptions) -> Result<Self, Error> {
        let (calls, opened) = std::thread::scope(|scope| {
            let calls = match inputs {
                [run] if has_calls(run) => Some(scope.spawn(|| open_calls_watched(run, options))),
                _ => None,
            };
            let opened = open(inputs, options);
            (calls.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))), opened)
        });
        Self::of(inputs, (opened, calls.transpose()?), options)
    }

    fn of(
        inputs: &[PathBuf],
        (opened, calls): (Result<TraceSet, Error>, Option<CallTree>),
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        let error = match opened {
            Ok(traces) => return Ok(Self { traces, calls, ..Self::default() }),
            Err(error) => error,
        };
        let mut parts = Self::default();
        match (&error, inputs) {
            // Of several inputs, or a directory of runs, one must not stand for all.
            (Error::OnlyCalls { path, report }, [input]) if path == input => {
                let mut tree = calls.map_or_else(|| open_calls_watched(path, options), Ok)?;
                note_lost(&mut tree.report, report);
                parts.calls = Some(tree);
            }
            (Error::OnlyMemory { path }, [input]) if path == input => parts.memory = Some(open_memory(path, options)?),
            _ => return Err(error),
        }
        Ok(Self { without_traces: Some(error), ..parts })
    }
}
