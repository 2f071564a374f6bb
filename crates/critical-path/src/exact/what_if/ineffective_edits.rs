//! Notes on edits without effect: duplicates, edits of waits, edits of negligible time.

use super::applier::Applier;
use super::edit::{Action, Edit};
use super::host_time::Cut;
use super::scaled::scaled;
use super::select::Selected;
use super::selector::{NameKind, Selector, Target};
use crate::CriticalPathError;
use crate::exact::graph::NodeKind;
use stackline_timeline::kernel_type::{KernelType, NameTypes, RULES};

/// Numbers of changes before an edit is applied, to detect edits without effect.
#[derive(Clone, Copy)]
pub(super) struct ChangeCounts {
    changes: usize,
    cuts: usize,
    sampled: usize,
}

/// Position of the first edit in the list that equals the one at `at` and precedes it. Equal scale edits multiply, so
/// they are no repetition.
pub(super) fn earlier_duplicate(edits: &[Edit], at: usize) -> Option<usize> {
    let edit = &edits[at];
    let counts_twice = matches!(edit.action, Action::Scale(_));
    edits[..at].iter().position(|other| other.is_same_change(edit)).filter(|_| !counts_twice)
}

impl Applier<'_, '_> {
    /// Numbers of changes so far, for [`Self::note_if_ineffective`].
    pub(super) fn change_counts(&self) -> ChangeCounts {
        ChangeCounts { changes: self.changes.count(), cuts: self.cuts.len(), sampled: self.partly.len() }
    }

    /// Restrict the operations of an `overlap` edit to collectives, with a note about the number of others.
    pub(super) fn keep_collectives(
        &mut self,
        selected: &mut Selected,
        selector: &Selector,
    ) -> Result<(), CriticalPathError> {
        let mut types = NameTypes::new(self.exact.trace, RULES);
        let (rows, graph) = (&self.exact.trace.gpu, &self.exact.graph);
        let all = selected.gpu.len();
        let event = |n: u32| rows.event[graph.place[n as usize] as usize];
        selected.gpu.retain(|&n| types.of_event(event(n)) == KernelType::Communication);
        selected.count = selected.gpu.len();
        match all - selected.count {
            0 => Ok(()),
            n if n == all => {
                let reason = "only collectives can be overlapped, but no selected operation has the name of a \
                              collective; select collectives with collective:";
                Err(self.refused_edit_error(selector, reason))
            }
            others => {
                let text = &selector.text;
                self.notes.push(format!(
                    "{others} of the {all} operations that {text} selects are not collectives and stay unchanged"
                ));
                Ok(())
            }
        }
    }

    /// Add a note if an edit has no effect, or less effect than expected.
    pub(super) fn note_if_ineffective(&mut self, edit: &Edit, count: usize, before: ChangeCounts) {
        let Some(selector) = &edit.selector else { return };
        let is_about_waits = matches!(selector.target, Target::Names(NameKind::Sync | NameKind::Wait, _));
        let note = if is_about_waits && matches!(edit.action, Action::Scale(_)) {
            "a wait lasts until the awaited work ends, so a faster call does not shorten the wait; scale the awaited \
             work, or remove the wait"
        } else if self.has_effect(before) {
            return;
        } else {
            match (edit.action, &selector.target) {
                (Action::Scale(1.0), _) => "a factor of 1 does not change the time",
                (Action::Overlap, _) => "no GPU work waits for the selected collectives",
                (_, Target::Categories(_)) => {
                    "none of the selected critical-path categories has time that delays other work"
                }
                (Action::SetNs(_), Target::Names(NameKind::Kernel | NameKind::Collective, _) | Target::Stream(_)) => {
                    "the selected events already have this duration"
                }
                (
                    _,
                    Target::Names(NameKind::Kernel | NameKind::Collective | NameKind::Sync | NameKind::Wait, _)
                    | Target::Stream(_),
                ) => "the selected events take no time",
                _ => {
                    "in these events the thread only waits for other work, and the wait lasts until that work ends; \
                     change that work instead"
                }
            }
        };
        let events = if count == 1 { "1 event".to_owned() } else { format!("{count} events") };
        let text = match self.has_effect(before) {
            true => format!(
                "'{edit}' selects {events} and changes only the time of these calls, not of the work that they launch or wait for: {note}"
            ),
            false => format!("'{edit}' selects {events} and changes nothing: {note}"),
        };
        self.notes.push(text);
    }

    /// True if an edit changed anything since the numbers of changes were `since`.
    fn has_effect(&self, since: ChangeCounts) -> bool {
        let graph = &self.exact.graph;
        let works = |cut: &Cut| {
            let (first, last) = self.exact.lane_nodes[cut.lane as usize];
            let ends = &graph.end[first as usize..last as usize];
            let from = first + ends.partition_point(|&end| end <= cut.from) as u32;
            let inside = (from..last).take_while(|&n| graph.start[n as usize] < cut.to);
            inside.filter(|&n| graph.kind[n as usize] == NodeKind::Host).any(|n| {
                let shared = graph.end[n as usize].min(cut.to) - graph.start[n as usize].max(cut.from);
                shared > 0 && scaled(shared, cut.factor) != shared
            })
        };
        self.changes.count() != since.changes
            || self.partly.len() != since.sampled
            || self.cuts[since.cuts..].iter().any(works)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_edit_twice_is_one_but_for_scales() {
        let edits: Vec<Edit> = [
            "set kernel:a 5",
            "scale kernel:a 0.5",
            "set kernel:a 5",
            "scale kernel:a 0.5",
            "set kernel:b 5",
            "set kernel:a 6",
        ]
        .iter()
        .map(|text| Edit::parse(text).unwrap())
        .collect();
        let repeated: Vec<Option<usize>> = (0..edits.len()).map(|i| earlier_duplicate(&edits, i)).collect();
        assert_eq!(repeated, [None, None, Some(0), None, None, None]);
    }
}
