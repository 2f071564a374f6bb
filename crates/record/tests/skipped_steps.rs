//! Steps that are left out: operators run as without the recorder, and the recorded steps are complete.

use crate::side_effects::called;
use crate::support::{recorded, streams, torch};
use stackline_recording::{Metric, Role};

/// Prints for each step if its operators were reported: each reported one has a small delay
/// (`STACKLINE_INJECTED_COST_NS`).
const STEPS: &str = r#"
import ctypes, os
import torch
waits = ctypes.c_uint64.in_dll(ctypes.CDLL(os.environ["STACKLINE_RECORDER"]), "STACKLINE_INJECTED_WAITS")
parameter = torch.nn.Parameter(torch.zeros(3))
optimizer = torch.optim.SGD([parameter], lr=0.1)
reported = []
for step in range(4):
    before = waits.value
    for _ in range(50):
        parameter.sum().backward()
    reported.append(int(waits.value > before))
    optimizer.step()
print(*reported)
"#;

#[test]
fn operators_are_reported_only_in_selected_steps() {
    let Some(python) = torch() else { return };
    let cases = [
        (("STACKLINE_STEPS", "2..2"), "0", "0 0 1 0"),
        (("STACKLINE_STEPS", "2..2"), "1", "0 0 1 0"),
        (("STACKLINE_AFTER", "1h"), "0", "0 0 0 0"),
        (("STACKLINE_EVERY", "2"), "0", "1 0 1 0"),
    ];
    for ((variable, value), shapes, expected) in cases {
        let run = tempfile::tempdir().unwrap();
        let mut command = recorded(&python, run.path());
        command.envs([(variable, value), ("STACKLINE_SHAPES", shapes), ("STACKLINE_INJECTED_COST_NS", "100000")]);
        command.env("STACKLINE_MEMORY", "1");
        let output = command.args(["-c", STEPS]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{variable}={value}, shapes: {shapes}");
        let stream = &streams(run.path())[0];
        assert!(stream.ended);
        // Memory that other steps take counts no more than what their operators do.
        let of_memory = stream.stats.keys().filter(|(.., metric)| matches!(metric, Metric::Allocated | Metric::Freed));
        assert_eq!(of_memory.count() > 0, expected.contains('1'), "{variable}={value}");
    }
}

/// Forks in a step that is left out: the child runs operators, or none.
const FORKS: &str = r#"
import os
import torch
parameter = torch.nn.Parameter(torch.zeros(3))
optimizer = torch.optim.SGD([parameter], lr=0.1)
parameter.sum().backward()
optimizer.step()
value = torch.ones(3)
value.cosh()
for calls in (5, 0):
    child = os.fork()
    if child == 0:
        for _ in range(calls):
            value.sinh()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
value.cosh()
optimizer.step()
"#;

#[test]
fn children_forked_in_unrecorded_steps_are_recorded() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let mut command = recorded(&python, run.path());
    let output = command.env("STACKLINE_EVERY", "1000").args(["-c", FORKS]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let streams = streams(run.path());
    let count = |name: &str, role: Role| {
        let with_role = streams.iter().filter(|stream| stream.process.role == role);
        let mut counts: Vec<u64> = with_role.map(|stream| called(stream, name)).collect();
        counts.sort_unstable();
        counts
    };
    assert!(streams.iter().all(|stream| stream.ended && !stream.damaged));
    assert_eq!(count("aten::sinh", Role::Fork), [0, 5]);
    assert_eq!(count("aten::cosh", Role::Main), [0], "the parent goes on without them");
}

/// Forks before the recorded part begins. The child runs operators, but no step, until they are reported again:
/// before the recorded part they must cost nothing. The recording begins after the import of PyTorch, and time counts
/// from its begin, also in the child.
const FORKS_EARLY: &str = r#"
import ctypes, os, time
import torch
import _stackline_bootstrap
value = torch.ones(3)
os.environ["STACKLINE_RECORD"] = os.environ["RUN"]
_stackline_bootstrap.begin()
waits = ctypes.c_uint64.in_dll(ctypes.CDLL(os.environ["STACKLINE_RECORDER"]), "STACKLINE_INJECTED_WAITS")
child = os.fork()
if child == 0:
    was_left_out, end = False, time.monotonic() + 10
    while time.monotonic() < end:
        before = waits.value
        for _ in range(20):
            value.sinh()
        is_reported = waits.value > before
        if was_left_out and is_reported:
            break
        was_left_out = was_left_out or not is_reported
        time.sleep(0.005)
    os._exit(0 if was_left_out and is_reported else 1)
assert os.waitpid(child, 0)[1] == 0
"#;

#[test]
fn children_forked_before_the_window_are_recorded_in_it() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let mut command = recorded(&python, run.path());
    command.envs([("STACKLINE_AFTER", "2s"), ("STACKLINE_INJECTED_COST_NS", "10000")]).args(["-c", FORKS_EARLY]);
    command.env_remove("STACKLINE_RECORD").env("RUN", run.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let streams = streams(run.path());
    let child = streams.iter().find(|stream| stream.process.role == Role::Fork).unwrap();
    assert!(called(child, "aten::sinh") > 0 && child.ended && !child.damaged);
}

/// A child that is forked long after the begin of the recorded part, and that lives shorter than the first interval.
const FORKS_LATE: &str = r#"
import os
import torch
value = torch.ones(3)
child = os.fork()
if child == 0:
    for _ in range(5):
        value.sinh()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"#;

#[test]
fn forked_children_share_the_time_origin_of_the_recording() {
    let Some(python) = torch() else { return };
    // PyTorch takes longer than that to be imported.
    for (variable, expected) in [("STACKLINE_AFTER", 5), ("STACKLINE_DURATION", 0)] {
        let run = tempfile::tempdir().unwrap();
        let mut command = recorded(&python, run.path());
        let output = command.env(variable, "100ms").args(["-c", FORKS_LATE]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let children = streams(run.path()).into_iter().filter(|stream| stream.process.role == Role::Fork);
        let calls: u64 = children.map(|child| called(&child, "aten::sinh")).sum();
        assert_eq!(calls, expected, "{variable}");
    }
}
