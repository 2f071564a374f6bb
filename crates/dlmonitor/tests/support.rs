//! Shared code of the tests of tools: a Python with PyTorch, tools in C, and the output of programs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A Python with PyTorch, from `python/torch_env.py`. Without it the tests are skipped, except in CI.
pub(crate) fn torch() -> Option<PathBuf> {
    let python = std::env::var_os("STACKLINE_TORCH").map(PathBuf::from);
    if python.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs STACKLINE_TORCH (python/torch_env.py)");
        println!("skipped: STACKLINE_TORCH names no Python with PyTorch (python/torch_env.py makes one)");
    }
    python
}

/// A file of this crate.
pub(crate) fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Folder of cargo's output for these tests: `target/PROFILE`.
pub(crate) fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned()
}

/// Compile a tool in C, whose source is a file of this crate, into `folder`.
pub(crate) fn tool_in_c(folder: &Path, source: &str) -> PathBuf {
    let tool = folder.join("libtool.so");
    let libraries = built().join("deps");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here("include"))
        .arg(here(source))
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

/// Run a program of `programs/` with a tool and further arguments; returns its output.
pub(crate) fn run(python: &Path, program: &str, tool: &Path, arguments: &[&str]) -> String {
    run_stdout(Command::new(python).arg(here("tests/programs").join(program)).arg(tool).args(arguments))
}

/// Output of a command, which must succeed.
pub(crate) fn run_stdout(command: &mut Command) -> String {
    // Cargo's search path may hold an older build of the library.
    let output = command.env_remove("LD_LIBRARY_PATH").output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{stdout}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    stdout
}
