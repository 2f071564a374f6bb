//! Opened run: its traces, recording and memory, and results that are cached for queries.

use crate::cache::{CachedResults, PathOfWindow, PendingView, Source};
use crate::counter_tracks::{self, Counters};
use crate::launch_links::LaunchLinks;
use crate::memory::Memory;
use crate::names::Names;
use crate::path_mapping::{LocalFiles, PathMapping};
use crate::report::{self, Content};
use crate::slices::CoarseSlices;
use crate::source_roots::SourceRoots;
use crate::tile_levels::whole_level;
use crate::track_layout::{ImportView, TrackLayout};
use crate::{QueryError, source_names};
use rustc_hash::FxHasher;
use stackline_calls::{CallView, TimeRange, calls_by_thread, fold_imports, selected_steps};
use stackline_diff::Profile;
use stackline_engine::{Error, OpenOptions, Part, Run, RunOptions};
use stackline_findings as findings;
use stackline_findings::Findings;
use stackline_model::{CallMetric, CallingContextTree, FrameKind, MemoryTrace, Table, Trace, TraceSet};
use stackline_present::TraceInfo;
use stackline_timeline::Scope;
use stackline_timeline::import_frames::ImportFrames;
use stackline_timeline::steps::StepSelection;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::Hasher;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// All of a trace, also where it has steps.
const WHOLE: Scope = Scope { steps: None, whole: true, chosen: false };

/// Opened run that answers queries, optionally compared with a baseline run.
#[derive(Debug)]
pub struct OpenRun {
    /// Display name.
    pub(crate) name: String,
    pub(crate) set: Arc<TraceSet>,
    pub(crate) infos: Vec<TraceInfo>,
    /// The calls of a recording.
    pub(crate) recording: Option<CallingContextTree>,
    /// The run that it is compared with.
    pub(crate) baseline: Option<Box<Self>>,
    /// Below these, source text may be read.
    pub(crate) source_roots: SourceRoots,
    run: Run,
    options: RunOptions,
    hash: String,
    memory: OnceLock<Result<Memory, String>>,
    derived: Vec<CachedResults>,
    content: OnceLock<Result<Content, String>>,
    all_findings: OnceLock<Result<Findings, String>>,
    files: OnceLock<BTreeSet<String>>,
    places: OnceLock<PathMapping>,
    views: Mutex<Vec<(String, PendingView)>>,
}

/// Maximum number of cached call tree views. A view of a million nodes takes about 200 MB.
const VIEWS: usize = 4;
/// Earliest time of a trace, in ns since 1970 (2001). Earlier times have another origin.
const EARLIEST: i64 = 1_000_000_000_000_000_000;
/// Maximum number of cached trees of a trace, each for other steps.
const TREES: usize = 3;

impl OpenRun {
    /// Open inputs as one run: traces, ranks of a job, a run directory, a recording.
    ///
    /// # Errors
    /// If nothing of an input can be read.
    pub fn open(inputs: &[PathBuf], options: &OpenOptions) -> Result<Self, Error> {
        let run = Run::open(inputs, options)?;
        let recording = run.read_with_profile()?.map(fold_imports);
        let set = if run.parts()?.contains(&Part::Traces) { run.traces()? } else { Arc::default() };
        let memory = if run.is_memory_alone()? { Some(run.memory(None)?) } else { None };
        let ranks = stackline_engine::ranks(&set);
        let infos: Vec<_> = set.traces.iter().zip(ranks).map(|(trace, rank)| TraceInfo::new(trace, rank)).collect();
        let name = run.name();
        let opened = Self {
            hash: hash(&name, &set, recording.as_ref(), memory.as_ref()),
            derived: set.traces.iter().map(|_| CachedResults::default()).collect(),
            memory: memory.map_or_else(OnceLock::new, |trace| Ok(Memory::new(trace)).into()),
            source_roots: SourceRoots::new(inputs),
            run,
            options: RunOptions { threads: options.threads, watch: options.watch.clone(), scope: Scope::default() },
            name,
            set,
            infos,
            recording,
            baseline: None,
            content: OnceLock::new(),
            all_findings: OnceLock::new(),
            files: OnceLock::new(),
            places: OnceLock::new(),
            views: Mutex::default(),
        };
        Ok(opened)
    }

    /// Add a baseline run to compare this run with. Settings for source text apply to both.
    #[must_use]
    pub fn compared_with(mut self, mut baseline: Self) -> Self {
        self.source_roots.apply_to(&mut baseline.source_roots);
        self.hash = format!("{}-{}", self.hash, baseline.hash);
        self.baseline = Some(Box::new(baseline));
        self
    }

    /// Baseline run that this run is compared with; an error if no baseline was opened.
    pub(crate) fn before(&self) -> Result<&Self, QueryError> {
        let why = "there is no run to compare with; open two runs with `stackline view RUN --baseline OTHER`";
        let none = || QueryError::unavailable(why);
        self.baseline.as_deref().ok_or_else(none)
    }

    /// Profiles of the run for comparisons: one of each rank, or that of a recording.
    pub(crate) fn profiles(&self) -> Result<Vec<Profile>, QueryError> {
        if let (true, Some(tree)) = (self.set.traces.is_empty(), &self.recording) {
            let none = |_| QueryError::unavailable("the recording contains no times, so it cannot be compared");
            return Ok(vec![stackline_engine::profile_of_calls(tree, &self.name).map_err(none)?]);
        }
        self.trace(None)?;
        let traces = self.set.traces.iter().zip(&self.infos);
        Ok(traces.map(|(trace, info)| Profile::from_trace(trace, info.rank, &Scope::default())).collect())
    }

    /// Hash of the run's content, the cache key of answers.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Name of the run for display.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Index and trace of a rank; those of the first trace if no rank is given.
    pub(crate) fn trace(&self, rank: Option<i64>) -> Result<(usize, &Trace), QueryError> {
        let at = match rank {
            None => 0,
            Some(rank) => self
                .infos
                .iter()
                .position(|info| info.rank == rank)
                .ok_or_else(|| QueryError::missing(format!("the run has no rank {rank}")))?,
        };
        match self.set.traces.get(at) {
            Some(trace) => Ok((at, trace)),
            None => Err(self
                .run
                .traces()
                .err()
                .map_or_else(|| QueryError::unavailable("the run contains no traces"), QueryError::unavailable)),
        }
    }

    /// Check if the run is only a memory file, without traces or a recording.
    pub(crate) fn is_memory_alone(&self) -> bool {
        self.set.traces.is_empty() && self.recording.is_none()
    }

    /// Check if the run has memory data, from its kinds of data or its recorded metrics, and avoid reading the data
    /// again.
    pub(crate) fn has_memory(&self) -> bool {
        match &self.recording {
            Some(tree) => !self.set.traces.is_empty() && tree.measured().contains(&CallMetric::Allocated),
            None => self.run.parts().is_ok_and(|parts| parts.contains(&Part::Memory)),
        }
    }

    /// Memory data of a rank; without a rank, the first available. For a recording, the process with the highest peak.
    pub(crate) fn memory(&self, rank: Option<i64>) -> Result<&Memory, QueryError> {
        let analysis = |trace: Result<MemoryTrace, Error>| trace.map(Memory::new).map_err(|error| error.to_string());
        let kept = if rank.is_none() || self.set.traces.len() < 2 {
            self.memory.get_or_init(|| analysis(self.run.memory(None)))
        } else {
            let (at, _) = self.trace(rank)?;
            self.derived[at].memory.get_or_init(|| analysis(self.run.memory(rank)))
        };
        kept.as_ref().map_err(QueryError::unavailable)
    }

    /// Content of the report on all traces in a time range, with HTA's critical path. The content of the default range
    /// is cached.
    pub(crate) fn content(&self, part: TimeRange) -> Result<Cow<'_, Content>, QueryError> {
        let compute = |scope| {
            let options = RunOptions { scope, ..self.options.clone() };
            Content::compute(&self.set, &self.infos, &options, true).map_err(|error| error.to_string())
        };
        match part {
            TimeRange::Steps(first, last) => {
                let scope = Scope::from_steps(Some((first, last)));
                stackline_engine::check_steps(&self.set.traces, &scope).map_err(QueryError::missing)?;
                compute(scope).map(Cow::Owned).map_err(QueryError::unavailable)
            }
            TimeRange::Chosen => {
                let chosen = self.content.get_or_init(|| compute(Scope::default()));
                chosen.as_ref().map(Cow::Borrowed).map_err(QueryError::unavailable)
            }
            TimeRange::Whole => compute(WHOLE).map(Cow::Owned).map_err(QueryError::unavailable),
        }
    }

    /// Compute the first tables of the report on a time range, which take much less time than the rest.
    pub(crate) fn first_tables(&self, part: TimeRange) -> Result<Vec<Table>, QueryError> {
        let scope = match part {
            TimeRange::Steps(first, last) => Scope::from_steps(Some((first, last))),
            TimeRange::Chosen => Scope::default(),
            TimeRange::Whole => WHOLE,
        };
        stackline_engine::check_steps(&self.set.traces, &scope).map_err(QueryError::missing)?;
        let options = RunOptions { scope, ..self.options.clone() };
        report::first_tables(&self.set, &options).map_err(QueryError::unavailable)
    }

    /// Findings of a rank with its memory; without a rank, the merged findings of all ranks.
    pub(crate) fn findings(&self, rank: Option<i64>) -> Result<&Findings, QueryError> {
        let Some(rank) = rank else {
            return self
                .all_findings
                .get_or_init(|| self.find_all_findings())
                .as_ref()
                .map_err(QueryError::unavailable);
        };
        let (at, _) = self.trace(Some(rank))?;
        let add = || {
            let memory = self.memory(Some(rank)).ok().map(Memory::with_findings);
            Ok(stackline_engine::findings_with_known_memory(
                self.findings_of(at)?.clone(),
                memory,
                &self.findings_options(),
            ))
        };
        self.derived[at].with_memory.get_or_init(add).as_ref().map_err(QueryError::unavailable)
    }

    /// Compute the findings of all ranks and of their memory, as the command line does without `--rank`.
    fn find_all_findings(&self) -> Result<Findings, String> {
        if let (true, Some(tree)) = (self.set.traces.is_empty(), &self.recording) {
            let found = findings::find_in_calls(
                tree,
                None,
                &self.findings_options(),
                &findings::ExternalRules::default(),
                &|_| true,
            );
            return found.map_err(|reason| reason.to_string());
        }
        let memory = if self.has_memory() { self.memory(None).ok() } else { None };
        if let (true, Some(memory)) = (self.is_memory_alone(), memory) {
            return Ok(Findings::from_memory_only(memory.findings.clone()));
        }
        let found = if self.is_job() {
            self.merge_findings()?
        } else {
            let (at, _) = self.trace(None).map_err(|error| error.to_string())?;
            self.findings_of(at)?.clone()
        };
        Ok(stackline_engine::findings_with_known_memory(
            found,
            memory.map(Memory::with_findings),
            &self.findings_options(),
        ))
    }

    /// Findings of one trace by its index, without those of its memory; cached.
    fn findings_of(&self, at: usize) -> Result<&Findings, String> {
        let find = || findings::find(&self.set.traces[at], &self.findings_options()).map_err(|error| error.to_string());
        self.derived[at].findings.get_or_init(find).as_ref().map_err(String::clone)
    }

    fn findings_options(&self) -> findings::Options {
        let is_alone = self.infos.len() == 1;
        findings::Options { threads: self.options.threads, is_alone, ..findings::Options::default() }
    }

    /// Check if the traces are several ranks of one job: each trace contains its rank, and no rank occurs twice.
    fn is_job(&self) -> bool {
        let known: BTreeSet<i64> = self.set.traces.iter().filter_map(|trace| trace.meta.rank).collect();
        self.set.traces.len() > 1 && known.len() == self.set.traces.len()
    }

    /// Merge the findings of all ranks of a job; ranks that fail are excluded with a note.
    fn merge_findings(&self) -> Result<Findings, String> {
        let (mut found, mut failed) = (Vec::new(), Vec::new());
        for (at, info) in self.infos.iter().enumerate() {
            match self.findings_of(at) {
                Ok(of_rank) => found.push((info.rank, of_rank.clone())),
                Err(error) => failed.push((info.rank, error)),
            }
        }
        let merged = findings::merge(found, &self.findings_options(), &|_| true);
        let mut merged = merged.ok_or_else(|| failed.first().map(|(_, error)| error.clone()).unwrap_or_default())?;
        merged.notes.extend(failed.into_iter().map(|(rank, error)| format!("rank {rank} is excluded: {error}")));
        Ok(merged)
    }

    /// Exact critical path of a rank's trace in a time range. The path of the default range is cached.
    pub(crate) fn path(&self, rank: Option<i64>, part: TimeRange) -> Result<Cow<'_, PathOfWindow>, QueryError> {
        let (at, trace) = self.trace(rank)?;
        let walk = |looked: StepSelection| PathOfWindow::from_trace(trace, looked);
        match part {
            TimeRange::Steps(first, last) => {
                let scope = Scope::from_steps(Some((first, last)));
                stackline_engine::check_steps(std::slice::from_ref(trace), &scope).map_err(QueryError::missing)?;
                walk(StepSelection::select(trace, &scope)).map(Cow::Owned).map_err(QueryError::unavailable)
            }
            TimeRange::Chosen => {
                let chosen = || walk(self.chosen_or_inferred_steps(at));
                let path = self.derived[at].path.get_or_init(chosen);
                path.as_ref().map(Cow::Borrowed).map_err(QueryError::unavailable)
            }
            TimeRange::Whole => {
                walk(StepSelection::select(trace, &WHOLE)).map(Cow::Owned).map_err(QueryError::unavailable)
            }
        }
    }

    /// Select the default steps of a trace, marked or inferred. Ranks of a job share inferred steps.
    fn chosen_or_inferred_steps(&self, at: usize) -> StepSelection {
        let scope = Scope::default();
        let own = StepSelection::select_or_infer(&self.set.traces[at], &scope);
        if !own.are_inferred() || !self.is_job() {
            return own;
        }
        let ranks: Vec<(i64, &Trace)> = self.infos.iter().map(|info| info.rank).zip(&self.set.traces).collect();
        StepSelection::select_or_infer_in_job(&ranks, &scope).swap_remove(at)
    }

    /// Call tree of a time range: that of the recording for the whole run, otherwise one computed from a trace.
    pub(crate) fn calls(&self, rank: Option<i64>, part: TimeRange) -> Result<Source<'_>, QueryError> {
        if let (Some(tree), TimeRange::Whole | TimeRange::Chosen) = (&self.recording, part) {
            return Ok(Source::Recording(tree));
        }
        let (at, trace) = self.trace(rank)?;
        // The same steps, whether they are named or not, are one tree.
        let chosen = if part == TimeRange::Chosen { self.chosen(at) } else { None };
        let part = chosen.map_or(part, |(first, last)| TimeRange::Steps(first, last));
        if let TimeRange::Steps(first, last) = part {
            let scope = Scope::from_steps(Some((first, last)));
            stackline_engine::check_steps(std::slice::from_ref(trace), &scope).map_err(QueryError::missing)?;
        }
        let mut kept = self.derived[at].calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, calls)) = kept.iter().find(|(of, _)| *of == part) {
            return Ok(Source::Trace(Arc::clone(calls)));
        }
        let calls = Arc::new(calls_by_thread(trace, part).with_imports_folded());
        if kept.len() >= TREES {
            kept.remove(0);
        }
        kept.push((part, Arc::clone(&calls)));
        Ok(Source::Trace(calls))
    }

    /// Return the call tree view of a cache key, or compute it with `make`. Equal keys are computed once; the cache
    /// keeps the views that were requested last.
    pub(crate) fn view(&self, key: &str, make: impl FnOnce() -> CallView) -> Arc<CallView> {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        let known = views.iter().position(|(other, _)| other == key).map(|at| views.remove(at).1);
        let view = known.unwrap_or_default();
        if views.len() >= VIEWS {
            views.remove(0);
        }
        views.push((key.to_owned(), Arc::clone(&view)));
        drop(views);
        Arc::clone(view.get_or_init(|| Arc::new(make())))
    }

    /// Import frames of a trace by its index; `None` without imports.
    pub(crate) fn imports(&self, at: usize) -> Option<&ImportFrames> {
        let (derived, trace) = (self.derived.get(at)?, self.set.traces.get(at)?);
        derived.imports.get_or_init(|| ImportFrames::from_trace(trace)).as_ref()
    }

    /// Timeline rows of the events of each track of a rank's trace.
    pub(crate) fn rows(&self, rank: Option<i64>, view: ImportView) -> Result<&TrackLayout, QueryError> {
        let (at, trace) = self.trace(rank)?;
        let imports = self.imports(at).filter(|_| view == ImportView::Folded);
        Ok(self.derived[at].rows[view as usize].get_or_init(|| TrackLayout::from_trace(trace, imports)))
    }

    /// Merged timeline slices of a rank's trace for windows of at least a sixteenth of its length; `None` for a trace
    /// with few events.
    pub(crate) fn coarse(&self, rank: Option<i64>, view: ImportView) -> Result<Option<&CoarseSlices>, QueryError> {
        let (at, trace) = self.trace(rank)?;
        let (rows, origin) = (self.rows(rank, view)?, self.origin(rank)?);
        let make = || {
            let length = trace.span().map_or(0, |(start, end)| end.saturating_sub(start));
            CoarseSlices::from_trace(trace, rows, origin, whole_level(length).saturating_sub(4))
        };
        Ok(self.derived[at].coarse[view as usize].get_or_init(make).as_ref())
    }

    /// First and last number of the steps that findings cover by default, for a trace by its index; `None` without
    /// steps.
    pub(crate) fn chosen(&self, at: usize) -> Option<(i64, i64)> {
        let (derived, trace) = (self.derived.get(at)?, self.set.traces.get(at)?);
        *derived.chosen.get_or_init(|| selected_steps(trace))
    }

    /// Index of the event names in a rank's trace, for searches.
    pub(crate) fn names(&self, rank: Option<i64>) -> Result<&Names, QueryError> {
        let (at, trace) = self.trace(rank)?;
        Ok(self.derived[at].names.get_or_init(|| Names::from_trace(trace)))
    }

    /// Links from launch calls to their GPU work, for a trace by its index.
    pub(crate) fn launched(&self, at: usize) -> &LaunchLinks {
        &self.derived[at].launched
    }

    /// Counters of a rank's trace with their values over time.
    pub(crate) fn counters(&self, rank: Option<i64>) -> Result<&Counters, QueryError> {
        let (at, trace) = self.trace(rank)?;
        Ok(self.derived[at].counters.get_or_init(|| counter_tracks::counter_tracks(trace)))
    }

    /// Start of a rank's trace in ns, which is subtracted from all times in answers. A browser's numbers are exact only
    /// up to 2^53, which is 104 days in ns. Times since 1970 exceed this.
    pub(crate) fn origin(&self, rank: Option<i64>) -> Result<i64, QueryError> {
        let (at, trace) = self.trace(rank)?;
        Ok(*self.derived[at].origin.get_or_init(|| trace.span().map_or(0, |(start, _)| start)))
    }

    /// Full path of a source file by its name in the run, if the run also names one unambiguous full path; otherwise
    /// the name itself.
    pub(crate) fn resolved<'f>(&'f self, file: &'f str) -> &'f str {
        let places = self.places.get_or_init(|| {
            let folder = std::env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default();
            let is_file = |file: &str| self.source_roots.find(&format!("{folder}/{file}")).is_some();
            PathMapping::new(
                self.files(),
                &LocalFiles { folder: &folder, is_file: &is_file, is_recording: self.recording.is_some() },
            )
        });
        places.of_name(file)
    }

    /// Start of the recording in ns since 1970: that of the first process, or of the first trace; `None` if unknown.
    pub(crate) fn recorded_at(&self) -> Option<i64> {
        let processes = self.recording.iter().flat_map(|tree| &tree.processes);
        let started = processes.map(|process| process.start_unix_ns).filter(|&ns| ns > 0).min();
        // Traces of the profiler count from some day of the quarter, which is no time of theirs; others from the start of the
        // machine, or of the program, and so name no time at all.
        let began = |trace: &Trace| Some(trace.meta.base_ns.saturating_add(trace.span()?.0));
        started.or_else(|| self.set.traces.iter().filter_map(began).filter(|&ns| ns > EARLIEST).min())
    }

    /// Names of the source files that occur in the run: no others are ever read.
    pub(crate) fn files(&self) -> &BTreeSet<String> {
        self.files.get_or_init(|| {
            let mut files = BTreeSet::new();
            if let Some(tree) = &self.recording {
                let python = tree.frames.iter().filter(|frame| frame.kind() == FrameKind::Python);
                files.extend(python.filter_map(|frame| Some(tree.strings.get(frame.file()?).to_owned())));
            }
            if let (true, Some(Ok(memory))) = (self.is_memory_alone(), self.memory.get()) {
                let names = memory.trace.stacks.frames.iter().map(|frame| frame.file_text(&memory.trace.strings));
                files.extend(names.filter(|name| source_names::is_source(name)).map(str::to_owned));
            }
            for text in self.set.traces.iter().flat_map(|trace| trace.strings.iter()) {
                files.extend(source_names::files_in(text).map(str::to_owned));
            }
            files
        })
    }
}

/// Hash that identifies a run's content: name, sizes and times. A new recording of the same program has another hash.
fn hash(name: &str, set: &TraceSet, recording: Option<&CallingContextTree>, memory: Option<&MemoryTrace>) -> String {
    let mut hasher = FxHasher::default();
    hasher.write(name.as_bytes());
    for trace in &set.traces {
        hasher.write_usize(trace.events.len());
        hasher.write_usize(trace.strings.len());
        hasher.write_i64(trace.meta.base_ns);
        // Two at a time: each step of one waits for the one before it.
        let mut lengths = FxHasher::default();
        for (&start, &dur) in trace.events.start.iter().zip(&trace.events.dur) {
            hasher.write_i64(start);
            lengths.write_i64(dur);
        }
        hasher.write_u64(lengths.finish());
    }
    if let Some(tree) = recording {
        hasher.write_usize(tree.nodes.len());
        tree.metrics.iter().for_each(|(node, _, _, stats)| {
            hasher.write_u32(node.0);
            hasher.write_u64(stats.sum);
        });
    }
    if let Some(memory) = memory {
        memory.calls.start_ns.iter().for_each(|&ns| hasher.write_i64(ns));
        memory.objects.bytes.iter().chain(&memory.objects.address).for_each(|&number| hasher.write_u64(number));
    }
    format!("{:016x}", hasher.finish())
}
