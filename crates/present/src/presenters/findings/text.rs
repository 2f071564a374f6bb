//! Findings for a terminal: the source location first.

use super::{Change, Shown, combined_gain, count_text, earlier_gain, gain, memory, on_ranks, place, size, uncovered};
use crate::presenters::human::{capital, signed_duration as signed};
use crate::presenters::paragraph::{remark, width, wrapped};
use crate::presenters::terminal::{Style, clean};
use stackline_findings::{Area, Finding, Findings, GainBasis, Reason, SkippedRule, UNCHECKED, evidence, rules};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use unicode_width::UnicodeWidthStr;

/// Format findings as text for the terminal.
pub fn text(shown: &Shown<'_>, style: &Style) -> String {
    let found = shown.found;
    let count = shown.listed.len() + shown.more;
    let what = match count {
        0 if found.unchecked.len() == rules::ALL.len() && !found.peaks.is_empty() => {
            "No rule could be checked; `stackline memory` shows the live memory at the peak".to_owned()
        }
        0 if found.unchecked.len() == rules::ALL.len() => "No rule could be checked".to_owned(),
        0 => "No finding with a large gain".to_owned(),
        _ => count_text(count, "finding"),
    };
    let mut out = remark(&format!("{what}; {}.", size(found)), style);
    let together = combined_gain(found).filter(|_| count > 1).into_iter().chain(memory::combined_gain(found));
    out.extend(together.map(|line| remark(&line, style)));
    for (number, (finding, change)) in (1..).zip(shown.listed) {
        out.push('\n');
        one(&mut out, shown, (number, finding, *change), style);
    }
    let uncovered = uncovered(found);
    if !uncovered.is_empty() {
        out.push('\n');
        out.extend(uncovered.iter().map(|line| remark(line, style)));
    }
    out.push_str(&rest(shown, style));
    out
}

fn bold(text: &str, style: &Style) -> String {
    if style.color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}

fn dim(text: &str, style: &Style) -> String {
    if style.color { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
}

/// Append one finding: location and gain, title, change, ranks, advice, and evidence.
fn one(
    out: &mut String,
    shown: &Shown<'_>,
    (number, finding, change): (usize, &Finding, Option<Change>),
    style: &Style,
) {
    let gains = gain(shown.found, finding).map_or_else(String::new, |gain| format!("  estimated gain {gain}"));
    out.push_str(&head(number, &place(finding), &gains, style));
    let mut line = |text: &str| out.push_str(&indented(text, style));
    let code = format!("{} {}", finding.rule.code, finding.rule.name);
    let change = match change {
        Some(Change::New) => " (new)".to_owned(),
        Some(Change::Changed(gained)) => format!(" (gain was {})", earlier_gain(finding, gained)),
        _ => String::new(),
    };
    line(&format!("{code}{change}: {}", finding.title));
    if let Some(change) = &finding.change {
        line(&format!("Change here: {}", change.text()));
    }
    if let Some(on) = on_ranks(shown.found, finding) {
        line(&capital(&on));
    }
    if !finding.rule.advice.is_empty() {
        line(&format!("Fix: {}", finding.rule.advice));
    }
    let evidence = evidence(finding);
    let on_top = finding.on_top_ns.filter(|&ns| finding.gain.is_some_and(|gain| ns * 10 < gain.likely_ns * 9));
    let on_top_text =
        |ns: i64| format!("; once the findings above are fixed, this finding gains only {}", signed(ns.max(0)));
    let on_top = on_top.map(on_top_text);
    let method = match finding.basis {
        GainBasis::Nothing | GainBasis::Replay => String::new(),
        GainBasis::Stated => "; the Python rule states this gain".to_owned(),
        GainBasis::Model(model) => format!("; estimated gain: {model}"),
    };
    let sure = format!("{}, confidence {}", finding.support.name(), finding.confidence.name());
    let evidence = format!("{evidence} ({sure}{}{method})", on_top.unwrap_or_default());
    out.push_str(&dim(&indented(&evidence, style), style));
}

/// Wrap and indent text of a finding, for the lines below its source location.
fn indented(text: &str, style: &Style) -> String {
    wrapped(text, ("    ", "    "), style)
}

/// Numbered source location of a finding with its gain, in one line if they fit.
fn head(number: usize, place: &str, gains: &str, style: &Style) -> String {
    let place = clean(place);
    if number.to_string().len().max(2) + 2 + place.width() + gains.width() <= width(style) {
        return format!("{number:>2}. {}{gains}\n", bold(&place, style));
    }
    let lines = wrapped(&place, (&format!("{number:>2}. "), "    "), style);
    let lines = lines.lines().map(|line| format!("{}{}\n", &line[..4], bold(&line[4..], style)));
    let gains = if gains.is_empty() { String::new() } else { indented(gains, style) };
    lines.collect::<String>() + &gains
}

/// Maximum number of listed reasons, those of most rules first.
const MOST_REASONS: usize = 3;

/// Sentence with the number of rules that were not checked for lack of data, and the main reasons; `None` if all were
/// checked.
fn not_checked(unchecked: &[SkippedRule]) -> Option<String> {
    let mut by_need: Vec<(&str, usize)> = Vec::new();
    for reason in unchecked.iter().map(|unchecked| &unchecked.reason).filter(|r| matches!(r, Reason::Missing(_))) {
        let short = reason.short();
        let what = short.split_once(" (").or(short.split_once(':')).map_or(short, |(what, _)| what);
        match by_need.iter_mut().find(|(known, _)| *known == what) {
            Some((_, count)) => *count += 1,
            None => by_need.push((what, 1)),
        }
    }
    by_need.sort_by_key(|(_, count)| Reverse(*count));
    let sum = |counts: &[(&str, usize)]| counts.iter().map(|(_, count)| count).sum::<usize>();
    let rules = count_text(sum(&by_need), "rule");
    let (listed, others) = by_need.split_at(by_need.len().min(MOST_REASONS));
    let mut reasons: Vec<String> = match listed {
        [] => return None,
        [(what, _)] => vec![(*what).to_owned()],
        several => several.iter().map(|(what, count)| format!("{what} ({count})")).collect(),
    };
    if !others.is_empty() {
        reasons.push(format!("other reasons ({})", sum(others)));
    }
    Some(format!(
        "Not checked: {rules}. Reasons: {}. --table {UNCHECKED} lists the rules and how to record the missing data.",
        reasons.join(", ")
    ))
}

/// Remarks on the rules that failed, each with the reason and traceback.
fn failed(unchecked: &[SkippedRule], style: &Style) -> String {
    let mut out = String::new();
    for SkippedRule { rule, reason } in unchecked {
        if let Reason::Failed(why, _) | Reason::Cut(why) = reason {
            out.push_str(&remark(&format!("{}: {}: {why}", capital(reason.outcome()), rule.code), style));
            let lines = reason.traceback().into_iter().flat_map(str::lines);
            out.extend(lines.map(|line| format!("  {}\n", clean(line))));
        }
    }
    out
}

/// Sentences with the numbers of findings that are omitted because their gain is small or 0.
fn small(found: &Findings) -> Vec<String> {
    let gains =
        |finding: &&Finding| finding.gain_ns() > 0 || finding.memory.as_ref().is_some_and(|saved| saved.bytes > 0);
    let (own, built_in): (Vec<&Finding>, Vec<&Finding>) =
        found.small.iter().filter(gains).partition(|finding| finding.rule.area == Area::Own);
    let (little, with_gain) = (built_in.len(), built_in.len() + own.len());
    let mut by_rule: BTreeMap<&str, usize> = BTreeMap::new();
    own.iter().for_each(|finding| *by_rule.entry(&finding.rule.code).or_default() += 1);
    let own = by_rule.into_iter().map(|(code, count)| {
        let findings = count_text(count, "finding");
        format!("Omitted: {findings} of rule {code}, whose gain is below --min-gain (--min-gain 0 shows all).")
    });
    let findings = |count: usize| (count > 0).then(|| count_text(count, "finding"));
    let little =
        findings(little).map(|little| format!("Omitted: {little} with a small gain (--min-gain sets the limit)."));
    let none = findings(found.small.len() - with_gain).map(|none| format!("Omitted: {none} without a gain."));
    own.chain(little).chain(none).collect()
}

/// Lines below the findings: omitted, gone and ignored findings, rules that were not checked or failed, and notes.
fn rest(shown: &Shown<'_>, style: &Style) -> String {
    let found = shown.found;
    let mut lines: Vec<String> = Vec::new();
    let with_page = shown.listed.iter().find(|(finding, _)| finding.rule.page.is_some());
    if let Some((finding, _)) = with_page {
        lines.push(format!("For details of a rule: stackline findings --explain {}", finding.rule.code));
    }
    if shown.more > 0 {
        lines.push(format!("Omitted: {} (--top 0 shows all).", count_text(shown.more, "more finding")));
    }
    lines.extend(small(found));
    lines.extend(shown.gone.iter().map(|title| format!("Gone: {title}")));
    lines.extend(
        shown.suppressed.iter().map(|(finding, by)| {
            format!("Ignored: {} {} at {} ({by})", finding.rule.code, finding.title, place(finding))
        }),
    );
    lines.extend(not_checked(&found.unchecked));
    let notes = found.notes.iter().map(|note| remark(&format!("Note: {note}."), style));
    let lines = lines.iter().map(|line| remark(line, style)).chain([failed(&found.unchecked, style)]).chain(notes);
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { dim(&format!("\n{lines}"), style) }
}
