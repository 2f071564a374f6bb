//! Memory leak: never freed. If the trace ends before the program, the object is merely alive, and the match says so by
//! its certainty. Nor is it certain that nobody needs it: that is known as well as who touches it, and as what ran after
//! its last use. What training keeps (parameters, their gradients, state of the optimizer) is no leak, nor is memory of which
//! nobody sees the free.

use super::{Certainty, Pattern, PatternMatch};
use crate::Facts;
use stackline_model::MemoryObjectKind;

pub(super) fn detect(facts: &Facts<'_>, found: &mut Vec<PatternMatch>) {
    for object in facts.trace.objects.ids() {
        let Some(bytes) = facts.bytes(object) else { continue };
        // The last gradients are there when training ends; who frees memory of others is not seen.
        let kind = facts.trace.objects.kind[object.index()];
        let may_stay =
            super::is_kept(facts, object) || matches!(kind, MemoryObjectKind::Gradient | MemoryObjectKind::Foreign);
        if facts.trace.objects.freed_by[object.index()].is_some() || may_stay {
            continue;
        }
        let from = facts.trace.objects.allocated_by[object.index()];
        let life = facts.trace.life(object);
        let kernels = facts.kernels_in(life.clone());
        let unneeded = facts.uses[object.index()].last_use.some().map_or(life.start, |last| last.index() + 1);
        let leak = PatternMatch::new(Pattern::MemoryLeak, object, bytes).judged_as_over(facts, unneeded..life.end);
        let end = if facts.trace.saw_end { Certainty::Exact } else { Certainty::Partial };
        found.push(PatternMatch { from, kernels, certainty: leak.certainty.max(end), ..leak });
    }
}
