//! Tests with recorded programs that have one known problem each: the finding names the marked line.

#![cfg(target_os = "linux")]
use crate::common;

use common::{recorder, stackline, torch};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/findings/programs")
}

/// Code, file, line, and gain in percent of a step.
type Found = (String, String, u64, f64);

/// Small operators are small on machines that are busy or slow, too.
const SMALL: [&str; 4] = ["--set", "SL015.mean_us=200", "--set", "SL038.median_us=200"];

/// Each call, with samples of all that threads do.
const ALL_TIME: &[&str] = &["--mode", "trace", "--wall-hz", "499"];
/// Each call, as users record that.
const TRACE: &[&str] = &["--mode", "trace"];
/// Call trees, the default mode of recording.
const CALLS: &[&str] = &[];

/// Findings of a recording of a program, recorded in some way.
fn found_in(python: &Path, how: &[&str], program: &str, options: &[&str]) -> Vec<Found> {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run.stackline");
    let script = programs().join(program);
    let paths = [run.to_str().unwrap(), python.to_str().unwrap(), script.to_str().unwrap()];
    let record = [&["record"], how, &["-o", paths[0], "--", paths[1], paths[2]], options].concat();
    let recorded = stackline(&record)
        .env("STACKLINE_RECORDER", recorder())
        .env("TORCHINDUCTOR_COMPILE_THREADS", "1")
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{program}: {}", String::from_utf8_lossy(&recorded.stderr));
    let listing = stackline(&[&["findings", paths[0], "--format", "json"], &SMALL[..]].concat()).output().unwrap();
    let listing: Value = serde_json::from_slice(&listing.stdout).unwrap();
    let rows = listing["tables"]["findings"]["rows"].as_array().unwrap();
    let text = |row: &Value, column: &str| row[column].as_str().unwrap_or_default().to_owned();
    let line = |row: &Value| row["line"].as_u64().unwrap_or(0);
    let gain = |row: &Value| row["gain_percent"].as_f64().unwrap_or(0.0);
    rows.iter().map(|row| (text(row, "code"), text(row, "file"), line(row), gain(row))).collect()
}

/// The code that a program says will be found, and the line of it: 0 if any will do.
fn expected(program: &str) -> (String, u64) {
    let text = std::fs::read_to_string(programs().join(program)).unwrap();
    let marked = text.lines().zip(1..).find_map(|(line, number)| Some((line.split_once("# finding")?.1, number)));
    let (mark, number) = marked.unwrap();
    let (place, code) = mark.split_once(": ").unwrap();
    (code.to_owned(), if place.is_empty() { number } else { 0 })
}

fn finds(how: &[&str], program: &str) {
    let Some(python) = torch() else { return };
    let (code, line) = expected(program);
    let found = found_in(&python, how, program, &["--steps", "20"]);
    // Call trees have the whole path.
    let is_it = |file: &str| Path::new(file).file_name().is_some_and(|name| name == program);
    let fits = |(c, file, l, _): &&Found| *c == code && (line == 0 || is_it(file) && *l == line);
    let gain = |found: &[Found]| found.iter().find(fits).map(|found| found.3);
    let before = gain(&found);
    assert!(before.is_some(), "{program}: {code} at line {line} is not among {found:?}");
    let repaired = found_in(&python, how, program, &["--steps", "20", "--mended"]);
    // A busy machine may leave something: workers that come late, a collection of garbage.
    assert!(gain(&repaired) < before.map(|gain| gain / 2.0), "{program} --mended: {before:?}, then {repaired:?}");
}

macro_rules! programs {
    ($($(#[$long:meta])? $name:ident)*) => {$(
        #[test]
        $(#[$long])?
        fn $name() {
            finds(ALL_TIME, concat!(stringify!($name), ".py"));
        }
    )*};
}

programs! {
    busy_python
    #[ignore = "long: ./dev test --long"]
    dataloader_few_workers
    dataloader_starved
    #[ignore = "long: ./dev test --long"]
    gc_pauses
    #[ignore = "long: ./dev test --long"]
    logging_in_step
    #[ignore = "long: ./dev test --long"]
    needless_copies
    #[ignore = "long: ./dev test --long"]
    oversubscribed
    #[ignore = "long: ./dev test --long"]
    queue_wait
    #[ignore = "long: ./dev test --long"]
    recompilation
    #[ignore = "long: ./dev test --long"]
    resize_in_pipeline
    small_operators
    tensor_of_list
    #[ignore = "long: ./dev test --long"]
    too_few_threads
    #[ignore = "long: ./dev test --long"]
    unfused_optimizer
    #[ignore = "long: ./dev test --long"]
    waits
}

#[test]
#[ignore = "long: ./dev test --long"]
fn padding() {
    finds(&["--mode", "trace", "--shapes"], "padding.py");
}

#[test]
#[ignore = "long: ./dev test --long"]
fn embedding_gradient() {
    finds(&["--mode", "trace", "--shapes"], "embedding_gradient.py");
}

#[test]
fn waits_are_found_with_default_options() {
    finds(TRACE, "waits.py");
}

#[test]
#[ignore = "long: ./dev test --long"]
fn queue_waits_are_found_with_default_options() {
    finds(TRACE, "queue_wait.py");
}

#[test]
fn waits_are_found_in_sums_of_calls() {
    finds(CALLS, "waits.py");
}

/// Findings of rules over call trees.
#[test]
#[ignore = "long: ./dev test --long"]
fn sums_of_calls_have_findings() {
    const PROGRAMS: [&str; 11] = [
        "busy_python.py",
        "dataloader_few_workers.py",
        "dataloader_starved.py",
        "gc_pauses.py",
        "logging_in_step.py",
        "needless_copies.py",
        "queue_wait.py",
        "recompilation.py",
        "resize_in_pipeline.py",
        "small_operators.py",
        "unfused_optimizer.py",
    ];
    PROGRAMS.iter().for_each(|program| finds(CALLS, program));
}
