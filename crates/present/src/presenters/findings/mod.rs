//! Findings for people, pull requests, editors and test reports: one file per form.

mod document;
mod evidence;
mod explained;
mod junit;
mod markdown;
mod memory;
mod sarif;
mod text;
mod uncovered;

pub use document::keys;
pub use evidence::Evidence;
pub use explained::explained;
pub use junit::junit;
pub use markdown::markdown;
pub use memory::{combined_gain as memory_together, gain as memory_gain};
pub use sarif::{Tool, sarif};
pub use text::text;
pub use uncovered::uncovered;

use super::human::{self, signed_duration as signed};
use stackline_critical_path::exact::what_if::Gain;
use stackline_findings::{Finding, Findings, RankTimes, Reason, SkippedRule, Slowness, ranks_text};
use stackline_model::names::MODULE_PREFIX;
use std::fmt;

/// Findings with display options.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// All of them.
    pub found: &'a Findings,
    /// Listed findings in display order, each with its change from an earlier run.
    pub listed: &'a [(&'a Finding, Option<Change>)],
    /// Findings of an earlier run that are gone: their titles and source locations.
    pub gone: &'a [String],
    /// Findings that were asked not to be shown, with where that was asked.
    pub suppressed: &'a [(&'a Finding, IgnoreLocation)],
    /// Left out by `--top`.
    pub more: usize,
}

/// Comment or ignore-file line that suppresses a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoreLocation {
    /// In a comment of the program: its file and line.
    Comment(String),
    /// File name and line of the ignore file.
    File(String),
}

impl fmt::Display for IgnoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Comment(at) => write!(f, "comment at {at}"),
            Self::File(at) => f.write_str(at),
        }
    }
}

/// Change of a finding since an earlier run: new, same, or another gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Absent from the earlier run.
    New,
    /// Present before, with about the same gain.
    Same,
    /// Present before, with another gain; with that gain in ns per step, or in bytes for memory.
    Changed(i64),
}

impl Change {
    /// Stable text name of a finding's change from an earlier run.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Same => "same",
            Self::Changed(_) => "changed",
        }
    }
}

/// Text of [`percent`] for a negligible share of a step.
const NOTHING: &str = "0.0 %";
/// The same of all of a step.
const ALL: &str = "100.0 %";

/// Format a count with its noun in singular or plural: `1 finding`, `2 findings`.
fn count_text(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Format a time as its share of a step: `12.3 %`.
fn percent(found: &Findings, ns: i64) -> String {
    let share = 100.0 * ns as f64 / found.step_ns.max(1) as f64;
    // Not `-0.0`.
    format!("{:.1} %", (share * 10.0).round() / 10.0 + 0.0)
}

/// Words for the whole to which [`percent`] refers: `of a step` or `of the window`.
fn base_of_percent(found: &Findings) -> &'static str {
    if found.steps > 0 { "of a step" } else { "of the window" }
}

/// Gain of a finding with its bounds: `595 µs/step (41.2 %), bounds 40.8 % to 41.3 %`; `None` without a gain. Findings
/// are ordered by likely gain, sure or not, since a recording often cannot distinguish work from waiting. A lower bound
/// of 0 is therefore always shown.
fn gain(found: &Findings, finding: &Finding) -> Option<String> {
    if let Some(saved) = &finding.memory {
        return Some(memory::gain(saved));
    }
    let gain = finding.gain?;
    let (per, window_suffix) = if found.steps > 0 { ("/step", "") } else { ("", " of the window") };
    Some(format!(
        "{}{per} ({}{window_suffix}){}",
        signed(gain.likely_ns),
        percent(found, gain.likely_ns),
        bounds(found, gain)
    ))
}

/// Text with the bounds of a finding's gain, to append to the gain; empty if both equal the gain as shown.
fn bounds(found: &Findings, gain: Gain) -> String {
    let (likely, most) = (percent(found, gain.likely_ns), percent(found, gain.high_ns));
    // Omit bounds that equal the gain at the shown precision.
    match percent(found, gain.low_ns) {
        _ if bounds_are_unknown(found, gain) => ", bounds unknown".to_owned(),
        least if least == likely && most == likely => String::new(),
        least if gain.low_ns <= 0 || least == NOTHING => format!(", bounds 0 to {most}"),
        least => format!(", bounds {least} to {most}"),
    }
}

/// Check if the displayed bounds of a gain are 0 and the whole step, and so contain no information.
#[must_use]
pub fn bounds_are_unknown(found: &Findings, gain: Gain) -> bool {
    (gain.low_ns <= 0 || percent(found, gain.low_ns) == NOTHING) && percent(found, gain.high_ns) == ALL
}

/// Format the gain that a finding had in an earlier run, as a time or as bytes.
fn earlier_gain(finding: &Finding, gained: i64) -> String {
    match finding.memory {
        Some(_) => human::bytes(u64::try_from(gained).unwrap_or(0)),
        None => signed(gained),
    }
}

/// Text with the length of a step or run, and peak memory if known.
fn size(found: &Findings) -> String {
    match memory::peaks(found) {
        None => length(found),
        Some(peaks) if found.step_ns == 0 => peaks,
        Some(peaks) => format!("{}; {peaks}", length(found)),
    }
}

fn length(found: &Findings) -> String {
    let with = if found.with_gpu_work { " with its GPU work" } else { "" };
    if let Some(slowest) = RankTimes::slowest(&found.ranks) {
        let (ranks, ns) = (found.ranks.len(), human::duration(found.step_ns));
        let unit = match found.steps {
            0 => "the trace",
            _ if found.are_inferred => "an inferred step",
            _ => "a step",
        };
        let rank = slowest.rank;
        return match slowest.slowness(&found.ranks) {
            Slowness::Equal => format!("{ranks} ranks are equally slow: {unit} takes {ns}{with}"),
            Slowness::LastAtCollectives => format!(
                "{ranks} ranks have steps of equal length, and rank {rank} arrives last at collectives: {unit} takes \
                 {ns}{with}"
            ),
            Slowness::Longest => format!("rank {rank} is the slowest of {ranks} ranks: {unit} takes {ns}{with}"),
        };
    }
    match found.steps {
        0 if found.is_of_calls => format!("the analyzed thread takes {}", human::duration(found.step_ns)),
        0 => format!("the trace takes {}", human::duration(found.step_ns)),
        1 => format!("the step takes {}{with}", human::duration(found.step_ns)),
        n => {
            let between = found.between_ns.map(|ns| format!(", including {} between steps", human::duration(ns)));
            let between = between.unwrap_or_default();
            let inferred = if found.are_inferred { " inferred" } else { "" };
            format!("a step takes {}{with}{between} (mean of {n}{inferred} steps)", human::duration(found.step_ns))
        }
    }
}

/// Ranks that have a finding, and where it is largest and smallest: `on ranks 0-3; the gain is largest on rank 1 (shown
/// here) and smallest on rank 2 (1.2 %)`; `None` for a single trace.
#[must_use]
pub(crate) fn on_ranks(found: &Findings, finding: &Finding) -> Option<String> {
    let shown = finding.detail_rank()?;
    let on = ranks_with(found, finding)?;
    let least = finding.ranks.iter().filter_map(|times| Some((times.gain_ns?, times.rank))).min();
    Some(match least {
        _ if finding.ranks.len() == 1 => on,
        Some((ns, rank)) if rank != shown => {
            let least = percent(found, ns);
            format!("{on}; the gain is largest on rank {shown} (shown here) and smallest on rank {rank} ({least})")
        }
        _ => format!("{on}; the details are of rank {shown}"),
    })
}

/// Ranks that have a finding: `on all ranks`, `on ranks 0-3`; `None` for a single trace.
#[must_use]
pub fn ranks_with(found: &Findings, finding: &Finding) -> Option<String> {
    finding.detail_rank()?;
    let ranks: Vec<i64> = finding.ranks.iter().map(|of| of.rank).collect();
    Some(if ranks.len() == found.ranks.len() {
        "on all ranks".to_owned()
    } else {
        format!("on {}", ranks_text(&ranks))
    })
}

/// Sentences with the combined gain of all findings and the findings excluded from it; `None` without either.
fn combined_gain(found: &Findings) -> Option<String> {
    let apart = excluded_findings(found);
    let Some(all) = found.combined.filter(|all| all.likely_ns > 0) else {
        return apart.map(|apart| format!("The combined gain is unknown. Excluded: {apart}."));
    };
    let likely = percent(found, all.likely_ns);
    let sentence =
        format!("Combined gain {} ({likely} {}){}.", signed(all.likely_ns), base_of_percent(found), bounds(found, all));
    let apart = apart.map_or_else(String::new, |apart| format!(" Excluded: {apart}."));
    Some(sentence + gain_difference_note(found, all.likely_ns) + &apart)
}

/// Text with the findings excluded from the combined gain, by reason, with counts; `None` if none is excluded.
fn excluded_findings(found: &Findings) -> Option<String> {
    let count = |is: &dyn Fn(&Finding) -> bool| found.findings.iter().filter(|f| f.gain.is_some() && is(f)).count();
    let of_calls = [
        (
            count(&|f| f.on_top_ns.is_none()),
            "findings whose gain is speculative, stated by a Python rule, or part of another finding's gain",
        ),
        (0, ""),
        (0, ""),
    ];
    let reasons = [
        (
            count(&|f| !f.is_repair()),
            "findings with a speculative gain, which assumes for example that a kernel would take half as long",
        ),
        (
            count(&|f| f.is_repair() && f.edits.is_empty()),
            "findings whose gain was estimated without simulating the change",
        ),
        (found.contradicting(), "findings whose change cannot be combined with the changes of other findings"),
    ];
    let reasons = if found.is_of_calls { of_calls } else { reasons };
    let counts = reasons.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, why)| format!("{why} ({count})")).collect();
    (!counts.is_empty()).then(|| counts.join("; "))
}

/// Check if a gain exceeds another by more than the error of replay and rounding, 0.5 % of a step.
fn is_beyond(gain_ns: i64, other_ns: i64, step_ns: i64) -> bool {
    gain_ns.saturating_sub(other_ns) > step_ns / 200
}

/// Explanation of a combined gain that differs from the expectation; empty otherwise. With several ranks it is empty
/// too, since each finding shows the rank with the largest gain and the sum is that of the slowest.
fn gain_difference_note(found: &Findings, together: i64) -> &'static str {
    let Some(first) = found.findings.first().filter(|_| found.ranks.is_empty()) else { return "" };
    let sum: i64 = found.findings.iter().filter(|finding| finding.is_repair()).map(Finding::gain_ns).sum();
    match () {
        () if is_beyond(together, sum, found.step_ns) => {
            " The combined gain exceeds the sum of the findings' gains: where two causes delay the same work, fixing \
             only one gains little."
        }
        () if !is_beyond(first.gain_ns(), together, found.step_ns) => "",
        // The combined gain excludes such a finding, and another note lists it.
        () if !first.is_repair() || first.edits.is_empty() => "",
        () => {
            " The combined gain is less than that of the first finding alone: some changes reduce the gain of other \
             changes."
        }
    }
}

/// Lines on rules that were not checked, one for each missing kind of data: `Not checked: SL021, SL023. Reason: no
/// collectives.`
fn missing(unchecked: &[SkippedRule]) -> Vec<String> {
    let mut by_need: Vec<(&str, Vec<&str>)> = Vec::new();
    for SkippedRule { rule, reason } in unchecked.iter().filter(|u| matches!(u.reason, Reason::Missing(_))) {
        match by_need.iter_mut().find(|(known, _)| *known == reason.short()) {
            Some((_, codes)) => codes.push(&rule.code),
            None => by_need.push((reason.short(), vec![&rule.code])),
        }
    }
    by_need.iter().map(|(missing, codes)| format!("Not checked: {}. Reason: {missing}.", codes.join(", "))).collect()
}

/// Text with the source location of a finding and its module, or `(whole program)`.
fn place(finding: &Finding) -> String {
    let place = finding.place.text();
    match &finding.place.module {
        _ if place.is_empty() => "(whole program)".to_owned(),
        Some(module) if finding.place.file.is_some() => {
            format!("{place} ({})", module.strip_prefix(MODULE_PREFIX).unwrap_or(module).trim_start())
        }
        _ => place,
    }
}

#[cfg(test)]
mod tests {
    use super::is_beyond;

    #[test]
    fn differences_of_a_nanosecond_are_ignored() {
        assert!(!is_beyond(500_001, 500_000, 1_000_000));
        assert!(is_beyond(510_000, 500_000, 1_000_000));
        assert!(!is_beyond(400_000, 500_000, 1_000_000));
    }
}
