//! What to change, where, and what it gains.

use crate::source;
use crate::{Answer, Arguments, Opened, QueryError};
use serde_json::{Value, json};
use stackline_analyze::findings::{self, Finding, Findings, RuleInfo};
use stackline_model::{EventId, Trace};
use stackline_present::findings::{keys, uncovered};
use stackline_present::json::{Document, SCHEMA_VERSION};
use std::sync::Arc;

/// Events of a finding that are shown one by one.
const SHOWN: usize = 200;
/// What gains too little to be a finding: so many are told of.
const NEAREST: usize = 5;

pub(super) fn all(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let found = opened.findings(arguments.number("rank")?)?;
    // In the words of the terminal, so that both say the same.
    let uncovered = uncovered(found).iter().map(|line| line.trim_start_matches("- ")).collect();
    let looked = [
        ("rules", looked(found)),
        ("nearest", nearest(found)),
        ("uncovered_text", uncovered),
        ("with_gpu_work", found.with_gpu_work.into()),
        ("is_of_calls", found.is_of_calls.into()),
    ];
    let extra: Vec<_> = keys(found).into_iter().chain(looked).map(|(key, value)| (key, value.into())).collect();
    let tables = findings::tables(found);
    let document = Document {
        command: "findings",
        version: SCHEMA_VERSION,
        traces: &opened.infos,
        set: &opened.set,
        extra: &extra,
        tables: &tables,
    };
    super::printed(&document)
}

/// The rules that could look, whether they found anything or not.
fn looked(found: &Findings) -> Value {
    let could = |rule: &&Arc<RuleInfo>| found.unchecked.iter().all(|one| one.rule.code != rule.code);
    let rules = found.rules.iter().filter(could);
    let row = |rule: &Arc<RuleInfo>| json!({"code": rule.code, "name": rule.name, "about": rule.about, "thresholds": thresholds(&rule.code)});
    rules.map(row).collect()
}

/// The nearest misses: what gains most of that which gains too little to be told of.
fn nearest(found: &Findings) -> Value {
    let part = |finding: &Finding| match &finding.memory {
        Some(memory) => memory.percent(),
        None => finding.gain_ns() as f64 / found.step_ns.max(1) as f64 * 100.0,
    };
    let mut small: Vec<(&Finding, f64)> = found.small.iter().map(|finding| (finding, part(finding))).collect();
    small.sort_by(|a, b| b.1.total_cmp(&a.1));
    let row = |(finding, percent): &(&Finding, f64)| json!({"code": finding.rule.code, "title": finding.title, "place": finding.place.text(), "percent": percent});
    small.iter().take(NEAREST).map(row).collect()
}

/// From what on a rule reports, as `--set` changes it: name, value, what it means. Rules of the user's own have none.
fn thresholds(code: &str) -> Vec<Value> {
    let settings = findings::rules::find(code).map_or(&[][..], |rule| rule.settings);
    settings.iter().map(|of| json!([of.name, of.default, of.about])).collect()
}

/// The page of a rule.
pub(super) fn rule(_: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let code: String = arguments.needed("code")?;
    let missing = || QueryError::missing(format!("there is no page of a rule {:?}", super::shortened(&code)));
    let rule = findings::rules::find(&code).ok_or_else(missing)?;
    Ok(Answer::document(&json!({"code": rule.code, "page": rule.page()})))
}

/// One of them, by its position in the list.
pub(super) fn one(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let at: usize = arguments.needed("at")?;
    let found = opened.findings(rank)?;
    let finding = found
        .findings
        .get(at)
        .ok_or_else(|| QueryError::missing(format!("there is no finding {at}: there are {}", found.findings.len())))?;
    // Of several ranks its events are those of the one that it is told of.
    let rank = rank.or_else(|| finding.told_of());
    // What is found in memory has no events, and a file of memory alone no trace.
    let events = if finding.events.is_empty() {
        Vec::new()
    } else {
        let ((_, trace), origin) = (opened.trace(rank)?, opened.origin(rank)?);
        finding.events.iter().take(SHOWN).map(|&event| event_row(trace, event, origin)).collect()
    };
    Ok(Answer::document(&json!({
        "at": at,
        "rank": rank,
        "code": finding.rule.code,
        "about": finding.rule.about,
        "why": finding.rule.why,
        // Rules of the user's own have no page.
        "page": findings::rules::find(&finding.rule.code).map(|rule| rule.page()),
        "example": finding.rule.example.as_ref().map(|(before, after)| json!({"before": before, "after": after})),
        "facts": finding.facts.iter().map(|fact| json!([fact.name, fact.value, fact.unit])).collect::<Vec<_>>(),
        "events": events,
        "events_total": finding.events.len(),
        "excerpt": excerpt(opened, finding),
    })))
}

fn event_row(trace: &Trace, event: EventId, origin: i64) -> Value {
    let start = trace.events.start[event.index()].saturating_sub(origin);
    let dur = trace.events.dur[event.index()];
    json!([event.0, super::shortened(trace.name(event)), trace.kind(event).name(), start, dur])
}

/// The lines around the place of a finding, if its file is at hand.
fn excerpt(opened: &Opened, finding: &Finding) -> Option<Value> {
    let (file, line) = (finding.place.file.as_ref()?, finding.place.line?);
    opened.files().contains(file).then(|| source::excerpt(opened, file, line))
}
