//! Exclusion of rows from significance tests if records or times are missing on one side: missing time is no speedup.

use super::align::{Change, Side, Table, Verdict};
use super::profile::{Measure, Profile};
use stackline_model::{EventKind, Trace, flags, lack_times};
use std::iter::once;

/// Number of records of one kind, and how many have no plausible time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImplausibleCount {
    /// Records without a plausible time.
    pub implausible: usize,
    /// All records.
    pub total: usize,
}

impl ImplausibleCount {
    /// Count one record, with or without a plausible time.
    fn add(&mut self, is_implausible: bool) {
        self.total += 1;
        self.implausible += usize::from(is_implausible);
    }

    /// Test if so many records have no plausible time that times of the host cannot be tested.
    fn is_significant(self) -> bool {
        lack_times(self.implausible, self.total)
    }
}

/// Count calls and operators of the host, and those without plausible times.
pub(super) fn count_host_records(trace: &Trace) -> ImplausibleCount {
    let mut host = ImplausibleCount::default();
    let is_call = |kind: EventKind| kind == EventKind::Operator || kind.is_api_call();
    let calls = trace.events.ids().filter(|e| is_call(trace.kind(*e)) && trace.events.has(*e, flags::HAS_DURATION));
    calls.for_each(|call| host.add(!trace.events.is_plausible(call)));
    host
}

/// Missing records before and after, for one rank: rows that depend on them cannot be tested for significance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UntestableResults([Missing; 2]);

/// Flags for one side: true if GPU records or host records are missing.
#[derive(Clone, Copy, Debug, Default)]
struct Missing {
    gpu: bool,
    host: bool,
}

impl UntestableResults {
    /// Find out if GPU or host records of the profiles are missing, on each side.
    pub(super) fn new(before: &[&Profile], after: &[&Profile]) -> Self {
        let knows_gpu = knows_gpu(before.iter().chain(after).copied());
        Self([before, after].map(|side| Missing {
            gpu: knows_gpu && side.iter().any(|profile| profile.gpu_records.are_incomplete()),
            host: side.iter().any(|profile| profile.host_records.is_significant()),
        }))
    }

    /// Remove test results of rows with missing records, and mark their times as incomplete.
    pub(super) fn clear_tests(self, table: Table, by_family: bool, changes: &mut [Change]) {
        for change in &mut *changes {
            change.is_incomplete = self.0.map(|missing| missing.affects(table, by_family, change.measure));
        }
        clear_tests(changes.iter_mut().filter(|change| change.is_incomplete.contains(&true)));
    }
}

impl Missing {
    /// Test if a measure of a table depends on missing records. GPU work by operator and path also depends on host
    /// records, and a step ends with its GPU work.
    fn affects(self, table: Table, by_family: bool, measure: Measure) -> bool {
        let by_host = matches!(table, Table::Operators | Table::Paths);
        let by_operator = table == Table::Kernels && by_family;
        match measure {
            _ if by_operator && self.host => true,
            Measure::Gpu => self.gpu || by_host && self.host,
            Measure::Step | Measure::StepAndBetween => self.gpu || self.host,
            Measure::Cpu | Measure::CpuTotal => self.host,
        }
    }
}

/// Test if any profile has GPU records, so that GPU work is compared.
fn knows_gpu<'p>(mut profiles: impl Iterator<Item = &'p Profile>) -> bool {
    profiles.any(|profile| profile.gpu_records.are_any())
}

/// Mark changes as untested, and remove their p-values and confidence intervals.
pub(super) fn clear_tests<'c>(changes: impl Iterator<Item = &'c mut Change>) {
    for change in changes {
        (change.verdict, change.p, change.interval_ns) = (Verdict::Untested, None, None);
        change.counts_are_steady = false;
    }
}

/// Notes on runs with too many missing records, one sentence each; usually none.
pub(super) fn missing_record_notes(before: &Side, after: &Side) -> Vec<String> {
    let mut out = Vec::new();
    let knows_gpu = knows_gpu(before.iter().chain(after).flatten());
    for (side, name) in [(before, "A"), (after, "B")] {
        for profile in side.iter().flatten() {
            let file = &profile.name;
            let gpu =
                profile.gpu_records.missing().filter(|_| knows_gpu).map(|missing| (missing, "GPU work and steps"));
            let ImplausibleCount { implausible, total } = profile.host_records;
            let host = profile.host_records.is_significant().then(|| {
                (format!("{implausible} of {total} host calls have no plausible time"), "host times and steps")
            });
            out.extend(once(gpu).chain(once(host)).flatten().map(|(missing, which)| {
                format!(
                    "{name}: in {file}, {missing}. Changes of {which} are therefore not tested for significance, \
                     because missing records also reduce times."
                )
            }));
        }
    }
    out
}
