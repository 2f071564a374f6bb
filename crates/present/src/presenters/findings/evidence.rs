//! Evidence of findings for documents: their events, collected while the trace is in memory.

use serde_json::{Value, json};
use stackline_findings::{Finding, Findings, path_of};
use stackline_model::{EventId, Trace};
use std::collections::BTreeMap;

/// Maximum number of listed events per finding.
const EVENTS: usize = 100;
/// Names are no longer, in characters: those of kernels can be thousands.
const LONGEST: usize = 300;

/// Evidence events of findings, by rank.
#[derive(Debug, Default)]
pub struct Evidence(BTreeMap<i64, OfTrace>);

#[derive(Debug, Default)]
struct OfTrace {
    events: BTreeMap<EventId, Value>,
    /// Call paths of the first events.
    paths: BTreeMap<EventId, Vec<String>>,
}

impl Evidence {
    /// Collect the events of a rank's findings from its trace, as JSON. A later trace of the rank replaces an earlier
    /// one.
    pub fn gather(&mut self, rank: i64, trace: &Trace, found: &Findings) {
        let origin = trace.span().map_or(0, |(start, _)| start);
        let kept = self.0.entry(rank).or_default();
        *kept = OfTrace::default();
        // In a job of several ranks, findings of the whole trace may be selected.
        let of_whole = found.whole.iter().flat_map(|whole| &whole.findings);
        for finding in found.findings.iter().chain(of_whole) {
            for &event in finding.events.iter().take(EVENTS) {
                kept.events.entry(event).or_insert_with(|| event_json(trace, event, origin));
            }
            if let Some(&first) = finding.events.first() {
                let path = || path_of(trace, first).into_iter().map(shortened).collect();
                kept.paths.entry(first).or_insert_with(path);
            }
        }
    }

    /// Evidence of a finding: facts, events, and the call path of the first event.
    pub fn to_json(&self, finding: &Finding) -> Value {
        let trace = match finding.detail_rank() {
            Some(rank) => self.0.get(&rank),
            None => self.0.values().next(),
        };
        let facts = finding.facts.iter().map(|f| json!({"name": f.name, "value": f.value, "unit": f.unit}));
        let events = finding.events.iter().take(EVENTS).filter_map(|event| trace?.events.get(event));
        let path = finding.events.first().and_then(|first| trace?.paths.get(first));
        json!({
            "code": finding.rule.code,
            "facts": facts.collect::<Vec<_>>(),
            "events": events.collect::<Vec<_>>(),
            "events_total": finding.events.len(),
            "path": path.map_or(&[][..], Vec::as_slice),
        })
    }
}

fn event_json(trace: &Trace, event: EventId, origin: i64) -> Value {
    let start = trace.events.start[event.index()].saturating_sub(origin);
    let dur = trace.events.dur[event.index()];
    json!({"event": event.0, "name": shortened(trace.name(event)), "start_ns": start, "dur_ns": dur})
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
