//! A program that does much of what is hard to follow, over and over: its results stay the same, and the tree stops
//! growing.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::iter_over_hash_type, reason = "tests")]

mod support;

use std::process::Command;
use support::{Stream, here, recorded, streams, torch};

/// The digest that the program printed.
fn digest(output: &std::process::Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{said}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    let digest = said.split("\"digest\": [").nth(1).and_then(|rest| rest.split(']').next());
    digest.unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[test]
fn rounds_add_no_nodes_and_change_no_results() {
    let Some(python) = torch() else { return };
    let program = here("tests/programs/soak.py");
    let alone = digest(&Command::new(&python).arg(&program).args(["0", "1"]).output().unwrap());
    assert!(!alone.contains(','), "a round gives the same each time: {alone}");
    let nodes = ["2", "6"].map(|rounds| {
        let run = tempfile::tempdir().unwrap();
        let output = recorded(&python, run.path())
            .env("STACKLINE_SAMPLE_HZ", "99")
            .env("STACKLINE_MEMORY", "1")
            .arg(&program)
            .args(["0", rounds])
            .output()
            .unwrap();
        assert_eq!(digest(&output), alone, "{rounds} rounds");
        let streams = streams(run.path());
        let main = streams.iter().find(|stream| stream.process.role == stackline_recording::Role::Main).unwrap();
        assert!(main.ended && !main.damaged);
        main_nodes(main)
    });
    // Each round compiles 30 functions, whose calls would be 90 nodes if they were told apart by where their code lies.
    assert!(nodes[0] > 300 && nodes[1] < nodes[0] + 60, "{nodes:?} nodes after 2 and 6 rounds");
}

/// Nodes of the tree of the program's own thread.
fn main_nodes(stream: &Stream) -> usize {
    let of = |thread: u32| stream.threads.get(&thread).is_some_and(|thread| thread.tid == stream.process.pid);
    let thread = stream.nodes_by_thread().into_iter().filter(|&(thread, _)| of(thread)).map(|(_, count)| count).max();
    thread.unwrap_or(0)
}
