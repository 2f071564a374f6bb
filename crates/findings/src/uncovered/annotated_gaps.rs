//! Critical-path time without an event, grouped by the program's annotation around the time.

use super::path_part::{GroupKey, Part};
use crate::large_group::{LARGE_PERCENT, LargeKind};
use crate::rule_context::RuleContext;
use rustc_hash::FxHashSet;
use stackline_model::names::STEP_PREFIX;
use stackline_model::{EventId, EventKind, StrId};
use std::collections::BTreeMap;

/// Critical-path segments without an event by kind, each with the innermost annotation around it.
pub(super) struct AnnotatedGaps {
    /// Annotations that mark steps: their number says nothing about the time.
    steps: FxHashSet<EventId>,
    by_kind: BTreeMap<LargeKind, Vec<(StrId, Part)>>,
}

impl AnnotatedGaps {
    /// Create an empty collection, which ignores annotations of steps.
    pub(super) fn new(context: &RuleContext<'_>) -> Self {
        let steps = context.trace().steps.iter().map(|step| step.event).collect();
        Self { steps, by_kind: BTreeMap::new() }
    }

    /// Add a critical-path segment with the annotation around it. Waits and latencies get none, because their event is
    /// not around them.
    pub(super) fn add(&mut self, context: &RuleContext<'_>, kind: LargeKind, part: Part) {
        let trace = context.trace();
        let is_around = |&e: &EventId| {
            trace.kind(e) == EventKind::Annotation
                && !self.steps.contains(&e)
                && !trace.name(e).starts_with(STEP_PREFIX)
        };
        let event = part.event.some().filter(|_| !matches!(kind, LargeKind::Wait | LargeKind::Lag));
        let annotation = event.and_then(|event| context.stack(event).find(is_around));
        let name = annotation.map_or(StrId::NONE, |event| trace.events.name[event.index()]);
        self.by_kind.entry(kind).or_default().push((name, part));
    }

    /// Critical-path segments with their groups. An annotation has its own group if it contains half of the time of the
    /// kind, or a large part of the path. The rest of the kind is one group.
    pub(super) fn by_group(self, path_ns: i64) -> impl Iterator<Item = (GroupKey, Part)> {
        self.by_kind.into_iter().flat_map(move |(kind, gaps)| {
            let mut sums: BTreeMap<StrId, i64> = BTreeMap::new();
            gaps.iter().for_each(|(name, part)| *sums.entry(*name).or_default() += part.ns);
            let all: i64 = sums.values().sum();
            let is_own = |ns: i64| 2 * ns >= all || 100.0 * ns as f64 >= LARGE_PERCENT * path_ns as f64;
            sums.retain(|_, ns| is_own(*ns));
            gaps.into_iter().map(move |(name, part)| {
                let name = if sums.contains_key(&name) { name } else { StrId::NONE };
                ((kind, name), part)
            })
        })
    }
}
