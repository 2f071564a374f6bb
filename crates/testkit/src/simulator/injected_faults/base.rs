//! Clean programs, in which no rule should find an issue.

use crate::rng::Rng;
use crate::simulator::Profile;
use crate::simulator::program::{self, Kind, Op, Program, Role, Sequence, Span, Step, Work};
use std::collections::BTreeMap;

/// Draw a clean program of a random profile, which `shape` may change. It has streams, copies, graphs, dependent
/// launches, locks, workers and a short queue as in [`Profile::any`], without work that rules would correctly report.
pub(super) fn draw(seed: u64, shape: fn(&mut Profile)) -> Program {
    let mut rng = Rng::new(seed ^ 0x000c_1ea0_0000);
    let mut profile = Profile {
        steps: 4 + rng.below(5) as u32,
        layers: 3 + rng.below(6) as u32,
        gpu_percent: *rng.pick(&[100, 200, 300]).unwrap_or(&100),
        syncs: false,
        polls: false,
        allocator: false,
        collectives: false,
        inline_loading: false,
        gil: false,
        main_frame: true,
        has_equal_steps: true,
        unique: false,
        ..Profile::any(seed)
    };
    shape(&mut profile);
    let mut program = program::generate(seed, &profile);
    limit_backward_times(&mut program, &mut rng);
    for op in &mut program.ops {
        // These names mean float32 without tensor cores.
        if op.name.contains("sgemm") {
            op.name = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn".into();
        }
        // Compilation would fuse chains of these.
        if op.name.contains("elementwise_kernel") {
            op.name = "void at::native::(anonymous namespace)::CatArrayBatchedCopy_aligned16_contig<float, 4>()".into();
        }
        if op.work == Work::Kernel && profile.gpu_percent >= 100 {
            op.duration = op.duration.max(13_000);
        }
        // Kernels with more work have more blocks.
        op.details.grid = Some(1 + op.duration / 250);
        op.duration = rng.jitter(op.duration, 4).max(501);
    }
    // Items are ready in time.
    super::data::set_items(&mut program, |own| rng.jitter(own / 10, 10));
    let loader = program.loader.iter_mut().flat_map(|loader| &mut loader.items);
    for step in program.threads.iter_mut().map(|thread| &mut thread.steps).chain(loader).flatten() {
        match step {
            Step::Spend(own) => *own = rng.jitter(*own, 8).max(1),
            // Pinned memory is kept for the next batch.
            Step::Call { name, own } if name == "cudaHostAlloc" => *step = Step::Spend(*own / 4),
            _ => {}
        }
    }
    program
}

/// Number of training steps of a simulated program.
pub(super) fn count_training_steps(program: &Program) -> usize {
    let is_step = |step: &&Step| matches!(step, Step::Open(span) if span.name.starts_with("ProfilerStep#"));
    main(program).iter().filter(is_step).count()
}

/// Steps of the main thread of a simulated program.
pub(super) fn main(program: &Program) -> &[Step] {
    program.threads.iter().find(|thread| thread.role == Role::Main).map_or(&[], |thread| &thread.steps)
}

/// Set the kernel times of the backward pass so that each operator takes about one to two times as long backward as
/// forward.
fn limit_backward_times(program: &mut Program, rng: &mut Rng) {
    let (mut forward, mut backward): (BTreeMap<u64, Vec<usize>>, BTreeMap<u64, Vec<usize>>) = Default::default();
    for thread in &program.threads {
        let mut open: Vec<Option<Sequence>> = Vec::new();
        for step in &thread.steps {
            match step {
                Step::Open(Span { sequence, .. }) => open.push(*sequence),
                Step::Close => drop(open.pop()),
                Step::Launch { ops, .. } => match open.iter().rev().find_map(|sequence| *sequence) {
                    Some(Sequence::Forward(number)) => forward.entry(number).or_default().extend(ops.clone()),
                    Some(Sequence::Backward(number)) => backward.entry(number).or_default().extend(ops.clone()),
                    None => {}
                },
                _ => {}
            }
        }
    }
    let total = |ops: &[Op], indices: &[usize]| -> i64 { indices.iter().map(|&op| ops[op].duration).sum() };
    // Equal in each step.
    let of_step = (backward.len() / count_training_steps(program).max(1)).max(1);
    let percents: Vec<i64> = (0..of_step).map(|_| rng.between(90, 210)).collect();
    for (i, (number, indices)) in backward.into_iter().enumerate() {
        let Some(before) = forward.get(&number) else { continue };
        let target_ns = total(&program.ops, before) * percents[i % of_step] / 100;
        let is = total(&program.ops, &indices).max(1);
        for op in indices {
            let op = &mut program.ops[op];
            if op.work == Work::Kernel {
                op.duration = (op.duration * target_ns / is).max(1_500);
            }
        }
    }
}

/// Positions in the threads of a program at which work can be inserted, by training step.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// By step: before all other work.
    pub(super) start: Vec<usize>,
    /// By step: after each module of the forward pass.
    pub(super) forward: Vec<Vec<usize>>,
    /// By step: begin of the optimizer.
    pub(super) update: Vec<usize>,
    /// By step: after all other work.
    pub(super) end: Vec<usize>,
    /// By step, on the autograd thread: after each node.
    pub(super) backward: Vec<Vec<usize>>,
}

impl Slots {
    pub(super) fn new(program: &Program) -> Self {
        let mut slots = Self::default();
        slots.find_on_main(main(program));
        let autograd = program.threads.iter().find(|thread| thread.role == Role::Autograd);
        slots.find_on_autograd(autograd.map_or(&[], |thread| &thread.steps));
        slots
    }

    /// Find the positions in the steps of the main thread.
    fn find_on_main(&mut self, steps: &[Step]) {
        // For each open span: true for a step, true for a module.
        let mut open: Vec<(bool, bool)> = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Open(span) => {
                    let is_step = span.name.starts_with("ProfilerStep#");
                    if is_step {
                        self.start.push(at + 2);
                        self.forward.push(Vec::new());
                    }
                    if span.name.starts_with("Optimizer.step#") {
                        self.update.push(at + 2);
                    }
                    open.push((is_step, span.name.starts_with("nn.Module: ")));
                }
                Step::Close => match (open.pop(), self.forward.last_mut()) {
                    (Some((true, _)), _) => self.end.push(at - 1),
                    (Some((_, true)), Some(forward)) => forward.push(at + 1),
                    _ => {}
                },
                _ => {}
            }
        }
    }

    /// Find the positions in the steps of the autograd thread.
    fn find_on_autograd(&mut self, steps: &[Step]) {
        let mut depth = 0;
        let mut nodes = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Open(Span { kind: Kind::Operator, .. }) => depth += 1,
                Step::Close => {
                    depth -= 1;
                    if depth == 0 {
                        nodes.push(at + 1);
                    }
                }
                // The last of them waits for all collectives: no work is inserted after it.
                Step::Put(_) => {
                    nodes.pop();
                    self.backward.push(std::mem::take(&mut nodes));
                }
                _ => {}
            }
        }
    }
}
