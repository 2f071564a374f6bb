//! Conditions of `report --fail-on` on shares of GPU time, such as `idle>30%`, for continuous integration.

use super::limit::{Comparison, Limit};
use crate::failure::{did_you_mean, wrong_use};
use crate::view::{number, text};
use anyhow::{Result, anyhow};
use stackline_model::{INCOMPLETE_GPU_TIMES, Table};
use std::collections::BTreeMap;

/// Metrics of conditions: sums of categories of the table `gpu_time`.
const SUMS: [(&str, &[&str]); 3] = [
    ("busy", &["computation", "communication", "memory"]),
    ("idle", &["idle_host_wait", "idle_kernel_wait", "idle_other", "idle_unknown"]),
    ("exposed_communication", &["communication"]),
];

/// Categories themselves.
const CATEGORIES: [&str; 7] =
    ["computation", "communication", "memory", "idle_host_wait", "idle_kernel_wait", "idle_other", "idle_unknown"];

/// The category whose row is left out where it is zero. All others have a row wherever they were measured.
const LEFT_OUT: &str = "idle_unknown";

/// The category that has a row wherever causes of idle time were measured.
const CAUSE: &str = "idle_host_wait";

/// A condition of `--fail-on` on a share of GPU time, such as `idle>30%`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    /// Condition as typed.
    pub(crate) text: String,
    metric: String,
    comparison: Comparison,
    limit: f64,
}

impl Condition {
    /// Parse a `--fail-on` condition on a share of GPU time, such as `idle>30%`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let form = || {
            wrong_use(format!(
                "cannot understand --fail-on {text:?}; write a share of GPU time and a limit, such as 'idle>30%'"
            ))
        };
        let Limit { what: metric, comparison, limit } = Limit::parse(text).ok_or_else(form)?;
        if !(0.0..=100.0).contains(&limit) {
            return Err(wrong_use(format!("--fail-on {text:?}: the limit is not a percentage from 0% to 100%")));
        }
        let names: Vec<&str> = SUMS.iter().map(|s| s.0).chain(CATEGORIES).collect();
        if !names.contains(&metric) {
            let near = did_you_mean(metric, names.iter().copied());
            return Err(wrong_use(format!(
                "--fail-on has no condition {metric:?}{near} The conditions are: {}",
                names.join(", ")
            )));
        }
        Ok(Self { text: text.to_owned(), metric: metric.to_owned(), comparison, limit })
    }

    /// Evaluate the condition on the table of GPU time; return a sentence about the first GPU for which the condition
    /// holds. If GPU records are missing, it must hold whether the GPU ran in the time `idle_unknown` or not.
    ///
    /// # Errors
    /// If it holds for none, and the share of one is unknown.
    pub(crate) fn holds(&self, gpu_time: &Table) -> Result<Option<String>> {
        let shares = self.shares(gpu_time);
        let met = |share: &Share| [share.low, share.high].map(|share| self.comparison.holds(share, self.limit));
        let held = shares.iter().find_map(|(gpu, share)| Some((gpu, share.filter(|share| met(share) == [true; 2])?)));
        if let Some((gpu, share)) = held {
            let gpu = gpu_in_words(*gpu);
            return Ok(Some(format!("{}: {} is {} of GPU time on {gpu}", self.text, self.metric, share.in_words())));
        }
        let is_unknown = |share: &Option<Share>| share.is_none_or(|share| met(&share) != [false; 2]);
        let Some((gpu, share)) = shares.iter().find(|&(_, share)| is_unknown(share)) else { return Ok(None) };
        let (gpu, metric) = (gpu_in_words(*gpu), &self.metric);
        let why = match share {
            None => format!("the trace file of {gpu} is truncated, so the share {metric} of GPU time is unknown"),
            Some(share) => {
                format!("GPU records of {gpu} are missing, so {metric} is {} of its GPU time", share.in_words())
            }
        };
        Err(anyhow!(
            "--fail-on {} cannot be judged: {why}. Record the trace again, or leave the condition out",
            self.text
        ))
    }

    /// Share of the condition's metric on each GPU, by rank and device; none if it was not measured.
    fn shares(&self, gpu_time: &Table) -> BTreeMap<Gpu, Option<Share>> {
        let of_sum = SUMS.iter().find(|sum| sum.0 == self.metric).map(|sum| sum.1);
        let is_part = |category: &str| of_sum.map_or(category == self.metric, |parts| parts.contains(&category));
        // In a table of several ranks, a note that not all of them have begins with its rank.
        let is_incomplete = |rank: i64| {
            let mut ranks = gpu_time.notes.iter().filter_map(|note| Some(note.split_once(INCOMPLETE_GPU_TIMES)?.0));
            ranks.any(|of| of.is_empty() || of == format!("Rank {rank}: "))
        };
        let mut parts: BTreeMap<Gpu, Parts> = BTreeMap::new();
        for row in 0..gpu_time.rows() {
            let key = |column: &str| number(gpu_time, column, row).map_or(-1, |v| v as i64);
            let (category, percent) = (text(gpu_time, "category", row).unwrap_or(""), number(gpu_time, "percent", row));
            let percent = percent.unwrap_or(0.0);
            let of_gpu = parts.entry((key("rank"), key("device"))).or_default();
            of_gpu.has_causes |= category == CAUSE;
            if category == LEFT_OUT {
                of_gpu.unknown += percent;
            } else if is_part(category) {
                of_gpu.known = Some(of_gpu.known.unwrap_or(0.0) + percent);
            }
        }
        let share = |(rank, _): Gpu, of_gpu: Parts| {
            let unknown = of_gpu.unknown;
            if self.metric == LEFT_OUT {
                return Some(Share { low: unknown, high: unknown });
            }
            let known = of_gpu.known.or(is_part(LEFT_OUT).then_some(0.0))?;
            // Without missing records, the GPU was idle in this time, for an unknown reason.
            let may_have_run = is_incomplete(rank) || !of_gpu.has_causes;
            let idle = if is_part(LEFT_OUT) { known + unknown } else { known };
            Some(if may_have_run {
                Share { low: known, high: known + unknown }
            } else {
                Share { low: idle, high: idle }
            })
        };
        parts.into_iter().map(|(gpu, of_gpu)| (gpu, share(gpu, of_gpu))).collect()
    }
}

/// Known and unknown shares of the time of a GPU, in percent.
#[derive(Clone, Copy, Default)]
struct Parts {
    /// Sum of the metric's categories, except [`LEFT_OUT`]; none without a row.
    known: Option<f64>,
    /// Time of [`LEFT_OUT`].
    unknown: f64,
    /// True if the causes of idle time were measured.
    has_causes: bool,
}

/// Share of a metric in percent: bounds, which are equal if the share is known.
#[derive(Clone, Copy)]
struct Share {
    low: f64,
    high: f64,
}

impl Share {
    fn in_words(self) -> String {
        let [low, high] = [self.low, self.high].map(|share| format!("{share:.1} %"));
        if low == high { low } else { format!("between {low} and {high}") }
    }
}

/// Rank, or -1 in a table of one trace, and device.
type Gpu = (i64, i64);

fn gpu_in_words((rank, device): Gpu) -> String {
    let rank = if rank >= 0 { format!("rank {rank}, ") } else { String::new() };
    format!("{rank}device {device}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::Unit;

    /// Table of GPU time shares by category, with one GPU per rank.
    fn table(gpus: &[&[(&str, f64)]]) -> Table {
        let rows = || gpus.iter().enumerate().flat_map(|(rank, gpu)| gpu.iter().map(move |row| (rank as i64, row)));
        Table::new("gpu_time", "")
            .i64("rank", Unit::None, rows().map(|(rank, _)| rank))
            .i64("device", Unit::None, rows().map(|_| 0_i64))
            .text("category", rows().map(|(_, row)| Some(row.0.to_owned())))
            .f64("percent", Unit::Percent, rows().map(|(_, row)| row.1))
    }

    const WHOLE: &[(&str, f64)] = &[
        ("computation", 60.0),
        ("communication", 0.0),
        ("memory", 0.0),
        ("idle_host_wait", 25.0),
        ("idle_kernel_wait", 0.0),
        ("idle_other", 15.0),
    ];

    /// Of a file that breaks off.
    const CUT: &[(&str, f64)] =
        &[("computation", 20.0), ("communication", 0.0), ("memory", 0.0), ("idle_unknown", 80.0)];

    fn holds(text: &str, table: &Table) -> Result<bool> {
        Ok(Condition::parse(text)?.holds(table)?.is_some())
    }

    #[test]
    fn conditions_hold_or_not() {
        let holds = |text: &str| holds(text, &table(&[WHOLE])).unwrap();
        assert!(holds("idle>30%") && holds("idle >= 40") && holds("busy<=60") && holds("idle_other<16 %"));
        assert!(!holds("idle>40") && !holds("busy<60%") && !holds("memory>0") && !holds("idle_unknown>0"));
        assert!(Condition::parse("idle>=0").unwrap().holds(&Table::new("gpu_time", "")).unwrap().is_none());
    }

    #[test]
    fn shares_that_were_not_measured_are_not_zero() {
        let cut = table(&[CUT]);
        for text in ["idle_host_wait>30%", "idle_kernel_wait<5", "idle_other>=0"] {
            let message = holds(text, &cut).unwrap_err().to_string();
            assert!(message.contains("cannot be judged: the trace file of rank 0, device 0 is truncated"), "{message}");
        }
        assert!(holds("idle_unknown>79", &cut).unwrap() && holds("busy>=20", &cut).unwrap());
        assert!(holds("idle>30", &cut).is_err() && holds("busy<30", &cut).is_err());
        let ranks = table(&[CUT, WHOLE]);
        assert!(holds("idle_host_wait>20", &ranks).unwrap(), "of the rank whose file is whole");
        assert!(holds("idle_host_wait>30", &ranks).is_err());
    }

    #[test]
    fn unknown_time_may_be_idle_or_busy() {
        let gpu: &[(&str, f64)] = &[
            ("computation", 8.0),
            ("communication", 0.0),
            ("memory", 0.5),
            ("idle_host_wait", 1.0),
            ("idle_kernel_wait", 0.0),
            ("idle_other", 0.5),
            ("idle_unknown", 90.0),
        ];
        let complete = table(&[gpu]);
        assert!(holds("idle>30%", &complete).unwrap() && holds("busy<90", &complete).unwrap(), "idle, cause unknown");
        let missing = table(&[gpu]).note(format!("{INCOMPLETE_GPU_TIMES}: 18 of 20 launches have no device record."));
        let error = holds("idle>30%", &missing).unwrap_err().to_string();
        assert_eq!(
            error,
            "--fail-on idle>30% cannot be judged: GPU records of rank 0, device 0 are missing, so idle is between \
             1.5 % and 91.5 % of its GPU time. Record the trace again, or leave the condition out"
        );
        for text in ["busy<90", "communication>50", "idle<=91", "idle_host_wait<50"] {
            assert!(holds(text, &missing).is_err(), "{text}");
        }
        // The bounds decide these.
        assert!(holds("idle>1", &missing).unwrap() && holds("busy>8", &missing).unwrap());
        assert!(holds("idle_unknown>80", &missing).unwrap() && holds("idle<92", &missing).unwrap());
        assert!(!holds("idle>92", &missing).unwrap() && !holds("busy<8", &missing).unwrap());
        let held = Condition::parse("idle>1").unwrap().holds(&missing).unwrap();
        assert_eq!(held.unwrap(), "idle>1: idle is between 1.5 % and 91.5 % of GPU time on rank 0, device 0");
        let of_rank = |rank: i64| table(&[WHOLE, gpu]).note(format!("Rank {rank}: {INCOMPLETE_GPU_TIMES}: 1 of 9 …"));
        assert!(holds("idle>50", &of_rank(0)).unwrap(), "rank 1 has all records");
        assert!(holds("idle>50", &of_rank(1)).is_err());
    }

    #[test]
    fn nonsense_is_refused_with_advice() {
        let error = |text: &str| Condition::parse(text).unwrap_err().to_string();
        assert!(error("idel>3").contains("did you mean idle"));
        assert!(error("idle").contains("idle>30%"));
        assert!(error("idle>much").contains("idle>30%"));
        for limit in ["nan", "inf", "300%", "-1"] {
            assert!(error(&format!("idle>{limit}")).contains("from 0% to 100%"), "{limit}");
        }
    }
}
