//! Composition of peaks: optimizer temporaries, handwritten optimizers, and programs without backward passes.

use crate::snapshots::{BASE, MIB, event, frame, read};
use serde_json::{Value, json};
use stackline_memory::composition::{Evidence, Part, Use, composition, remedies};
use stackline_memory::curve::curves;
use stackline_memory::tables::{composition_table, named_peaks, waste_table};
use stackline_memory::{MemoryAnalysis, Origin};
use stackline_model::MemoryTrace;
use stackline_testkit::tables::{integers, texts};

pub(crate) const KIB: u64 = 1024;
const ADAM: &str = "/env/site-packages/torch/optim/adam.py";

/// Program that allocates and frees; addresses are never reused.
#[derive(Default)]
pub(crate) struct Program {
    events: Vec<Value>,
    end: u64,
}

impl Program {
    fn add(&mut self, action: &str, (address, bytes): (u64, u64), frames: &[Value]) {
        self.events.push(event(action, address, bytes, self.events.len() as u64, frames));
    }

    pub(crate) fn make(&mut self, bytes: u64, frames: &[Value]) -> (u64, u64) {
        let block = (BASE + self.end, bytes);
        self.end += bytes;
        self.add("alloc", block, frames);
        block
    }

    /// One object of each size of the model, with `times` as many bytes as the parameters.
    pub(crate) fn set(&mut self, times: u64, frames: &[Value]) -> Vec<(u64, u64)> {
        sizes().map(|bytes| self.make(times * bytes, frames)).collect()
    }

    pub(crate) fn free(&mut self, blocks: impl IntoIterator<Item = (u64, u64)>) {
        for block in blocks {
            self.add("free_requested", block, &[]);
            self.add("free_completed", block, &[]);
        }
    }

    /// Forward and backward pass; returns the gradients.
    pub(crate) fn passes(&mut self) -> Vec<(u64, u64)> {
        let node = "torch::autograd::generated::AddmmBackward0::apply(int)";
        let activation = self.make(100 * KIB, &forward(33, "train"));
        let gradients = self.set(1, &[frame("??", 0, node)]);
        self.free([activation]);
        gradients
    }

    pub(crate) fn trace(&self) -> MemoryTrace {
        read(&json!({"segments": [], "device_traces": [self.events]}))
    }
}

fn sizes() -> impl Iterator<Item = u64> {
    (0..12).map(|at| (1 + at % 5) * 64 * KIB)
}

pub(crate) fn set() -> u64 {
    sizes().sum()
}

pub(crate) fn forward(line: u32, caller: &str) -> [Value; 3] {
    let call = frame("/env/site-packages/torch/nn/modules/module.py", 1800, "_call_impl");
    [frame("model.py", line, "forward"), call, frame("train.py", 8, caller)]
}

pub(crate) fn build() -> [Value; 1] {
    [frame("train.py", 3, "build")]
}

/// Line of `torch.optim`, called by the program.
pub(crate) fn optim(line: u32, function: &str) -> [Value; 3] {
    [frame(ADAM, line, function), frame(ADAM, 220, "step"), frame("train.py", 9, "main")]
}

/// Line of an optimizer without `torch.optim`.
fn by_hand(line: u32, function: &str) -> [Value; 2] {
    [frame("opt.py", line, function), frame("train.py", 9, "main")]
}

pub(crate) fn parts(trace: &MemoryTrace) -> Vec<Part> {
    let curve = &curves(trace)[0];
    composition(trace, curve.device, curve.peak().position)
}

pub(crate) fn bytes_of(parts: &[Part], purpose: Use) -> u64 {
    parts.iter().filter(|part| part.purpose == purpose).map(|part| part.bytes).sum()
}

/// AdamW with `foreach`: five equal sets; the last one is freed after each step.
fn foreach(steps: u32, function: &str, frees: bool) -> MemoryTrace {
    let mut program = Program::default();
    program.set(1, &build());
    for step in 0..steps {
        let gradients = program.passes();
        if step == 0 {
            program.set(1, &optim(170, "_init_group"));
            program.set(1, &optim(175, "_init_group"));
        }
        let temporaries = program.set(1, &optim(640, function));
        if frees || step + 1 < steps {
            program.free(temporaries.into_iter().chain(gradients));
        }
    }
    program.trace()
}

#[test]
fn temporaries_of_the_step_are_not_optimizer_state() {
    let all = [Use::Parameters, Use::Gradients, Use::FirstMoments, Use::SecondMoments, Use::OptimizerTemporaries];
    // The records end after the step, within the second, or within the first one, where the function name decides.
    for (steps, function, frees) in
        [(4, "_multi_tensor_adam", true), (2, "update", false), (1, "_multi_tensor_adam", false), (3, "update", true)]
    {
        let parts = parts(&foreach(steps, function, frees));
        for purpose in all {
            assert_eq!(bytes_of(&parts, purpose), set(), "{steps} {function} {frees} {purpose:?}: {parts:?}");
        }
        let temporaries = parts.iter().find(|part| part.purpose == Use::OptimizerTemporaries).unwrap();
        assert_eq!(temporaries.evidence, Evidence::Lifetime);
        let notes = remedies(&parts).join(" ");
        assert!(notes.contains("optimizer state are 80.0 %"), "{notes}");
        assert!(notes.contains("20.0 % of the peak (train.py:9 main)") && notes.contains("fused=True"), "{notes}");
        assert!(notes.contains("foreach=False"), "{notes}");
    }
}

/// SGD allocates its momentum where others allocate temporaries; objects freed at the end of the program were no
/// temporaries.
#[test]
fn persistent_state_is_not_temporary() {
    for function in ["_multi_tensor_sgd", "_init_group"] {
        let mut program = Program::default();
        let parameters = program.set(1, &build());
        let gradients = program.passes();
        let momentum = program.set(1, &optim(300, function));
        program.free(gradients);
        program.free(momentum.into_iter().chain(parameters));
        let parts = parts(&program.trace());
        assert_eq!(
            [bytes_of(&parts, Use::FirstMoments), bytes_of(&parts, Use::OptimizerTemporaries)],
            [set(), 0],
            "{parts:?}"
        );
    }
}

/// Objects that each step allocates again after freeing the previous ones are temporaries, too: float32 gradients in a
/// list.
#[test]
fn objects_allocated_each_step_are_temporaries() {
    let mut program = Program::default();
    program.set(1, &build());
    program.set(2, &optim(170, "_init_group"));
    let mut copies = Vec::new();
    for _ in 0..4 {
        let gradients = program.passes();
        let made = program.set(2, &optim(200, "step"));
        program.free(std::mem::replace(&mut copies, made));
        program.free(gradients);
    }
    let parts = parts(&program.trace());
    assert_eq!(bytes_of(&parts, Use::OptimizerTemporaries), 4 * set(), "{parts:?}");
    assert_eq!(bytes_of(&parts, Use::FirstMoments), 2 * set(), "{parts:?}");
}

/// Objects of a closure of the step (LBFGS, Lightning) belong to the model.
#[test]
fn model_calls_within_an_optimizer_step_allocate_activations() {
    let within = |frames: &[Value]| -> Vec<Value> { frames.iter().cloned().chain(optim(60, "step")).collect() };
    let mut program = Program::default();
    program.set(1, &build());
    for _ in 0..3 {
        let activations: Vec<_> = (0..9).map(|_| program.make(MIB, &within(&forward(33, "closure")))).collect();
        let engine = [frame("??", 0, "torch::autograd::generated::AddmmBackward0::apply(int)")];
        let gradients = program.set(1, &within(&engine));
        program.free(activations.into_iter().chain(gradients));
    }
    let parts = parts(&program.trace());
    assert_eq!([bytes_of(&parts, Use::Activations), bytes_of(&parts, Use::Gradients)], [9 * MIB, set()], "{parts:?}");
    assert_eq!(bytes_of(&parts, Use::OptimizerTemporaries), 0, "{parts:?}");
}

/// Mixed precision: bfloat16 weights, and master weights, moments and float32 copies of gradients, all by lines of the
/// program.
#[test]
fn optimizers_written_by_hand_are_recognized() {
    let mut program = Program::default();
    program.set(1, &build());
    program.set(2, &by_hand(12, "__init__"));
    for step in 0..3 {
        let gradients = program.passes();
        let copies = program.set(2, &by_hand(40, "step"));
        if step == 0 {
            program.set(2, &by_hand(44, "step"));
            program.set(2, &by_hand(45, "step"));
        }
        let updates = program.set(2, &by_hand(50, "step"));
        program.free(updates.into_iter().chain(copies).chain(gradients));
    }
    let parts = parts(&program.trace());
    for (purpose, times, place) in [
        (Use::Parameters, 1, "train.py:3 build"),
        (Use::Gradients, 1, "AddmmBackward0"),
        (Use::FirstMoments, 2, "opt.py:44 step"),
        (Use::SecondMoments, 2, "opt.py:45 step"),
        (Use::EqualSets, 2, "opt.py:12 __init__"),
        (Use::OptimizerTemporaries, 4, ""),
    ] {
        let part = parts.iter().find(|part| part.purpose == purpose).unwrap();
        assert_eq!((part.bytes, part.place.as_str()), (times * set(), place), "{purpose:?}: {parts:?}");
    }
    assert_eq!([bytes_of(&parts, Use::Other), bytes_of(&parts, Use::OptimizerState)], [0, 0]);
    let notes = remedies(&parts).join(" ");
    assert!(
        notes.contains("33.3 % of the peak, and are freed after the step. Update the parameters in place"),
        "{notes}"
    );
}

/// At a peak within backward not all gradients exist: the state of a handwritten optimizer identifies the parameters,
/// which several lines of `__init__` allocated. Objects that are freed before the end are no parameters.
#[test]
fn parameters_of_several_lines_match_handwritten_state() {
    for is_kept in [true, false] {
        let mut program = Program::default();
        let line = |at: usize| [frame("net.py", 12 + at as u32 % 4, "__init__")];
        let blocks: Vec<_> = sizes().enumerate().map(|(at, bytes)| program.make(bytes, &line(at))).collect();
        let gradients = program.passes();
        for line in [44, 45] {
            program.set(1, &by_hand(line, "step"));
        }
        program.free(gradients);
        program.make(8 * MIB, &forward(34, "train"));
        let node = "torch::autograd::generated::AddmmBackward0::apply(int)";
        sizes().take(3).for_each(|bytes| _ = program.make(bytes, &[frame("??", 0, node)]));
        if !is_kept {
            program.free(blocks);
            program.make(KIB, &forward(33, "train"));
        }
        let parts = parts(&program.trace());
        let of_state = [Use::FirstMoments, Use::SecondMoments].map(|purpose| bytes_of(&parts, purpose));
        assert_eq!(of_state, [set(); 2], "{parts:?}");
        let expected = if is_kept { [set(), 0] } else { [0, set()] };
        assert_eq!([bytes_of(&parts, Use::Parameters), bytes_of(&parts, Use::Other)], expected, "{parts:?}");
        let parameters = parts.iter().find(|part| part.purpose == Use::Parameters);
        assert!(parameters.is_none_or(|part| part.evidence == Evidence::EqualSizes), "{parts:?}");
    }
}

/// Equal sets of unknown use have a row each, by line.
#[test]
fn equal_sets_are_named_by_their_lines() {
    let mut program = Program::default();
    for line in [12, 44, 45] {
        program.set(1, &by_hand(line, "setup"));
    }
    program.make(MIB, &by_hand(99, "other"));
    let trace = program.trace();
    let table = composition_table(&trace, &named_peaks(&trace, 1));
    assert_eq!(texts(&table, "use"), ["equal set of sizes", "equal set of sizes", "equal set of sizes", "other"]);
    assert_eq!(texts(&table, "place")[..3], ["opt.py:12 setup", "opt.py:44 setup", "opt.py:45 setup"]);
    assert_eq!(integers(&table, "bytes")[0], set() as i64);
    let notes = table.notes.join(" ");
    assert!(
        notes.contains("3 sets of tensors with the same sizes are ") && !notes.contains("optimizer state are"),
        "{notes}"
    );
    // A single line, or a single size, has no equal set.
    let mut program = Program::default();
    program.set(1, &by_hand(12, "setup"));
    for line in [44, 45] {
        (0..8).for_each(|_| _ = program.make(MIB, &by_hand(line, "setup")));
    }
    assert_eq!(bytes_of(&parts(&program.trace()), Use::EqualSets), 0);
}

/// Evaluation that keeps an object of each batch, allocated at these frames.
fn evaluation(batches: u32, kept: &[Value]) -> MemoryTrace {
    let mut program = Program::default();
    program.make(4 * MIB, &build());
    for _ in 0..batches {
        let hidden = program.make(MIB, &forward(33, "evaluate"));
        program.make(2 * MIB, kept);
        let head = program.make(MIB, &forward(40, "evaluate"));
        program.free([hidden, head]);
    }
    program.trace()
}

#[test]
fn kept_evaluation_results_are_not_activations() {
    let trace = evaluation(40, &forward(36, "evaluate"));
    let parts = parts(&trace);
    let kept = parts.iter().find(|part| part.purpose == Use::KeptResults).unwrap();
    assert_eq!((kept.bytes, kept.place.as_str()), (80 * MIB, "model.py:36 forward"));
    assert_eq!(kept.left_by_passes, Some((40, 2 * MIB)));
    assert_eq!([bytes_of(&parts, Use::Activations), bytes_of(&parts, Use::Forward)], [0, 2 * MIB]);
    let notes = remedies(&parts).join(" ");
    assert!(notes.contains("Each of the 40 forward passes adds 2048 KiB."), "{notes}");
    assert!(notes.contains(".cpu()") && !notes.contains("checkpoint"), "{notes}");
    let analysis = MemoryAnalysis::new(&trace, 1);
    let waste = waste_table(&trace, &analysis.matches);
    assert_eq!(
        (texts(&waste, "code"), texts(&waste, "place")),
        (vec!["SL055".into()], vec!["model.py:36 forward".into()])
    );
    assert_eq!(integers(&waste, "grows_by"), [2 * MIB as i64]);
    assert!(analysis.matches.iter().all(|found| found.model_call.is_none()), "no graph keeps them");
    assert!(matches!(
        analysis.matches[0].measure,
        Some(stackline_memory::Measure::Growth { origin: Origin::Passes, .. })
    ));
}

/// A cache of keys and values grows on purpose; layers of one pass are not passes; few passes are no evidence.
#[test]
fn caches_layers_and_few_passes_are_not_growth() {
    let mut cached = vec![frame("cache.py", 5, "update")];
    cached.extend(forward(36, "evaluate"));
    let mut one_pass = Program::default();
    one_pass.make(MIB, &forward(10, "evaluate"));
    for _ in 0..32 {
        let hidden = one_pass.make(MIB, &forward(33, "evaluate"));
        one_pass.make(2 * MIB, &forward(36, "evaluate"));
        one_pass.free([hidden]);
    }
    one_pass.make(MIB, &forward(50, "evaluate"));
    let few = evaluation(4, &forward(36, "evaluate"));
    for (name, trace) in [("cache", evaluation(40, &cached)), ("layers", one_pass.trace()), ("few", few)] {
        let parts = parts(&trace);
        assert_eq!(
            [bytes_of(&parts, Use::KeptResults), bytes_of(&parts, Use::Activations)],
            [0, 0],
            "{name}: {parts:?}"
        );
        assert!(bytes_of(&parts, Use::Forward) > 0, "{name}");
        assert!(MemoryAnalysis::new(&trace, 1).matches.is_empty(), "{name}");
    }
}

/// Optional allocations in the passes of [`layers`].
#[derive(Clone, Copy, Default)]
struct More {
    /// Input allocated by the program.
    input: bool,
    /// Memory that each layer frees before the next one begins.
    temporaries: bool,
    /// Object of the program that is never freed.
    log: bool,
}

/// Passes of a `Sequential` of six equal layers with one call path, whose activations are freed at the end of each
/// pass.
fn layers(passes: u32, more: More) -> MemoryTrace {
    let mut program = Program::default();
    program.make(4 * MIB, &build());
    for _ in 0..passes {
        let mut pass = Vec::new();
        if more.input {
            pass.push(program.make(MIB, &[frame("train.py", 6, "to_device"), frame("train.py", 8, "evaluate")]));
        }
        for _ in 0..6 {
            pass.push(program.make(2 * MIB, &forward(22, "evaluate")));
            if more.temporaries {
                let temporary = program.make(MIB, &forward(22, "evaluate"));
                program.free([temporary]);
            }
        }
        if more.log {
            program.make(3 * MIB, &[frame("train.py", 77, "log"), frame("train.py", 8, "evaluate")]);
        }
        program.free(pass);
    }
    program.trace()
}

#[test]
fn activations_that_each_pass_frees_are_not_kept() {
    let plain = More::default();
    for (name, more) in [
        ("input", More { input: true, ..plain }),
        ("input, temporaries", More { input: true, temporaries: true, ..plain }),
        ("plain", plain),
        ("temporaries", More { temporaries: true, ..plain }),
    ] {
        for passes in [3, 10] {
            let trace = layers(passes, more);
            let parts = parts(&trace);
            assert_eq!(bytes_of(&parts, Use::KeptResults), 0, "{name}, {passes}: {parts:?}");
            assert!(bytes_of(&parts, Use::Forward) >= 12 * MIB, "{name}, {passes}: {parts:?}");
            assert!(MemoryAnalysis::new(&trace, 1).matches.is_empty(), "{name}, {passes}");
        }
    }
}

/// Objects that the program itself keeps after each pass are reported with their line, and per pass instead of per
/// layer.
#[test]
fn results_kept_of_each_pass_grow() {
    let trace = layers(12, More { log: true, ..More::default() });
    let parts = parts(&trace);
    let kept: Vec<&Part> = parts.iter().filter(|part| part.purpose == Use::KeptResults).collect();
    let [kept] = kept[..] else { panic!("{parts:?}") };
    assert_eq!((kept.bytes, kept.place.as_str()), (36 * MIB, "train.py:77 log"));
    assert_eq!(kept.left_by_passes, Some((12, 3 * MIB)));
    let measure =
        stackline_memory::Measure::Growth { left: 11, iterations: 11, per_iteration: 3 * MIB, origin: Origin::Passes };
    assert_eq!(MemoryAnalysis::new(&trace, 1).matches[0].measure, Some(measure));
}
