//! Simulated program together with its run: trace, ground truth and effects of edits.

use crate::simulator::kineto::{self, View};
use crate::simulator::program::{self, Program, Role};
use crate::simulator::run::{self, Cause, Outcome};
use crate::simulator::truth::Walk;
use crate::simulator::{Edit, Profile, Truth, ambiguity, edit};

/// A simulated program together with its run and its true critical path.
#[derive(Debug, Clone)]
pub struct Simulated {
    pub(crate) program: Program,
    pub(crate) outcome: Outcome,
    truth: Truth,
    draws: u64,
}

/// True critical path of one training step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Name of the annotation, `ProfilerStep#N`.
    pub name: String,
    /// Path from its start to its end.
    pub truth: Truth,
}

/// Draw a program with the features of `profile`, and run it. The same seed gives the same program on every machine.
#[must_use]
pub fn simulate(seed: u64, profile: &Profile) -> Simulated {
    let mut draw = 0;
    loop {
        // The high bits make the draws of different seeds distinct.
        if let Some(simulated) = attempt(seed ^ (draw << 44), profile, draw) {
            return simulated;
        }
        draw += 1;
    }
}

/// Draw and simulate one program; `None` if it never ends, or its trace is ambiguous and must not be.
fn attempt(seed: u64, profile: &Profile, draws: u64) -> Option<Simulated> {
    let mut program = program::generate(seed, profile);
    let outcome = run::run(&mut program, true).ok()?;
    let walk = Walk::new(&program, &outcome);
    let (cause, alone) = walk.last_activity()?;
    if profile.unique && (!alone || !outcome.is_unique || ambiguity::check_causes(&program, &outcome).is_err()) {
        return None;
    }
    let truth = walk.critical_path(0, cause);
    Some(Simulated { program, outcome, truth, draws })
}

impl Simulated {
    /// True critical path of the whole program, from time 0 to the last end.
    #[must_use]
    pub fn truth(&self) -> &Truth {
        &self.truth
    }

    /// True critical path of each training step, on the main thread from the start to the end of its annotation.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        let walk = Walk::new(&self.program, &self.outcome);
        let is_main = |thread: usize| self.outcome.threads[thread].0 == Role::Main;
        let steps = self.outcome.spans.iter().filter(|s| s.name.starts_with("ProfilerStep#") && is_main(s.thread));
        let path = |s: &run::SpanRecord| walk.critical_path(s.start, Cause::Thread { thread: s.thread, at: s.end });
        steps.map(|s| Step { name: s.name.to_string(), truth: path(s) }).collect()
    }

    /// Trace of the simulated program as JSON text, with complete records.
    #[must_use]
    pub fn json(&self) -> String {
        kineto::write(&self.program, &self.outcome, &View::complete(&self.outcome))
    }

    /// Ground truth of the whole program and of each step, as JSON.
    ///
    /// # Errors
    /// Never in practice: all data are texts and integers.
    pub fn truth_json(&self) -> serde_json::Result<String> {
        let steps = self.steps();
        let steps: Vec<_> = steps.iter().map(|s| serde_json::json!({ "name": s.name, "truth": s.truth })).collect();
        let queue_limit = self.queue_limit();
        serde_json::to_string_pretty(&serde_json::json!({
            "started_ns": self.started_ns(), "queue_limit": queue_limit, "whole": self.truth, "steps": steps,
        }))
    }

    /// Time in the trace, in ns, at which the ground truth has time 0: the start of the profiler.
    #[must_use]
    pub fn started_ns(&self) -> i64 {
        kineto::STARTED_NS
    }

    /// Number of pending operations per stream before launches block.
    #[must_use]
    pub fn queue_limit(&self) -> usize {
        self.program.queue_limit
    }

    /// Number and priority of each stream in the trace. Kernels of this device never compete for its units, so that a
    /// priority has no effect; it is only recorded, as in real traces.
    pub fn streams(&self) -> impl Iterator<Item = (i64, i32)> {
        self.program.streams.iter().map(|stream| (stream.number, stream.priority))
    }

    /// Number of GPU operations in the run of the simulated program.
    #[must_use]
    pub fn gpu_operations(&self) -> usize {
        self.outcome.activities.len()
    }

    /// Number of spans on threads in the run of the simulated program.
    #[must_use]
    pub fn spans(&self) -> usize {
        self.outcome.spans.len()
    }

    /// Apply edits to the program and run it with the durations and lags of the original. `None` if an edit has nothing
    /// to change.
    #[must_use]
    pub fn rerun(&self, edits: &[Edit]) -> Option<Self> {
        let mut program = self.program.clone();
        for edit in edits {
            program = edit::apply(program, edit)?;
        }
        let outcome = run::run(&mut program, false).ok()?;
        Some(Self { draws: self.draws, ..Self::from_run(program, outcome)? })
    }

    /// Combine a program and the results of its run, and compute its critical path; `None` if no work ever ran.
    pub(crate) fn from_run(program: Program, outcome: Outcome) -> Option<Self> {
        let walk = Walk::new(&program, &outcome);
        let truth = walk.critical_path(0, walk.last_activity()?.0);
        Some(Self { program, outcome, truth, draws: 0 })
    }

    /// Critical path of the program after an edit and a new run; `None` if the edit has nothing to change.
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

    /// Number of programs drawn before this one and refused, because their trace was ambiguous or they never ended.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.draws
    }
}
