//! Steps that are left out: operators run as without the recorder, and what is recorded lacks nothing for it.

use crate::support::{recorded, streams, torch};

/// Prints for each step whether its operators were reported: each one that is waits a little (`STACKLINE_PLANTED_NS`).
const STEPS: &str = r#"
import ctypes, os
import torch
waits = ctypes.c_uint64.in_dll(ctypes.CDLL(os.environ["STACKLINE_RECORDER"]), "STACKLINE_PLANTED_WAITS")
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
fn operators_are_reported_in_wanted_steps_alone() {
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
        command.envs([(variable, value), ("STACKLINE_SHAPES", shapes), ("STACKLINE_PLANTED_NS", "100000")]);
        let output = command.args(["-c", STEPS]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{variable}={value}, shapes: {shapes}");
        assert!(streams(run.path())[0].ended);
    }
}
