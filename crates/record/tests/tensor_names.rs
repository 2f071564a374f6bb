//! Names of parameters, their gradients and their states of optimizers, in a program with known tensors.

use crate::support;

use stackline_ingest::ReadOptions;
use stackline_ingest::recording::{read_memory, read_recording};
use stackline_model::{MemoryObjectKind, MemoryTrace};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use support::{here, recorded, torch};

/// Module of tensors whose module has no path.
const OUTERMOST: &str = "(outermost module)";
const PROGRAM: &str = "tests/programs/tensor_names.py";

/// Memory trace of a program, and its output.
fn recording(python: &Path, program: &str) -> (MemoryTrace, String) {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut command = recorded(python, &run);
    command.env("STACKLINE_MODE", "trace").env("STACKLINE_MEMORY", "1").arg(here(program));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(read_recording(&run).unwrap().report.problems, []);
    let trace = read_memory(&run, &ReadOptions::default()).unwrap().remove(0);
    trace.check().unwrap();
    (trace, String::from_utf8(output.stdout).unwrap())
}

/// For each name: number of objects, bytes, kind and module.
fn named(trace: &MemoryTrace) -> BTreeMap<String, (usize, u64, MemoryObjectKind, String)> {
    let mut named = BTreeMap::new();
    for object in trace.objects.ids() {
        let (objects, row) = (&trace.objects, object.index());
        let name = trace.strings.get(objects.name[row]);
        let module = trace.strings.get(objects.module[row]).to_owned();
        // Single modules have names that others have, too.
        if !name.is_empty() && module != OUTERMOST {
            let known =
                named.entry(name.to_owned()).or_insert((0, objects.requested[row], objects.kind[row], module.clone()));
            known.0 += 1;
            assert_eq!((known.1, known.2, &known.3), (objects.requested[row], objects.kind[row], &module), "{name}");
        }
    }
    named
}

#[test]
fn tensor_names_equal_those_of_modules() {
    use MemoryObjectKind::{Gradient, OptimizerState, Parameter};
    let Some(python) = torch() else { return };
    let (trace, printed) = recording(&python, PROGRAM);
    assert_eq!(trace.report.problems, []);
    let mut named = named(&trace);
    let mut take = |name: &str| named.remove(name).unwrap_or_else(|| panic!("{name}"));
    let expected_object = |count, bytes, kind, module: &str| (count, bytes, kind, module.to_owned());
    let trained = [
        ("0.norm", "weight", 32),
        ("0.norm", "bias", 32),
        ("0.layers.0", "weight", 256),
        ("0.layers.0", "bias", 32),
        ("0.layers.1", "weight", 256),
        ("0.layers.1", "bias", 32),
        ("0", "scale", 32),
    ];
    for (module, name, bytes) in trained {
        let path = format!("{module}.{name}");
        assert_eq!(take(&path), expected_object(1, bytes, Parameter, module));
        assert_eq!(
            take(&format!("{path}.grad")),
            expected_object(2, bytes, Gradient, module),
            "a new one in each step"
        );
        for moment in ["exp_avg", "exp_avg_sq"] {
            assert_eq!(take(&format!("{path}.{moment}")), expected_object(1, bytes, OptimizerState, module));
        }
        assert_eq!(take(&format!("{path}.step")), expected_object(1, 4, OptimizerState, module));
    }
    assert_eq!(
        take("part.weight"),
        expected_object(1, 256, Parameter, "part"),
        "as it was made, not the buffer that it became a part of"
    );
    for (name, count, kind) in [("0.norm.running_mean", 1, None), ("embedding.weight", 1, Some(Parameter))] {
        let found = take(name);
        assert!(found.0 == count && kind.is_none_or(|kind| kind == found.2), "{found:?}");
    }
    assert!(!named.contains_key("head.weight") || named["head.weight"].1 == 240, "shared: the first name counts");
    // Four single modules have a `weight` of their own: by their bytes.
    let weights: Vec<(u64, MemoryObjectKind)> = trace
        .objects
        .ids()
        .map(|object| object.index())
        .filter(|&row| trace.strings.get(trace.objects.module[row]) == OUTERMOST)
        .map(|row| (trace.objects.requested[row], trace.objects.kind[row]))
        .collect();
    for expected in [
        (12 * 12 * 8, Parameter),
        (12 * 12 * 8, Gradient),
        (12 * 12 * 8, OptimizerState),
        (20 * 20 * 4, Parameter),
        (30 * 30 * 2, Parameter),
    ] {
        assert!(weights.contains(&expected), "{expected:?} of {weights:?}");
    }
    assert_eq!(printed, plain(&python, PROGRAM), "the program sees nothing of it");
}

/// A compiler that traces an optimizer's step finds no additional operations. The names are reported at the end.
#[test]
#[ignore = "long: ./dev test --long"]
fn compiled_steps_are_unchanged() {
    const PROGRAM: &str = "tests/programs/compiled_step.py";
    let Some(python) = torch() else { return };
    let (trace, printed) = recording(&python, PROGRAM);
    assert_eq!(printed, plain(&python, PROGRAM));
    let is_named = |name: &str| trace.objects.name.iter().any(|known| trace.strings.get(*known) == name);
    assert!(is_named("weight") && is_named("weight.grad"));
}

/// Errors in the program's own optimizers remain the program's, names and recording are written without PyTorch in
/// `sys.modules`, and exceptions of signal handlers reach the program.
#[test]
fn hook_failures_do_not_reach_the_program() {
    const PROGRAM: &str = "tests/programs/hostile_names.py";
    let Some(python) = torch() else { return };
    let (trace, printed) = recording(&python, PROGRAM);
    assert_eq!(printed, plain(&python, PROGRAM));
    let is_named = |name: &str| trace.objects.name.iter().any(|known| trace.strings.get(*known) == name);
    assert!(is_named("weight") && is_named("weight.grad"), "told at the end");
    let folder = tempfile::tempdir().unwrap();
    let mut command = recorded(&python, &folder.path().join("run"));
    command.env("STACKLINE_MODE", "trace").env("STACKLINE_MEMORY", "1").args([&here(PROGRAM), Path::new("--signal")]);
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{printed}Late\n"));
}

/// Output of a program that is not recorded.
fn plain(python: &Path, program: &str) -> String {
    String::from_utf8(Command::new(python).arg(here(program)).output().unwrap().stdout).unwrap()
}
