//! Extreme programs: deep backward graphs, and children that are killed.

use crate::support;

use stackline_recording::{FrameKey, Metric, Role};
use std::process::Command;
use support::{Stream, here, recorded, streams, torch};

/// Number of calls of operators or backward nodes with this name, and the kind and parent of their nodes.
fn called(stream: &Stream, operator: &str) -> (u64, u64) {
    let (mut all, mut below_forward) = (0, 0);
    for (&(thread, node, metric), stats) in &stream.stats {
        if metric != Metric::CallTime {
            continue;
        }
        let path = stream.path(thread, node);
        match path.as_slice() {
            [.., above, FrameKey::Backward { name }] if stream.text(*name).contains(operator) => {
                all += stats.count;
                let is_forward = matches!(above, FrameKey::Operator { .. });
                below_forward += if is_forward { stats.count } else { 0 };
            }
            [.., FrameKey::Operator { name }] if stream.text(*name) == operator => all += stats.count,
            _ => {}
        }
    }
    (all, below_forward)
}

#[test]
#[ignore = "long: ./dev test --long"]
fn deep_backward_graphs_take_no_memory() {
    let Some(python) = torch() else { return };
    const DEPTH: u64 = 20_000;
    // More than the numbers of forward operators that a thread remembers.
    const PENDING: u64 = 150_000;
    for mode in ["profile", "trace"] {
        let run = tempfile::tempdir().unwrap();
        let mut command = recorded(&python, run.path());
        command.env("STACKLINE_MODE", mode).env("STACKLINE_SAMPLE_HZ", "99").arg(here("tests/programs/deep.py"));
        let output = command.args([DEPTH.to_string(), PENDING.to_string()]).output().unwrap();
        assert!(output.status.success(), "{} {}", output.status, String::from_utf8_lossy(&output.stderr));
        let grown: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
        println!("{mode}: {grown} MB in three rounds of {DEPTH} nodes");
        assert!(grown < 20.0, "{mode}: {grown} MB");
        let stream = &streams(run.path())[0];
        assert!(stream.ended && !stream.damaged);
        let (all, below_forward) = called(stream, "MulBackward0");
        println!("{mode}: {all} backward nodes, {below_forward} below their forward operator");
        // Each is an operator and, in newer versions of PyTorch, a node around it.
        let nodes = 4 * DEPTH + PENDING;
        assert!(all >= nodes && all.is_multiple_of(nodes), "{all}");
        assert!(below_forward >= 4 * DEPTH, "{below_forward}");
        assert!(stream.stats.len() < 2000, "{} values", stream.stats.len());
    }
}

#[test]
#[ignore = "long: ./dev test --long"]
fn killed_children_leave_streams_that_can_be_read() {
    let Some(python) = torch() else { return };
    let program = here("tests/programs/killed.py");
    let alone = Command::new(&python).arg(&program).output().unwrap();
    assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stderr));
    let run = tempfile::tempdir().unwrap();
    let output = recorded(&python, run.path()).env("STACKLINE_MODE", "trace").arg(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&alone.stdout));
    let streams = streams(run.path());
    let (mut killed, mut workers) = (0, 0);
    for stream in &streams {
        assert!(!stream.damaged, "what a killed process leaves are whole chunks, or one that breaks off");
        let cosh = called(stream, "aten::cosh").0;
        if stream.process.role != Role::Main && !stream.ended && cosh > 0 {
            killed += 1;
            workers += u64::from(cosh < 2000);
        }
    }
    assert_eq!((killed, workers), (6, 4), "two children and four workers of loaders");
    let tree = stackline_ingest::recording::read_recording(run.path()).unwrap();
    assert_eq!(tree.check(), Ok(()));
    assert!(tree.report.count_of("process_killed") >= 6, "{:?}", tree.report.problems);
}

#[test]
fn workers_ended_by_their_parent_are_distinguished_from_killed_ones() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let program = here("tests/programs/ended_workers.py");
    let output = recorded(&python, run.path()).arg(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let killed: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    let report = stackline_ingest::recording::read_recording(run.path()).unwrap().report;
    let examples = |code: &str| {
        let problems = report.problems.iter().filter(|problem| problem.code == code);
        problems.flat_map(|problem| problem.examples()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(examples("process_killed"), [format!("{killed}-0.slr")]);
    // The workers of the loaders that are alive at the end.
    assert_eq!(examples("ended_by_parent").len(), 4, "{report:?}");
}
