//! What snapshots of an NVIDIA H100 (PyTorch 2.11, `benches/gpu/snapshots.py`) showed, in small.

use crate::snapshots::{BASE, MIB, block, event, frame, read, segment};
use serde_json::{Value, json};
use stackline_memory::composition::{Evidence, Part, Use, composition, remedies};
use stackline_memory::curve::curves;
use stackline_model::MemoryTrace;

/// Objects that are made one after the other, and never freed.
#[derive(Default)]
struct Program {
    events: Vec<Value>,
    blocks: Vec<Value>,
    bytes: u64,
}

impl Program {
    fn make(&mut self, bytes: u64, frames: &[Value]) {
        self.events.push(event("alloc", BASE + self.bytes, bytes, self.events.len() as u64, frames));
        self.blocks.push(block(BASE + self.bytes, bytes, bytes, "active_allocated"));
        self.bytes += bytes;
    }

    fn trace(&self) -> MemoryTrace {
        let segments = [segment(BASE, self.bytes, [0, 0], &self.blocks)];
        read(&json!({"segments": segments, "device_traces": [self.events]}))
    }
}

fn parts(trace: &MemoryTrace) -> Vec<Part> {
    let curve = &curves(trace)[0];
    composition(trace, curve.device, curve.peak().position)
}

fn bytes(parts: &[Part], of: Use) -> u64 {
    parts.iter().find(|part| part.of == of).map_or(0, |part| part.bytes)
}

fn sizes() -> impl Iterator<Item = u64> {
    (0..12).map(|at| (1 + at % 5) * 64 * 1024)
}

/// A forward pass in a model, called by a line of the program.
fn forward(line: u32) -> [Value; 4] {
    [
        frame("??", 0, "at::_ops::addmm::call(at::Tensor const&)"),
        frame("model.py", 37, "forward"),
        frame("/env/site-packages/torch/nn/modules/module.py", 1800, "_call_impl"),
        frame("train.py", line, "train"),
    ]
}

fn backward() -> [Value; 3] {
    [
        frame("??", 0, "at::_ops::mm::call(at::Tensor const&, at::Tensor const&)"),
        frame("??", 0, "torch::autograd::generated::AddmmBackward0::apply(int)"),
        frame("??", 0, "torch::autograd::Engine::evaluate_function(int)"),
    ]
}

/// `model.cuda()`: in a file of `torch.nn`, but no forward pass.
fn moved(line: u32) -> [Value; 2] {
    [frame("/env/site-packages/torch/nn/modules/module.py", 930, "_apply"), frame("train.py", line, "build")]
}

fn state(line: u32) -> [Value; 2] {
    [frame("/env/site-packages/torch/optim/adam.py", line, "_init_group"), frame("train.py", 9, "train")]
}

/// Graphs of several forward passes are equal sets of sizes, larger than the model: their call paths say what they are. Another model
/// with the same sizes, made before, is not the one that is trained.
#[test]
fn activations_that_are_kept_are_no_parameters() {
    let mut program = Program::default();
    let set: u64 = sizes().sum();
    sizes().step_by(2).for_each(|bytes| program.make(bytes, &moved(2)));
    sizes().for_each(|bytes| program.make(bytes, &moved(3)));
    for line in [150, 154] {
        sizes().for_each(|bytes| program.make(bytes, &state(line)));
    }
    for _ in 0..4 {
        sizes().for_each(|bytes| program.make(4 * bytes, &forward(12)));
    }
    // What backward makes of these has their sizes, too.
    sizes().for_each(|bytes| program.make(4 * bytes, &backward()));
    let parts = parts(&program.trace());
    for of in [Use::Parameters, Use::FirstMoments, Use::SecondMoments] {
        assert_eq!(bytes(&parts, of), set, "{of:?}: {parts:?}");
    }
    assert_eq!(parts[0].place, "train.py:3 build");
    assert_eq!([bytes(&parts, Use::Gradients), bytes(&parts, Use::Activations)], [0, 16 * set]);
    assert_eq!(bytes(&parts, Use::Backward), 4 * set);
}

/// What backward recomputes for checkpoints is no gradient, though it is as large.
#[test]
fn recomputed_activations_are_no_gradients() {
    let mut program = Program::default();
    sizes().for_each(|bytes| program.make(bytes, &moved(3)));
    let within: Vec<Value> = forward(12).into_iter().chain(backward()).collect();
    sizes().for_each(|bytes| program.make(bytes, &within));
    let parts = parts(&program.trace());
    assert_eq!(bytes(&parts, Use::Gradients), 0, "{parts:?}");
}

/// cuBLAS keeps its workspaces: whose matrix product came first does not own them.
#[test]
fn workspaces_of_libraries_are_a_part_of_their_own() {
    let cublas = frame("??", 0, "at::cuda::setWorkspaceForHandle(cublasContext*, c10::cuda::CUDAStream)");
    let cublaslt = frame("??", 0, "at::cuda::getCUDABlasLtWorkspace()");
    let within = |inner: &[&Value], outer: &[Value]| -> Vec<Value> {
        inner.iter().map(|frame| (*frame).clone()).chain(outer.iter().cloned()).collect()
    };
    let mut program = Program::default();
    // cuBLASLt gets the handle of cuBLAS, and with it its workspace.
    program.make(32 * MIB, &within(&[&cublas, &cublaslt], &forward(12)));
    program.make(MIB, &within(&[&cublaslt], &forward(12)));
    program.make(32 * MIB, &within(&[&cublas], &backward()));
    program.make(MIB, &forward(12));
    let trace = program.trace();
    let parts = parts(&trace);
    let workspaces = parts.iter().find(|part| part.of == Use::Workspaces).unwrap();
    assert_eq!((workspaces.bytes, workspaces.objects, workspaces.evidence), (65 * MIB, 3, Evidence::CallPath));
    let by_library: Vec<_> = workspaces.libraries.iter().map(|(of, bytes)| (of.name, bytes / MIB)).collect();
    assert_eq!(by_library, [("cuBLAS", 64), ("cuBLASLt", 1)]);
    assert_eq!([bytes(&parts, Use::Activations), bytes(&parts, Use::Backward)], [MIB, 0]);
    let note = remedies(&parts).join(" ");
    assert!(note.contains("98.5 % of the peak (cuBLAS 64.00 MiB, cuBLASLt 1024 KiB)"), "{note}");
    assert!(note.contains("CUBLAS_WORKSPACE_CONFIG"), "{note}");
    let place = |at: usize| stackline_memory::place_text(&trace, trace.objects.stack[at]);
    assert_eq!([place(0), place(3)], ["model.py:37 forward (cuBLAS workspace)", "model.py:37 forward"]);
    assert_eq!(place(2), "AddmmBackward0 / aten::mm (cuBLAS workspace)");
}
