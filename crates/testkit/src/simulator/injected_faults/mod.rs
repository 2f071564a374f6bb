//! Programs with one injected fault, and the same programs without it: the true gain of a repair.
//!
//! [`clean`] draws programs in which nothing is to be found: the GPU bounds them, nothing waits for it, data is there in
//! time, all steps do the same. [`Kind::plant`] puts one problem into such a program, and mends it in a copy that runs with
//! the same durations and lags. What the problem costs is the difference of both ([`InjectedFault::gain_ns`]).
//!
//! Where a repair makes work faster rather than vanish, nobody knows by how much before it is tried: there the program is
//! mended to what the finding says that it assumes ([`Kind::is_assumed`]), and only what follows from it for the step is a
//! prediction.

mod base;
mod communication;
mod copies;
mod data;
mod host;
mod kernels;
mod launches;
mod planter;

use crate::rng::Rng;
use crate::simulator::edit::{self, Edit};
use crate::simulator::program::{Program, Role};
use crate::simulator::run::{self, SpanRecord};
use crate::simulator::{Profile, Simulated};
use planter::Planter;

/// A kind of problem.
#[derive(Clone, Copy)]
pub struct Kind {
    /// What it is, in words.
    pub name: &'static str,
    /// The rule that should find it.
    pub code: &'static str,
    /// Rules that see the same problem, and are right.
    pub also: &'static [&'static str],
    /// Whether the repair is what the finding assumes, rather than work that is gone.
    pub is_assumed: bool,
    /// Whether the finding says what it gains: one about the measurement does not.
    pub is_gain: bool,
    /// What it costs at least, in percent of the step: what costs less is none, or not yet worth a word.
    least: f64,
    /// What the program around it needs.
    shape: fn(&mut Profile),
    plant: fn(&mut Planter<'_>),
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kind({} {})", self.code, self.name)
    }
}

impl Kind {
    /// A problem whose repair takes work away.
    const fn gone(name: &'static str, code: &'static str, plant: fn(&mut Planter<'_>)) -> Self {
        Self { name, code, also: &[], is_assumed: false, is_gain: true, least: LEAST_PERCENT, shape: |_| {}, plant }
    }

    /// A problem whose repair leaves as much as the finding assumes.
    const fn assumed(name: &'static str, code: &'static str, plant: fn(&mut Planter<'_>)) -> Self {
        Self { is_assumed: true, ..Self::gone(name, code, plant) }
    }

    /// A problem of the measurement: nothing is gained but better numbers.
    const fn measured(name: &'static str, code: &'static str, plant: fn(&mut Planter<'_>)) -> Self {
        Self { is_gain: false, ..Self::gone(name, code, plant) }
    }

    const fn also(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }

    const fn least(self, least: f64) -> Self {
        Self { least, ..self }
    }

    const fn shape(self, shape: fn(&mut Profile)) -> Self {
        Self { shape, ..self }
    }
}

/// All kinds.
pub fn kinds() -> impl Iterator<Item = &'static Kind> {
    [host::KINDS, launches::KINDS, data::KINDS, kernels::KINDS, copies::KINDS, communication::KINDS]
        .into_iter()
        .flatten()
}

/// A problem that costs less of the step is none, in percent: findings that gain less than half of this are not shown.
const LEAST_PERCENT: f64 = 1.0;
/// So often a program is drawn until the problem costs enough.
const DRAWS: u64 = 40;

/// Program with an injected fault, and the same one without.
#[derive(Debug, Clone)]
pub struct InjectedFault {
    /// With it.
    pub planted: Simulated,
    /// Without; for too few workers see [`Self::with_workers`].
    pub repaired: Simulated,
    /// Programs that were drawn before it, in which the problem cost too little.
    pub refused: u64,
}

/// A program without any of the problems.
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
    /// A program with this problem; where and how often it occurs and how large it is depends on the seed. `None` if
    /// it costs too little however often it is drawn.
    #[must_use]
    pub fn plant(&self, seed: u64) -> Option<InjectedFault> {
        (0..DRAWS).find_map(|draw| {
            let planted = self.attempt(seed ^ (draw << 44))?;
            let (first, last) = planted.planted.step_numbers()?;
            let before = planted.planted.steps_ns(first, last)? as f64;
            let gain = planted.gain_ns(first, last)? as f64;
            (gain >= before * self.least / 100.0).then_some(InjectedFault { refused: draw, ..planted })
        })
    }

    fn attempt(&self, seed: u64) -> Option<InjectedFault> {
        let base = base::draw(seed, self.shape);
        let steps = base::passes(&base);
        let alone = Simulated::run(&mut base.clone(), true)?;
        let (first, last) = alone.step_numbers()?;
        let step_ns = alone.steps_ns(first, last)? / steps.max(1) as i64;
        let profile = Profile::plain();
        let mut planter = Planter::new(base, &profile, (Rng::new(seed ^ 0x9147_ed00), step_ns));
        (self.plant)(&mut planter);
        let (mut planted, mut repaired) = planter.finish();
        let planted = Simulated::run(&mut planted, true)?;
        for (op, settled) in repaired.ops.iter_mut().zip(&planted.program.ops) {
            op.latency = settled.latency;
        }
        let repaired = Simulated::run(&mut repaired, false)?;
        Some(InjectedFault { planted, repaired, refused: 0 })
    }
}

impl InjectedFault {
    /// What all steps from one number to another lose by the problem, in ns.
    #[must_use]
    pub fn gain_ns(&self, first: i64, last: i64) -> Option<i64> {
        Some(self.planted.steps_ns(first, last)? - self.repaired.steps_ns(first, last)?)
    }

    /// Whether workers load the data.
    #[must_use]
    pub fn has_workers(&self) -> bool {
        self.planted.program.loader.is_some()
    }

    /// The program with so many more workers that load data, in place of another repair.
    #[must_use]
    pub fn with_workers(self, more: usize) -> Option<Self> {
        let mut program = edit::apply(self.planted.program.clone(), &Edit::MoreWorkers(more))?;
        let repaired = Simulated::run(&mut program, false)?;
        Some(Self { repaired, ..self })
    }
}

impl Simulated {
    /// Runs a program. `settle`: as for [`run::run`].
    fn run(program: &mut Program, settle: bool) -> Option<Self> {
        let outcome = run::run(program, settle).ok()?;
        Self::after(program.clone(), outcome)
    }

    /// Steps of the main thread: number, start and end in ns.
    fn main_steps(&self) -> impl Iterator<Item = (i64, &SpanRecord)> {
        let is_main = |span: &&SpanRecord| self.outcome.threads[span.thread].0 == Role::Main;
        let number = |span: &SpanRecord| span.name.strip_prefix("ProfilerStep#")?.parse().ok();
        self.outcome.spans.iter().filter(is_main).filter_map(move |span| Some((number(span)?, span)))
    }

    /// Numbers of the first and the last step; `None` if there are none.
    #[must_use]
    pub fn step_numbers(&self) -> Option<(i64, i64)> {
        let numbers = || self.main_steps().map(|(number, _)| number);
        Some((numbers().min()?, numbers().max()?))
    }

    /// From the moment at which all work of the GPU launched before step `first` is done to that at which all work
    /// launched until the end of step `last` is, and both on the host, in ns. `None` if there is no such step.
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
    fn kinds_are_told_apart_and_every_one_can_be_planted() {
        let names: Vec<&str> = kinds().map(|kind| kind.name).collect();
        for (i, kind) in kinds().enumerate() {
            assert!(!names[..i].contains(&kind.name), "{kind:?}");
            let planted = kind.plant(1).unwrap_or_else(|| panic!("{kind:?}"));
            assert!(planted.refused < DRAWS, "{kind:?}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_program() {
        let one = kinds().next().and_then(|kind| kind.plant(3)).map(|planted| planted.planted.json());
        let other = kinds().next().and_then(|kind| kind.plant(3)).map(|planted| planted.planted.json());
        assert!(one.is_some() && one == other);
    }
}
