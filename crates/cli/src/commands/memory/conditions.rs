//! Conditions of `memory --fail-on`, such as `peak>8GB`: parsing and evaluation.

use crate::failure::{did_you_mean, wrong_use};
use anyhow::Result;
use stackline_findings::{DevicePeak, Finding};
use stackline_present::findings::Change;
use stackline_present::human::{bytes, count};
use std::collections::BTreeMap;

/// Format two sizes in bytes so that their texts differ: rounded with a unit, or exact if the rounded texts are equal.
fn distinguishable_sizes(one: u64, other: u64) -> (String, String) {
    let (short, long) = ((bytes(one), bytes(other)), (count_of_bytes(one), count_of_bytes(other)));
    if short.0 == short.1 { long } else { short }
}

fn count_of_bytes(bytes: u64) -> String {
    format!("{} bytes", count(usize::try_from(bytes).unwrap_or(usize::MAX)))
}

/// A condition of `memory --fail-on`, such as `peak>+2%`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    /// Any finding that was not in the baseline, but for those that may well be nothing.
    New,
    /// There are more findings than this.
    Count(f64),
    /// The findings together save more than this much of a device's peak, in percent.
    Waste(f64),
    /// A device's peak has more bytes than this.
    Peak(f64),
    /// Peak above the baseline's by more than this, in percent of it;
    PeakRise(f64),
    /// or in bytes.
    PeakMore(f64),
}

/// Peaks, findings and baseline on which `memory --fail-on` conditions are evaluated.
pub(super) struct JudgedData<'a> {
    pub(super) peaks: &'a [DevicePeak],
    pub(super) listed: &'a [(&'a Finding, Option<Change>)],
    /// The baseline's peaks by device.
    pub(super) before: Option<&'a BTreeMap<String, u64>>,
    /// Include findings of low confidence.
    pub(super) guesses: bool,
}

const NAMES: [&str; 4] = ["peak", "waste", "count", "new"];

impl Condition {
    /// Parse a `memory --fail-on` condition, such as `peak>8GB` or `new`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let form = |why: &str| {
            wrong_use(format!(
                "cannot understand --fail-on {text:?}{why}; write 'peak>+2%' (more than 2 % above the baseline's peak), \
                 'peak>8GB', 'waste>10%', 'count>3' or 'new'"
            ))
        };
        if text.trim() == "new" {
            return Ok(Self::New);
        }
        let (what, limit) = text.split_once('>').ok_or_else(|| form(""))?;
        let (what, limit) = (what.trim(), limit.trim());
        let percent = |text: &str| text.strip_suffix('%').and_then(number);
        let bare = || form(": a percentage for peak needs a + sign, because it is relative to the baseline");
        let read = match (what, limit.strip_prefix('+')) {
            ("peak", Some(more)) if more.ends_with('%') => percent(more).map(Self::PeakRise),
            ("peak", Some(more)) => size(more).map(Self::PeakMore),
            ("peak", None) if limit.ends_with('%') => return Err(bare()),
            ("peak", None) => size(limit).map(Self::Peak),
            ("waste", None) => {
                percent(limit).or_else(|| number(limit)).filter(|share| *share <= 100.0).map(Self::Waste)
            }
            ("count", None) => number(limit).map(Self::Count),
            _ if !NAMES.contains(&what) => {
                let near = did_you_mean(what, NAMES);
                return Err(wrong_use(format!(
                    "--fail-on has no condition {what:?}{near} The conditions are: {}",
                    NAMES.join(", ")
                )));
            }
            _ => None,
        };
        read.ok_or_else(|| form(""))
    }

    /// Check if the condition needs a baseline.
    pub(super) fn needs_baseline(&self) -> bool {
        matches!(self, Self::New | Self::PeakRise(_) | Self::PeakMore(_))
    }

    /// Check if the condition (`new` or `waste`) excludes findings of low confidence by default.
    pub(super) fn leaves_out_guesses(&self) -> bool {
        matches!(self, Self::New | Self::Waste(_))
    }

    /// Evaluate the condition; return the reason if it holds.
    ///
    /// # Errors
    /// If the input lacks the data for the condition.
    pub(super) fn holds(&self, judged: &JudgedData<'_>) -> Result<Option<String>> {
        let rise = |is_above: &dyn Fn(f64, f64) -> bool| {
            judged.peaks.iter().find_map(|peak| peak_rise_reason(peak, judged.before?, is_above))
        };
        Ok(match *self {
            Self::New => {
                let is_new = |(finding, change): &&(&Finding, Option<Change>)| {
                    *change == Some(Change::New) && (judged.guesses || !finding.is_unsure())
                };
                judged.listed.iter().find(is_new).map(|(new, _)| format!("new: {} {}", new.rule.code, new.title))
            }
            Self::Count(limit) => (judged.listed.len() as f64 > limit)
                .then(|| format!("{} findings, more than {limit}", judged.listed.len())),
            Self::Waste(limit) => {
                if judged.peaks.iter().any(|peak| peak.mended_bytes.is_none()) {
                    return Err(wrong_use(
                        "--fail-on waste: the input contains no records of memory accesses, so waste is unknown; \
                         record with \
                         `stackline record --mode trace --memory`",
                    ));
                }
                judged.peaks.iter().find_map(|peak| {
                    let waste = if judged.guesses { peak.perhaps_waste_percent() } else { peak.waste_percent() };
                    let (waste, device) = (waste.filter(|waste| *waste > limit)?, &peak.device);
                    Some(if judged.guesses {
                        format!("{waste:.1} % of the memory peak of {device} may be wasted, and the limit is {limit} %")
                    } else {
                        format!("{waste:.1} % of the memory peak of {device} is wasted, and the limit is {limit} %")
                    })
                })
            }
            Self::Peak(limit) => judged.peaks.iter().find(|peak| peak.bytes as f64 > limit).map(|peak| {
                let (now, most) = distinguishable_sizes(peak.bytes, limit as u64);
                format!("the memory peak of {} is {now}, and the limit is {most}", peak.device)
            }),
            Self::PeakRise(limit) => rise(&|now, before| 100.0 * (now - before) > limit * before),
            Self::PeakMore(limit) => rise(&|now, before| now - before > limit),
        })
    }
}

/// Sentence that a device's peak exceeds the baseline's by more than the limit; `None` if it does not. A device that
/// the baseline lacks counts as 0 bytes.
fn peak_rise_reason(
    peak: &DevicePeak,
    before: &BTreeMap<String, u64>,
    is_above: &dyn Fn(f64, f64) -> bool,
) -> Option<String> {
    let (device, now) = (&peak.device, bytes(peak.bytes));
    let Some(old) = before.get(device) else {
        let is_above = is_above(peak.bytes as f64, 0.0);
        return is_above
            .then(|| format!("the memory peak of {device} is {now}; the baseline has no memory data of this device"));
    };
    is_above(peak.bytes as f64, *old as f64).then(|| {
        let more = 100.0 * (peak.bytes as f64 - *old as f64) / (*old).max(1) as f64;
        format!("the memory peak of {device} is {now}, {more:+.1} % relative to the baseline's {}", bytes(*old))
    })
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0 && !text.contains('+'))
}

/// Units of sizes, with their bytes.
const UNITS: [(&str, f64); 9] = [
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("b", 1.0),
];

/// Parse a size with an optional unit (`8GB`, `512 MiB`, `4096`) and return it in bytes.
fn size(text: &str) -> Option<f64> {
    let text = text.trim().to_ascii_lowercase();
    let with_unit = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
    let (count, unit) = with_unit.unwrap_or((&text, 1.0));
    number(count).map(|count| count * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Condition {
        Condition::parse(text).unwrap()
    }

    #[test]
    fn conditions_are_parsed_and_printed() {
        assert_eq!(parse("new"), Condition::New);
        assert_eq!(parse(" peak > +2 %"), Condition::PeakRise(2.0));
        assert_eq!(parse("peak>+100MiB"), Condition::PeakMore(104_857_600.0));
        assert_eq!(parse("peak>8GB"), Condition::Peak(8e9));
        assert_eq!(parse("peak>1.5 gib"), Condition::Peak(1_610_612_736.0));
        assert_eq!(parse("peak>4096"), Condition::Peak(4096.0));
        assert_eq!(parse("waste>10%"), Condition::Waste(10.0));
        assert_eq!(parse("count>3"), Condition::Count(3.0));
        for bad in
            ["", "peak", "peak>", "peak<8GB", "peak>+x%", "peak>-1%", "peak>nan", "waste>+1%", "waste>101%", "count>-1"]
        {
            let error = Condition::parse(bad).unwrap_err().to_string();
            assert!(error.contains("write 'peak>+2%'"), "{bad}: {error}");
        }
        assert!(Condition::parse("peak>2%").unwrap_err().to_string().contains("peak needs a + sign"));
        assert!(Condition::parse("peek>8GB").unwrap_err().to_string().contains("did you mean peak"));
    }

    #[test]
    fn peaks_are_compared_with_the_baseline() {
        let peak = |bytes, mended_bytes| DevicePeak {
            device: "cpu".to_owned(),
            bytes,
            mended_bytes,
            needed_bytes: mended_bytes.map(|mended: u64| mended + 100),
            perhaps_needed_bytes: mended_bytes.map(|mended: u64| mended + 50),
        };
        let before = BTreeMap::from([("cpu".to_owned(), 1000)]);
        let holds = |text: &str, bytes, before| {
            let peaks = [peak(bytes, Some(800))];
            parse(text).holds(&JudgedData { peaks: &peaks, listed: &[], before, guesses: false }).unwrap().is_some()
        };
        assert!(holds("peak>+2%", 1021, Some(&before)) && !holds("peak>+2%", 1020, Some(&before)));
        assert!(holds("peak>+20", 1021, Some(&before)) && !holds("peak>+20", 1020, Some(&before)));
        assert!(holds("peak>1000", 1001, None) && !holds("peak>1000", 1000, None));
        // Recomputation and offloading save more bytes, but these bytes are not waste.
        assert!(holds("waste>9%", 1000, None) && !holds("waste>10%", 1000, None));
        let peaks = [peak(1000, Some(800))];
        let guessed =
            |text: &str| parse(text).holds(&JudgedData { peaks: &peaks, listed: &[], before: None, guesses: true });
        assert!(guessed("waste>14%").unwrap().unwrap().contains("may be") && guessed("waste>15%").unwrap().is_none());
        // A device that the baseline does not have.
        assert!(holds("peak>+2%", 1, Some(&BTreeMap::new())));
        let unknown = [peak(1000, None)];
        let judged = JudgedData { peaks: &unknown, listed: &[], before: None, guesses: false };
        assert!(parse("waste>1%").holds(&judged).unwrap_err().to_string().contains("no records of memory accesses"));
    }
}
