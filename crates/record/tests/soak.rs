//! A program that repeats much that is hard to record: its results are unchanged, and the tree stops growing.

use crate::support;

use std::process::Command;
use support::{here, recorded, streams, torch};

/// Digest that the program printed.
fn digest(output: &std::process::Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{stdout}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    let digest = stdout.split("\"digest\": [").nth(1).and_then(|rest| rest.split(']').next());
    digest.unwrap_or_else(|| panic!("{stdout}")).to_owned()
}

#[test]
#[ignore = "long: ./dev test --long"]
fn iterations_add_no_nodes_and_change_no_results() {
    let Some(python) = torch() else { return };
    let program = here("tests/programs/soak.py");
    let alone = digest(&Command::new(&python).arg(&program).args(["0", "1"]).output().unwrap());
    assert!(!alone.contains(','), "a round gives the same each time: {alone}");
    let nodes = ["2", "6"].map(|iterations| {
        let run = tempfile::tempdir().unwrap();
        let output = recorded(&python, run.path())
            .env("STACKLINE_SAMPLE_HZ", "99")
            .env("STACKLINE_MEMORY", "1")
            .arg(&program)
            .args(["0", iterations])
            .output()
            .unwrap();
        assert_eq!(digest(&output), alone, "{iterations} rounds");
        let streams = streams(run.path());
        let main = streams.iter().find(|stream| stream.process.role == stackline_recording::Role::Main).unwrap();
        assert!(main.ended && !main.damaged);
        main.nodes_below("recompiled")
    });
    // It runs on one thread, and always the same. Each iteration compiles 30 functions, whose calls would be 60 nodes
    // if they were distinguished by the address of their code.
    assert!(nodes[0] > 10 && nodes[1] < nodes[0] + 30, "{nodes:?} nodes after 2 and 6 rounds");
}
