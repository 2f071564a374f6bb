//! NVTX ranges and marks of the program, and operators that PyTorch writes as ranges
//! (`torch.autograd.profiler.emit_nvtx`).

use super::Export;
use super::host::Span;
use crate::sources::processes::Processes;
use crate::sources::ranges::Range;
use crate::sources::row::Value;
use stackline_model::{EventKind, Phase};

/// Tables with NVTX ranges and marks in an Nsight Systems export.
pub(super) const TABLES: &[&str] = &[EVENTS];
const EVENTS: &str = "NVTX_EVENTS";

/// Phase of a range or mark by its `eventType` (`ENUM_NSYS_EVENT_TYPE`); `None` for definitions of domains and names.
fn phase_of(event_type: i64) -> Option<Phase> {
    match event_type {
        34 | 65 => Some(Phase::Instant),
        59 | 70 => Some(Phase::Complete),
        // These ranges may end on another thread and overlap others.
        60 | 71 => Some(Phase::Async),
        _ => None,
    }
}

/// Read NVTX ranges and marks into the traces of their processes.
pub(super) fn read(export: &Export<'_>, processes: &mut Processes<'_>) {
    let columns = ["start", "end", "eventType", "text", "textId", "globalTid", "domainId"];
    export.rows(EVENTS, &columns, processes, |row, processes| {
        let Some(phase) = row.i64(2).and_then(phase_of) else { return };
        let own = row.text(3);
        let text = match own.as_deref() {
            Some(own) => own,
            None => export.name(&[row.i64(4)], "range without a name", processes),
        };
        let global = row.i64(5).unwrap_or(0);
        let range = Range::parse(text);
        let kind = match phase {
            Phase::Instant => EventKind::Instant,
            Phase::Async => EventKind::Async,
            _ => range.kind().1,
        };
        let category = range.kind().0;
        let [sequence, operator, sizes] = range.arguments();
        let domain = ("domain", Value::Int(row.i64(6).filter(|&domain| domain != 0)));
        let arguments = [domain, sequence, operator, sizes];
        let span = Span { name: range.name, category, kind, phase, arguments: &arguments };
        span.push(processes, global, (row.i64(0), row.i64(1)));
    });
}
