//! Records whose times are lost: absence is no speed, so what is compared of them is not tested.

use super::align::{Change, Side, Table, Verdict};
use super::profile::{Measure, Profile};
use stackline_model::{EventKind, Trace, flags};

/// One of so many records without a usable time is too many to compare the others.
const MANY: usize = 100;

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
        self.lost > 0 && self.lost * MANY >= self.all
    }
}

/// Operations of the GPU, and calls and operators of the host.
pub(super) fn of_trace(trace: &Trace) -> (Lost, Lost) {
    let (mut gpu, mut host) = (Lost::default(), Lost::default());
    for event in trace.gpu.event.iter().copied() {
        gpu.add(!trace.events.is_plausible(event));
    }
    let is_call = |kind: EventKind| kind == EventKind::Operator || kind.is_api_call();
    let calls = trace.events.ids().filter(|e| is_call(trace.kind(*e)) && trace.events.has(*e, flags::HAS_DURATION));
    calls.for_each(|call| host.add(!trace.events.is_plausible(call)));
    (gpu, host)
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
        let gpu = profiles.clone().any(|profile| profile.lost_gpu.is_much());
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
    for (side, name) in [(before, "A"), (after, "B")] {
        for profile in side.iter().flatten() {
            let kinds = [
                (profile.lost_gpu, "GPU operations", "GPU work and steps are"),
                (profile.lost_host, "calls of the host", "host times and steps are"),
            ];
            out.extend(kinds.into_iter().filter(|(lost, ..)| lost.is_much()).map(|(Lost { lost, all }, what, which)| {
                let file = &profile.name;
                format!("{name}: {lost} of {all} {what} of {file} have no time that can be true, so {which} not tested: less time is not faster.")
            }));
        }
    }
    out
}
