//! Origin of times: the begin of the recording, which all of its processes on a machine share, or that of a process.

use crate::support;

use stackline_recording::{Begin, Role, boot};
use std::path::Path;
use support::{Stream, recorded, streams, torch};

/// Starts another process later after its begin than `STACKLINE_AFTER`.
const STARTS_LATE: &str =
    "import subprocess, sys, time; time.sleep(0.7); subprocess.run([sys.executable, '-c', 'pass'], check=True)";

/// True if a program, and the one that it starts late, begin inside the recorded part, which is all but the first
/// half second. `begin` is the value that the program receives.
fn begin_within(begin: Option<&str>) -> [bool; 2] {
    let run = tempfile::tempdir().unwrap();
    let mut command = recorded(Path::new("python3"), run.path());
    command.envs([("STACKLINE_MODE", "trace"), ("STACKLINE_AFTER", "500ms")]).env_remove("STACKLINE_BEGIN");
    command.envs(begin.map(|begin| ("STACKLINE_BEGIN", begin)));
    let output = command.args(["-c", STARTS_LATE]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let mut streams = streams(run.path());
    let of_child = |stream: &Stream| stream.process.command.last().is_some_and(|last| last == "pass");
    streams.sort_by_key(of_child);
    <[Stream; 2]>::try_from(streams).unwrap().map(|stream| stream.windows[0])
}

#[test]
fn later_processes_share_the_time_origin_of_the_first_one() {
    assert_eq!(begin_within(None), [false, true]);
}

#[test]
fn time_origin_is_taken_from_a_launcher_of_this_machine() {
    // The machine has been running for longer than this recording waits.
    let begin = Begin { monotonic_ns: 1, boot: boot().unwrap() };
    assert_eq!(begin_within(Some(&begin.to_string())), [true, true]);
}

/// A variable reaches other machines, whose clocks have another origin.
#[test]
fn time_origin_of_another_machine_is_ignored() {
    let other = Begin { monotonic_ns: 1, boot: !boot().unwrap() };
    for text in [other.to_string(), "1".to_owned()] {
        assert_eq!(begin_within(Some(&text)), [false, true], "{text}");
    }
}

/// The child runs its first step, which creates its stream, some time after the fork.
const STEPS_LATE: &str = r#"
import os, time
import torch
parameter = torch.nn.Parameter(torch.zeros(3))
parameter.grad = torch.ones(3)
optimizer = torch.optim.SGD([parameter], lr=0.1)
child = os.fork()
if child == 0:
    time.sleep(0.5)
    for _ in range(4):
        optimizer.step()
        time.sleep(0.02)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"#;

#[test]
fn steps_of_a_forked_child_end_before_it_does() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let output = recorded(&python, run.path()).args(["-c", STEPS_LATE]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let child = streams(run.path()).into_iter().find(|stream| stream.process.role == Role::Fork).unwrap();
    let (ends, end_ns) = (child.step_ends.unwrap(), child.end_ns.unwrap());
    assert_eq!(ends.count, 4);
    assert!(ends.first_ns < ends.last_ns && ends.last_ns <= end_ns, "{ends:?}, ended after {end_ns} ns");
}
