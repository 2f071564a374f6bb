//! Sweep: likely edits, each tried alone and ranked by predicted gain.

use super::super::path::ExactPath;
use super::cancellation::Stop;
use super::edit::Edit;
use super::suggest::{Planned, Suggestion, differ, merge_equal_parts, select_fairly};
use super::{Gain, Measured, WhatIf};
use crate::CriticalPathError;
use stackline_timeline::window_choice::WindowChoice;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Settings of a sweep.
#[derive(Clone, Copy, Debug)]
pub struct SweepOptions {
    /// Maximum number of candidates: those of each kind with most time on the path.
    pub candidates: usize,
    /// Number of threads; 0 means one per core. Has no effect on the result.
    pub threads: usize,
}

impl Default for SweepOptions {
    fn default() -> Self {
        Self { candidates: 200, threads: 0 }
    }
}

/// Edit that a sweep tried, with its predicted gain.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Edit in a form that can be typed.
    pub edit: String,
    /// Time of its events on the original path, in ns.
    pub on_path_ns: i64,
    /// Number of its events.
    pub count: usize,
    /// Estimated gain.
    pub gain: Gain,
    /// Other edits for the same time with a similar gain, such as the modules around a module.
    pub also: Vec<String>,
}

/// Result of a sweep: edits ranked by predicted gain, largest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Length of the window in ns.
    pub window_ns: i64,
    /// Tried edits, each time only once.
    pub candidates: Vec<Candidate>,
    /// Number of planned candidates; larger than `tried` if the sweep was stopped.
    pub planned: usize,
    /// Number of tried candidates, including those that were merged with others.
    pub tried: usize,
    /// Number of further candidates beyond the maximum.
    pub left_out: usize,
    /// True if the sweep was stopped early.
    pub interrupted: bool,
    /// Notes for readers, one or two sentences each.
    pub notes: Vec<String>,
}

/// Run `job` for all items on up to `threads` threads (0: one per core), and collect the results that are not `None`.
///
/// Results are in the order of the items.
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
    /// Try edits of the events with most time on the path: kernels, operators and modules twice as fast, waits removed,
    /// collectives overlapped, more data loading workers, launches and queues without delay. `stop` is called between
    /// candidates and during each; after it returns true, the partial result is returned. The number of threads has no
    /// effect on the result.
    ///
    /// # Errors
    /// Returns an error if the window does not exist.
    pub fn sweep(
        &self,
        choice: &WindowChoice,
        options: &SweepOptions,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Sweep, CriticalPathError> {
        self.sweep_with_edits(choice, options, stop).map(|(sweep, _)| sweep)
    }

    /// Run a sweep, and return the edit of each candidate with the result.
    pub(super) fn sweep_with_edits(
        &self,
        choice: &WindowChoice,
        options: &SweepOptions,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(Sweep, Vec<Edit>), CriticalPathError> {
        let measured = self.measured(choice)?;
        let path = self.exact.path_of(measured.window);
        let (requested, stop) = (stop, Stop::when(stop));
        let suggested = merge_equal_parts(self.suggestions(&path, stop), &path, stop);
        let (planned, left_out) = select_fairly(suggested, options.candidates);
        let try_one = |plan: &Planned| {
            let edit = self.edit(plan.suggestion)?;
            let (gain, count) = self.gain_and_count(&measured, std::slice::from_ref(&edit), stop)?;
            let names = plan.also.iter().filter_map(|&s| self.edit(s)).map(|e| e.to_string());
            let candidate =
                Candidate { edit: edit.to_string(), on_path_ns: plan.on_path_ns, count, gain, also: names.collect() };
            Some((candidate, edit))
        };
        let numbers: Vec<usize> = (0..planned.len()).collect();
        let found = in_parallel(&numbers, options.threads, |&i| Some((try_one(&planned[i])?, &planned[i])));
        let (window_ns, tried) = (measured.window.length_ns(), found.len());
        let (candidates, edits) = merge_same_time(found, &path).into_iter().unzip();
        let (planned, interrupted) = (planned.len(), requested());
        let notes = self.unknown_causes_note().into_iter().collect();
        Ok((Sweep { window_ns, candidates, planned, tried, left_out, interrupted, notes }, edits))
    }

    /// Gain of each list of edits, applied together. `None` for lists that cannot be applied, and after a stop request.
    ///
    /// # Errors
    /// Returns an error if the window does not exist.
    pub(crate) fn gains_of<E: AsRef<[Edit]> + Sync>(
        &self,
        choice: &WindowChoice,
        lists: &[E],
        threads: usize,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Option<Gain>>, CriticalPathError> {
        let measured = self.measured(choice)?;
        let gain =
            |edits: &E| Some(self.gain_and_count(&measured, edits.as_ref(), Stop::when(stop)).map(|(gain, _)| gain));
        Ok(in_parallel(lists, threads, gain))
    }

    /// Gain of edits applied together, and the number of events of the first one. `None` for edits that cannot be
    /// applied, such as more workers for an unknown loader, and for unfinished ones.
    fn gain_and_count(&self, measured: &Measured, edits: &[Edit], stop: Stop<'_>) -> Option<(Gain, usize)> {
        if stop.is_requested() {
            return None;
        }
        let found = self.gain_with_cases(measured, edits, stop).ok()?;
        (!stop.is_requested()).then_some(found)
    }
}

/// Candidate with its edit and its plan.
type TriedCandidate<'p> = ((Candidate, Edit), &'p Planned);

/// Merge tried edits with similar gains that change the same part of the path. The one with the least time on the path
/// is kept, because it is the most specific. Sorted by gain.
fn merge_same_time(mut tried: Vec<TriedCandidate<'_>>, path: &ExactPath) -> Vec<(Candidate, Edit)> {
    tried.sort_by(|((a, _), _), ((b, _), _)| by_gain(a, b));
    let mut kept: Vec<TriedCandidate<'_>> = Vec::new();
    for (found, plan) in tried {
        match kept.iter_mut().find(|((other, _), of)| have_same_effect((&found.0, plan), (other, of), path)) {
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

/// Compare two sweep candidates by gain, largest first.
fn by_gain(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    let key = |c: &Candidate| (c.gain.likely_ns, c.gain.low_ns, c.on_path_ns);
    key(b).cmp(&key(a)).then_with(|| a.edit.cmp(&b.edit))
}

/// True if two edits have similar gains and apply to the same part of the path.
fn have_same_effect((a, of_a): (&Candidate, &Planned), (b, of_b): (&Candidate, &Planned), path: &ExactPath) -> bool {
    let is_scaled =
        |of: &Planned| !matches!(of.suggestion, Suggestion::Workers | Suggestion::Wait(_) | Suggestion::Collective(_));
    is_scaled(of_a)
        && is_scaled(of_b)
        && a.gain.likely_ns > 0
        && !differ(a.gain.likely_ns, b.gain.likely_ns)
        && of_a.changes_same_part(of_b, path)
}
