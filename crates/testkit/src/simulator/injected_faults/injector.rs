//! Injection of a fault into a program, and of its repair into a copy.

use super::base::Slots;
use super::kernels::without_spans;
use crate::rng::Rng;
use crate::simulator::Profile;
use crate::simulator::program::build::{Builder, COMPUTE};
use crate::simulator::program::{Program, Role, Step, Work};

/// Position in each training step at which work is inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// Before all other work.
    Start,
    /// At a random position between the modules of the forward pass.
    Forward,
    /// At the begin of the optimizer.
    Update,
    /// After all other work.
    End,
    /// At a random position between the nodes of the backward pass.
    Backward,
}

/// Steps to be inserted at a position of a thread: with the fault, and repaired.
struct Insert {
    role: Role,
    at: usize,
    faulty: Vec<Step>,
    repaired: Vec<Step>,
}

/// Program into which a fault is injected: planned insertions, and changes of the repair.
pub(super) struct FaultInjector<'a> {
    pub(super) b: Builder<'a>,
    slots: Slots,
    /// Duration of a step without the fault, in ns.
    pub(super) step_ns: i64,
    inserts: Vec<Insert>,
    /// Operations whose duration the repair changes, in ns.
    repaired_durations: Vec<(usize, i64)>,
    /// Change of the whole program by the repair.
    pub(super) whole: Option<fn(&mut Program)>,
}

impl<'a> FaultInjector<'a> {
    pub(super) fn new(base: Program, profile: &'a Profile, (rng, step_ns): (Rng, i64)) -> Self {
        let slots = Slots::new(&base);
        let b = Builder::resume(base, rng, profile);
        Self { b, slots, step_ns, inserts: Vec::new(), repaired_durations: Vec::new(), whole: None }
    }

    /// Remove all operators of this name from the program, before any insertion.
    pub(super) fn drop_from_base(&mut self, operator: &str) {
        for thread in &mut self.b.program.threads {
            thread.steps = without_spans(&thread.steps, operator);
        }
        self.slots = Slots::new(&self.b.program);
    }

    /// Convert the program to a CPU program, before any insertion: each launch becomes host time of the length of its
    /// kernels.
    pub(super) fn on_the_cpu(&mut self) {
        let program = &mut self.b.program;
        let ops = &program.ops;
        let on_the_cpu = |step: Step| match step {
            Step::Launch { ops: launched, .. } => Some(Step::Spend(ops[launched].iter().map(|op| op.duration).sum())),
            Step::Blocking { op, .. } => Some(Step::Spend(ops[op].duration)),
            Step::Call { .. } | Step::Record { .. } | Step::Wait { .. } | Step::Sync { .. } | Step::Poll { .. } => None,
            step => Some(step),
        };
        for thread in &mut program.threads {
            thread.steps = std::mem::take(&mut thread.steps).into_iter().filter_map(on_the_cpu).collect();
        }
        self.slots = Slots::new(program);
    }

    /// Number of training steps of the program.
    pub(super) fn passes(&self) -> usize {
        self.slots.start.len()
    }

    /// First GPU operation that the main thread launches in training step `pass` or later.
    pub(super) fn first_op(&self, pass: usize) -> Option<usize> {
        let from = *self.slots.start.get(pass)?;
        super::base::main(&self.b.program).iter().skip(from).find_map(|step| match step {
            Step::Launch { ops, .. } => Some(ops.start),
            Step::Blocking { op, .. } => Some(*op),
            _ => None,
        })
    }

    /// Draw a time in ns, of `low` to `high` percent of a training step's duration.
    pub(super) fn draw_step_part(&mut self, low: i64, high: i64) -> i64 {
        self.step_ns * self.b.rng.between(low, high) / 100
    }

    /// Draw the number of positions for a fault, in `low..=high`.
    pub(super) fn draw_count(&mut self, low: usize, high: usize) -> usize {
        low + self.b.rng.below(high + 1 - low)
    }

    /// Draw up to `count` indices of positions of kind `at`, the same ones for all training steps.
    pub(super) fn draw_positions(&mut self, at: At, count: usize) -> Vec<usize> {
        let among = match at {
            At::Forward => &self.slots.forward,
            At::Backward => &self.slots.backward,
            At::Start | At::Update | At::End => return vec![0],
        };
        let least = among.iter().map(Vec::len).min().unwrap_or(0);
        self.b.rng.sample(least, count)
    }

    /// Build program steps: those that `body` adds to the builder.
    pub(super) fn build_steps(&mut self, body: impl FnOnce(&mut Builder<'a>)) -> Vec<Step> {
        body(&mut self.b);
        std::mem::take(&mut self.b.steps)
    }

    /// Plan the insertion of program steps at a position of one training step: `faulty` with the fault, `repaired`
    /// without.
    pub(super) fn insert(&mut self, (at, place, pass): (At, usize, usize), faulty: Vec<Step>, repaired: Vec<Step>) {
        let found = match at {
            At::Start => self.slots.start.get(pass),
            At::Update => self.slots.update.get(pass),
            At::End => self.slots.end.get(pass),
            At::Forward => self.slots.forward.get(pass).and_then(|places| places.get(place)),
            At::Backward => self.slots.backward.get(pass).and_then(|places| places.get(place)),
        };
        let role = if at == At::Backward { Role::Autograd } else { Role::Main };
        if let Some(&at) = found {
            let mut list = |mut steps: Vec<Step>| {
                if !steps.is_empty() {
                    steps.insert(0, Step::Spend(self.b.rng.between(300, 2_000)));
                }
                steps
            };
            let (faulty, repaired) = (list(faulty), list(repaired));
            self.inserts.push(Insert { role, at, faulty, repaired });
        }
    }

    /// Plan the insertion of the steps that `body` adds, at `count` positions of each training step; the repair removes
    /// them.
    pub(super) fn insert_removable(&mut self, at: At, count: usize, mut body: impl FnMut(&mut Builder<'a>)) {
        self.insert_both(at, count, |p| (p.build_steps(&mut body), Vec::new()));
    }

    /// Plan the insertion of the steps that `body` returns, with the fault and repaired, at `count` positions of each
    /// training step.
    pub(super) fn insert_both(
        &mut self,
        at: At,
        count: usize,
        mut body: impl FnMut(&mut Self) -> (Vec<Step>, Vec<Step>),
    ) {
        for place in self.draw_positions(at, count) {
            for pass in 0..self.passes() {
                let (faulty, repaired) = body(self);
                self.insert((at, place, pass), faulty, repaired);
            }
        }
    }

    /// Plan the insertion of the steps that `body` adds, at `count` positions of each training step; the repair sets
    /// the returned durations (ns) of operations.
    pub(super) fn insert_faster(
        &mut self,
        at: At,
        count: usize,
        mut body: impl FnMut(&mut Builder<'a>) -> Vec<(usize, i64)>,
    ) {
        self.insert_both(at, count, |p| {
            let repaired_durations = body(&mut p.b);
            p.repaired_durations.extend(repaired_durations);
            let steps = std::mem::take(&mut p.b.steps);
            (steps.clone(), steps)
        });
    }

    /// Set the duration of an operation in the repaired program, in ns.
    pub(super) fn set_repaired_duration(&mut self, op: usize, ns: i64) {
        self.repaired_durations.push((op, ns));
    }

    /// Insert all planned steps; returns the program with the fault and the repaired one.
    pub(super) fn finish(mut self) -> (Program, Program) {
        let mut faulty = self.b.program;
        let mut repaired = faulty.clone();
        self.inserts.sort_by_key(|insert| insert.at);
        // From the last to the first, so that positions stay valid.
        for insert in self.inserts.into_iter().rev() {
            let at = insert.at..insert.at;
            for (program, steps) in [(&mut faulty, insert.faulty), (&mut repaired, insert.repaired)] {
                if let Some(thread) = program.threads.iter_mut().find(|thread| thread.role == insert.role) {
                    thread.steps.splice(at.clone(), steps);
                }
            }
        }
        for (op, ns) in self.repaired_durations {
            repaired.ops[op].duration = ns.max(501);
        }
        if let Some(repair) = self.whole {
            repair(&mut repaired);
        }
        (faulty, repaired)
    }
}

impl Builder<'_> {
    /// Launch a kernel of about `ns` on the compute stream; returns the index of its operation.
    pub(super) fn injected_kernel(&mut self, name: &'static str, ns: i64) -> usize {
        self.launch(Work::Kernel, name, COMPUTE, ns.max(900));
        let op = self.program.ops.len() - 1;
        // The operation's name determines its launch and whether it may overlap, as usual.
        self.program.ops[op].overlap = 0;
        op
    }

    /// Add an operator that launches one kernel of `ns`; returns the index of the kernel's operation.
    pub(super) fn operator_of(&mut self, operator: &'static str, kernel: &'static str, ns: i64) -> usize {
        let mut op = 0;
        self.op(operator, |b| op = b.injected_kernel(kernel, ns));
        self.spend(200, 900);
        op
    }
}
