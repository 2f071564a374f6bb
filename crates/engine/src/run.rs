//! Run: parts of one or several inputs, each opened on first use.

mod memories;

use crate::calls::{self, is_calls, is_recording, open_calls};
use crate::map::{Mapped, map_few, map_many};
use crate::open::{only_run, open, open_ranks, runs_below};
use crate::ranks::select_rank;
use crate::{Error, Lacks, LeftOut, OpenOptions, Part, Progress, RunOptions, is_run, memory};
use memories::DecodedMemory;
use stackline_ingest::memory::from_trace;
use stackline_model::{CallingContextTree, EventKind, MemoryTrace, Problem, Severity, Trace, TraceSet};
use stackline_timeline::Scope;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Run of one or several inputs: files, archives, directories of traces, run directories, standard input (`-`).
///
/// Opening reads no file. Traces are read once and kept. A profile and memory traces are read on each request, because
/// their users change or keep them; see also [`Run::with_memory`].
#[derive(Debug)]
pub struct Run {
    inputs: Vec<PathBuf>,
    options: OpenOptions,
    timeline: Mutex<Timeline>,
    memory: Mutex<DecodedMemory>,
}

/// State of the traces of a run: unread, in memory, missing, or already read.
#[derive(Clone, Debug)]
enum Timeline {
    Unread,
    Traces(Arc<TraceSet>),
    /// There are no traces.
    Lacking(Box<Lacks>),
    /// Traces were read one after another, or together with their memory: the first memory trace in them.
    AlreadyRead(Option<Box<MemoryTrace>>),
}

impl Run {
    /// Run of these inputs, in the given order. A folder with only a run directory is replaced by it.
    ///
    /// # Errors
    /// If there is no input.
    pub fn open(inputs: &[PathBuf], options: &OpenOptions) -> Result<Self, Error> {
        if inputs.is_empty() {
            return Err(Error::NoInput);
        }
        let only = if let [folder] = inputs { only_run(folder) } else { None };
        let (inputs, options) = (only.map_or_else(|| inputs.to_vec(), |run| vec![run]), options.clone());
        Ok(Self { inputs, options, timeline: Mutex::new(Timeline::Unread), memory: Mutex::default() })
    }

    /// Same run with absolute paths, independent of the working directory.
    #[must_use]
    pub fn absolute(mut self) -> Self {
        // The reader reports paths without an absolute form.
        self.inputs.iter_mut().for_each(|path| *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone()));
        self
    }

    /// Same run for another caller: further reading reports to the caller's `watch`. Both runs share their traces.
    #[must_use]
    pub fn watched_by(&self, watch: &Progress) -> Self {
        let options = OpenOptions { watch: watch.clone(), ..self.options.clone() };
        let timeline = Mutex::new(lock(&self.timeline).clone());
        Self { inputs: self.inputs.clone(), options, timeline, memory: Mutex::default() }
    }

    /// Paths of the files and directories that the run reads.
    pub fn inputs(&self) -> &[PathBuf] {
        &self.inputs
    }

    /// Options with which the run opens its inputs.
    pub fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// Input paths as one text, separated by commas, for messages.
    pub fn name(&self) -> String {
        self.inputs.iter().map(|input| input.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Parts of the run, traces first. Reads its traces, but not folders or several inputs, which are assumed to have
    /// traces and may not fit into memory together. Memory of a recording is not searched.
    ///
    /// # Errors
    /// If nothing of an input can be read.
    pub fn parts(&self) -> Result<Vec<Part>, Error> {
        let is_read = !matches!(*lock(&self.timeline), Timeline::Unread);
        if is_read || self.is_one_input() {
            self.read()?;
        } else {
            self.is_memory_alone()?;
        }
        let (mut parts, has_memory_events) = match &*lock(&self.timeline) {
            Timeline::Lacking(lacks) => return Ok(lacks.has.clone()),
            Timeline::Traces(set) => (vec![Part::Traces], set.traces.iter().any(has_memory_events)),
            Timeline::AlreadyRead(within) => (vec![Part::Traces], within.is_some()),
            Timeline::Unread => (vec![Part::Traces], false),
        };
        let [input] = &self.inputs[..] else {
            parts.extend(has_memory_events.then_some(Part::Memory));
            return Ok(parts);
        };
        parts.extend(is_recording(input).then_some(Part::Profile));
        parts.extend((has_memory_events || memory::has_stored_memory(input)).then_some(Part::Memory));
        Ok(parts)
    }

    /// True if the only input is standard input or a pipe, which cannot be read again.
    pub fn is_read_once(&self) -> bool {
        matches!(&self.inputs[..], [input] if is_read_once(input))
    }

    /// True if exactly one trace was read.
    pub fn is_one_trace(&self) -> bool {
        matches!(&*lock(&self.timeline), Timeline::Traces(set) if set.traces.len() == 1)
    }

    /// True for a single input that is not a folder of others.
    fn is_one_input(&self) -> bool {
        let [input] = &self.inputs[..] else { return false };
        let is_whole = |files: Vec<(PathBuf, String)>| matches!(&files[..], [(file, _)] if file == input);
        !input.is_dir() || is_run(input) || stackline_ingest::files(input, &[]).is_ok_and(is_whole)
    }

    /// Traces, one per rank or file.
    ///
    /// # Errors
    /// If there are none, if an input cannot be read at all, or if the watch was canceled.
    pub fn traces(&self) -> Result<Arc<TraceSet>, Error> {
        self.read()?;
        match &*lock(&self.timeline) {
            Timeline::Traces(set) => return Ok(Arc::clone(set)),
            Timeline::Lacking(lacks) => return Err((**lacks).clone().into()),
            Timeline::Unread | Timeline::AlreadyRead(_) => {}
        }
        self.open_traces().map(Arc::new)
    }

    /// Read the traces, if they were not read before.
    fn read(&self) -> Result<(), Error> {
        let mut timeline = lock(&self.timeline);
        if matches!(*timeline, Timeline::Unread) {
            *timeline = match self.open_traces() {
                // One input must not represent several, or a directory of runs.
                Err(Error::Lacks(lacks)) if lacks.is_of_all(&self.inputs) => Timeline::Lacking(lacks),
                opened => Timeline::Traces(Arc::new(opened?)),
            };
        }
        Ok(())
    }

    /// Read the traces of all inputs, without storing them in the run.
    fn open_traces(&self) -> Result<TraceSet, Error> {
        // One run of a folder must not represent the others.
        let count = |input: &PathBuf| if is_run(input) { 1 } else { runs_below(input).len().max(1) };
        let with_memory = self.open_with_memory().transpose();
        let opened = with_memory.unwrap_or_else(|| open(&self.inputs, &self.options));
        opened.map_err(|error| error.of_one_of(self.inputs.iter().map(count).sum()))
    }

    /// Select the recording of a rank, if the inputs are recordings without individual calls, one per rank of a job.
    /// Any other run is returned unchanged; [`Self::select_rank`] handles its ranks.
    ///
    /// # Errors
    /// If no recording or several have the rank, or one cannot be read.
    pub fn recording_of_rank(mut self, rank: i64) -> Result<Self, Error> {
        if let Some(recording) = calls::recording_of_rank(&self.inputs, rank, &self.options)? {
            self.inputs = vec![recording];
        }
        Ok(self)
    }

    /// Keep only the traces of one rank.
    ///
    /// # Errors
    /// Errors of [`Self::traces`]; also if the rank does not exist.
    pub fn select_rank(&mut self, rank: i64) -> Result<(), Error> {
        let set = self.take_traces()?.map_or_else(|| self.open_traces(), Ok)?;
        self.timeline = Mutex::new(Timeline::Traces(Arc::new(select_rank(set, rank)?)));
        Ok(())
    }

    /// Take traces that were read before.
    fn take_traces(&mut self) -> Result<Option<TraceSet>, Error> {
        let timeline = self.timeline.get_mut().unwrap_or_else(PoisonError::into_inner);
        match timeline {
            Timeline::Traces(set) => {
                let set = std::mem::take(set);
                *timeline = Timeline::AlreadyRead(None);
                Ok(Some(Arc::unwrap_or_clone(set)))
            }
            Timeline::Lacking(lacks) => Err((**lacks).clone().into()),
            Timeline::Unread | Timeline::AlreadyRead(_) => Ok(None),
        }
    }

    /// Read the ranks of one job file by file, in the order of [`Self::traces`]. `take` gets each trace and, for a
    /// newer profiler cycle of a process, the index of the trace that it replaces. Returns omitted files of directories.
    ///
    /// # Errors
    /// Errors of [`Self::traces`]; also if the traces are not ranks of one job, by their metadata.
    pub fn each_rank<E: From<Error>>(
        &mut self,
        take: &mut dyn FnMut(Trace, Option<usize>) -> Result<(), E>,
    ) -> Result<LeftOut, E> {
        let opened = self.take_traces()?;
        let (mut within, mut count) = (None, 0);
        let mut note_and_take = |trace: Trace, takes_place_of: Option<usize>| {
            let at = takes_place_of.unwrap_or(count);
            count += usize::from(takes_place_of.is_none());
            within = within.take().filter(|(other, _)| *other != at).or_else(|| Some((at, from_trace(&trace)?)));
            take(trace, takes_place_of)
        };
        let left_out = open_ranks(&self.inputs, (opened, &self.options), &mut note_and_take)?;
        self.timeline = Mutex::new(Timeline::AlreadyRead(within.map(|(_, memory)| Box::new(memory))));
        Ok(left_out)
    }

    /// Call `map` with each trace and the options for its analysis. Many inputs are mapped while they are read, and
    /// traces then lose their events. The rank of a trace is known only afterwards ([`crate::ranks()`]).
    ///
    /// # Errors
    /// Errors of [`Self::traces`] and of `map`.
    pub fn map_traces<T: Send, E: Send + From<Error>>(
        mut self,
        scope: Scope,
        map: &(dyn Fn(&Trace, &RunOptions) -> Result<T, E> + Sync),
    ) -> Result<Mapped<T>, E> {
        let options = RunOptions { scope, threads: self.options.threads, watch: self.options.watch.clone() };
        let set = match self.take_traces()? {
            Some(set) => set,
            None => match map_many(&self.inputs, (&self.options, &options), map)? {
                Some(mapped) => return Ok(mapped),
                None => self.open_traces()?,
            },
        };
        map_few(set, &options, map)
    }

    /// True if the only input is a recording or a profile, which [`Self::profile`] reads as a calling context tree.
    /// Reads the first bytes of files, and nothing of standard input.
    pub fn has_profile(&self) -> bool {
        matches!(&self.inputs[..], [input] if is_calls(input))
    }

    /// Calling context tree of a recording or a profile.
    ///
    /// # Errors
    /// If there is none or it cannot be read, or if the watch was canceled.
    pub fn profile(&self) -> Result<CallingContextTree, Error> {
        let [input] = &self.inputs[..] else { return Err(self.lacks(Part::Profile)) };
        open_calls(input, &self.options).map(|tree| self.with_missing_records(tree))
    }

    /// Add diagnostics of lost records of a recording's streams, which its tables lack.
    fn with_missing_records(&self, mut tree: CallingContextTree) -> CallingContextTree {
        if let Timeline::Lacking(lacks) = &*lock(&self.timeline) {
            let is_new = |p: &&Problem| p.severity == Severity::Lost && tree.report.count_of(&p.code) == 0;
            let lost: Vec<Problem> = lacks.report.problems.iter().filter(is_new).cloned().collect();
            tree.report.problems.extend(lost);
            tree.report.sort();
        }
        tree
    }

    /// Read the traces and, at the same time, the profile, which is returned; `None` without a profile.
    ///
    /// # Errors
    /// If nothing of an input can be read, or its profile cannot.
    pub fn read_with_profile(&self) -> Result<Option<CallingContextTree>, Error> {
        let (profile, read) = std::thread::scope(|scope| {
            let profile = match &self.inputs[..] {
                [input] if is_calls(input) => Some(scope.spawn(|| open_calls(input, &self.options))),
                _ => None,
            };
            let read = self.read();
            (profile.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))), read)
        });
        let profile = profile.transpose()?;
        read?;
        match profile {
            Some(tree) => Ok(Some(self.with_missing_records(tree))),
            None if self.parts()?.contains(&Part::Profile) => self.profile().map(Some),
            None => Ok(None),
        }
    }

    /// Create the error that inputs with memory data only have no traces.
    fn lacks_traces(&self) -> Lacks {
        Lacks { paths: self.inputs.clone(), ..Lacks::new(&self.inputs[0], Part::Traces, [Part::Memory]) }
    }

    /// Create the error that the run lacks a part, such as traces.
    fn lacks(&self, needed: Part) -> Error {
        let input = &self.inputs[0];
        let has = match &*lock(&self.timeline) {
            Timeline::Lacking(lacks) => lacks.has.clone(),
            Timeline::Unread if is_recording(input) => vec![Part::Profile],
            Timeline::Unread => Vec::new(),
            Timeline::Traces(_) | Timeline::AlreadyRead(_) => vec![Part::Traces],
        };
        Lacks::new(input, needed, has).into()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if an input is standard input or a pipe.
pub fn is_read_once(input: &Path) -> bool {
    input == Path::new("-") || std::fs::metadata(input).is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// True if a trace has memory events.
fn has_memory_events(trace: &Trace) -> bool {
    trace.events.kind.contains(&EventKind::Memory)
}
