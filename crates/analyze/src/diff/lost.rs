//! Records that are missing, and records whose times are: absence is no speed, so what is compared of them is not tested.

use super::align::{Change, Side, Table, Verdict};
use super::profile::{Measure, Profile};
use stackline_model::{EventKind, Trace, flags, lack_times};
use std::iter::once;

/// Of records of one kind, how many there are, and how many have no time that can be true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Those without.
    pub lost: usize,
    /// All of them.
    pub all: usize,
}

impl Lost {
    fn add(&mut self, is_lost: bool) {
        self.all += 1;
        self.lost += usize::from(is_lost);
    }

    fn is_much(self) -> bool {
        lack_times(self.lost, self.all)
    }
}

/// Calls and operators of the host.
pub(super) fn of_host(trace: &Trace) -> Lost {
    let mut host = Lost::default();
    let is_call = |kind: EventKind| kind == EventKind::Operator || kind.is_api_call();
    let calls = trace.events.ids().filter(|e| is_call(trace.kind(*e)) && trace.events.has(*e, flags::HAS_DURATION));
    calls.for_each(|call| host.add(!trace.events.is_plausible(call)));
    host
}

/// What cannot be compared of a rank: records that are missing before, and after.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unknown([Missing; 2]);

/// Records that are missing on one side.
#[derive(Clone, Copy, Debug, Default)]
struct Missing {
    gpu: bool,
    host: bool,
}

impl Unknown {
    /// Of profiles of both sides.
    pub(super) fn new(before: &[&Profile], after: &[&Profile]) -> Self {
        let knows_gpu = knows_gpu(before.iter().chain(after).copied());
        Self([before, after].map(|side| Missing {
            gpu: knows_gpu && side.iter().any(|profile| profile.gpu_records.are_incomplete()),
            host: side.iter().any(|profile| profile.lost_host.is_much()),
        }))
    }

    /// Takes back what was tested of changes that are made of what is lost, and marks their incomplete times.
    pub(super) fn untest(self, table: Table, by_family: bool, changes: &mut [Change]) {
        for change in &mut *changes {
            change.is_incomplete = self.0.map(|missing| missing.affects(table, by_family, change.measure));
        }
        untest(changes.iter_mut().filter(|change| change.is_incomplete.contains(&true)));
    }
}

impl Missing {
    /// Whether a measure of a table is made of what is lost: GPU work is told by operators and paths of the host, too, and a step ends
    /// with its GPU work.
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

/// Whether GPU work is compared at all: where no side has any, times are those of the host.
fn knows_gpu<'p>(mut profiles: impl Iterator<Item = &'p Profile>) -> bool {
    profiles.any(|profile| profile.gpu_records.are_any())
}

/// Takes back what was tested of changes.
pub(super) fn untest<'c>(changes: impl Iterator<Item = &'c mut Change>) {
    for change in changes {
        (change.verdict, change.p, change.interval_ns) = (Verdict::Untested, None, None);
        change.counts_are_steady = false;
    }
}

/// Which runs have lost too much, a sentence each; mostly none.
pub(super) fn sentences(before: &Side, after: &Side) -> Vec<String> {
    let mut out = Vec::new();
    let knows_gpu = knows_gpu(before.iter().chain(after).flatten());
    for (side, name) in [(before, "A"), (after, "B")] {
        for profile in side.iter().flatten() {
            let file = &profile.name;
            let gpu =
                profile.gpu_records.missing().filter(|_| knows_gpu).map(|missing| (missing, "GPU work and steps"));
            let Lost { lost, all } = profile.lost_host;
            let host = profile
                .lost_host
                .is_much()
                .then(|| (format!("{lost} of {all} host calls have no plausible time"), "host times and steps"));
            out.extend(once(gpu).chain(once(host)).flatten().map(|(missing, which)| {
                format!("{name}: in {file}, {missing}, so {which} are not tested. Missing time is no speedup.")
            }));
        }
    }
    out
}
