//! Notes on a prediction: no gain, gains far below the removed path time, GPU work that only moves to the next step.

use super::apply::Applied;
use super::cancellation::Stop;
use super::lags::Mode;
use super::path::NewPath;
use super::{Measured, WhatIf};
use crate::exact::graph::{NONE, NodeKind};
use crate::exact::segment_list::PathSegment;
use crate::exact::{ExactWarning, reasons_in_words};

/// Maximum gain in percent of the removed path time that requires an explanation.
const EXPLAIN_BELOW_PERCENT: i64 = 75;
/// Maximum removed path time in percent of the window that requires no explanation.
const MIN_REMOVED_PERCENT: i64 = 1;

/// Format a time in ns as milliseconds, such as `1.500 ms`.
fn in_ms(ns: i64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

impl WhatIf<'_, '_> {
    /// Note that the causes of the path are not known, with the reasons; `None` if they are known.
    pub(super) fn unknown_causes_note(&self) -> Option<String> {
        let warnings: Vec<ExactWarning> = self.exact.reliability.warnings().collect();
        let reasons = reasons_in_words(warnings.iter())?;
        Some(format!("{reasons}. The prediction and its bounds may therefore be wrong"))
    }

    /// Time that the edits remove from the original path, in ns.
    pub(super) fn removed_path_ns(&self, measured: &Measured, applied: &Applied) -> i64 {
        let path = self.exact.path_of(measured.window);
        path.segments.iter().map(|segment| self.removed_segment_ns(&segment, applied)).sum()
    }

    /// Time in ns that the edits remove from one segment of the original path; 0 for unexplained time.
    fn removed_segment_ns(&self, segment: &PathSegment, applied: &Applied) -> i64 {
        let graph = &self.exact.graph;
        if segment.node == NONE {
            return 0;
        }
        let node = segment.node as usize;
        let length = segment.end - segment.start;
        let at = self.plan.position[node];
        // A lag before its node.
        if segment.end <= graph.start[node] {
            let binding = self.plan.range(at).find(|&i| self.plan.edge(i).edge == graph.binding[node]);
            let slack = binding.and_then(|i| applied.changes.slack(i));
            return slack.unwrap_or(0).clamp(0, length);
        }
        if graph.kind[node] == NodeKind::Host {
            return -applied.host.change(graph.place[node], segment.start, segment.end);
        }
        let whole = (graph.end[node] - graph.start[node]).max(1);
        -(applied.changes.time[at as usize] as f64 * length as f64 / whole as f64).round() as i64
    }

    /// Reason why edits that change times have no gain; `None` if they have a gain or no reason is known.
    pub(super) fn no_gain(&self, measured: &Measured, applied: &Applied, (taken, gain): (i64, i64)) -> Option<String> {
        if gain != 0 || applied.changes.count() == 0 {
            return None;
        }
        let first = applied.changes.first_position()?;
        let start = self.exact.graph.start[self.plan.node[first as usize] as usize];
        if start >= measured.window.end {
            return Some("all changed work runs after the end of the analyzed time window".to_owned());
        }
        (taken == 0)
            .then(|| "none of the changed work is on the critical path, so the window does not end earlier".to_owned())
    }

    /// Note on a gain far below the removed path time, with the cause that grew instead; `None` for other gains.
    pub(super) fn replacing_cause(
        &self,
        taken: i64,
        gain: i64,
        (before, after): (&NewPath, &NewPath),
    ) -> Option<String> {
        let window: i64 = before.by_category.iter().map(|(_, ns)| ns).sum();
        if taken * 100 <= window * MIN_REMOVED_PERCENT || gain * 100 >= taken * EXPLAIN_BELOW_PERCENT {
            return None;
        }
        let grown = before.by_category.iter().zip(&after.by_category).map(|(b, a)| (a.1 - b.1, a.0));
        let (more, category) = grown.max_by_key(|&(more, category)| (more, std::cmp::Reverse(category)))?;
        let text =
            format!("the edits remove {} from the critical path, but the gain is only {}", in_ms(taken), in_ms(gain));
        if more <= 0 {
            return Some(text);
        }
        let was = |name: &str| before.top.iter().find(|(n, c, _)| n == name && *c == category).map_or(0, |t| t.2);
        let names = after.top.iter().filter(|(_, c, _)| *c == category);
        let most = names
            .map(|(name, _, ns)| (ns - was(name), name))
            .max_by_key(|&(more, name)| (more, std::cmp::Reverse(name)));
        let (category, more) = (category.name(), in_ms(more));
        Some(match most.filter(|(more, _)| *more > 0) {
            Some((_, name)) => format!(
                "{text}. The critical path with the edits contains {more} more time of the category '{category}', \
                 mostly in {}",
                shorten_name(name)
            ),
            None => format!(
                "{text}. The critical path with the edits contains {more} more time of the category '{category}'"
            ),
        })
    }

    /// Warning that a window on a thread gets shorter only because GPU work moves past its end; `None` if not.
    pub(super) fn moved_past_end(&self, measured: &Measured, applied: &Applied, gain: i64) -> Option<String> {
        let window = measured.window;
        if measured.is_whole || measured.work.is_some() || !self.is_on_thread(window) || gain <= 0 {
            return None;
        }
        let mut shifts = Vec::new();
        self.plan.replay(&applied.changes, Mode::Usual, (self.plan.len() as u32, Stop::NEVER), &mut shifts);
        let graph = &self.exact.graph;
        let lanes = 0..self.exact.lanes.len() as u32;
        let launched = lanes.flat_map(|lane| self.index.launched_in((lane, window.start, window.end)));
        let ends = launched.map(|l| {
            let end = graph.end[l.node as usize];
            (end, end + shifts[self.plan.position[l.node as usize] as usize])
        });
        let (last, last_after) = ends.fold((i64::MIN, i64::MIN), |most, e| (most.0.max(e.0), most.1.max(e.1)));
        if last == i64::MIN {
            return None;
        }
        let lane = graph.place[window.anchor as usize];
        let end = self.shifted_time(window.anchor, lane, window.end, applied, &shifts);
        let (before, after) = ((last - window.end).max(0), (last_after - end).max(0));
        (after - before > gain / 4 && (after - before) * 100 > window.length_ns() * MIN_REMOVED_PERCENT).then(|| {
            format!(
                "with the edits, the GPU work that the window launches ends {} after the window; without the edits, \
                 it ends {} after the window. Later steps may wait for that work and lose the gain. To include later \
                 steps, select several steps or the whole trace",
                in_ms(after),
                in_ms(before)
            )
        })
    }
}

/// Name shortened to fit into a sentence.
fn shorten_name(name: &str) -> String {
    const MAX_CHARS: usize = 60;
    match name.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
