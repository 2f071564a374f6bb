//! Queries of the list of findings, of one finding with its evidence, and of a rule's documentation.

use crate::excerpt::Excerpt;
use crate::prefetch::{Stage, one_empty_set, with};
use crate::{Answer, Arguments, OpenRun, QueryError};
use serde::Serialize;
use stackline_findings as findings;
use stackline_findings::{Finding, Findings, RuleInfo};
use stackline_model::{EventId, Trace, Unit};
use stackline_present::findings::{keys, uncovered};
use stackline_present::json::{Document, schema_version};
use std::sync::Arc;

/// Events of a finding that are shown one by one.
const SHOWN: usize = 200;
/// Number of listed findings below the limit.
const NEAREST: usize = 5;

/// Keys of findings for the page, in addition to those of the command line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct FindingsKeys<'a> {
    /// The rules that could be checked.
    rules: Vec<Rule<'a>>,
    /// Findings with a gain below the limit, largest first.
    nearest: Vec<NearMiss<'a>>,
    /// Uncovered time as text: a sentence before the groups of a rank or of several, and a line for each group (`- `).
    uncovered_text: Vec<String>,
    /// Steps end when their launched GPU work ends.
    with_gpu_work: bool,
    /// Of call trees: times are those of one thread.
    is_of_calls: bool,
    /// The overhead of recording is subtracted from the step length.
    subtracts_recording: bool,
}

/// Description of a checked rule, with its thresholds for `--set`: name, value, meaning.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Rule<'a> {
    code: &'a str,
    name: &'a str,
    about: &'a str,
    thresholds: Vec<(&'static str, f64, &'static str)>,
}

/// Candidate whose gain is too small for a finding, in percent of a step or of a device's peak memory.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct NearMiss<'a> {
    code: &'a str,
    title: &'a str,
    place: String,
    percent: f64,
}

/// Answer the query for the list of all findings, with the checked rules and the largest of the findings that are too
/// small.
pub(super) fn all(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let found = opened.findings(arguments.number("rank")?)?;
    // In the words of the terminal, so that both say the same.
    let uncovered_text = uncovered(found);
    let of_page = FindingsKeys {
        rules: checked_rules(found),
        nearest: nearest(found),
        uncovered_text,
        with_gpu_work: found.with_gpu_work,
        is_of_calls: found.is_of_calls,
        subtracts_recording: found.subtracts_recording(),
    };
    let document = Document {
        command: "findings",
        version: schema_version("findings"),
        traces: &opened.infos,
        set: &opened.set,
        extra: &[],
        tables: &findings::tables(found),
    };
    super::printed(document, keys(found), &of_page)
}

/// Rules that were checked, independent of their results. Rules without data are excluded.
fn checked_rules(found: &Findings) -> Vec<Rule<'_>> {
    let could = |rule: &&Arc<RuleInfo>| found.unchecked.iter().all(|one| one.rule.code != rule.code);
    let rules = found.rules.iter().filter(could);
    rules
        .map(|info| Rule { code: &info.code, name: &info.name, about: &info.about, thresholds: thresholds(&info.code) })
        .collect()
}

/// The five findings below the gain limit with the largest gains, largest first, in percent of a step or of peak
/// memory.
fn nearest(found: &Findings) -> Vec<NearMiss<'_>> {
    let part = |finding: &Finding| match &finding.memory {
        Some(memory) => memory.percent(),
        None => finding.gain_ns() as f64 / found.step_ns.max(1) as f64 * 100.0,
    };
    let mut small: Vec<(&Finding, f64)> = found.small.iter().map(|finding| (finding, part(finding))).collect();
    small.sort_by(|a, b| b.1.total_cmp(&a.1));
    let nearest = small.into_iter().take(NEAREST).map(|(finding, percent)| NearMiss {
        code: &finding.rule.code,
        title: &finding.title,
        place: finding.place.text(),
        percent,
    });
    nearest.collect()
}

/// Thresholds of a rule for `--set`: name, default value, meaning. Empty for Python rules.
fn thresholds(code: &str) -> Vec<(&'static str, f64, &'static str)> {
    let settings = findings::rules::find(code).map_or(&[][..], |rule| rule.settings);
    settings.iter().map(|setting| (setting.name, setting.default, setting.about)).collect()
}

/// The documentation of a rule, as Markdown.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct RulePage {
    code: &'static str,
    page: String,
}

/// Answer the query for the documentation of a rule.
pub(super) fn rule(_: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let code: String = arguments.needed("code")?;
    let missing = || QueryError::missing(format!("no documentation page for rule {:?}", super::shortened(&code)));
    let rule = findings::rules::find(&code).ok_or_else(missing)?;
    Answer::document(&RulePage { code: rule.code, page: rule.page() })
}

/// One finding with its evidence and its source.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct FindingDetail<'a> {
    /// Position in the list of findings.
    at: usize,
    /// Of several ranks, the one whose events are listed.
    rank: Option<i64>,
    code: &'a str,
    about: &'a str,
    why: &'a str,
    /// Documentation of the rule, as Markdown; null for Python rules.
    page: Option<String>,
    example: Option<Example<'a>>,
    /// Name, value and unit of each supporting fact.
    #[cfg_attr(test, ts(as = "Vec<(String, f64, String)>"))]
    facts: Vec<(&'a str, f64, Unit)>,
    events: Vec<EventRow>,
    events_total: usize,
    excerpt: Option<Excerpt<'a>>,
}

/// Code before and after the change that a rule suggests.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct Example<'a> {
    before: &'a str,
    after: &'a str,
}

/// An event: its number, name, kind, start in ns since the start of the trace, and duration in ns.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct EventRow(u32, String, &'static str, i64, i64);

/// Answer the query for one finding with its evidence and source lines.
pub(super) fn one(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let rank = arguments.number("rank")?;
    let at: usize = arguments.needed("at")?;
    let found = opened.findings(rank)?;
    let finding = found.findings.get(at).ok_or_else(|| {
        QueryError::missing(format!("there is no finding {at}: the run has {} findings", found.findings.len()))
    })?;
    // In a job of several ranks, the events belong to the rank that the finding shows.
    let rank = rank.or_else(|| finding.detail_rank());
    // Memory findings have no events, and a file with only memory data has no trace.
    let events = if finding.events.is_empty() {
        Vec::new()
    } else {
        let ((_, trace), origin) = (opened.trace(rank)?, opened.origin(rank)?);
        finding.events.iter().take(SHOWN).map(|&event| event_row(trace, event, origin)).collect()
    };
    let rule = &finding.rule;
    Answer::document(&FindingDetail {
        at,
        rank,
        code: &rule.code,
        about: &rule.about,
        why: &rule.why,
        page: findings::rules::find(&rule.code).map(|rule| rule.page()),
        example: rule.example.as_ref().map(|(before, after)| Example { before, after }),
        facts: finding.facts.iter().map(|fact| (fact.name.as_str(), fact.value, fact.unit)).collect(),
        events,
        events_total: finding.events.len(),
        excerpt: excerpt(opened, finding),
    })
}

/// Row of an event, with its start relative to `origin`.
fn event_row(trace: &Trace, event: EventId, origin: i64) -> EventRow {
    let start = trace.events.start[event.index()].saturating_sub(origin);
    let dur = trace.events.dur[event.index()];
    EventRow(event.0, super::shortened(trace.name(event)), trace.kind(event).name(), start, dur)
}

/// Source lines around the location of a finding; `None` if the run does not name the file.
fn excerpt<'a>(opened: &'a OpenRun, finding: &'a Finding) -> Option<Excerpt<'a>> {
    let (file, line) = (finding.place.file.as_ref()?, finding.place.line?);
    opened.files().contains(file).then(|| crate::excerpt::excerpt(opened, file, line))
}

/// Prefetched arguments of the query for the list of findings, by part of the page.
pub(super) fn first_list(_: &OpenRun, stage: Stage) -> Vec<Arguments> {
    if matches!(stage, Stage::Opening | Stage::FindingsOfMemory) { one_empty_set() } else { Vec::new() }
}

/// Prefetched arguments of the query for one finding: each finding, by part of the page.
pub(super) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    let count =
        if stage == Stage::Findings { opened.findings(None).map_or(0, |found| found.findings.len()) } else { 0 };
    (0..count).map(|at| with(&[("at", &at.to_string())])).collect()
}
