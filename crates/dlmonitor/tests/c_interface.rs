//! The C interface, by a tool in C (`programs/tool.c`) in a real PyTorch.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A Python with PyTorch, as `python/torch_env.py` makes it; where there is none the tests are skipped, but not in CI.
fn torch() -> Option<PathBuf> {
    let python = std::env::var_os("STACKLINE_TORCH").map(PathBuf::from);
    if python.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs STACKLINE_TORCH (python/torch_env.py)");
        println!("skipped: STACKLINE_TORCH names no Python with PyTorch (python/torch_env.py makes one)");
    }
    python
}

/// The tool, compiled into `folder`.
fn tool(folder: &Path) -> PathBuf {
    let tool = folder.join("libtool.so");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here.join("include"))
        .arg(here.join("tests/programs/tool.c"))
        .arg("-L")
        .arg(&libraries)
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .args(["-ldlmonitor", "-o"])
        .arg(&tool)
        .status()
        .unwrap();
    assert!(status.success());
    tool
}

/// Runs a program with the tool and further arguments; what it printed.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let python = torch()?;
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(program);
    let mut command = Command::new(python);
    // Cargo's search path may hold an older build of the library.
    command.arg(program).arg(tool(folder.path())).args(arguments).env_remove("LD_LIBRARY_PATH");
    Some(said(&mut command))
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{said}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    said
}

fn last_line(said: &str) -> &str {
    said.lines().last().unwrap_or_default()
}

#[test]
fn a_tool_that_stopped_starts_again() {
    let Some(said) = run("restart.py", &[]) else { return };
    assert_eq!(last_line(&said), "restarted");
}

#[test]
fn cached_paths_are_those_of_python() {
    let Some(said) = run("paths.py", &[]) else { return };
    let count: u64 = last_line(&said).split_whitespace().nth(2).unwrap().parse().unwrap();
    assert!(count > 5_000, "{said}");
}

#[test]
fn names_of_spans_take_no_memory() {
    let Some(said) = run("spans.py", &[]) else { return };
    assert!(said.starts_with("grown by "), "{said}");
}

#[test]
fn callbacks_are_unregistered() {
    let Some(said) = run("unregister.py", &[]) else { return };
    assert_eq!(last_line(&said), "unregistered");
}

#[test]
fn outputs_are_those_of_pytorch() {
    let Some(said) = run("outputs.py", &[]) else { return };
    assert_eq!(last_line(&said), "outputs");
}

#[test]
fn a_tool_may_start_before_pytorch() {
    for case in ["waiting", "stopped", "again"] {
        let Some(said) = run("before_torch.py", &[case]) else { return };
        assert_eq!(last_line(&said), "began before", "{case}");
    }
}

/// Its constructor runs before the interpreter starts.
#[test]
fn a_tool_may_be_preloaded() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let preloaded = |code: &str| {
        let mut command = Command::new(&python);
        command.args(["-c", code]).env_remove("LD_LIBRARY_PATH");
        command.env("LD_PRELOAD", tool(folder.path())).env("TOOL_PRELOADED", "1");
        said(&mut command)
    };
    let code = "import sys; sys.audit('import', 3); sys.audit('import'); import torch; torch.ones(3) + 1";
    let said = preloaded(code);
    let count: u64 = last_line(&said).split_whitespace().next().unwrap().parse().unwrap();
    // The import runs operators, too.
    assert!(count >= 4, "{said}");
    assert_eq!(preloaded("print('no torch')"), "no torch\n0 operators of the preloaded tool\n");
}
