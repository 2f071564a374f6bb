//! What to fix first: each likely edit alone, ranked by what it gains.

use super::super::backward_pass::ExactPath;
use super::super::window::WindowChoice;
use super::cancellation::Stop;
use super::edit::Edit;
use super::suggest::{Planned, Suggestion, differ, fair_share, fold};
use super::{Gain, Measured, WhatIf};
use crate::critical_path::CriticalPathError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How a sweep goes.
#[derive(Clone, Copy, Debug)]
pub struct SweepOptions {
    /// Candidates at most: those of each kind with most time on the path are tried.
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
    /// How many more the path suggests than were to be tried.
    pub left_out: usize,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// What the reader should know, a sentence each.
    pub notes: Vec<String>,
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
    /// candidates and while one is tried; once it says so, what was found so far is the result. Threads do not change it.
    ///
    /// # Errors
    /// If there is no such window.
    pub fn sweep(
        &self,
        choice: &WindowChoice,
        options: &SweepOptions,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Sweep, CriticalPathError> {
        self.sweep_with_edits(choice, options, stop).map(|(sweep, _)| sweep)
    }

    /// The same, with the edit of each candidate.
    pub(super) fn sweep_with_edits(
        &self,
        choice: &WindowChoice,
        options: &SweepOptions,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(Sweep, Vec<Edit>), CriticalPathError> {
        let measured = self.measured(choice)?;
        let path = self.exact.path_of(measured.window);
        let (asked, stop) = (stop, Stop::when(stop));
        let suggested = fold(self.suggestions(&path, stop), &path, stop);
        let (planned, left_out) = fair_share(suggested, options.candidates);
        let try_one = |plan: &Planned| {
            let edit = self.edit(plan.suggestion)?;
            let (gain, count) = self.gain_of_these(&measured, std::slice::from_ref(&edit), stop)?;
            let names = plan.also.iter().filter_map(|&s| self.edit(s)).map(|e| e.to_string());
            let candidate =
                Candidate { edit: edit.to_string(), on_path_ns: plan.on_path_ns, count, gain, also: names.collect() };
            Some((candidate, edit))
        };
        let numbers: Vec<usize> = (0..planned.len()).collect();
        let found = in_parallel(&numbers, options.threads, |&i| Some((try_one(&planned[i])?, &planned[i])));
        let (window_ns, tried) = (measured.window.length_ns(), found.len());
        let (candidates, edits) = folded(found, &path).into_iter().unzip();
        let (planned, interrupted) = (planned.len(), asked());
        Ok((Sweep { window_ns, candidates, planned, tried, left_out, interrupted, notes: Vec::new() }, edits))
    }

    /// What each list of edits gains, those of a list made together; none of those that cannot be made, or after being asked
    /// to stop.
    ///
    /// # Errors
    /// If there is no such window.
    pub fn gains_of<E: AsRef<[Edit]> + Sync>(
        &self,
        choice: &WindowChoice,
        lists: &[E],
        threads: usize,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Option<Gain>>, CriticalPathError> {
        let measured = self.measured(choice)?;
        let gain =
            |edits: &E| Some(self.gain_of_these(&measured, edits.as_ref(), Stop::when(stop)).map(|(gain, _)| gain));
        Ok(in_parallel(lists, threads, gain))
    }

    /// What edits, made together, gain, and how many events the first one is about. A suggestion that cannot be made, such as
    /// workers that cannot be told, is none; so is what was not finished.
    fn gain_of_these(&self, measured: &Measured, edits: &[Edit], stop: Stop<'_>) -> Option<(Gain, usize)> {
        if stop.is_asked() {
            return None;
        }
        let found = self.gain_with_cases(measured, edits, stop).ok()?;
        (!stop.is_asked()).then_some(found)
    }
}

/// A candidate with its edit, and what suggested it.
type Tried<'p> = ((Candidate, Edit), &'p Planned);

/// Edits of the same time become one: the one about the fewest events, which says best where to look. By gain.
fn folded(mut tried: Vec<Tried<'_>>, path: &ExactPath) -> Vec<(Candidate, Edit)> {
    tried.sort_by(|((a, _), _), ((b, _), _)| by_gain(a, b));
    let mut kept: Vec<Tried<'_>> = Vec::new();
    for (found, plan) in tried {
        match kept.iter_mut().find(|((other, _), of)| is_same((&found.0, plan), (other, of), path)) {
            Some((first, of)) if plan.on_path_ns < of.on_path_ns => {
                let (outer, _) = std::mem::replace(first, found);
                first.0.also.push(outer.edit);
                first.0.also.extend(outer.also);
                *of = plan;
            }
            Some(((first, _), _)) => {
                first.also.push(found.0.edit);
                first.also.extend(found.0.also);
            }
            None => kept.push((found, plan)),
        }
    }
    let mut kept: Vec<(Candidate, Edit)> = kept.into_iter().map(|(found, _)| found).collect();
    kept.sort_by(|(a, _), (b, _)| by_gain(a, b));
    kept
}

/// Most first.
fn by_gain(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    let key = |c: &Candidate| (c.gain.ns, c.gain.low_ns, c.on_path_ns);
    key(b).cmp(&key(a)).then_with(|| a.edit.cmp(&b.edit))
}

/// Whether two edits gain about the same and are about the same part of the path.
fn is_same((a, of_a): (&Candidate, &Planned), (b, of_b): (&Candidate, &Planned), path: &ExactPath) -> bool {
    let is_scaled =
        |of: &Planned| !matches!(of.suggestion, Suggestion::Workers | Suggestion::Wait(_) | Suggestion::Collective(_));
    is_scaled(of_a) && is_scaled(of_b) && a.gain.ns > 0 && !differ(a.gain.ns, b.gain.ns) && of_a.is_part_of(of_b, path)
}
