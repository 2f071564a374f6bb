//! Small versions of effects in snapshots of an NVIDIA H100 (PyTorch 2.11, `benches/gpu/snapshots.py`).

use crate::snapshots::{BASE, MIB, block, event, frame, read, segment};
use serde_json::{Value, json};
use stackline_ingest::memory::read_path;
use stackline_memory::MemoryAnalysis;
use stackline_memory::composition::{Evidence, Part, Use, composition, remedies};
use stackline_memory::curve::curves;
use stackline_memory::suggest::Action;
use stackline_memory::tables::{failed_requests_table, named_peaks, peaks_table, reserved_curve, waste_table};
use stackline_model::MemoryTrace;
use stackline_testkit::tables::{integers, texts};
use std::path::Path;

/// Objects that are allocated in order, and never freed.
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

fn bytes(parts: &[Part], purpose: Use) -> u64 {
    parts.iter().find(|part| part.purpose == purpose).map_or(0, |part| part.bytes)
}

fn sizes() -> impl Iterator<Item = u64> {
    (0..12).map(|at| (1 + at % 5) * 64 * 1024)
}

/// Forward pass in a model, called by a line of the program.
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

/// Graphs of several forward passes are equal sets of sizes, larger than the model; their call paths identify them. An
/// earlier model with the same sizes is not the trained one.
#[test]
fn kept_activations_are_not_parameters() {
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
    // Results of backward have the same sizes, too.
    sizes().for_each(|bytes| program.make(4 * bytes, &backward()));
    let parts = parts(&program.trace());
    for purpose in [Use::Parameters, Use::FirstMoments, Use::SecondMoments] {
        assert_eq!(bytes(&parts, purpose), set, "{purpose:?}: {parts:?}");
    }
    assert_eq!(parts[0].place, "train.py:3 build");
    assert_eq!([bytes(&parts, Use::Gradients), bytes(&parts, Use::Activations)], [0, 16 * set]);
    assert_eq!(bytes(&parts, Use::Backward), 4 * set);
}

/// Activations that backward recomputes for checkpoints are no gradients, although they are as large.
#[test]
fn recomputed_activations_are_not_gradients() {
    let mut program = Program::default();
    sizes().for_each(|bytes| program.make(bytes, &moved(3)));
    let within: Vec<Value> = forward(12).into_iter().chain(backward()).collect();
    sizes().for_each(|bytes| program.make(bytes, &within));
    let parts = parts(&program.trace());
    assert_eq!(bytes(&parts, Use::Gradients), 0, "{parts:?}");
}

/// cuBLAS keeps its workspaces; the first matrix product does not own them.
#[test]
fn workspaces_of_libraries_are_a_separate_part() {
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
    let workspaces = parts.iter().find(|part| part.purpose == Use::Workspaces).unwrap();
    assert_eq!((workspaces.bytes, workspaces.objects, workspaces.evidence), (65 * MIB, 3, Evidence::CallPath));
    let by_library: Vec<_> =
        workspaces.libraries.iter().map(|(bytes_of, bytes)| (bytes_of.name, bytes / MIB)).collect();
    assert_eq!(by_library, [("cuBLAS", 64), ("cuBLASLt", 1)]);
    assert_eq!([bytes(&parts, Use::Activations), bytes(&parts, Use::Backward)], [MIB, 0]);
    let note = remedies(&parts).join(" ");
    assert!(note.contains("98.5 % of the peak (cuBLAS 64.00 MiB, cuBLASLt 1024 KiB)"), "{note}");
    assert!(note.contains("CUBLAS_WORKSPACE_CONFIG"), "{note}");
    let place = |at: usize| stackline_memory::place_text(&trace, trace.objects.stack[at]);
    assert_eq!([place(0), place(3)], ["model.py:37 forward (cuBLAS workspace)", "model.py:37 forward"]);
    assert_eq!(place(2), "AddmmBackward0 / aten::mm (cuBLAS workspace)");
}

fn real(name: &str) -> MemoryTrace {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/memory-h100");
    let trace = read_path(&folder.join(format!("{name}.pickle.gz"))).unwrap();
    trace.check().unwrap();
    trace
}

/// `allocated_bytes.all.peak`, `.current` and `reserved_bytes.all.peak` of `torch.cuda.memory_stats`, to the byte.
#[test]
fn peaks_equal_those_of_memory_stats() {
    for (name, allocated, current, reserved) in [
        ("train-step", 1_618_173_440, 68_157_440, 1_891_631_104),
        ("leak", 1_942_661_632, 236_177_408, 2_149_580_800),
        ("graph-pool", 236_832_768, 236_177_408, 346_030_080),
        ("growing-cache", 262_522_880, 236_177_408, 346_030_080),
        ("fragments", 819_519_488, 69_206_016, 1_027_604_480),
        ("out-of-memory", 1_891_236_864, 69_206_016, 1_986_002_944),
    ] {
        let trace = real(name);
        let curve = &curves(&trace)[0];
        let held = reserved_curve(&trace, curve.device).iter().map(|(_, bytes)| *bytes).max();
        assert_eq!((curve.peak().bytes, held), (allocated, Some(reserved)), "{name}");
        assert_eq!(curve.points.last().map(|(_, bytes)| *bytes), Some(current), "{name}");
    }
}

/// Compared with the objects that `snapshots.py` keeps: parameters and optimizer state of the same model in both, no
/// gradients at the start of backward. After the capture of a graph with gradients there are as many of these.
#[test]
fn compositions_of_real_peaks_match_the_program() {
    for (name, parameters, gradients, states, workspaces) in [
        ("train-step", 109_768_704, 0, 219_537_408, 65 * MIB),
        ("leak", 109_768_704, 0, 219_537_408, 196 * MIB),
        ("graph-pool", 14_802_944, 14_802_944, 0, 196 * MIB),
    ] {
        let trace = real(name);
        let parts = parts(&trace);
        let bytes_of = |bytes_of| bytes(&parts, bytes_of);
        let found_bytes = [
            bytes_of(Use::Parameters),
            bytes_of(Use::Gradients),
            bytes_of(Use::FirstMoments) + bytes_of(Use::SecondMoments),
        ];
        // Small parameters are rounded up to 512 bytes, and some blocks are not split.
        for (found_bytes, known) in found_bytes.into_iter().zip([parameters, gradients, states]) {
            assert!((known..=known + known / 50).contains(&found_bytes), "{name}: {found_bytes} of {known}: {parts:?}");
        }
        assert_eq!(bytes_of(Use::Workspaces), workspaces, "{name}");
    }
}

/// A block is not split if at most 1 MiB would remain: the request gets all of it, and the next one nothing of it.
#[test]
fn unsplit_blocks_count_in_full() {
    let frames = [frame("train.py", 3, "main")];
    let kib = 1024;
    let (second, third) = (BASE + 11 * MIB, BASE + 64 * MIB);
    let events = [
        event("segment_alloc", BASE, 20 * MIB, 1, &frames),
        event("alloc", BASE, 11 * MIB, 2, &frames),
        event("alloc", second, 8 * MIB + 512 * kib, 3, &frames),
        event("free_requested", second, 8 * MIB + 512 * kib, 4, &frames),
        event("free_completed", second, 8 * MIB + 512 * kib, 4, &frames),
        // More than 1 MiB remains.
        event("alloc", second, 7 * MIB, 5, &frames),
        event("free_requested", second, 7 * MIB, 6, &frames),
        event("free_completed", second, 7 * MIB, 6, &frames),
        // A segment of small blocks, which are always split.
        event("segment_alloc", third, 2 * MIB, 7, &frames),
        event("alloc", third, MIB, 8, &frames),
        event("free_requested", third, MIB, 9, &frames),
        event("free_completed", third, MIB, 9, &frames),
    ];
    let segments = [
        segment(BASE, 20 * MIB, [0, 0], &[block(BASE, 11 * MIB, 11 * MIB, "active_allocated")]),
        segment(third, 2 * MIB, [0, 0], &[block(third, 2 * MIB, 0, "inactive")]),
    ];
    let trace = read(&json!({"segments": segments, "device_traces": [events]}));
    assert_eq!(trace.objects.bytes, [11 * MIB, 9 * MIB, 7 * MIB, MIB]);
    assert_eq!(trace.objects.requested[1], 8 * MIB + 512 * kib);
    // An object is in the remainder of a block, so the rules are not PyTorch's.
    let mut others = events.to_vec();
    others.insert(3, event("alloc", second + 8 * MIB + 768 * kib, 128 * kib, 3, &frames));
    assert_eq!(read(&json!({"segments": segments, "device_traces": [others]})).objects.bytes[1], 8 * MIB + 512 * kib);
    let expandable =
        json!({"segments": segments, "device_traces": [events], "allocator_settings": {"expandable_segments": true}});
    assert_eq!(read(&expandable).objects.bytes[1], 8 * MIB + 512 * kib);
}

/// `losses.append(model(x).mean())` keeps a graph of each of four iterations until the function returns. The finding
/// names the call of the model, not its lines; objects of `step` there are freed.
#[test]
fn autograd_graphs_kept_in_a_list_are_a_leak() {
    let trace = real("leak");
    let analysis = MemoryAnalysis::new(&trace, 1);
    let table = waste_table(&trace, &analysis.matches);
    assert_eq!(texts(&table, "code"), ["SL055"]);
    assert!(texts(&table, "place")[0].ends_with("snapshots.py:105 leak"), "{:?}", texts(&table, "place"));
    assert!(integers(&table, "grows_by")[0] > 20 * MIB as i64, "{:?}", integers(&table, "grows_by"));
    for other in ["train-step", "graph-pool", "growing-cache", "fragments", "out-of-memory"] {
        assert!(MemoryAnalysis::new(&real(other), 1).matches.is_empty(), "{other}");
    }
}

/// Half of 60 blocks of 12 MB are free, and a request of 200 MB fits into none of them.
#[test]
fn fragmentation_of_failed_requests_is_reported() {
    let trace = real("fragments");
    let notes = peaks_table(&trace, &named_peaks(&trace, 1)).notes.join(" ");
    for note in [
        "the allocator reserved at most 980.0 MiB. At call 90 (",
        "snapshots.py:83 fragments) the allocator requested 192.0 MiB from the device, although 364.2 MiB",
    ] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
}

/// A process limit caused the failure, and one list holds most of the memory: expandable segments would not help, and
/// are not suggested.
#[test]
fn a_request_over_the_limit_of_the_process_is_explained() {
    let trace = real("out-of-memory");
    let notes = failed_requests_table(&trace).notes.join(" ");
    for note in [
        "The allocation of 28.61 MiB (in a new segment of 30.00 MiB) failed at ",
        "snapshots.py:69 out_of_memory: the device had enough free memory (65.97 GiB)",
        "a limit of the process (set_per_process_memory_fraction)",
        "gain at most the 90.38 MiB that are reserved but unused",
        "The memory in use was 1804 MiB, of which ",
        "snapshots.py:69 out_of_memory allocated 93.6 % (59 objects).",
    ] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
}

/// A saving of less than 5 % of reserved memory is within the model's error.
#[test]
fn expandable_segments_are_suggested_if_they_save_enough() {
    for (name, expected) in [("train-step", 1), ("leak", 0), ("fragments", 0), ("out-of-memory", 0), ("graph-pool", 0)]
    {
        let trace = real(name);
        let ranked = MemoryAnalysis::new(&trace, 1).ranked;
        let growing = ranked.iter().filter(|one| one.suggestion.action == Action::ExpandableSegments);
        assert_eq!(growing.count(), expected, "{name}");
    }
}
