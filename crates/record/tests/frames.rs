//! Python frames against CPython itself, on every interpreter that is installed.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{here, recorder};

/// Interpreters on the PATH and in pyenv, by version.
fn interpreters(version: &str) -> Vec<PathBuf> {
    let mut candidates: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).map(|folder| folder.join(format!("python{version}"))).collect())
        .unwrap_or_default();
    let pyenv = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    if let Some(versions) = pyenv.and_then(|root| root.join("versions").read_dir().ok()) {
        candidates.extend(versions.flatten().map(|entry| entry.path().join(format!("bin/python{version}"))));
    }
    candidates.retain(|path| runs(path, version));
    candidates
}

/// A shim of pyenv for a version that is not chosen fails; so may others.
fn runs(python: &Path, version: &str) -> bool {
    let code = format!("import sys; sys.exit('{version}' != '%d.%d' % sys.version_info[:2])");
    python.is_file() && Command::new(python).args(["-c", &code]).output().is_ok_and(|output| output.status.success())
}

fn check(version: &str) {
    let Some(python) = interpreters(version).pop() else {
        println!("skipped: no CPython {version} on PATH or in pyenv");
        return;
    };
    let program = here("tests/programs/frames.py");
    let output = Command::new(&python).arg(program).arg(recorder()).arg("40").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}: {}\n{said}{}",
        python.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let mut numbers = said.split_whitespace().map(|number| number.parse::<u64>().unwrap_or(u64::MAX));
    let (checks, differences) = (numbers.next().unwrap(), numbers.next().unwrap());
    assert!(checks > 26_400, "{checks} checks");
    assert_eq!(differences, 0, "{said}");
}

#[test]
fn cpython_3_10() {
    check("3.10");
}

#[test]
fn cpython_3_11() {
    check("3.11");
}

#[test]
fn cpython_3_12() {
    check("3.12");
}

#[test]
fn cpython_3_13() {
    check("3.13");
}
