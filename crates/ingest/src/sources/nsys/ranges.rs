//! NVTX: ranges and marks of the program, and operators that PyTorch writes as ranges (`torch.autograd.profiler.emit_nvtx`).

use super::Export;
use super::host::Span;
use crate::sources::processes::Processes;
use crate::sources::row::Value;
use stackline_model::{EventKind, Phase};

/// Tables that are read here.
pub(super) const TABLES: &[&str] = &[EVENTS];
const EVENTS: &str = "NVTX_EVENTS";

/// What an `eventType` (`ENUM_NSYS_EVENT_TYPE`) is. All others define domains, categories and names.
fn phase_of(event_type: i64) -> Option<Phase> {
    match event_type {
        34 | 65 => Some(Phase::Instant),
        59 | 70 => Some(Phase::Complete),
        // They may end on another thread, and lie across others.
        60 | 71 => Some(Phase::Async),
        _ => None,
    }
}

pub(super) fn read(export: &Export<'_>, processes: &mut Processes<'_>) {
    let columns = ["start", "end", "eventType", "text", "textId", "globalTid", "domainId"];
    export.rows(EVENTS, &columns, processes, |row, processes| {
        let Some(phase) = row.i64(2).and_then(phase_of) else { return };
        let own = row.text(3);
        let text = own.as_deref().or_else(|| export.text(row.i64(4))).unwrap_or("range without a name");
        let global = row.i64(5).unwrap_or(0);
        let range = Range::of(text);
        let kind = match phase {
            Phase::Instant => EventKind::Instant,
            Phase::Async => EventKind::Async,
            _ if range.is_operator => EventKind::Operator,
            _ => EventKind::Annotation,
        };
        let category = if range.is_operator { "cpu_op" } else { "user_annotation" };
        let mut arguments = vec![("domain", Value::Int(row.i64(6).filter(|&domain| domain != 0)))];
        arguments.extend(range.arguments());
        let span = Span { name: range.name, category, kind, phase, arguments: &arguments };
        span.push(processes, global, (row.i64(0), row.i64(1)));
    });
}

/// A range by its text. PyTorch writes `aten::mm, seq = 12, op_id = 40, sizes = [[2, 3], [3, 4]]`, with what it knows.
#[derive(Debug, PartialEq)]
struct Range<'t> {
    name: &'t str,
    is_operator: bool,
    sequence: Option<i64>,
    operator: Option<i64>,
    sizes: Option<&'t str>,
}

impl<'t> Range<'t> {
    fn of(text: &'t str) -> Self {
        let plain = Self { name: text, is_operator: false, sequence: None, operator: None, sizes: None };
        let Some(at) = [", seq = ", ", op_id = ", ", sizes = "].iter().filter_map(|key| text.find(key)).min() else {
            return plain;
        };
        let (name, rest) = text.split_at(at);
        let number = |key: &str| {
            let value = rest.split_once(key)?.1;
            value[..value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len())].parse().ok()
        };
        let sizes =
            rest.split_once(", sizes = ").map(|(_, sizes)| sizes.split_once("]], ").map_or(sizes, |_| list(sizes)));
        Self {
            name,
            is_operator: name.contains("::") || is_autograd_node(name),
            sequence: number(", seq = "),
            operator: number(", op_id = "),
            sizes: sizes.filter(|sizes| serde_json::from_str::<serde::de::IgnoredAny>(sizes).is_ok()),
        }
    }

    fn arguments(&self) -> [(&'static str, Value<'t>); 3] {
        [
            ("Sequence number", Value::Int(self.sequence)),
            ("Record function id", Value::Int(self.operator)),
            ("Input Dims", self.sizes.map_or(Value::Int(None), Value::Json)),
        ]
    }
}

/// The list of lists that a text begins with.
fn list(text: &str) -> &str {
    text.find("]]").map_or(text, |end| &text[..end + 2])
}

/// `MmBackward0`: a node of autograd, or the engine's range around it.
pub(crate) fn is_autograd_node(name: &str) -> bool {
    let name = name.strip_prefix("autograd::engine::evaluate_function: ").unwrap_or(name);
    name.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with("Backward")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_pytorch_are_told_from_ranges_of_the_program() {
        let range = Range::of("aten::view, op_id = 314290");
        assert_eq!((range.name, range.is_operator, range.operator), ("aten::view", true, Some(314_290)));
        let range = Range::of("aten::mm, seq = 12, op_id = 40, sizes = [[2, 3], [3, 4]], input_op_ids = [(3,0)]");
        assert_eq!((range.sequence, range.operator, range.sizes), (Some(12), Some(40), Some("[[2, 3], [3, 4]]")));
        assert_eq!(Range::of("aten::add, seq = 1, sizes = [[], [2]]").sizes, Some("[[], [2]]"));
        assert!(Range::of("MmBackward0, seq = 3").is_operator);
        let step = Range::of("ProfilerStep#3, op_id = 5");
        assert_eq!((step.name, step.is_operator), ("ProfilerStep#3", false));
        assert_eq!(
            Range::of("iteration 17"),
            Range { name: "iteration 17", is_operator: false, sequence: None, operator: None, sizes: None }
        );
        assert!(!Range::of("std::vector work").is_operator, "no range of PyTorch's");
    }
}
