//! A program with its run.

use crate::simulator::kineto::{self, View};
use crate::simulator::program::{self, Program, Role};
use crate::simulator::run::{self, Cause, Outcome};
use crate::simulator::truth::Walk;
use crate::simulator::{Edit, Profile, Truth, ambiguity, edit};

/// A program that ran.
#[derive(Debug, Clone)]
pub struct Simulated {
    pub(crate) program: Program,
    pub(crate) outcome: Outcome,
    truth: Truth,
    draws: u64,
}

/// The path of one training step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The annotation, `ProfilerStep#N`.
    pub name: String,
    /// From its start to its end.
    pub truth: Truth,
}

/// Draws a program with what `profile` allows, and runs it. The same seed gives the same program on every machine.
#[must_use]
pub fn simulate(seed: u64, profile: &Profile) -> Simulated {
    let mut draw = 0;
    loop {
        // The high bits keep the draws of different seeds apart.
        if let Some(simulated) = attempt(seed ^ (draw << 44), profile, draw) {
            return simulated;
        }
        draw += 1;
    }
}

fn attempt(seed: u64, profile: &Profile, draws: u64) -> Option<Simulated> {
    let mut program = program::generate(seed, profile);
    let outcome = run::run(&mut program, true).ok()?;
    let walk = Walk::new(&program, &outcome);
    let (cause, alone) = walk.end()?;
    if profile.unique && (!alone || !outcome.is_unique || ambiguity::check(&program, &outcome).is_err()) {
        return None;
    }
    let truth = walk.truth(0, cause);
    Some(Simulated { program, outcome, truth, draws })
}

impl Simulated {
    /// The critical path of the whole program, from time 0 to what ends last.
    #[must_use]
    pub fn truth(&self) -> &Truth {
        &self.truth
    }

    /// The paths of the steps, each on the main thread from the annotation's start to its end.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        let walk = Walk::new(&self.program, &self.outcome);
        let is_main = |thread: usize| self.outcome.threads[thread].0 == Role::Main;
        let steps = self.outcome.spans.iter().filter(|s| s.name.starts_with("ProfilerStep#") && is_main(s.thread));
        let path = |s: &run::SpanRecord| walk.truth(s.start, Cause::Thread { thread: s.thread, at: s.end });
        steps.map(|s| Step { name: s.name.to_string(), truth: path(s) }).collect()
    }

    /// The trace with complete records.
    #[must_use]
    pub fn json(&self) -> String {
        kineto::write(&self.program, &self.outcome, &View::complete(&self.outcome))
    }

    /// The truth of the whole and of each step, as JSON.
    ///
    /// # Errors
    /// Never in practice: all of it is text and integers.
    pub fn truth_json(&self) -> serde_json::Result<String> {
        let steps = self.steps();
        let steps: Vec<_> = steps.iter().map(|s| serde_json::json!({ "name": s.name, "truth": s.truth })).collect();
        let queue_limit = self.queue_limit();
        serde_json::to_string_pretty(&serde_json::json!({
            "started_ns": self.started_ns(), "queue_limit": queue_limit, "whole": self.truth, "steps": steps,
        }))
    }

    /// What a time of the truth is in the trace: this much later, ns.
    #[must_use]
    pub fn started_ns(&self) -> i64 {
        kineto::STARTED_NS
    }

    /// Operations that a stream holds before launches block.
    #[must_use]
    pub fn queue_limit(&self) -> usize {
        self.program.queue_limit
    }

    /// Number and priority of each stream. Kernels of this device never compete for its units, so that a priority orders
    /// nothing; it is only known, as in real traces.
    pub fn streams(&self) -> impl Iterator<Item = (i64, i32)> {
        self.program.streams.iter().map(|stream| (stream.number, stream.priority))
    }

    /// Operations of the GPU.
    #[must_use]
    pub fn gpu_operations(&self) -> usize {
        self.outcome.activities.len()
    }

    /// Spans on threads.
    #[must_use]
    pub fn spans(&self) -> usize {
        self.outcome.spans.len()
    }

    /// The program with the edits made, run with the durations and lags of the original. `None` if an edit finds nothing
    /// to change.
    #[must_use]
    pub fn rerun(&self, edits: &[Edit]) -> Option<Self> {
        let mut program = self.program.clone();
        for edit in edits {
            program = edit::apply(program, edit)?;
        }
        let outcome = run::run(&mut program, false).ok()?;
        Some(Self { draws: self.draws, ..Self::after(program, outcome)? })
    }

    /// A program with its run, and the path of that; `None` if nothing ever ran.
    pub(crate) fn after(program: Program, outcome: Outcome) -> Option<Self> {
        let walk = Walk::new(&program, &outcome);
        let truth = walk.truth(0, walk.end()?.0);
        Some(Self { program, outcome, truth, draws: 0 })
    }

    /// The path after an edit; `None` as for [`Self::rerun`].
    #[must_use]
    pub fn edit(&self, edit: &Edit) -> Option<Truth> {
        self.rerun(std::slice::from_ref(edit)).map(|edited| edited.truth)
    }

    /// Edits that change something in this program, some of each kind.
    #[must_use]
    pub fn possible_edits(&self) -> Vec<Edit> {
        let all = edit::candidates(&self.program);
        all.into_iter().filter(|edit| edit::apply(self.program.clone(), edit).is_some()).collect()
    }

    /// Draws that were refused because their trace would allow several causes.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.draws
    }
}
