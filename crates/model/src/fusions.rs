//! Original operators of kernels and events that a compiler fused.

use crate::inductor::original_operators;
use crate::kind::named_enum;
use crate::{EventId, EventKind, StrId, Trace};
use rustc_hash::FxHashMap;

/// Attribute with the names of the operators that a compiler fused into an event: a JSON list of texts.
pub const FUSED_OPERATORS: &str = "fused operators";

named_enum!(
    /// Evidence for the original operators of a fusion.
    FusionEvidence {
        /// The compiled program in the same file lists them (HLO metadata of XLA).
        Program = 0 "program",
        /// The kernel's name consists of their names (TorchInductor).
        KernelName = 1 "kernel_name",
        /// Like [`Self::KernelName`], but a part of the name is an unknown operator: it may be a part of one, or
        /// several.
        KernelNameGuess = 2 "kernel_name_guess",
    }
);

/// Fused kernel, or operator that runs one, with its original operators.
#[derive(Clone, Debug, PartialEq)]
pub struct Fusion {
    /// Name of the events.
    pub name: StrId,
    /// Names of the original operators.
    pub operators: Vec<String>,
    /// Evidence for these.
    pub evidence: FusionEvidence,
    /// Events, ascending: operations of devices, and operators of the host that launch them.
    pub events: Vec<EventId>,
}

impl Trace {
    /// Group fused events by name and original operators, in order of first appearance.
    pub fn fusions(&self) -> Vec<Fusion> {
        let lists = self.attr(FUSED_OPERATORS);
        let mut found: Vec<Fusion> = Vec::new();
        // By name and list; without a list, by the name alone.
        let mut known: FxHashMap<(StrId, Option<StrId>), Option<usize>> = FxHashMap::default();
        for event in self.events.ids() {
            let (name, list) = (self.events.name[event.index()], lists.text(event));
            if list.is_none() && !self.kind(event).is_gpu_work() && self.kind(event) != EventKind::Operator {
                continue;
            }
            let at = *known.entry((name, list)).or_insert_with(|| {
                let (operators, evidence) = self.operators_of(name, list)?;
                found.push(Fusion { name, operators, evidence, events: Vec::new() });
                Some(found.len() - 1)
            });
            if let Some(at) = at {
                found[at].events.push(event);
            }
        }
        found
    }

    /// Original operators of a fused event and their evidence: from its attribute `list`, else from its kernel name.
    /// `None` if neither names operators.
    fn operators_of(&self, name: StrId, list: Option<StrId>) -> Option<(Vec<String>, FusionEvidence)> {
        let listed = list.and_then(|list| serde_json::from_str::<Vec<String>>(self.strings.get(list)).ok());
        match listed.filter(|operators| !operators.is_empty()) {
            Some(operators) => Some((operators, FusionEvidence::Program)),
            None => {
                let (operators, are_known) = original_operators(self.strings.get(name))?;
                let evidence = if are_known { FusionEvidence::KernelName } else { FusionEvidence::KernelNameGuess };
                Some((operators, evidence))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttrType, Key, NewEvent, Phase, TrackKind, flags};

    #[test]
    fn recorded_lists_take_precedence_over_names() {
        let mut trace = Trace::default();
        let track = trace.tracks.track(Key::Int(0), Key::Int(7), TrackKind::Stream);
        let key = trace.strings.intern(FUSED_OPERATORS);
        let kernel = "triton_poi_fused_add_mul_0";
        let rows = [
            ("fusion.1", r#"["jit(f)/mul", "jit(f)/tanh"]"#),
            (kernel, ""),
            ("gemm", ""),
            (kernel, "[]"),
            ("fusion.1", "{"),
        ];
        for (name, list) in rows {
            let list = (!list.is_empty()).then(|| trace.strings.intern(list));
            let fields: Vec<(StrId, AttrType)> = list.iter().map(|_| (key, AttrType::Json)).collect();
            let values: Vec<u64> = list.iter().map(|list| list.0.into()).collect();
            trace.attrs.push(&fields, &values);
            let name = trace.strings.intern(name);
            let (category, kind, phase, flags) = (StrId::NONE, EventKind::Kernel, Phase::Complete, flags::HAS_DURATION);
            trace.events.push(NewEvent {
                start: 0,
                dur: 1,
                track,
                name,
                category,
                kind,
                phase,
                flags,
                source_index: 0,
            });
        }
        let found = trace.fusions();
        let short = |fusion: &Fusion| (fusion.operators.join(" "), fusion.evidence.name(), fusion.events.len());
        let expected = [
            ("jit(f)/mul jit(f)/tanh".to_owned(), "program", 1),
            ("add mul".to_owned(), "kernel_name", 1),
            ("add mul".to_owned(), "kernel_name", 1),
        ];
        assert_eq!(found.iter().map(short).collect::<Vec<_>>(), expected);
    }
}
