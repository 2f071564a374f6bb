//! Memory events of tensors: a program with known tensors, and training steps compared with PyTorch's own profiler.

use crate::support;

use stackline_ingest::ReadOptions;
use stackline_ingest::recording::{read_memory, read_recording};
use stackline_model::{MemoryCallId, MemoryCallKind, MemoryObjectKind, MemoryTrace};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use support::{here, recorded, torch};

/// Memory trace of one of the program's modes.
fn recording(python: &Path, mode: &str) -> MemoryTrace {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut command = recorded(python, &run);
    command.env("STACKLINE_MODE", "trace").env("STACKLINE_MEMORY", "1").arg(here("tests/programs/memory.py")).arg(mode);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let problems = read_recording(&run).unwrap().report.problems;
    assert!(problems.is_empty() || mode == "many", "the tree knows all that is said: {problems:?}");
    let mut found = read_memory(&run, &ReadOptions::default()).unwrap();
    assert_eq!(found.len(), 1);
    let trace = found.remove(0);
    trace.check().unwrap();
    assert!(trace.saw_end && trace.has_accesses);
    trace
}

fn function_of(trace: &MemoryTrace, call: MemoryCallId, function: &str) -> bool {
    let stack = trace.calls.stack[call.index()];
    trace.stacks.frames_of(stack).any(|frame| frame.function_text(&trace.strings) == function)
}

/// Events in a function: allocations and frees by size, operators with their accesses, without numbers that PyTorch
/// converts to tensors.
fn listing(trace: &MemoryTrace, function: &str) -> Vec<String> {
    let bytes = |object: stackline_model::MemoryObjectId| trace.objects.bytes[object.index()];
    let mut lines = Vec::new();
    for call in trace.calls.ids().filter(|&call| function_of(trace, call, function)) {
        let name = trace.strings.get(trace.calls.name[call.index()]);
        let mut line = match trace.calls.kind[call.index()] {
            MemoryCallKind::Kernel | MemoryCallKind::Set | MemoryCallKind::CopyOnDevice => name.to_owned(),
            kind => format!("{} {}", kind.name(), bytes(trace.object_of(call).unwrap())),
        };
        for access in trace.accesses_of(call).filter(|access| bytes(access.object) > 8) {
            write!(line, " {} {}", access.mode.name(), bytes(access.object)).unwrap();
        }
        lines.push(line);
    }
    lines.retain(|line| !["allocate 4", "allocate 8", "free 4", "free 8", "aten::copy_"].contains(&line.as_str()));
    lines
}

#[test]
fn operators_access_their_inputs_and_outputs() {
    let Some(python) = torch() else { return };
    let trace = recording(&python, "small");
    let expected = "\
allocate 4000
aten::zero_ write 4000
allocate 4000
aten::fill_ write 4000
allocate 4000
aten::add read 4000 read 4000 write 4000
aten::add_ both 4000
allocate 2000
aten::fill_ write 2000
allocate 200
aten::mm read 4000 read 2000 write 200
free 4000
allocate 12000
allocate 8000
aten::cat read 4000 read 4000 write 8000";
    let found = listing(&trace, "small");
    assert_eq!(found[..expected.lines().count()].join("\n"), expected, "{found:#?}");
    // Multiplied into themselves, one by one.
    for line in ["aten::mul both 4000", "aten::mul both 200", "aten::index read 4000 read 800 write 4000"] {
        assert!(found.iter().any(|found| found == line), "{found:#?}");
    }
}

/// More tensors than the recorder reads: their number is reported, and the call may have accessed any object.
#[test]
fn inputs_beyond_the_limit_are_counted() {
    let Some(python) = torch() else { return };
    let trace = recording(&python, "many");
    let lost = trace.report.problems.iter().find(|problem| problem.example.contains("inputs_over_limit"));
    assert_eq!(lost.map(|problem| problem.count), Some(5000 - 4096), "{:?}", trace.report.problems);
    let opaque: Vec<MemoryCallId> = trace.calls.ids().filter(|&call| trace.calls.is_opaque(call)).collect();
    assert_eq!(opaque.len(), 1);
    assert_eq!(trace.strings.get(trace.calls.name[opaque[0].index()]), "aten::cat");
    assert_eq!(trace.accesses_of(opaque[0]).len(), 4096 + 1);
}

/// A program may continue after a failed allocation.
#[test]
fn failed_requests_are_reported() {
    let Some(python) = torch() else { return };
    let trace = recording(&python, "failing");
    assert_eq!(trace.report.problems, []);
    let [failed] = trace.out_of_memory[..] else { panic!("{:?}", trace.out_of_memory) };
    assert_eq!(failed.requested, 1 << 50);
    let path: Vec<&str> =
        trace.stacks.frames_of(failed.stack).map(|frame| frame.function_text(&trace.strings)).collect();
    assert!(path.contains(&"failing") && path.contains(&"aten::empty"), "{path:?}");
    assert_eq!(trace.objects.requested.iter().filter(|bytes| **bytes > 1 << 40).count(), 0);
}

#[test]
fn sums_equal_those_of_the_profiler() {
    let Some(python) = torch() else { return };
    let output =
        Command::new(&python).arg(here("tests/programs/memory.py")).args(["train", "profile"]).output().unwrap();
    let theirs: Vec<Vec<u64>> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| line.split(' ').map(|number| number.parse().unwrap()).collect())
        .collect();
    let trace = recording(&python, "train");
    let mut allocated = Vec::new();
    for call in trace.calls.ids().filter(|&call| trace.calls.kind[call.index()] == MemoryCallKind::Allocate) {
        if function_of(&trace, call, "measured") {
            let object = trace.object_of(call).unwrap();
            allocated.push((trace.objects.bytes[object.index()], trace.objects.kind[object.index()]));
        }
    }
    // The gradients that a step frees first are older than the profiler, which leaves them out.
    let sums = |first_line: usize| {
        [0, 1].map(|column: usize| theirs.iter().skip(first_line).step_by(2).map(|line| line[column]).sum::<u64>())
    };
    let ours = [allocated.len() as u64, allocated.iter().map(|one| one.0).sum()];
    assert_eq!(ours, sums(0), "allocations, and their bytes");
    assert!(ours[0] > 200 && sums(1)[0] > 200);
    let measured = |kind| allocated.iter().filter(|one| one.1 == kind).count();
    assert_eq!(measured(MemoryObjectKind::Gradient), 16);
    assert_eq!(measured(MemoryObjectKind::Unknown), 0, "{allocated:?}");
    let all = |kind| trace.objects.kind.iter().filter(|&&known| known == kind).count();
    assert_eq!(all(MemoryObjectKind::Parameter), 16);
    assert_eq!(all(MemoryObjectKind::Gradient), 3 * 16);
    assert_eq!(all(MemoryObjectKind::OptimizerState), 3 * 16, "two moments and a number of steps of each");
    assert!(measured(MemoryObjectKind::Activation) > 14, "{allocated:?}");
    assert_eq!(trace.phases.len(), 6);
    assert_eq!(trace.report.problems, Vec::new());
    let freed = trace.objects.freed_by.iter().filter(|call| call.is_some()).count();
    println!("{} objects, {freed} of them freed", trace.objects.len());
}
