//! Opens inputs as the parts of a run that they hold, for whoever can show more than traces.

use crate::{Error, OpenOptions, has_calls, note_lost, open, open_calls, open_memory};
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
                [run] if has_calls(run) => Some(scope.spawn(|| open_calls(run))),
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
            (Error::OnlyCalls { path, report }, [_]) => {
                let mut tree = calls.map_or_else(|| open_calls(path), Ok)?;
                note_lost(&mut tree.report, report);
                parts.calls = Some(tree);
            }
            (Error::OnlyMemory { path }, [_]) => parts.memory = Some(open_memory(path, options)?),
            _ => return Err(error),
        }
        Ok(Self { without_traces: Some(error), ..parts })
    }
}
