//! Collectives for rules: family, size and process group.

use super::rule_context::RuleContext;
use stackline_model::{EventId, EventKind, StrId};
use stackline_timeline::classify::{Collective as Family, element_bytes};
use stackline_timeline::kernel_type::KernelType;

/// Family of sends and receives between two ranks.
const MESSAGES: &str = "send_recv";

/// Collective in the analyzed window, with its family, size and process group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collective {
    /// GPU work of the collective.
    pub(super) event: EventId,
    /// Family, such as `all_reduce`.
    pub(super) family: &'static str,
    /// Elements that each rank sends (for all-gather: receives); none if the trace does not record the number.
    pub(super) elements: Option<i64>,
    /// Bytes of an element by the recorded data type; none if the trace does not record it.
    pub(super) element_bytes: Option<i64>,
    /// Process group; none if the trace does not record it.
    pub(super) group: Option<StrId>,
}

impl RuleContext<'_> {
    /// Collectives of the window with a known family.
    pub(super) fn collectives(&self) -> Vec<Collective> {
        let trace = self.trace();
        let mut types = self.kernel_types();
        let [named, group, dtype] = ["Collective name", "Process Group Name", "dtype"].map(|key| trace.attr(key));
        let [sent, received, ranks] = ["In msg nelems", "Out msg nelems", "Group size"].map(|key| trace.attr(key));
        let work = self.gpu_work().into_iter().filter(|&e| types.of_event(e) == KernelType::Communication);
        let collective = |event: EventId| {
            let recorded = named.text(event).and_then(|name| Family::find(trace.strings.get(name)));
            // Some libraries use one kernel name for all collectives: there the operator determines the family.
            let by_operator = || self.family_by_operator(event);
            let family = recorded.or_else(|| Family::find(trace.name(event))).or_else(by_operator)?;
            let all = || sent.i64(event)?.checked_mul(ranks.i64(event)?);
            let elements = if family.sized_by_output { received.i64(event).or_else(all) } else { sent.i64(event) };
            let element_bytes = dtype.text(event).and_then(|name| element_bytes(trace.strings.get(name)));
            let (family, group) = (family.name, group.text(event));
            Some(Collective { event, family, elements: elements.filter(|&n| n > 0), element_bytes, group })
        };
        work.filter_map(collective).collect()
    }

    /// Sends and receives between two ranks in the window. Their names are recorded, or those of their operators.
    pub(super) fn messages(&self) -> Vec<EventId> {
        let trace = self.trace();
        let mut types = self.kernel_types();
        let named = trace.attr("Collective name");
        let is_message = |family: &Family| family.name == MESSAGES;
        let mut work = self.gpu_work();
        work.retain(|&event| {
            if types.of_event(event) != KernelType::Communication {
                return false;
            }
            match named.text(event).and_then(|name| Family::find(trace.strings.get(name))) {
                Some(recorded) => is_message(recorded),
                // The kernel of messages also runs other collectives, such as all-to-all.
                None => {
                    Family::find(trace.name(event)).is_none_or(is_message)
                        && self.family_by_operator(event).is_some_and(is_message)
                }
            }
        });
        work
    }

    /// Family of a collective by the innermost operator or annotation around its launch that names one.
    fn family_by_operator(&self, event: EventId) -> Option<&'static Family> {
        let trace = self.trace();
        let is_operator = |&e: &EventId| matches!(trace.kind(e), EventKind::Operator | EventKind::Annotation);
        self.stack(event).filter(is_operator).find_map(|e| Family::find(trace.name(e)))
    }
}
