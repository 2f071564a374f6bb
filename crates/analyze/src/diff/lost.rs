//! Records that are missing, and records whose times are: absence is no speed, so what is compared of them is not tested.

use super::align::{Change, Side, Table, Verdict};
use super::profile::{Measure, Profile};
use crate::gpu_records::lack_times;
use stackline_model::{EventKind, Trace, flags};
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

/// What cannot be compared of a rank.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unknown {
    gpu: bool,
    host: bool,
}

impl Unknown {
    /// Of profiles of both sides.
    pub(super) fn of<'p>(mut profiles: impl Iterator<Item = &'p Profile> + Clone) -> Self {
        let gpu = knows_gpu(profiles.clone()) && profiles.clone().any(|profile| profile.gpu_records.are_incomplete());
        Self { gpu, host: profiles.any(|profile| profile.lost_host.is_much()) }
    }

    /// Whether a measure of a table is made of what is lost: GPU work is told by operators and paths of the host, too, and a step ends
    /// with its GPU work.
    fn has(self, table: Table, measure: Measure) -> bool {
        let by_host = matches!(table, Table::Operators | Table::Paths);
        match measure {
            Measure::Gpu => self.gpu || by_host && self.host,
            Measure::Step | Measure::StepAndBetween => self.gpu || self.host,
            Measure::Cpu | Measure::CpuTotal => self.host,
        }
    }

    /// Takes back what was tested of changes that are made of what is lost.
    pub(super) fn untest(self, table: Table, by_family: bool, changes: &mut [Change]) {
        let of_operators = table == Table::Kernels && by_family && self.host;
        untest(changes.iter_mut().filter(|change| of_operators || self.has(table, change.measure)));
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
            let host = profile.lost_host.is_much().then(|| {
                (format!("{lost} of {all} calls of the host have no time that can be true"), "host times and steps")
            });
            out.extend(once(gpu).chain(once(host)).flatten().map(|(missing, which)| {
                format!("{name}: of {file}, {missing}, so {which} are not tested: less time is not faster.")
            }));
        }
    }
    out
}
