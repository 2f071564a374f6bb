//! Overhead measured in the run, by unrecorded steps.

use crate::support::{Stream, recorded, streams, torch};
use stackline_recording::{FrameKey, Metric};
use std::path::Path;

/// `python - STEPS LAYERS WIDTH`: trains, and prints the median duration of its steps in ns, and the ratio of steps
/// with delayed operators (`STACKLINE_INJECTED_COST_NS`) to the steps between them: the median of all such groups, 1
/// without any.
const PROGRAM: &str = r#"
import ctypes, itertools, os, sys, time
from statistics import median
import torch
torch.set_num_threads(1)
steps, layers, width = map(int, sys.argv[1:])
model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
x = torch.randn(128, width)
waits = ctypes.c_uint64.in_dll(ctypes.CDLL(os.environ["STACKLINE_RECORDER"]), "STACKLINE_INJECTED_WAITS")
times = []
with torch.profiler.record_function("training"):
    for step in range(steps):
        before = waits.value
        begin = time.perf_counter_ns()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        took = time.perf_counter_ns() - begin
        times.append((waits.value > before, took))
stretches = [(waited, [took for _, took in of]) for waited, of in itertools.groupby(times, lambda of: of[0])]
compared = [
    median(before[-3:] + after[1:4]) / median(own[1:])
    for (_, before), (waited, own), (_, after) in zip(stretches, stretches[1:], stretches[2:])
    if not waited and len(own) > 1 and len(after) > 1
]
print(median(took for _, took in times), median(compared or [1]))
"#;

/// Number of layers, and their width.
type Model = [u64; 2];
/// Operators of 50 µs and more: most of a recorded step is the program's own time.
const LARGE: Model = [2, 512];
const SMALL: Model = [12, 160];

/// Train a model. Returns the output, too.
fn trained(python: &Path, steps: u64, [layers, width]: Model, variables: &[(&str, &str)]) -> (Stream, [f64; 2]) {
    let run = tempfile::tempdir().unwrap();
    let mut command = recorded(python, run.path());
    let arguments = [steps, layers, width].map(|number| number.to_string());
    let output = command.envs(variables.iter().copied()).args(["-c", PROGRAM]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let (step_ns, times_as_long) = printed.trim().split_once(' ').unwrap();
    (streams(run.path()).pop().unwrap(), [step_ns, times_as_long].map(|number| number.parse().unwrap()))
}

/// Number of calls of an operator, or of all operators and backward nodes.
fn calls(stream: &Stream, requested_name: Option<&str>) -> u64 {
    let is_match = |key: &FrameKey| match *key {
        FrameKey::Operator { name } | FrameKey::Backward { name } => {
            requested_name.is_none_or(|requested_name| stream.text(name) == requested_name)
        }
        _ => false,
    };
    stream.calls().iter().filter(|(path, _)| path.last().is_some_and(|key| is_match(key))).map(|(_, count)| count).sum()
}

/// Exclusive and inclusive time of a span in ns.
fn span(stream: &Stream, requested_name: &str) -> [u64; 2] {
    let is_match = |key: &FrameKey| matches!(*key, FrameKey::Span { name } if stream.text(name) == requested_name);
    [Metric::OperatorTime, Metric::CallTime].map(|metric| {
        let of_span = stream
            .stats
            .iter()
            .filter(|(key, _)| key.2 == metric && stream.path(key.0, key.1).last().is_some_and(|key| is_match(key)));
        of_span.map(|(_, stats)| stats.sum).sum()
    })
}

/// Number of spans that ended.
fn spans(stream: &Stream, requested_name: &str) -> u64 {
    let is_match = |key: &FrameKey| matches!(*key, FrameKey::Span { name } if stream.text(name) == requested_name);
    stream.calls().iter().filter(|(path, _)| path.last().is_some_and(|key| is_match(key))).map(|(_, count)| count).sum()
}

#[test]
#[ignore = "long: ./dev test --long"]
fn unrecorded_steps_are_counted_and_missing_equally() {
    let Some(python) = torch() else { return };
    let (stream, _) = trained(&python, 200, SMALL, &[]);
    let overhead = stream.overhead.unwrap();
    assert!(overhead.unrecorded_steps >= 24, "{overhead:?}");
    // Where other programs want the processors, steps may differ too much for six comparisons.
    assert!(overhead.fraction.is_none_or(|fraction| fraction.low <= fraction.high), "{overhead:?}");
    let recorded = 200 - overhead.unrecorded_steps;
    let counted = ["aten::linear", "aten::square"].map(|name| calls(&stream, Some(name)));
    assert_eq!(counted, [12 * recorded, recorded]);
    // The span around all steps holds them, but what went unrecorded in it is no time of its own: Python alone is.
    let own_part = |stream: &Stream| {
        let [own, call] = span(stream, "training");
        own as f64 / call as f64
    };
    let (all_recorded, _) = trained(&python, 200, SMALL, &[("STACKLINE_OVERHEAD_STEPS", "0")]);
    let (with, without) = (own_part(&stream), own_part(&all_recorded));
    assert!((with - without).abs() < 0.05, "{with} of it, {without} where all is recorded");
    let unrecorded_part = overhead.unrecorded_steps as f64 / 200.0;
    assert!(unrecorded_part > 0.12, "{unrecorded_part}: as its own it would be seen");
    // Spans are recorded all the time.
    assert_eq!(spans(&stream, "Optimizer.step#SGD.step"), 200);
    for off in [("STACKLINE_OVERHEAD_STEPS", "0"), ("STACKLINE_MODE", "trace"), ("STACKLINE_MEMORY", "1")] {
        let (stream, _) = trained(&python, 60, SMALL, &[off]);
        assert_eq!((stream.overhead, calls(&stream, Some("aten::square"))), (None, 60), "{off:?}");
    }
}

#[test]
#[ignore = "long: ./dev test --long"]
fn injected_cost_is_measured() {
    let Some(python) = torch() else { return };
    // On a machine whose steps differ by a third, 50 comparisons of an unrecorded program give -1.5 % to +1.5 %: eight times
    // as many are needed for the injected cost.
    const STEPS: u64 = 10_000;
    let with_injected_cost = |injected_ns: u64| {
        let variables =
            [("STACKLINE_OVERHEAD_STEPS", "1600"), ("STACKLINE_INJECTED_COST_NS", &injected_ns.to_string())];
        let (stream, [step_ns, times_as_long]) = trained(&python, STEPS, LARGE, &variables);
        let overhead = stream.overhead.unwrap();
        let longer = times_as_long - 1.0;
        println!("{injected_ns} ns an operator: {overhead:?}, steps take {longer} longer");
        assert!(overhead.comparisons > 300, "{overhead:?}");
        let operators = calls(&stream, None) as f64 / (STEPS - overhead.unrecorded_steps) as f64;
        (overhead.fraction.unwrap().median, longer, operators, step_ns)
    };
    let (without, _, operators, step_ns) = with_injected_cost(0);
    for fraction in [0.01, 0.05, 0.20] {
        // What a wait costs is more than its own time: caches cool meanwhile. The program's own clock has all of it.
        let (with, longer, ..) = with_injected_cost((fraction * step_ns / operators) as u64);
        assert!((with - longer).abs() < 0.015, "{with} with {fraction} injected, steps take {longer} longer");
        assert!(longer - without > fraction - 0.015, "{longer} with {fraction} injected, {without} without");
    }
}
