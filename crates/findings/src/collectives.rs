//! Collectives as rules see them: what they do, how much, among whom.

use super::rule_context::RuleContext;
use stackline_model::{EventId, EventKind, StrId};
use stackline_timeline::classify::Collective as Family;
use stackline_timeline::kernel_type::KernelType;

/// A collective of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collective {
    /// Its work on the GPU.
    pub(super) event: EventId,
    /// Its family, such as `all_reduce`.
    pub(super) family: &'static str,
    /// Elements that each rank gives (all-gather: gets); none where the trace does not say.
    pub(super) elements: Option<i64>,
    /// Who takes part; none where the trace does not say.
    pub(super) group: Option<StrId>,
}

impl RuleContext<'_> {
    /// Collectives of the window of which is known what they do.
    pub(super) fn collectives(&self) -> Vec<Collective> {
        let trace = self.trace();
        let mut types = self.kernel_types();
        let [named, group] = ["Collective name", "Process Group Name"].map(|key| trace.attr(key));
        let [sent, got, ranks] = ["In msg nelems", "Out msg nelems", "Group size"].map(|key| trace.attr(key));
        let work = self.gpu_work().into_iter().filter(|&e| types.of_event(e) == KernelType::Communication);
        let collective = |event: EventId| {
            let said = named.text(event).and_then(|name| Family::find(trace.strings.get(name)));
            // Kernels of some libraries have one name for all: there the operator says which.
            let is_operator = |&e: &EventId| matches!(trace.kind(e), EventKind::Operator | EventKind::Annotation);
            let by_operator = || self.stack(event).filter(is_operator).find_map(|e| Family::find(trace.name(e)));
            let family = said.or_else(|| Family::find(trace.name(event))).or_else(by_operator)?;
            let all = || sent.i64(event)?.checked_mul(ranks.i64(event)?);
            let elements = if family.sized_by_output { got.i64(event).or_else(all) } else { sent.i64(event) };
            let (family, group) = (family.name, group.text(event));
            Some(Collective { event, family, elements: elements.filter(|&n| n > 0), group })
        };
        work.filter_map(collective).collect()
    }
}
