//! What no finding is about, in sentences and as JSON.

use super::{bounds, percent};
use crate::presenters::human::count;
use serde_json::{Value, json};
use stackline_analyze::findings::{Findings, LargeGroup, LargeKind};

/// Characters of names: those of kernels can be thousands long.
const NAME: usize = 72;

/// What no finding is about: a sentence, and a line for each group; nothing where findings cover what is large.
pub fn uncovered(found: &Findings) -> Vec<String> {
    let groups = &found.uncovered.groups;
    if groups.is_empty() {
        return Vec::new();
    }
    let covered = found.uncovered.covered_percent.unwrap_or(0.0);
    let head = match found.uncovered.is_most() {
        true if found.findings.is_empty() => "No rule covers it; most time is in:".to_owned(),
        true => {
            format!("Findings cover {covered:.0} % of the critical path. No rule covers the rest; most of it is in:")
        }
        false => "Large, and no rule covers it:".to_owned(),
    };
    std::iter::once(head).chain(groups.iter().map(|group| format!("- {}", line(found, group)))).collect()
}

fn line(found: &Findings, group: &LargeGroup) -> String {
    let name: String = group.name.chars().take(NAME).collect();
    let dots = if name.len() < group.name.len() { "…" } else { "" };
    let place = group.place.text();
    let is_place = group.kind != LargeKind::Frame && group.place.file.is_some();
    let place = if is_place { format!(" at {place}") } else { String::new() };
    // A call that waits is not on the path: what it waits for is.
    let share = if group.kind == LargeKind::Call && group.percent > group.path_percent {
        format!("{:.0} % of the time, {:.0} % of the critical path", group.percent, group.path_percent)
    } else if group.kind == LargeKind::Frame {
        let (all, own) = (group.percent, group.path_percent);
        format!("{all:.0} % of the time with what it calls, {own:.0} % of the critical path by itself")
    } else {
        format!("{:.0} % of the critical path", group.path_percent)
    };
    let gain = match group.gain {
        Some(gain) => format!("removing it gains {}{}", percent(found, gain.ns), bounds(found, gain)),
        None => "what removing it gains cannot be replayed".to_owned(),
    };
    let words = group.kind.words(group.count);
    format!("{name}{dots} ({} {words}{place}): {share}; {gain}", count(group.count as u64))
}

/// The same for programs.
pub(super) fn document(found: &Findings) -> Value {
    let gain = |group: &LargeGroup| {
        group.gain.map(|gain| json!({"ns": gain.ns, "low_ns": gain.low_ns, "high_ns": gain.high_ns}))
    };
    let row = |group: &LargeGroup| {
        json!({
            "kind": group.kind.name(),
            "name": group.name,
            "file": group.place.file,
            "line": group.place.line,
            "function": group.place.function,
            "count": group.count,
            "percent": group.percent,
            "path_percent": group.path_percent,
            "gain": gain(group),
        })
    };
    json!({
        "covered_percent": found.uncovered.covered_percent,
        "groups": found.uncovered.groups.iter().map(row).collect::<Vec<_>>(),
    })
}
