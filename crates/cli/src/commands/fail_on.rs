//! `--fail-on`: conditions on shares of the GPU's window, for use in continuous integration.

use super::limit::{Comparison, Limit};
use crate::failure::{did_you_mean, wrong_use};
use crate::view::{number, text};
use anyhow::Result;
use stackline_model::Table;
use std::collections::BTreeMap;

/// What conditions can be about: sums of categories of the table `gpu_time`.
const SUMS: [(&str, &[&str]); 3] = [
    ("busy", &["computation", "communication", "memory"]),
    ("idle", &["idle_host_wait", "idle_kernel_wait", "idle_other", "idle_unknown"]),
    ("exposed_communication", &["communication"]),
];

/// Categories themselves.
const CATEGORIES: [&str; 7] =
    ["computation", "communication", "memory", "idle_host_wait", "idle_kernel_wait", "idle_other", "idle_unknown"];

/// A condition such as `idle>30%`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    /// As typed.
    pub(crate) text: String,
    metric: String,
    comparison: Comparison,
    limit: f64,
}

impl Condition {
    /// Reads a condition.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let form = || wrong_use(format!("cannot understand --fail-on {text:?}; write a share and a limit: 'idle>30%'"));
        let Limit { what: metric, comparison, limit } = Limit::parse(text).ok_or_else(form)?;
        if !(0.0..=100.0).contains(&limit) {
            return Err(wrong_use(format!("--fail-on {text:?} compares with no share; limits go from 0% to 100%")));
        }
        let names: Vec<&str> = SUMS.iter().map(|s| s.0).chain(CATEGORIES).collect();
        if !names.contains(&metric) {
            let near = did_you_mean(metric, names.iter().copied());
            return Err(wrong_use(format!("--fail-on knows no {metric:?}{near} There are: {}", names.join(", "))));
        }
        Ok(Self { text: text.to_owned(), metric: metric.to_owned(), comparison, limit })
    }

    /// The first GPU of the table `gpu_time` for which the condition holds, in words.
    pub(crate) fn holds(&self, gpu_time: &Table) -> Option<String> {
        let parts = SUMS.iter().find(|s| s.0 == self.metric).map(|s| s.1);
        let mut shares: BTreeMap<(i64, i64), f64> = BTreeMap::new();
        for row in 0..gpu_time.rows() {
            let key = |column: &str| number(gpu_time, column, row).map_or(-1, |v| v as i64);
            let share = shares.entry((key("rank"), key("device"))).or_default();
            let category = text(gpu_time, "category", row).unwrap_or("");
            if parts.map_or(category == self.metric, |p| p.contains(&category)) {
                *share += number(gpu_time, "percent", row).unwrap_or(0.0);
            }
        }
        let ((rank, device), share) =
            shares.into_iter().find(|(_, share)| self.comparison.holds(*share, self.limit))?;
        let rank = if rank >= 0 { format!("rank {rank}, ") } else { String::new() };
        Some(format!("{}: {} is {share:.1} % on {rank}device {device}", self.text, self.metric))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::Unit;

    fn gpu_time() -> Table {
        let categories = ["computation", "idle_host_wait", "idle_other"].map(|c| Some(c.to_owned()));
        Table::new("gpu_time", "").i64("device", Unit::None, [0, 0, 0]).text("category", categories).f64(
            "percent",
            Unit::Percent,
            [60.0, 25.0, 15.0],
        )
    }

    #[test]
    fn conditions_hold_or_not() {
        let holds = |text: &str| Condition::parse(text).unwrap().holds(&gpu_time()).is_some();
        assert!(holds("idle>30%") && holds("idle >= 40") && holds("busy<=60") && holds("idle_other<16 %"));
        assert!(!holds("idle>40") && !holds("busy<60%") && !holds("memory>0"));
        assert!(Condition::parse("idle>=0").unwrap().holds(&Table::new("gpu_time", "")).is_none());
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
