//! A run: the parts that one or many inputs hold, each opened when it is first asked for.

use crate::calls::{self, is_calls, is_recording, open_calls};
use crate::map::{Mapped, map_few, map_many};
use crate::open::{only_run, open, open_ranks, runs_below};
use crate::ranks::select_rank;
use crate::{Error, Lacks, LeftOut, OpenOptions, Part, Progress, RunOptions, is_run, memory, position_of_rank};
use stackline_ingest::memory::{asked_for_memory, from_trace};
use stackline_ingest::recording::{has_streams, is_shown_by};
use stackline_model::{CallingContextTree, EventKind, MemoryTrace, Problem, Severity, Trace, TraceSet};
use stackline_timeline::Scope;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What one or many inputs hold: files, archives, directories of traces, run directories, standard input (`-`).
///
/// Opening reads no file. Traces are read once and kept; a profile and memory traces, which their users change or
/// keep themselves, are read each time they are asked for.
#[derive(Debug)]
pub struct Run {
    inputs: Vec<PathBuf>,
    options: OpenOptions,
    timeline: Mutex<Timeline>,
}

/// What is known of the traces.
#[derive(Clone, Debug)]
enum Timeline {
    Unread,
    Traces(Arc<TraceSet>),
    /// There are none.
    Lacking(Box<Lacks>),
    /// They were read one after another, or on the way to their memory: the first memory trace within them.
    Passed(Option<Box<MemoryTrace>>),
}

impl Run {
    /// A run of these inputs, in the order given. A folder with a run directory and nothing else stands for that.
    ///
    /// # Errors
    /// If there is no input.
    pub fn open(inputs: &[PathBuf], options: &OpenOptions) -> Result<Self, Error> {
        if inputs.is_empty() {
            return Err(Error::NoInput);
        }
        let only = if let [folder] = inputs { only_run(folder) } else { None };
        let (inputs, options) = (only.map_or_else(|| inputs.to_vec(), |run| vec![run]), options.clone());
        Ok(Self { inputs, options, timeline: Mutex::new(Timeline::Unread) })
    }

    /// The same run with absolute paths, which hold wherever the program goes.
    #[must_use]
    pub fn absolute(mut self) -> Self {
        // What has no such form is said by the reader.
        self.inputs.iter_mut().for_each(|path| *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone()));
        self
    }

    /// The same run for another caller, who watches what else is read. Traces are shared.
    #[must_use]
    pub fn watched_by(&self, watch: &Progress) -> Self {
        let options = OpenOptions { watch: watch.clone(), ..self.options.clone() };
        let timeline = Mutex::new(lock(&self.timeline).clone());
        Self { inputs: self.inputs.clone(), options, timeline }
    }

    /// The inputs.
    pub fn inputs(&self) -> &[PathBuf] {
        &self.inputs
    }

    /// How it is read.
    pub fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// Its name for people.
    pub fn name(&self) -> String {
        self.inputs.iter().map(|input| input.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// The parts that it holds, traces first. Reads the traces, except those of folders and of several inputs, which may not fit
    /// into memory together: of them traces are expected until they are read. Whether a recording has memory is not asked of it here: its profile says that.
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
        let (mut parts, tells_of_memory) = match &*lock(&self.timeline) {
            Timeline::Lacking(lacks) => return Ok(lacks.has.clone()),
            Timeline::Traces(set) => (vec![Part::Traces], set.traces.iter().any(tells_of_memory)),
            Timeline::Passed(within) => (vec![Part::Traces], within.is_some()),
            Timeline::Unread => (vec![Part::Traces], false),
        };
        let [input] = &self.inputs[..] else {
            parts.extend(tells_of_memory.then_some(Part::Memory));
            return Ok(parts);
        };
        parts.extend(is_recording(input).then_some(Part::Profile));
        parts.extend((tells_of_memory || memory::is_kept(input)).then_some(Part::Memory));
        Ok(parts)
    }

    /// Whether its one input is standard input or a pipe: what is read of it is gone.
    pub fn is_read_once(&self) -> bool {
        matches!(&self.inputs[..], [input] if is_read_once(input))
    }

    /// Whether one trace was read, and no more.
    pub fn is_one_trace(&self) -> bool {
        matches!(&*lock(&self.timeline), Timeline::Traces(set) if set.traces.len() == 1)
    }

    /// Whether it is a single input that is no folder of others.
    fn is_one_input(&self) -> bool {
        let [input] = &self.inputs[..] else { return false };
        let is_whole = |files: Vec<(PathBuf, String)>| matches!(&files[..], [(file, _)] if file == input);
        !input.is_dir() || is_run(input) || stackline_ingest::files(input, &[]).is_ok_and(is_whole)
    }

    /// The traces, one per rank or file.
    ///
    /// # Errors
    /// If it has none, if an input cannot be read at all, or if the watch was cancelled.
    pub fn traces(&self) -> Result<Arc<TraceSet>, Error> {
        self.read()?;
        match &*lock(&self.timeline) {
            Timeline::Traces(set) => return Ok(Arc::clone(set)),
            Timeline::Lacking(lacks) => return Err((**lacks).clone().into()),
            Timeline::Unread | Timeline::Passed(_) => {}
        }
        self.open_traces().map(Arc::new)
    }

    /// Reads the traces, if they were not read before.
    fn read(&self) -> Result<(), Error> {
        let mut timeline = lock(&self.timeline);
        if matches!(*timeline, Timeline::Unread) {
            *timeline = match self.open_traces() {
                // Of several inputs, or a directory of runs, one must not stand for all.
                Err(Error::Lacks(lacks)) if self.inputs.len() == 1 && lacks.paths == self.inputs => {
                    Timeline::Lacking(lacks)
                }
                opened => Timeline::Traces(Arc::new(opened?)),
            };
        }
        Ok(())
    }

    fn open_traces(&self) -> Result<TraceSet, Error> {
        // Of a folder with several runs one may not stand for all either.
        let count = |input: &PathBuf| if is_run(input) { 1 } else { runs_below(input).len().max(1) };
        open(&self.inputs, &self.options).map_err(|error| error.of_one_of(self.inputs.iter().map(count).sum()))
    }

    /// Of several recordings that hold sums of calls, as each rank of a job makes one, that of a rank; itself of all other inputs, whose
    /// ranks [`Self::select_rank`] knows.
    ///
    /// # Errors
    /// If none of the recordings is of that rank, several are, or one cannot be read.
    pub fn recording_of_rank(mut self, rank: i64) -> Result<Self, Error> {
        if let Some(recording) = calls::recording_of_rank(&self.inputs, rank, &self.options)? {
            self.inputs = vec![recording];
        }
        Ok(self)
    }

    /// Keeps the traces of one rank alone.
    ///
    /// # Errors
    /// As [`Self::traces`]; and if there is no such rank.
    pub fn select_rank(&mut self, rank: i64) -> Result<(), Error> {
        let set = self.take_traces()?.map_or_else(|| self.open_traces(), Ok)?;
        self.timeline = Mutex::new(Timeline::Traces(Arc::new(select_rank(set, rank)?)));
        Ok(())
    }

    /// Takes traces that were read before.
    fn take_traces(&mut self) -> Result<Option<TraceSet>, Error> {
        let timeline = self.timeline.get_mut().unwrap_or_else(PoisonError::into_inner);
        match timeline {
            Timeline::Traces(set) => {
                let set = std::mem::take(set);
                *timeline = Timeline::Passed(None);
                Ok(Some(Arc::unwrap_or_clone(set)))
            }
            Timeline::Lacking(lacks) => Err((**lacks).clone().into()),
            Timeline::Unread | Timeline::Passed(_) => Ok(None),
        }
    }

    /// Reads the ranks of one job, file by file, in the order of [`Self::traces`]: `take` gets each trace, and of a newer profiler cycle of
    /// a process the position of the trace whose place it takes. Gives what of directories was left out.
    ///
    /// # Errors
    /// As [`Self::traces`]; and if the traces are not ranks of one job, named and told apart by what they say of themselves.
    pub fn each_rank<E: From<Error>>(
        &mut self,
        take: &mut dyn FnMut(Trace, Option<usize>) -> Result<(), E>,
    ) -> Result<LeftOut, E> {
        let opened = self.take_traces()?;
        let (mut within, mut count) = (None, 0);
        let mut note_and_take = |trace: Trace, takes_place_of: Option<usize>| {
            let at = takes_place_of.unwrap_or(count);
            count += usize::from(takes_place_of.is_none());
            within = within.take().filter(|(of, _)| *of != at).or_else(|| Some((at, from_trace(&trace)?)));
            take(trace, takes_place_of)
        };
        let left_out = open_ranks(&self.inputs, (opened, &self.options), &mut note_and_take)?;
        self.timeline = Mutex::new(Timeline::Passed(within.map(|(_, memory)| Box::new(memory))));
        Ok(left_out)
    }

    /// Calls `map` with each trace, and with the options of an analysis of it alone. Of many inputs each is mapped as it is read.
    /// Traces lose their events then. Which rank a trace is shows only when all are known ([`crate::ranks()`]).
    ///
    /// # Errors
    /// As [`Self::traces`], and what `map` fails with.
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

    /// Whether it is a recording or a profile, of which [`Self::profile`] gives the calls. Of a file the first bytes are read, of standard
    /// input none.
    pub fn has_profile(&self) -> bool {
        matches!(&self.inputs[..], [input] if is_calls(input))
    }

    /// The calling context tree of a recording or a profile.
    ///
    /// # Errors
    /// If it has none, nothing of it can be read, or the watch was cancelled.
    pub fn profile(&self) -> Result<CallingContextTree, Error> {
        let [input] = &self.inputs[..] else { return Err(self.lacks(Part::Profile)) };
        open_calls(input, &self.options).map(|tree| self.with_losses(tree))
    }

    /// Adds what was lost of a recording's streams, and its tables do not know.
    fn with_losses(&self, mut tree: CallingContextTree) -> CallingContextTree {
        if let Timeline::Lacking(lacks) = &*lock(&self.timeline) {
            let is_new = |p: &&Problem| p.severity == Severity::Lost && tree.report.count_of(&p.code) == 0;
            let lost: Vec<Problem> = lacks.report.problems.iter().filter(is_new).cloned().collect();
            tree.report.problems.extend(lost);
            tree.report.sort();
        }
        tree
    }

    /// Reads the traces and gives the profile, if there is one: in recordings both stand in the same streams, and are read at the same time.
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
            Some(tree) => Ok(Some(self.with_losses(tree))),
            None if self.parts()?.contains(&Part::Profile) => self.profile().map(Some),
            None => Ok(None),
        }
    }

    /// The memory trace of one rank, or of the run: that of the first input that holds one beside its traces (of a recording of several
    /// processes that with the highest peak), a memory file's own, else that of the first trace with memory events.
    ///
    /// # Errors
    /// If it has none, or it cannot be read.
    pub fn memory(&self, rank: Option<i64>) -> Result<MemoryTrace, Error> {
        if let Some(memory) = self.find_memory(rank)? {
            return Ok(memory);
        }
        let Some(rank) = rank else { return Err(self.lacks(Part::Memory)) };
        let set = self.traces()?;
        let trace = &set.traces[position_of_rank(&set, rank)?];
        Err(Lacks::new(Path::new(&trace.meta.name), Part::Memory, []).into())
    }

    /// The same; `None` if it has none. Of a rank it is what a run keeps under the name of its trace, of its processes in a recording
    /// that with the highest peak, else what the trace tells itself.
    ///
    /// # Errors
    /// If it cannot be read, or there is no such rank.
    pub fn find_memory(&self, rank: Option<i64>) -> Result<Option<MemoryTrace>, Error> {
        if let Some(rank) = rank {
            let set = self.traces()?;
            let trace = &set.traces[position_of_rank(&set, rank)?];
            for input in &self.inputs {
                let beside = memory::all_beside(input, &self.options)?;
                if let Some(own) = beside.into_iter().find(|memory| is_shown_by(memory, &trace.meta.name)) {
                    return Ok(Some(own));
                }
            }
            return Ok(from_trace(trace));
        }
        for input in &self.inputs {
            if let Some(beside) = memory::beside(input, &self.options)? {
                return Ok(Some(beside));
            }
        }
        // Others may ask for the traces meanwhile.
        let set = match &*lock(&self.timeline) {
            Timeline::Traces(set) => Some(Arc::clone(set)),
            Timeline::Passed(within) => return Ok(within.as_deref().cloned()),
            Timeline::Lacking(lacks) if lacks.has != [Part::Memory] => return Ok(None),
            // It was read to its end.
            Timeline::Lacking(lacks) if self.is_read_once() => return Err((**lacks).clone().into()),
            Timeline::Lacking(_) | Timeline::Unread => None,
        };
        set.map_or_else(|| self.read_memory(), |set| Ok(set.traces.iter().find_map(from_trace)))
    }

    /// The memory of inputs that hold none beside traces, whose traces were not read.
    fn read_memory(&self) -> Result<Option<MemoryTrace>, Error> {
        let path = match &self.inputs[..] {
            [path] if has_streams(path) => return Ok(None),
            [path] if !is_run(path) && (!path.is_dir() || runs_below(path).is_empty()) => path,
            [_, _, ..] if self.is_memory_alone()? => {
                return Err(self.lacks_traces().into());
            }
            _ => {
                self.read().map_err(|error| match error {
                    Error::Ingest(error) => asked_for_memory(error).into(),
                    other => other,
                })?;
                return Ok(match &*lock(&self.timeline) {
                    Timeline::Traces(set) => set.traces.iter().find_map(from_trace),
                    _ => None,
                });
            }
        };
        let found = memory::read(path, &self.options)?;
        *lock(&self.timeline) = match found {
            Ok(memory) => return Ok(Some(memory)),
            Err(Part::Traces) => Timeline::Passed(None),
            Err(part) => Timeline::Lacking(Box::new(Lacks::new(path, Part::Traces, [part]))),
        };
        Ok(None)
    }

    /// The memory traces of all processes: those that recordings and runs hold, and those of traces with memory events that are not
    /// among them. The first is the one that [`Self::memory`] gives.
    ///
    /// # Errors
    /// If nothing can be read, a run is damaged, or the watch was cancelled.
    pub fn memories(&self) -> Result<Vec<MemoryTrace>, Error> {
        let mut found = Vec::new();
        for input in &self.inputs {
            match memory::all_beside(input, &self.options) {
                // A stream that cannot be read is in the read report of the traces.
                Err(error) if !matches!(error, Error::Cancelled) && has_streams(input) => {}
                beside => found.extend(beside?),
            }
        }
        if found.is_empty() && self.is_memory_alone()? {
            return match &self.inputs[..] {
                [input] if !self.is_read_once() => memory::read_all(input, &self.options),
                _ => Ok(vec![self.memory(None)?]),
            };
        }
        let of_traces = self.memories_beyond(&found)?;
        found.extend(of_traces);
        Ok(found)
    }

    /// The memory traces of traces with memory events.
    ///
    /// # Errors
    /// If an input cannot be read.
    pub fn memories_within(&self) -> Result<Vec<MemoryTrace>, Error> {
        self.memories_beyond(&[])
    }

    fn memories_beyond(&self, known: &[MemoryTrace]) -> Result<Vec<MemoryTrace>, Error> {
        if !self.parts()?.contains(&Part::Traces) {
            return Ok(Vec::new());
        }
        // What a run keeps was worked out of the traces beside it.
        let is_new = |trace: &&Trace| known.iter().all(|known| known.label != trace.meta.name);
        Ok(self.traces()?.traces.iter().filter(is_new).filter_map(from_trace).collect())
    }

    /// The memory traces of all processes that the inputs hold beside their traces, that with the highest peak first. The read report
    /// of each says of how many it is one.
    ///
    /// # Errors
    /// If an input cannot be read.
    pub fn memories_of_processes(&self) -> Result<Vec<MemoryTrace>, Error> {
        // What cannot be read holds no processes either, and says so here.
        self.is_memory_alone()?;
        let mut processes = Vec::new();
        for input in &self.inputs {
            processes.extend(memory::all_beside(input, &self.options)?);
        }
        let count = processes.len();
        Ok(processes.into_iter().map(|trace| memory::one_of(trace, count)).collect())
    }

    /// Whether the inputs are of memory alone, and hold no trace of what ran. Of files that were not read only the first bytes are, of
    /// standard input none.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn is_memory_alone(&self) -> Result<bool, Error> {
        let timeline = &mut *lock(&self.timeline);
        if matches!(timeline, Timeline::Unread) && self.are_of_memory()? {
            *timeline = Timeline::Lacking(Box::new(self.lacks_traces()));
        }
        Ok(matches!(timeline, Timeline::Lacking(lacks) if lacks.has == [Part::Memory]))
    }

    fn are_of_memory(&self) -> Result<bool, Error> {
        for input in &self.inputs {
            // Of several inputs, what cannot be read is said where they are opened.
            match memory::is_alone(input) {
                Ok(true) => {}
                Err(_) if self.inputs.len() > 1 => return Ok(false),
                other => return other,
            }
        }
        Ok(true)
    }

    /// The files of inputs of memory alone that hold several memory traces, each with its name: below its folder, if that is the only
    /// input. None where there is one trace, or anything else.
    ///
    /// # Errors
    /// If an input cannot be read.
    pub fn memory_files(&self) -> Result<Vec<(PathBuf, String)>, Error> {
        let is_file = matches!(&self.inputs[..], [only] if !only.is_dir());
        let looks = !self.is_read_once() && (is_file || self.is_memory_alone()?);
        if looks { memory::files(&self.inputs).map(memory::several) } else { Ok(Vec::new()) }
    }

    /// All memory traces of one of [`Self::memory_files`].
    ///
    /// # Errors
    /// If it cannot be read, or has none.
    pub fn memories_of_file(&self, file: &Path) -> Result<Vec<MemoryTrace>, Error> {
        memory::read_all(file, &self.options)
    }

    /// That its inputs, which are of memory alone, lack traces.
    fn lacks_traces(&self) -> Lacks {
        Lacks { paths: self.inputs.clone(), ..Lacks::new(&self.inputs[0], Part::Traces, [Part::Memory]) }
    }

    /// That it lacks a part.
    fn lacks(&self, needed: Part) -> Error {
        let input = &self.inputs[0];
        let has = match &*lock(&self.timeline) {
            Timeline::Lacking(lacks) => lacks.has.clone(),
            Timeline::Unread if is_recording(input) => vec![Part::Profile],
            Timeline::Unread => Vec::new(),
            Timeline::Traces(_) | Timeline::Passed(_) => vec![Part::Traces],
        };
        Lacks::new(input, needed, has).into()
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an input is standard input or a pipe.
pub fn is_read_once(input: &Path) -> bool {
    input == Path::new("-") || std::fs::metadata(input).is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// Whether a trace has events of memory.
fn tells_of_memory(trace: &Trace) -> bool {
    trace.events.kind.contains(&EventKind::Memory)
}
