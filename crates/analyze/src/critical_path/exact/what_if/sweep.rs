//! What to fix first: each likely edit alone, ranked by what it gains.

use super::super::category::Category;
use super::super::walk::ExactPath;
use super::super::window::WindowChoice;
use super::edit::{Action, Edit};
use super::index::module_name;
use super::replay::Mode;
use super::selector::{Selector, What};
use super::{Gain, WhatIf, apply};
use crate::critical_path::CriticalPathError;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, StrId};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How a sweep goes.
#[derive(Clone, Copy, Debug)]
pub struct SweepOptions {
    /// Candidates at most; those with most time on the path are tried.
    pub candidates: usize,
    /// Threads; 0 means one per core. Never changes the result.
    pub threads: usize,
}

impl Default for SweepOptions {
    fn default() -> Self {
        Self { candidates: 200, threads: 0 }
    }
}

/// An edit that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The edit, as it can be typed.
    pub edit: String,
    /// Time of what it is about on the path before, in ns.
    pub on_path_ns: i64,
    /// How many events it is about.
    pub count: usize,
    /// What it gains.
    pub gain: Gain,
}

/// The edits by gain, most first.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Length of the window in ns.
    pub window_ns: i64,
    /// What was tried.
    pub candidates: Vec<Candidate>,
    /// How many were to be tried; more than were, if the sweep was stopped.
    pub planned: usize,
}

/// What a stretch of the path suggests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Suggestion {
    Kernel(StrId),
    Collective(StrId),
    Operator(StrId),
    Module(StrId),
    Sync(StrId),
    Category(Category),
    Workers,
}

/// `job` of all items on up to `threads` threads, results in the order of the items.
fn in_parallel<T: Sync, R: Send>(items: &[T], threads: usize, job: impl Fn(&T) -> Option<R> + Sync) -> Vec<R> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads == 0 { cores() } else { threads }.min(items.len());
    if threads <= 1 {
        return items.iter().filter_map(job).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some((i, item)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, items.get(i)?))) {
            found.extend(job(item).map(|result| (i, result)));
        }
        found
    };
    let mut found: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|w| w.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    found.sort_unstable_by_key(|(i, _)| *i);
    found.into_iter().map(|(_, result)| result).collect()
}

impl WhatIf<'_, '_> {
    /// Tries what has most time on the path: kernels, operators and modules twice as fast, waits removed, collectives
    /// overlapped, more workers for the loading of data, launches and queues without delay. `stop` is asked between
    /// candidates; once it says so, what was found so far is the result. Threads do not change it.
    ///
    /// # Errors
    /// If there is no such window.
    pub fn sweep(
        &self,
        choice: &WindowChoice,
        options: &SweepOptions,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Sweep, CriticalPathError> {
        let measured = self.measured(choice)?;
        let path = self.exact.path_of(measured.window);
        let mut planned = self.suggestions(&path);
        planned.truncate(options.candidates);
        let try_one = |(suggestion, on_path_ns): &(Suggestion, i64)| {
            if stop() {
                return None;
            }
            let edit = self.edit(*suggestion)?;
            // A suggestion that cannot be made, such as workers that cannot be told, is none.
            let edits = std::slice::from_ref(&edit);
            let applied = apply(self.exact, (&self.plan, &self.index), edits).ok()?;
            let mut shifts = Vec::new();
            let after = self.end_after(&measured, &applied, Mode::Usual, &mut shifts).length;
            let gain = self.gain(&measured, &applied, after, &mut shifts);
            let count = applied.counts.first().copied().unwrap_or(0);
            Some(Candidate { edit: edit.to_string(), on_path_ns: *on_path_ns, count, gain })
        };
        let mut candidates = in_parallel(&planned, options.threads, try_one);
        candidates.sort_by(|a, b| {
            let key = |c: &Candidate| (c.gain.ns, c.gain.low_ns, c.on_path_ns);
            key(b).cmp(&key(a)).then_with(|| a.edit.cmp(&b.edit))
        });
        Ok(Sweep { window_ns: measured.window.length_ns(), candidates, planned: planned.len() })
    }

    /// What the path suggests, with its time on the path: most first.
    fn suggestions(&self, path: &ExactPath) -> Vec<(Suggestion, i64)> {
        let mut sums: FxHashMap<Suggestion, i64> = FxHashMap::default();
        let mut seen = Vec::new();
        for hop in &path.hops {
            seen.clear();
            self.suggest(hop.category, hop.event, &mut seen);
            seen.sort_unstable();
            seen.dedup();
            for &suggestion in &seen {
                *sums.entry(suggestion).or_default() += hop.end - hop.start;
            }
        }
        let mut all: Vec<(Suggestion, i64)> = sums.into_iter().collect();
        all.sort_unstable_by_key(|&(suggestion, ns)| (std::cmp::Reverse(ns), suggestion));
        all
    }

    fn suggest(&self, category: Category, event: EventId, found: &mut Vec<Suggestion>) {
        let trace = self.exact.trace;
        let name = |e: EventId| trace.events.name[e.index()];
        match category {
            Category::GpuCommunication => {
                found.extend(event.some().map(|e| Suggestion::Collective(name(e))));
                found.extend(event.some().map(|e| Suggestion::Kernel(name(e))));
            }
            Category::GpuCompute | Category::GpuCopy => {
                found.extend(event.some().map(|e| Suggestion::Kernel(name(e))));
            }
            Category::GpuQueue | Category::LaunchLatency | Category::HostRuntime | Category::ThreadHandover => {
                found.push(Suggestion::Category(category));
            }
            Category::HostDataLoading => found.extend([Suggestion::Category(category), Suggestion::Workers]),
            Category::SyncReturn => found.extend(event.some().map(|e| Suggestion::Sync(self.name_of_sync(e)))),
            Category::HostPython | Category::HostOperator => found.push(Suggestion::Category(category)),
            Category::Profiler | Category::Unknown => {}
        }
        if event.is_none() || trace.kind(event).is_gpu_work() {
            found.extend(self.module_of(event).map(Suggestion::Module));
            return;
        }
        if self.index.is_sync(trace, event) {
            found.push(Suggestion::Sync(self.name_of_sync(event)));
        }
        for span in std::iter::once(event).chain(trace.ancestors(event)) {
            match trace.kind(span) {
                EventKind::Operator => found.push(Suggestion::Operator(name(span))),
                EventKind::PythonFunction if module_name(trace.name(span)).is_some() => {
                    found.push(Suggestion::Module(name(span)));
                }
                _ => {}
            }
        }
    }

    fn module_of(&self, event: EventId) -> Option<StrId> {
        let trace = self.exact.trace;
        let gpu = trace.gpu.of_event(event.some()?)?;
        let module = trace.gpu.module[gpu.index()].some()?;
        Some(trace.events.name[module.index()])
    }

    /// The operator around a call that waits, or the call itself: what a reader of the program knows it by.
    fn name_of_sync(&self, call: EventId) -> StrId {
        let trace = self.exact.trace;
        let outermost = trace.ancestors(call).filter(|&e| trace.kind(e) == EventKind::Operator).last();
        trace.events.name[outermost.unwrap_or(call).index()]
    }

    fn edit(&self, suggestion: Suggestion) -> Option<Edit> {
        let strings = &self.exact.trace.strings;
        let on = |kind: &str, what: What, name: StrId, action: Action| {
            Some(Edit { action, selector: Some(Selector::exactly(kind, what, strings.get(name))) })
        };
        let half = Action::Scale(0.5);
        match suggestion {
            Suggestion::Kernel(name) => on("kernel", What::Kernel, name, half),
            Suggestion::Collective(name) => on("collective", What::Collective, name, Action::Overlap),
            Suggestion::Operator(name) => on("operator", What::Operator, name, half),
            Suggestion::Module(name) => on("module", What::Module, name, half),
            Suggestion::Sync(name) => on("sync", What::Sync, name, Action::Remove),
            Suggestion::Workers => Edit::more_workers(1).ok(),
            Suggestion::Category(category) => {
                let action = match category {
                    Category::GpuQueue | Category::LaunchLatency => Action::Remove,
                    _ => half,
                };
                Edit::new(action, &format!("category:{}", category.name())).ok()
            }
        }
    }
}
