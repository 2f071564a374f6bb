//! An opened run: its traces, its calls, and what was worked out of them so far.

use crate::counters::{self, Counters};
use crate::report::Content;
use crate::rows::Rows;
use crate::{Arguments, QueryError, source};
use rustc_hash::FxHasher;
use stackline_analyze::Scope;
use stackline_analyze::calls::{CallView, TraceCalls, trace_calls};
use stackline_analyze::critical_path::exact::{Exact, ExactPath, WindowChoice};
use stackline_analyze::diff::Profile;
use stackline_analyze::findings::{self, Findings};
use stackline_engine::{Error, OpenOptions, RunOptions};
use stackline_model::{CallFrameKind, CallTree, Trace, TraceSet};
use stackline_present::TraceInfo;
use std::collections::BTreeSet;
use std::hash::Hasher;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What queries are asked of.
#[derive(Debug)]
pub struct Opened {
    /// Its name for people.
    pub(crate) name: String,
    pub(crate) set: TraceSet,
    pub(crate) infos: Vec<TraceInfo>,
    /// The calls of a recording.
    pub(crate) recording: Option<CallTree>,
    /// The run that it is compared with.
    pub(crate) baseline: Option<Box<Self>>,
    options: RunOptions,
    hash: String,
    derived: Vec<Derived>,
    content: OnceLock<Result<Content, String>>,
    files: OnceLock<BTreeSet<String>>,
    views: Mutex<Vec<(String, BeingMade)>>,
}

/// A view that was made, or is being made.
type BeingMade = Arc<OnceLock<Arc<CallView>>>;

/// What was worked out of one trace.
#[derive(Debug, Default)]
struct Derived {
    findings: OnceLock<Result<Findings, String>>,
    path: OnceLock<Result<ExactPath, String>>,
    calls: OnceLock<TraceCalls>,
    rows: OnceLock<Rows>,
    counters: OnceLock<Counters>,
    origin: OnceLock<i64>,
}

/// Where the calls of a run come from.
#[derive(Debug)]
pub enum Source<'a> {
    /// Recorded as such.
    Recording(&'a CallTree),
    /// Made from the events of a trace.
    Trace(&'a TraceCalls),
}

impl Source<'_> {
    /// The tree.
    pub fn tree(&self) -> &CallTree {
        match self {
            Self::Recording(tree) => tree,
            Self::Trace(calls) => &calls.tree,
        }
    }
}

/// So many views of calls are kept at most: one of a million nodes takes some 200 MB.
const VIEWS: usize = 4;

impl Opened {
    /// Opens inputs as one run: traces, ranks of a job, a run directory, a recording.
    ///
    /// # Errors
    /// If nothing of an input can be read.
    pub fn open(inputs: &[PathBuf], options: &OpenOptions) -> Result<Self, Error> {
        let recording = match inputs {
            [run] if stackline_engine::is_recording(run) => Some(stackline_engine::open_calls(run)?),
            _ => None,
        };
        let set = match stackline_engine::open(inputs, options) {
            // A tree alone can be looked at, too.
            Err(Error::OnlyCalls { .. }) if recording.is_some() => TraceSet::default(),
            other => other?,
        };
        let ranks = stackline_engine::ranks(&set);
        let infos: Vec<_> = set.traces.iter().zip(ranks).map(|(trace, rank)| TraceInfo::new(trace, rank)).collect();
        let name = inputs.iter().map(|input| input.display().to_string()).collect::<Vec<_>>().join(", ");
        let opened = Self {
            hash: hash(&name, &set, recording.as_ref()),
            derived: set.traces.iter().map(|_| Derived::default()).collect(),
            options: RunOptions { threads: options.threads, watch: options.watch.clone(), scope: Scope::default() },
            name,
            set,
            infos,
            recording,
            baseline: None,
            content: OnceLock::new(),
            files: OnceLock::new(),
            views: Mutex::default(),
        };
        Ok(opened)
    }

    /// The same run, to be compared with another one.
    #[must_use]
    pub fn compared_with(mut self, baseline: Self) -> Self {
        self.hash = format!("{}-{}", self.hash, baseline.hash);
        self.baseline = Some(Box::new(baseline));
        self
    }

    /// The run that it is compared with.
    pub(crate) fn before(&self) -> Result<&Self, QueryError> {
        let none = || QueryError::unavailable("there is no run to compare with: stackline view RUN --baseline OTHER");
        self.baseline.as_deref().ok_or_else(none)
    }

    /// The runs as comparisons see them: a profile of each rank, or of a recording.
    pub(crate) fn profiles(&self) -> Result<Vec<Profile>, QueryError> {
        if let (true, Some(tree)) = (self.set.traces.is_empty(), &self.recording) {
            let none = |_| QueryError::unavailable("the recording has no times to compare");
            return Ok(vec![Profile::of_calls(tree, &self.name).map_err(none)?]);
        }
        let traces = self.set.traces.iter().zip(&self.infos);
        Ok(traces.map(|(trace, info)| Profile::of(trace, info.rank, &Scope::default())).collect())
    }

    /// What tells this content from any other: answers are kept by it.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Its name for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The trace of a rank; the first without one.
    pub(crate) fn trace(&self, rank: Option<i64>) -> Result<(usize, &Trace), QueryError> {
        let at = match rank {
            None => 0,
            Some(rank) => self
                .infos
                .iter()
                .position(|info| info.rank == rank)
                .ok_or_else(|| QueryError::missing(format!("there is no rank {rank}")))?,
        };
        let trace = self.set.traces.get(at).ok_or_else(|| {
            QueryError::unavailable(
                "this recording holds sums of calls and no single ones: record with --mode trace to see when they ran",
            )
        })?;
        Ok((at, trace))
    }

    /// The report of all traces, with what it says beside tables.
    pub(crate) fn content(&self) -> Result<&Content, QueryError> {
        let compute =
            || Content::compute(&self.set, &self.infos, &self.options, true).map_err(|error| error.to_string());
        self.content.get_or_init(compute).as_ref().map_err(QueryError::unavailable)
    }

    /// The findings of a trace.
    pub(crate) fn findings(&self, rank: Option<i64>) -> Result<&Findings, QueryError> {
        let (at, trace) = self.trace(rank)?;
        let options = findings::Options { threads: self.options.threads, ..findings::Options::default() };
        let find = || findings::find(trace, &options).map_err(|error| error.to_string());
        self.derived[at].findings.get_or_init(find).as_ref().map_err(QueryError::unavailable)
    }

    /// How many findings the first trace has; 0 where they cannot be worked out.
    pub fn findings_count(&self) -> usize {
        self.findings(None).map_or(0, |found| found.findings.len())
    }

    /// The arguments by which the tiles of all lanes over all time are asked for, if there is a timeline.
    pub fn whole_timeline(&self) -> Option<Arguments> {
        let lanes = crate::ask(self, "lanes", &Arguments::default()).ok()?;
        let document: serde_json::Value = serde_json::from_str(&lanes.json).ok()?;
        let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(Arguments::new(document["whole"].as_object()?.iter().map(|(name, value)| (name.clone(), text(value)))))
    }

    /// The critical path of a whole trace.
    pub(crate) fn path(&self, rank: Option<i64>) -> Result<&ExactPath, QueryError> {
        let (at, trace) = self.trace(rank)?;
        let walk = || Exact::new(trace).path(&WindowChoice::Whole).map_err(|error| error.to_string());
        self.derived[at].path.get_or_init(walk).as_ref().map_err(QueryError::unavailable)
    }

    /// The calls: those that were recorded, or else those of a trace.
    pub(crate) fn calls(&self, rank: Option<i64>) -> Result<Source<'_>, QueryError> {
        if let Some(tree) = &self.recording {
            return Ok(Source::Recording(tree));
        }
        let (at, trace) = self.trace(rank)?;
        let calls = self.derived[at].calls.get_or_init(|| trace_calls(trace, &Scope::default()));
        Ok(Source::Trace(calls))
    }

    /// A view of calls: the one that was or is being made for the same key, or a new one. Those that were asked for last stay.
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

    /// The events of each track in the rows that the timeline draws them in.
    pub(crate) fn rows(&self, rank: Option<i64>) -> Result<&Rows, QueryError> {
        let (at, trace) = self.trace(rank)?;
        Ok(self.derived[at].rows.get_or_init(|| Rows::of(trace)))
    }

    /// What changes over time in a trace.
    pub(crate) fn counters(&self, rank: Option<i64>) -> Result<&Counters, QueryError> {
        let (at, trace) = self.trace(rank)?;
        Ok(self.derived[at].counters.get_or_init(|| counters::of(trace)))
    }

    /// The time that all times in answers count from: a browser's numbers are exact to 2^53 only, which is 104 days in
    /// ns, and times since 1970 are far beyond.
    pub(crate) fn origin(&self, rank: Option<i64>) -> Result<i64, QueryError> {
        let (at, trace) = self.trace(rank)?;
        Ok(*self.derived[at].origin.get_or_init(|| trace.span().map_or(0, |(start, _)| start)))
    }

    /// The source files that the run names: no others are ever read.
    pub(crate) fn files(&self) -> &BTreeSet<String> {
        self.files.get_or_init(|| {
            let mut files = BTreeSet::new();
            if let Some(tree) = &self.recording {
                let python = tree.frames.iter().filter(|frame| frame.kind() == CallFrameKind::Python);
                files.extend(python.filter_map(|frame| Some(tree.strings.get(frame.file()?).to_owned())));
            }
            for text in self.set.traces.iter().flat_map(|trace| trace.strings.iter()) {
                files.extend(source::files_in(text).map(str::to_owned));
            }
            files
        })
    }
}

/// Name, sizes and times: another run, or the same one recorded again, has another hash.
fn hash(name: &str, set: &TraceSet, recording: Option<&CallTree>) -> String {
    let mut hasher = FxHasher::default();
    hasher.write(name.as_bytes());
    for trace in &set.traces {
        hasher.write_usize(trace.events.len());
        hasher.write_usize(trace.strings.len());
        hasher.write_i64(trace.meta.base_ns);
        let (start, dur) = (&trace.events.start, &trace.events.dur);
        start.iter().chain(dur).for_each(|&ns| hasher.write_i64(ns));
    }
    if let Some(tree) = recording {
        hasher.write_usize(tree.nodes.len());
        tree.metrics.iter().for_each(|(node, _, _, stats)| {
            hasher.write_u32(node.0);
            hasher.write_u64(stats.sum);
        });
    }
    format!("{:016x}", hasher.finish())
}
