//! Python frames compared with CPython itself, on every installed interpreter.

use crate::support;

use std::process::Command;
use support::{here, interpreters, recorder};

fn check(version: &str) {
    let Some(python) = interpreters(version).pop() else {
        println!("skipped: no CPython {version} on PATH or in pyenv");
        return;
    };
    let program = here("tests/programs/frames.py");
    let output = Command::new(&python).arg(program).arg(recorder()).arg("40").output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}: {}\n{stdout}{}",
        python.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let mut numbers = stdout.split_whitespace().map(|number| number.parse::<u64>().unwrap_or(u64::MAX));
    let (checks, differences) = (numbers.next().unwrap(), numbers.next().unwrap());
    assert!(checks > 26_400, "{checks} checks");
    assert_eq!(differences, 0, "{stdout}");
}

/// Code at the address of earlier code is distinguished from it.
fn check_version(version: &str) {
    let Some(python) = interpreters(version).pop() else {
        println!("skipped: no CPython {version} on PATH or in pyenv");
        return;
    };
    let program = here("tests/programs/identity.py");
    let output = Command::new(&python).arg(program).arg(recorder()).arg("40000").output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let numbers: Vec<u64> = stdout.split_whitespace().map(|number| number.parse().unwrap()).collect();
    println!("{version}: {numbers:?}");
    assert!(numbers[0] > 1000, "addresses were used again: {numbers:?}");
    assert_eq!(numbers[1], 0, "{numbers:?}");
}

#[test]
#[ignore = "long: ./dev test --long"]
fn code_at_an_address_that_is_used_again() {
    for version in ["3.10", "3.11", "3.12", "3.13"] {
        check_version(version);
    }
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
