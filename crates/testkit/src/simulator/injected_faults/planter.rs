//! Writes a problem into a program, and its repair into a copy.

use super::base::Slots;
use super::kernels::without;
use crate::rng::Rng;
use crate::simulator::Profile;
use crate::simulator::program::build::{Builder, COMPUTE};
use crate::simulator::program::{Program, Role, Step, Work};

/// Where in each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// Before everything else.
    Start,
    /// Somewhere between the modules of the forward pass.
    Forward,
    /// Where the optimizer begins.
    Update,
    /// Behind everything else.
    End,
    /// Somewhere between the nodes of the backward pass.
    Backward,
}

/// What is put into a thread, in both programs.
struct Insert {
    role: Role,
    at: usize,
    planted: Vec<Step>,
    repaired: Vec<Step>,
}

/// A program under treatment.
pub(super) struct Planter<'a> {
    pub(super) b: Builder<'a>,
    slots: Slots,
    /// Length of a step without the problem, in ns.
    pub(super) step_ns: i64,
    inserts: Vec<Insert>,
    /// Operations that take another time once it is repaired, in ns.
    mended: Vec<(usize, i64)>,
    /// What is done to the whole program to repair it.
    pub(super) whole: Option<fn(&mut Program)>,
}

impl<'a> Planter<'a> {
    pub(super) fn new(base: Program, profile: &'a Profile, (rng, step_ns): (Rng, i64)) -> Self {
        let slots = Slots::new(&base);
        let b = Builder::resume(base, rng, profile);
        Self { b, slots, step_ns, inserts: Vec::new(), mended: Vec::new(), whole: None }
    }

    /// Takes the operators of a name out of the program, before anything is put into it.
    pub(super) fn drop_from_base(&mut self, operator: &str) {
        for thread in &mut self.b.program.threads {
            thread.steps = without(&thread.steps, operator);
        }
        self.slots = Slots::new(&self.b.program);
    }

    /// Makes it a program of the CPU alone, before anything is put into it: operators compute what their kernels did, for as long.
    pub(super) fn on_the_cpu(&mut self) {
        let program = &mut self.b.program;
        let ops = &program.ops;
        let on_the_cpu = |step: Step| match step {
            Step::Launch { ops: of, .. } => Some(Step::Spend(ops[of].iter().map(|op| op.duration).sum())),
            Step::Blocking { op, .. } => Some(Step::Spend(ops[op].duration)),
            Step::Call { .. } | Step::Record { .. } | Step::Wait { .. } | Step::Sync { .. } | Step::Poll { .. } => None,
            step => Some(step),
        };
        for thread in &mut program.threads {
            thread.steps = std::mem::take(&mut thread.steps).into_iter().filter_map(on_the_cpu).collect();
        }
        self.slots = Slots::new(program);
    }

    /// How many steps the program has.
    pub(super) fn passes(&self) -> usize {
        self.slots.start.len()
    }

    /// The first operation of the GPU that a step asks for on the main thread; none if it asks for none.
    pub(super) fn first_op(&self, pass: usize) -> Option<usize> {
        let from = *self.slots.start.get(pass)?;
        super::base::main(&self.b.program).iter().skip(from).find_map(|step| match step {
            Step::Launch { ops, .. } => Some(ops.start),
            Step::Blocking { op, .. } => Some(*op),
            _ => None,
        })
    }

    /// A part of the step's length, in percent of it, in ns.
    pub(super) fn part(&mut self, low: i64, high: i64) -> i64 {
        self.step_ns * self.b.rng.between(low, high) / 100
    }

    /// Some number of places.
    pub(super) fn some(&mut self, low: usize, high: usize) -> usize {
        low + self.b.rng.below(high + 1 - low)
    }

    /// Places of a kind: where in one step, the same for all.
    pub(super) fn places(&mut self, at: At, count: usize) -> Vec<usize> {
        let among = match at {
            At::Forward => &self.slots.forward,
            At::Backward => &self.slots.backward,
            At::Start | At::Update | At::End => return vec![0],
        };
        let least = among.iter().map(Vec::len).min().unwrap_or(0);
        self.b.rng.sample(least, count)
    }

    /// What `body` writes.
    pub(super) fn write(&mut self, body: impl FnOnce(&mut Builder<'a>)) -> Vec<Step> {
        body(&mut self.b);
        std::mem::take(&mut self.b.steps)
    }

    /// Puts something into one step: with the problem, and repaired.
    pub(super) fn put(&mut self, (at, place, pass): (At, usize, usize), planted: Vec<Step>, repaired: Vec<Step>) {
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
            let (planted, repaired) = (list(planted), list(repaired));
            self.inserts.push(Insert { role, at, planted, repaired });
        }
    }

    /// Puts what `body` writes at `count` places of each step; nothing of it is left when it is repaired.
    pub(super) fn gone(&mut self, at: At, count: usize, mut body: impl FnMut(&mut Builder<'a>)) {
        self.both(at, count, |p| (p.write(&mut body), Vec::new()));
    }

    /// Puts what `body` writes at `count` places of each step: with the problem, and repaired.
    pub(super) fn both(&mut self, at: At, count: usize, mut body: impl FnMut(&mut Self) -> (Vec<Step>, Vec<Step>)) {
        for place in self.places(at, count) {
            for pass in 0..self.passes() {
                let (planted, repaired) = body(self);
                self.put((at, place, pass), planted, repaired);
            }
        }
    }

    /// Puts what `body` writes at `count` places of each step; repaired, the operations that it names take another time.
    pub(super) fn faster(&mut self, at: At, count: usize, mut body: impl FnMut(&mut Builder<'a>) -> Vec<(usize, i64)>) {
        self.both(at, count, |p| {
            let mended = body(&mut p.b);
            p.mended.extend(mended);
            let steps = std::mem::take(&mut p.b.steps);
            (steps.clone(), steps)
        });
    }

    /// Once it is repaired an operation takes this long, in ns.
    pub(super) fn mend(&mut self, op: usize, ns: i64) {
        self.mended.push((op, ns));
    }

    /// Both programs.
    pub(super) fn finish(mut self) -> (Program, Program) {
        let mut planted = self.b.program;
        let mut repaired = planted.clone();
        self.inserts.sort_by_key(|insert| insert.at);
        // From the back, so that places stay where they are.
        for insert in self.inserts.into_iter().rev() {
            let at = insert.at..insert.at;
            for (program, steps) in [(&mut planted, insert.planted), (&mut repaired, insert.repaired)] {
                if let Some(thread) = program.threads.iter_mut().find(|thread| thread.role == insert.role) {
                    thread.steps.splice(at.clone(), steps);
                }
            }
        }
        for (op, ns) in self.mended {
            repaired.ops[op].duration = ns.max(501);
        }
        if let Some(repair) = self.whole {
            repair(&mut repaired);
        }
        (planted, repaired)
    }
}

impl Builder<'_> {
    /// Launches a kernel and returns it.
    pub(super) fn planted_kernel(&mut self, name: &'static str, ns: i64) -> usize {
        self.launch(Work::Kernel, name, COMPUTE, ns.max(900));
        let op = self.program.ops.len() - 1;
        // Its name says how it is launched and whether it may overlap: as usual.
        self.program.ops[op].overlap = 0;
        op
    }

    /// An operator that launches one kernel.
    pub(super) fn operator_of(&mut self, operator: &'static str, kernel: &'static str, ns: i64) -> usize {
        let mut op = 0;
        self.op(operator, |b| op = b.planted_kernel(kernel, ns));
        self.spend(200, 900);
        op
    }
}
