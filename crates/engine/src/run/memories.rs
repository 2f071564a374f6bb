//! Memory traces of a run: separate ones of its inputs, and those of its traces with memory events.

use super::{Run, Timeline, lock};
use crate::open::{open_with_memory, runs_below};
use crate::requirements::read_error;
use crate::{Error, Lacks, Part, is_run, memory, position_of_rank};
use stackline_ingest::memory::from_trace;
use stackline_ingest::recording::{TracesAndMemory, is_shown_by};
use stackline_ingest::sources::part_readers;
use stackline_model::{MemoryTrace, Trace, TraceSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Memory traces that are decoded together with the traces of a recording, until their first request.
#[derive(Debug, Default)]
pub(super) enum DecodedMemory {
    /// The caller needs traces or memory, not both, or has requested the memory.
    #[default]
    Unneeded,
    /// The caller needs both; the traces were not read.
    Needed,
    /// Memory traces of all processes, the one with the highest peak first.
    Kept(Vec<MemoryTrace>),
}

impl Run {
    /// Same run for a caller that needs traces and, if `is_needed`, memory as well: a recording of individual calls is
    /// then decoded once for both. Its memory traces are kept with the traces until their first request.
    #[must_use]
    pub fn with_memory(self, is_needed: bool) -> Self {
        let memory = if is_needed { DecodedMemory::Needed } else { DecodedMemory::Unneeded };
        Self { memory: memory.into(), ..self }
    }

    /// Read the traces of a recording, and keep memory traces that are decoded with them; `None` for any other input,
    /// and if memory is not needed.
    pub(super) fn open_with_memory(&self) -> Result<Option<TraceSet>, Error> {
        let [input] = &self.inputs[..] else { return Ok(None) };
        if !matches!(*lock(&self.memory), DecodedMemory::Needed) {
            return Ok(None);
        }
        let Some(TracesAndMemory { traces, memory }) = open_with_memory(input, &self.options)? else { return Ok(None) };
        // Memory that cannot be read gives its error on request.
        *lock(&self.memory) = memory.map_or(DecodedMemory::Unneeded, DecodedMemory::Kept);
        Ok(Some(traces))
    }

    /// Take the memory traces that were decoded together with the traces, if any.
    fn take_decoded(&self) -> Option<Vec<MemoryTrace>> {
        match std::mem::take(&mut *lock(&self.memory)) {
            DecodedMemory::Kept(processes) => Some(processes),
            DecodedMemory::Unneeded | DecodedMemory::Needed => None,
        }
    }

    /// Memory traces that an input has in addition to its traces, the one with the highest peak first for a recording.
    fn additional_memory(&self, input: &Path) -> Result<Vec<MemoryTrace>, Error> {
        self.take_decoded().map_or_else(|| memory::all_memory_next_to(input, &self.options), Ok)
    }

    /// Memory trace of one rank, or of the run if no rank is given. For a run: the memory trace of the first input with
    /// memory data in addition to its traces (of a recording, the process with the highest peak). Without one: the
    /// memory trace of a memory file, or that of the first trace with memory events.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn memory(&self, rank: Option<i64>) -> Result<MemoryTrace, Error> {
        if let Some(memory) = self.find_memory(rank)? {
            return Ok(memory);
        }
        let Some(rank) = rank else { return Err(self.lacks(Part::Memory)) };
        let set = self.traces()?;
        let trace = &set.traces[position_of_rank(&set, rank)?];
        Err(Lacks::new(Path::new(&trace.meta.name), Part::Memory, []).into())
    }

    /// Memory trace of one rank, or of the run ([`Self::memory`]), if any. For a rank: the memory trace that is stored
    /// under its trace's name (of a recording, the process with the highest peak), else memory events of the trace.
    ///
    /// # Errors
    /// If it cannot be read, or the rank does not exist.
    pub fn find_memory(&self, rank: Option<i64>) -> Result<Option<MemoryTrace>, Error> {
        if let Some(rank) = rank {
            let set = self.traces()?;
            let trace = &set.traces[position_of_rank(&set, rank)?];
            for input in &self.inputs {
                let additional = self.additional_memory(input)?;
                if let Some(own) = additional.into_iter().find(|memory| is_shown_by(memory, &trace.meta.name)) {
                    return Ok(Some(own));
                }
            }
            return Ok(from_trace(trace));
        }
        for input in &self.inputs {
            let additional = match self.take_decoded() {
                Some(processes) => memory::first_of_processes(processes),
                None => memory::memory_next_to(input, &self.options)?,
            };
            if additional.is_some() {
                return Ok(additional);
            }
        }
        // The lock is released, because other callers may need the traces meanwhile.
        let set = match &*lock(&self.timeline) {
            Timeline::Traces(set) => Some(Arc::clone(set)),
            Timeline::AlreadyRead(within) => return Ok(within.as_deref().cloned()),
            Timeline::Lacking(lacks) if lacks.has != [Part::Memory] => return Ok(None),
            // The input was read to its end.
            Timeline::Lacking(lacks) if self.is_read_once() => return Err((**lacks).clone().into()),
            Timeline::Lacking(_) | Timeline::Unread => None,
        };
        set.map_or_else(|| self.read_memory(), |set| Ok(memory::first_of_traces(&set.traces)))
    }

    /// Memory trace of inputs without separate memory data whose traces were not read.
    fn read_memory(&self) -> Result<Option<MemoryTrace>, Error> {
        let path = match &self.inputs[..] {
            [path] if part_readers(path).is_some() => return Ok(None),
            [path] if !is_run(path) && (!path.is_dir() || runs_below(path).is_empty()) => path,
            [_, _, ..] if self.is_memory_alone()? => {
                return Err(self.lacks_traces().into());
            }
            _ => {
                self.read().map_err(|error| match error {
                    Error::Ingest(error) => read_error(error, &self.inputs, Part::Memory),
                    other => other,
                })?;
                return Ok(match &*lock(&self.timeline) {
                    Timeline::Traces(set) => memory::first_of_traces(&set.traces),
                    _ => None,
                });
            }
        };
        let found = memory::read(path, &self.options)?;
        *lock(&self.timeline) = match found {
            Ok(memory) => return Ok(Some(memory)),
            Err(Part::Traces) => Timeline::AlreadyRead(None),
            Err(part) => Timeline::Lacking(Box::new(Lacks::new(path, Part::Traces, [part]))),
        };
        Ok(None)
    }

    /// Memory traces of all processes: those of recordings and runs, and those of traces with memory events that are
    /// not among them. The first one is that of [`Self::memory`].
    ///
    /// # Errors
    /// If nothing can be read, a run is damaged, or the watch was canceled.
    pub fn memories(&self) -> Result<Vec<MemoryTrace>, Error> {
        let mut found = Vec::new();
        for input in &self.inputs {
            match self.additional_memory(input) {
                // The read report of the traces lists unreadable streams.
                Err(error) if !matches!(error, Error::Cancelled) && part_readers(input).is_some() => {}
                additional => found.extend(additional?),
            }
        }
        if found.is_empty() && self.is_memory_alone()? {
            return match &self.inputs[..] {
                [input] if !self.is_read_once() => memory::read_all(input, &self.options),
                _ => Ok(vec![self.memory(None)?]),
            };
        }
        let of_traces = self.other_memories(&found)?;
        found.extend(of_traces);
        Ok(found)
    }

    /// Memory traces of traces with memory events.
    ///
    /// # Errors
    /// If an input cannot be read.
    pub fn memories_of_traces(&self) -> Result<Vec<MemoryTrace>, Error> {
        self.other_memories(&[])
    }

    /// Memory traces from memory events of the run's traces, except those with the label of a known one.
    fn other_memories(&self, known: &[MemoryTrace]) -> Result<Vec<MemoryTrace>, Error> {
        if !self.parts()?.contains(&Part::Traces) {
            return Ok(Vec::new());
        }
        // A run's stored memory traces were computed from its traces.
        let is_new = |trace: &&Trace| known.iter().all(|known| known.label != trace.meta.name);
        Ok(self.traces()?.traces.iter().filter(is_new).filter_map(from_trace).collect())
    }

    /// Separate memory traces of all processes, by input, highest peak first; each read report has their number.
    ///
    /// # Errors
    /// If an input cannot be read.
    pub fn memories_of_processes(&self) -> Result<Vec<MemoryTrace>, Error> {
        // An unreadable input has no processes, and gives its error here.
        self.is_memory_alone()?;
        let mut processes = Vec::new();
        for input in &self.inputs {
            processes.extend(self.additional_memory(input)?);
        }
        let count = processes.len();
        Ok(processes.into_iter().map(|trace| memory::with_candidate_count(trace, count)).collect())
    }

    /// True if the inputs contain only memory data, no execution trace. Reads the first bytes of files, and nothing of
    /// standard input.
    ///
    /// # Errors
    /// If an input cannot be read.
    pub fn is_memory_alone(&self) -> Result<bool, Error> {
        let timeline = &mut *lock(&self.timeline);
        if matches!(timeline, Timeline::Unread) && self.are_of_memory()? {
            *timeline = Timeline::Lacking(Box::new(self.lacks_traces()));
        }
        Ok(matches!(timeline, Timeline::Lacking(lacks) if lacks.has == [Part::Memory]))
    }

    /// True if all inputs contain only memory data; of several inputs, an unreadable one gives false.
    fn are_of_memory(&self) -> Result<bool, Error> {
        for input in &self.inputs {
            // Of several inputs, unreadable ones give their error when they are opened.
            match memory::is_memory_only(input) {
                Ok(true) => {}
                Err(_) if self.inputs.len() > 1 => return Ok(false),
                other => return other,
            }
        }
        Ok(true)
    }

    /// Files of memory-only inputs with several memory traces. Names are relative to the folder if that is the only
    /// input. None for a single memory trace, or for other inputs.
    ///
    /// # Errors
    /// If an input cannot be read.
    pub fn memory_files(&self) -> Result<Vec<(PathBuf, String)>, Error> {
        let is_file = matches!(&self.inputs[..], [only] if !only.is_dir());
        let looks = !self.is_read_once() && (is_file || self.is_memory_alone()?);
        if looks { memory::files(&self.inputs).map(memory::files_of_several) } else { Ok(Vec::new()) }
    }

    /// All memory traces of one of [`Self::memory_files`].
    ///
    /// # Errors
    /// If the file cannot be read, or has none.
    pub fn memories_of_file(&self, file: &Path) -> Result<Vec<MemoryTrace>, Error> {
        memory::read_all(file, &self.options)
    }
}
