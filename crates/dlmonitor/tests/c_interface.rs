//! Tests of the C interface, by a tool in C (`programs/tool.c`) in a real PyTorch.

use crate::support::{run_stdout, tool_in_c, torch};
use std::process::Command;

const TOOL: &str = "tests/programs/tool.c";

/// Run a program with the tool and further arguments; returns its output.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let python = torch()?;
    let folder = tempfile::tempdir().unwrap();
    Some(crate::support::run(&python, program, &tool_in_c(folder.path(), TOOL), arguments))
}

fn last_line(stdout: &str) -> &str {
    stdout.lines().last().unwrap_or_default()
}

#[test]
fn tools_restart_after_a_stop() {
    let Some(stdout) = run("restart.py", &[]) else { return };
    assert_eq!(last_line(&stdout), "restarted");
}

#[test]
fn cached_paths_equal_those_of_python() {
    let Some(stdout) = run("paths.py", &[]) else { return };
    let count: u64 = last_line(&stdout).split_whitespace().nth(2).unwrap().parse().unwrap();
    assert!(count > 5_000, "{stdout}");
}

#[test]
fn span_names_take_bounded_memory() {
    let Some(stdout) = run("spans.py", &[]) else { return };
    assert!(stdout.starts_with("grown by "), "{stdout}");
}

#[test]
fn callbacks_are_unregistered() {
    let Some(stdout) = run("unregister.py", &[]) else { return };
    assert_eq!(last_line(&stdout), "unregistered");
}

#[test]
fn outputs_equal_those_of_pytorch() {
    let Some(stdout) = run("outputs.py", &[]) else { return };
    assert_eq!(last_line(&stdout), "outputs");
}

#[test]
fn a_tool_may_start_before_pytorch() {
    for case in ["waiting", "stopped", "again"] {
        let Some(stdout) = run("before_torch.py", &[case]) else { return };
        assert_eq!(last_line(&stdout), "began before", "{case}");
    }
}

/// Constructor of a library that runs before the interpreter starts.
#[test]
fn a_tool_may_be_preloaded() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let preloaded = |code: &str| {
        let mut command = Command::new(&python);
        command.args(["-c", code]);
        command.env("LD_PRELOAD", tool_in_c(folder.path(), TOOL)).env("TOOL_PRELOADED", "1");
        run_stdout(&mut command)
    };
    let code = "import sys; sys.audit('import', 3); sys.audit('import'); import torch; torch.ones(3) + 1";
    let stdout = preloaded(code);
    let count: u64 = last_line(&stdout).split_whitespace().next().unwrap().parse().unwrap();
    // The import runs operators, too.
    assert!(count >= 4, "{stdout}");
    assert_eq!(preloaded("print('no torch')"), "no torch\n0 operators of the preloaded tool\n");
}
