//! Programs with one injected fault, and the same programs without it, by which the real gain of a repair is known.
//!
//! [`clean`] draws programs without problems: they are GPU-bound, no work waits for a slower part, data are loaded in
//! time, and all steps are alike. [`Kind::inject`] injects one fault into such a program and repairs it in a copy,
//! which runs with the same durations and lags. The cost of the fault is the difference of both
//! ([`InjectedFault::gain_ns`]).
//!
//! If a repair makes work faster instead of removing it, the new duration is not predictable. The program is then
//! repaired as the finding assumes ([`Kind::is_assumed`]), and only the consequence for the step is a prediction.

mod base;
mod communication;
mod copies;
mod data;
mod host;
mod injector;
mod kernels;
mod launches;

use crate::rng::Rng;
use crate::simulator::edit::{self, Edit};
use crate::simulator::program::{Program, Role};
use crate::simulator::run::{self, SpanRecord};
use crate::simulator::{Profile, Simulated};
use injector::FaultInjector;

/// A kind of injected fault: its name, the rule that should find it, and the function that injects it.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Name of the fault.
    pub name: &'static str,
    /// Code of the rule that should find it.
    pub code: &'static str,
    /// Codes of rules that also report the problem, correctly.
    pub also: &'static [&'static str],
    /// True if the repair is the assumption of the finding, instead of removed work.
    pub is_assumed: bool,
    /// True if the finding has an estimated gain; a finding about the measurement has none.
    pub is_gain: bool,
    /// Smallest cost in percent of the step, below which it is no problem or too small to report.
    least: f64,
    /// Change of the profile that the fault requires.
    shape: fn(&mut Profile),
    inject: fn(&mut FaultInjector<'_>),
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kind({} {})", self.code, self.name)
    }
}

impl Kind {
    /// Define a kind of fault whose repair removes work.
    const fn removable(name: &'static str, code: &'static str, inject: fn(&mut FaultInjector<'_>)) -> Self {
        Self { name, code, also: &[], is_assumed: false, is_gain: true, least: LEAST_PERCENT, shape: |_| {}, inject }
    }

    /// Define a kind of fault whose repair leaves as much work as the finding assumes.
    const fn assumed(name: &'static str, code: &'static str, inject: fn(&mut FaultInjector<'_>)) -> Self {
        Self { is_assumed: true, ..Self::removable(name, code, inject) }
    }

    /// Define a kind of fault in the measurement, such as pauses of the profiler, which has no estimated gain.
    const fn of_measurement(name: &'static str, code: &'static str, inject: fn(&mut FaultInjector<'_>)) -> Self {
        Self { is_gain: false, ..Self::removable(name, code, inject) }
    }

    /// Set the codes of other rules that also report this fault, correctly.
    const fn also(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }

    /// Set the smallest cost in percent of the step.
    const fn least(self, least: f64) -> Self {
        Self { least, ..self }
    }

    /// Set a change of the profile that the fault requires.
    const fn shape(self, shape: fn(&mut Profile)) -> Self {
        Self { shape, ..self }
    }
}

/// All kinds of performance faults that can be injected into simulated programs.
pub fn kinds() -> impl Iterator<Item = &'static Kind> {
    [host::KINDS, launches::KINDS, data::KINDS, kernels::KINDS, copies::KINDS, communication::KINDS]
        .into_iter()
        .flatten()
}

/// Default of the smallest cost in percent of the step. Findings with less than half of this gain are not shown.
const LEAST_PERCENT: f64 = 1.0;
/// Number of programs that are drawn until the fault costs enough.
const DRAWS: u64 = 40;

/// A program with an injected fault, and the same program without it.
#[derive(Debug, Clone)]
pub struct InjectedFault {
    /// The program with the fault.
    pub faulty: Simulated,
    /// The program without the fault; for too few workers see [`Self::with_workers`].
    pub repaired: Simulated,
    /// Number of programs drawn before it, in which the fault cost too little.
    pub refused: u64,
}

/// Draw and simulate a clean program, without an injected fault.
#[must_use]
pub fn clean(seed: u64) -> Simulated {
    let mut draw = 0;
    loop {
        let mut program = base::draw(seed ^ (draw << 44), |_| {});
        if let Some(simulated) = Simulated::run(&mut program, true) {
            return simulated;
        }
        draw += 1;
    }
}

impl Kind {
    /// Draw and simulate a program with this fault, and the same program without it. Positions, number and size of the
    /// fault depend on the seed. `None` if it costs too little in all drawn programs.
    #[must_use]
    pub fn inject(&self, seed: u64) -> Option<InjectedFault> {
        (0..DRAWS).find_map(|draw| {
            let injected = self.attempt(seed ^ (draw << 44))?;
            let (first, last) = injected.faulty.step_numbers()?;
            let before = injected.faulty.steps_ns(first, last)? as f64;
            let gain = injected.gain_ns(first, last)? as f64;
            (gain >= before * self.least / 100.0).then_some(InjectedFault { refused: draw, ..injected })
        })
    }

    /// Draw one program, inject the fault, and simulate both programs; `None` if a simulation fails.
    fn attempt(&self, seed: u64) -> Option<InjectedFault> {
        let base = base::draw(seed, self.shape);
        let steps = base::count_training_steps(&base);
        let alone = Simulated::run(&mut base.clone(), true)?;
        let (first, last) = alone.step_numbers()?;
        let step_ns = alone.steps_ns(first, last)? / steps.max(1) as i64;
        let profile = Profile::plain();
        let mut injector = FaultInjector::new(base, &profile, (Rng::new(seed ^ 0x9147_ed00), step_ns));
        (self.inject)(&mut injector);
        let (mut faulty, mut repaired) = injector.finish();
        let faulty = Simulated::run(&mut faulty, true)?;
        for (op, settled) in repaired.ops.iter_mut().zip(&faulty.program.ops) {
            op.latency = settled.latency;
        }
        let repaired = Simulated::run(&mut repaired, false)?;
        Some(InjectedFault { faulty, repaired, refused: 0 })
    }
}

impl InjectedFault {
    /// Time in ns that the repair saves in the training steps from `first` to `last`.
    #[must_use]
    pub fn gain_ns(&self, first: i64, last: i64) -> Option<i64> {
        Some(self.faulty.steps_ns(first, last)? - self.repaired.steps_ns(first, last)?)
    }

    /// True if workers load the data of the simulated program.
    #[must_use]
    pub fn has_workers(&self) -> bool {
        self.faulty.program.loader.is_some()
    }

    /// Replace the repaired program by the faulty one with `more` additional DataLoader workers.
    #[must_use]
    pub fn with_workers(self, more: usize) -> Option<Self> {
        let mut program = edit::apply(self.faulty.program.clone(), &Edit::MoreWorkers(more))?;
        let repaired = Simulated::run(&mut program, false)?;
        Some(Self { repaired, ..self })
    }
}

impl Simulated {
    /// Run a program. `settle`: as in [`run::run`].
    fn run(program: &mut Program, settle: bool) -> Option<Self> {
        let outcome = run::run(program, settle).ok()?;
        Self::from_run(program.clone(), outcome)
    }

    /// Training steps of the main thread, as number and span.
    fn main_steps(&self) -> impl Iterator<Item = (i64, &SpanRecord)> {
        let is_main = |span: &&SpanRecord| self.outcome.threads[span.thread].0 == Role::Main;
        let number = |span: &SpanRecord| span.name.strip_prefix("ProfilerStep#")?.parse().ok();
        self.outcome.spans.iter().filter(is_main).filter_map(move |span| Some((number(span)?, span)))
    }

    /// Numbers of the first and the last training step; `None` if there are none.
    #[must_use]
    pub fn step_numbers(&self) -> Option<(i64, i64)> {
        let numbers = || self.main_steps().map(|(number, _)| number);
        Some((numbers().min()?, numbers().max()?))
    }

    /// Duration in ns of the training steps from `first` to `last`, each boundary moved to the end of all GPU work
    /// launched before it. `None` if there is no such step.
    #[must_use]
    pub fn steps_ns(&self, first: i64, last: i64) -> Option<i64> {
        let steps = || self.main_steps().filter(|(number, _)| (first..=last).contains(number));
        let start = steps().map(|(_, span)| span.start).min()?;
        let end = steps().map(|(_, span)| span.end).max()?;
        let done = |before: i64| {
            let launched = self.outcome.activities.iter();
            let launched = launched.filter(|a| self.outcome.spans[a.call as usize].start < before);
            launched.map(|a| a.end).max().unwrap_or(before).max(before)
        };
        Some(done(end) - done(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_distinct_names_and_each_can_be_injected() {
        let names: Vec<&str> = kinds().map(|kind| kind.name).collect();
        for (i, kind) in kinds().enumerate() {
            assert!(!names[..i].contains(&kind.name), "{kind:?}");
            let injected = kind.inject(1).unwrap_or_else(|| panic!("{kind:?}"));
            assert!(injected.refused < DRAWS, "{kind:?}");
        }
    }

    #[test]
    fn equal_seeds_give_equal_programs() {
        let one = kinds().next().and_then(|kind| kind.inject(3)).map(|injected| injected.faulty.json());
        let other = kinds().next().and_then(|kind| kind.inject(3)).map(|injected| injected.faulty.json());
        assert!(one.is_some() && one == other);
    }
}
