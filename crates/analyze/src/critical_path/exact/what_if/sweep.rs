//! What to fix first: each likely edit alone, ranked by what it gains.

use super::super::category::Category;
use super::super::threads::is_annotation;
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
    /// Other edits that are about the same time and gain about the same, such as the modules around a module.
    pub also: Vec<String>,
}

/// The edits by gain, most first.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Length of the window in ns.
    pub window_ns: i64,
    /// What was tried, the same time once.
    pub candidates: Vec<Candidate>,
    /// How many were to be tried; more than were, if the sweep was stopped.
    pub planned: usize,
    /// How many were tried. Those of the same time as another one are part of that.
    pub tried: usize,
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

/// A suggestion, and the hops of the path that it is about.
struct Planned {
    suggestion: Suggestion,
    /// Their time, in ns.
    on_path_ns: i64,
    /// Positions on the path, ascending.
    hops: Vec<u32>,
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
        let try_one = |&number: &usize| {
            let plan = &planned[number];
            if stop() {
                return None;
            }
            let edit = self.edit(plan.suggestion)?;
            // A suggestion that cannot be made, such as workers that cannot be told, is none.
            let edits = std::slice::from_ref(&edit);
            let applied = apply(self.exact, (&self.plan, &self.index), edits).ok()?;
            let mut shifts = Vec::new();
            let after = self.end_after(&measured, &applied, Mode::Usual, &mut shifts).length;
            let gain = self.gain(&measured, &applied, after, &mut shifts);
            let count = applied.counts.first().copied().unwrap_or(0);
            let edit = edit.to_string();
            Some((Candidate { edit, on_path_ns: plan.on_path_ns, count, gain, also: Vec::new() }, number))
        };
        let numbers: Vec<usize> = (0..planned.len()).collect();
        let found = in_parallel(&numbers, options.threads, try_one);
        let mut tried: Vec<_> = found.into_iter().map(|(candidate, number)| (candidate, &planned[number])).collect();
        tried.sort_by(|(a, _), (b, _)| by_gain(a, b));
        let (window_ns, done) = (measured.window.length_ns(), tried.len());
        Ok(Sweep { window_ns, candidates: folded(tried, &path), planned: planned.len(), tried: done })
    }

    /// What the path suggests, with its time on the path: most first.
    fn suggestions(&self, path: &ExactPath) -> Vec<Planned> {
        let mut found: FxHashMap<Suggestion, (i64, Vec<u32>)> = FxHashMap::default();
        let mut seen = Vec::new();
        for (i, hop) in (0u32..).zip(&path.hops) {
            seen.clear();
            self.suggest(hop.category, hop.event, &mut seen);
            seen.sort_unstable();
            seen.dedup();
            for &suggestion in &seen {
                let (ns, hops) = found.entry(suggestion).or_default();
                *ns += hop.end - hop.start;
                hops.push(i);
            }
        }
        let mut all: Vec<Planned> = found
            .into_iter()
            .filter(|(suggestion, _)| !self.is_nameless(*suggestion))
            .map(|(suggestion, (on_path_ns, hops))| Planned { suggestion, on_path_ns, hops })
            .collect();
        all.sort_unstable_by_key(|plan| (std::cmp::Reverse(plan.on_path_ns), plan.suggestion));
        all
    }

    /// Whether it is about something that has no name to select it by.
    fn is_nameless(&self, suggestion: Suggestion) -> bool {
        use Suggestion::{Collective, Kernel, Module, Operator, Sync};
        match suggestion {
            Kernel(name) | Collective(name) | Operator(name) | Module(name) | Sync(name) => {
                self.exact.trace.strings.get(name).trim().is_empty()
            }
            Suggestion::Category(_) | Suggestion::Workers => false,
        }
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
            self.modules_of(event, found);
            return;
        }
        if self.index.is_sync(trace, event) {
            found.push(Suggestion::Sync(self.name_of_sync(event)));
        }
        for span in std::iter::once(event).chain(trace.ancestors(event)) {
            match trace.kind(span) {
                // Old traces record steps as operators.
                EventKind::Operator if !is_annotation(trace, span) => found.push(Suggestion::Operator(name(span))),
                EventKind::PythonFunction if module_name(trace.name(span)).is_some() => {
                    found.push(Suggestion::Module(name(span)));
                }
                _ => {}
            }
        }
    }

    /// The modules that launched an operation, from the innermost on.
    fn modules_of(&self, event: EventId, found: &mut Vec<Suggestion>) {
        let trace = self.exact.trace;
        let gpu = event.some().and_then(|e| trace.gpu.of_event(e));
        let Some(module) = gpu.and_then(|g| trace.gpu.module[g.index()].some()) else { return };
        let around = std::iter::once(module).chain(trace.ancestors(module));
        let modules = around.filter(|&e| module_name(trace.name(e)).is_some());
        found.extend(modules.map(|e| Suggestion::Module(trace.events.name[e.index()])));
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

/// Two edits are the same if they differ by no more than this, in percent.
const ALIKE: i64 = 10;

/// Edits of the same time become one: the one about the fewest events, which says best where to look.
fn folded(tried: Vec<(Candidate, &Planned)>, path: &ExactPath) -> Vec<Candidate> {
    let mut kept: Vec<(Candidate, &Planned)> = Vec::new();
    for (candidate, plan) in tried {
        match kept.iter_mut().find(|(other, of)| is_same((&candidate, plan), (other, of), path)) {
            Some((first, of)) if plan.on_path_ns < of.on_path_ns => {
                let outer = std::mem::replace(first, candidate);
                first.also.push(outer.edit);
                first.also.extend(outer.also);
                *of = plan;
            }
            Some((first, _)) => first.also.push(candidate.edit),
            None => kept.push((candidate, plan)),
        }
    }
    let mut kept: Vec<Candidate> = kept.into_iter().map(|(candidate, _)| candidate).collect();
    kept.sort_by(by_gain);
    kept
}

/// Most first.
fn by_gain(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    let key = |c: &Candidate| (c.gain.ns, c.gain.low_ns, c.on_path_ns);
    key(b).cmp(&key(a)).then_with(|| a.edit.cmp(&b.edit))
}

/// Whether two edits gain about the same and are about the same part of the path.
fn is_same((a, of_a): (&Candidate, &Planned), (b, of_b): (&Candidate, &Planned), path: &ExactPath) -> bool {
    let differ = |x: i64, y: i64| (x - y).abs() * 100 > x.abs().max(y.abs()) * ALIKE;
    let is_scaled =
        |of: &Planned| !matches!(of.suggestion, Suggestion::Workers | Suggestion::Sync(_) | Suggestion::Collective(_));
    if !is_scaled(of_a)
        || !is_scaled(of_b)
        || a.gain.ns <= 0
        || differ(a.gain.ns, b.gain.ns)
        || differ(of_a.on_path_ns, of_b.on_path_ns)
    {
        return false;
    }
    let time = |i: &u32| path.hops[*i as usize].end - path.hops[*i as usize].start;
    let shared: i64 = of_a.hops.iter().filter(|i| of_b.hops.binary_search(i).is_ok()).map(time).sum();
    !differ(shared, of_a.on_path_ns.max(of_b.on_path_ns))
}
