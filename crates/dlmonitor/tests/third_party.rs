//! Tools that are not ours on top of `DLMonitor`: the examples, in a real PyTorch.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::iter_over_hash_type, reason = "tests")]

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

/// Where cargo puts what it builds for this test: `target/PROFILE`.
fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned()
}

/// Runs the program with the tool and returns what it printed.
fn run(python: &Path, tool: &Path) -> String {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/small_model.py");
    let output = Command::new(python).arg(program).arg(tool).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{said}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn a_tool_in_c() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let tool = folder.path().join("libcount.so");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let libraries = built().join("deps");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here.join("include"))
        .arg(here.join("examples/count_operators.c"))
        .arg("-L")
        .arg(&libraries)
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .args(["-ldlmonitor", "-o"])
        .arg(&tool)
        .status()
        .unwrap();
    assert!(status.success());
    let said = run(&python, &tool);
    let mut words = said.split_whitespace();
    assert_eq!(words.next(), Some("result"), "{said}");
    let (ours, theirs) = (
        said.lines().find(|line| line.contains(" operators")).unwrap(),
        said.lines().find(|line| line.starts_with("expected")).unwrap(),
    );
    let number = |line: &str| line.split_whitespace().find_map(|word| word.parse::<u64>().ok()).unwrap();
    assert_eq!(number(ours), number(theirs), "{said}");
    let path = said.lines().find(|line| line.starts_with("first aten::mm")).unwrap();
    assert!(path.contains("> product:14 > aten::matmulaten::mm"), "{path}");
    assert!(!ours.contains(" 0 allocations"), "{ours}");
    assert!(said.contains("\ncalled with 0:f32=1600x1600 0:f32=1600x1600\n"), "{said}");
}

#[test]
fn a_tool_in_rust() {
    let Some(python) = torch() else { return };
    let said = run(&python, &built().join("examples/libslowest_operator.so"));
    assert!(said.contains("(f32[1600, 1600]; f32[1600, 1600]) took") && said.contains("  product ("), "{said}");
}
