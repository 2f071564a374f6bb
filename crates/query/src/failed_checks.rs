//! Failed checks of traces with their consequences for a report and findings.

use serde::{Deserialize, Serialize};
use stackline_analyze::checks::{self, Check};
use stackline_model::{ReadReport, Trace};
use std::collections::BTreeMap;

/// Code of the read report and its check in traces without GPU operations. In others, a few launches of fills without a record are usual.
const WITHOUT_GPU: (&str, &str) = ("no_device_record", "launch_without_record");
/// Code and check in traces with launch calls in which most GPU operations have none.
const WITHOUT_LAUNCH: (&str, &str) = ("no_launch", "record_without_launch");
/// Check of which few breaches are usual: waits at the start of a trace are for CUDA events recorded before it. It is
/// named if it fails for one in this number of waits.
const WITH_USUAL_BREACHES: (&str, u64) = ("wait_without_record", 50);

/// Checks without a code in the read report on which critical paths depend.
pub const CHECKS_OF_PATHS: &[&str] = &["wait_on_future_record", "wait_without_record"];
/// Checks without a code in the read report on which tables of collectives depend.
pub const CHECKS_OF_COLLECTIVES: &[&str] = &["collective_fields"];

/// A check that failed, as `stackline check` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FailedCheck {
    /// Name of the check.
    pub check: &'static str,
    /// Number of events that violate it.
    pub count: u64,
    /// Consequence for results.
    pub consequence: &'static str,
}

impl FailedCheck {
    /// Failed checks, by name, with counts and consequences: those of the read reports, and those that `run` counted.
    #[must_use]
    pub fn all(traces: &[Trace], run: &RunChecks, gpu_operations: u64) -> Vec<Self> {
        let mut failed = Self::of_reports(|| traces.iter().map(|trace| &trace.report), gpu_operations);
        failed.extend([CHECKS_OF_PATHS, CHECKS_OF_COLLECTIVES].into_iter().flat_map(|names| run.failed(names)));
        failed.sort_by_key(|failed| failed.check);
        failed
    }

    /// Failed checks of read reports, by name, with counts and consequences.
    fn of_reports<'r, R: Iterator<Item = &'r ReadReport>>(reports: impl Fn() -> R, gpu_operations: u64) -> Vec<Self> {
        let count = |code: &str| reports().map(|report| report.count_of(code)).sum::<u64>();
        let without_gpu = (gpu_operations == 0).then_some(WITHOUT_GPU);
        let is_unlinked = count(WITHOUT_GPU.0) > 0 && 2 * count(WITHOUT_LAUNCH.0) > gpu_operations;
        let more = without_gpu.into_iter().chain(is_unlinked.then_some(WITHOUT_LAUNCH));
        let mut by_check: BTreeMap<&str, u64> = BTreeMap::new();
        let of_checks = checks::ALL.iter().flat_map(|check| check.read_codes.iter().map(|&code| (code, check.name)));
        for (code, check) in of_checks.chain(more) {
            *by_check.entry(check).or_default() += count(code);
        }
        let failed = by_check.into_iter().filter(|(_, count)| *count > 0);
        failed.map(|(check, count)| Self { check, count, consequence: consequence(check) }).collect()
    }
}

/// Breaches and checked events of the checks without a code in the read report, summed over traces. Such checks need the
/// events of a trace, which a report on many ranks doesn't keep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunChecks(BTreeMap<String, (u64, u64)>);

impl RunChecks {
    /// Run the checks on one trace.
    #[must_use]
    pub fn of_trace(trace: &Trace) -> Self {
        let counts = checks::ALL.iter().filter(|check| is_run(check)).map(|check| {
            let outcome = (check.run)(trace);
            (check.name.to_owned(), (outcome.breaches.len() as u64, outcome.checked as u64))
        });
        Self(counts.collect())
    }

    /// Run the checks on several traces.
    #[must_use]
    pub fn of_traces(traces: &[Trace]) -> Self {
        Self::sum(&traces.iter().map(Self::of_trace).collect::<Vec<_>>())
    }

    /// Add up the counts of several traces.
    #[must_use]
    pub fn sum<'c>(of_traces: impl IntoIterator<Item = &'c Self>) -> Self {
        let mut sums = Self::default();
        for (name, (breaches, checked)) in of_traces.into_iter().flat_map(|counts| &counts.0) {
            let sum = sums.0.entry(name.clone()).or_default();
            *sum = (sum.0.saturating_add(*breaches), sum.1.saturating_add(*checked));
        }
        sums
    }

    /// Failed checks among the named ones, with counts and consequences.
    #[must_use]
    pub fn failed(&self, names: &[&str]) -> Vec<FailedCheck> {
        let failed = |check: &Check| {
            let &(breaches, checked) = self.0.get(check.name)?;
            let (name, one_in) = WITH_USUAL_BREACHES;
            let is_usual = check.name == name && breaches.saturating_mul(one_in) < checked;
            (breaches > 0 && !is_usual).then(|| FailedCheck {
                check: check.name,
                count: breaches,
                consequence: consequence(check.name),
            })
        };
        checks::ALL.iter().filter(|check| names.contains(&check.name)).filter_map(failed).collect()
    }
}

/// True for a check without a code in the read report, which must be run to know its breaches.
fn is_run(check: &Check) -> bool {
    [CHECKS_OF_PATHS, CHECKS_OF_COLLECTIVES].iter().any(|names| names.contains(&check.name))
}

/// Consequence of a failed check: the first clause of the check's own text.
fn consequence(check: &str) -> &'static str {
    let known = checks::ALL.iter().find(|known| known.name == check);
    known.and_then(|known| known.consequence.split(';').next()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_ingest::diagnostics;
    use stackline_model::Severity;

    #[test]
    fn conditional_codes_and_their_checks_exist() {
        for (code, check) in [WITHOUT_GPU, WITHOUT_LAUNCH] {
            assert!(diagnostics::ALL.iter().any(|known| known.code == code), "no source emits {code}");
            assert!(checks::ALL.iter().any(|known| known.name == check), "no check {check}");
        }
    }

    #[test]
    fn every_check_is_named_by_a_code_or_a_run() {
        let by_code = |check: &&Check| !check.read_codes.is_empty() || check.name == WITHOUT_LAUNCH.1;
        let unnamed: Vec<&str> =
            checks::ALL.iter().filter(|check| !by_code(check) && !is_run(check)).map(|check| check.name).collect();
        assert!(unnamed.is_empty(), "{unnamed:?}");
        assert!(checks::ALL.iter().any(|check| check.name == WITH_USUAL_BREACHES.0));
    }

    #[test]
    fn failed_checks_depend_on_the_number_of_gpu_operations() {
        let mut report = ReadReport::default();
        let failed = |report: &ReadReport, operations: u64| {
            let failed = FailedCheck::of_reports(|| std::iter::once(report), operations);
            failed.into_iter().map(|check| (check.check, check.count)).collect::<Vec<_>>()
        };
        assert_eq!(failed(&report, 4), []);
        report.count("no_device_record", Severity::Note, "", None, "");
        assert_eq!(failed(&report, 4), [], "a fill may have none");
        assert_eq!(failed(&report, 0), [("launch_without_record", 1)]);
        report.count("no_launch", Severity::Note, "", None, "");
        assert_eq!(failed(&report, 1), [("record_without_launch", 1)]);
        report.count("kernels_not_recorded", Severity::Note, "", None, "");
        assert_eq!(failed(&report, 4), [("launch_without_record", 1)]);
        assert!(consequence("launch_without_record").starts_with("GPU times of operators are too small"));
    }
}
