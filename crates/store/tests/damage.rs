//! Damaged, truncated and foreign directories: an error with the file and the remedy, never a panic, never a silently
//! changed number.

use crate::common;

use common::{assert_same, random, sample};
use stackline_model::TraceSet;
use stackline_store::{Error, ReadSelection, WriteOptions, read_run, write_run};
use std::fs;
use std::path::{Path, PathBuf};

fn quick() -> WriteOptions {
    WriteOptions { sync: false, ..WriteOptions::default() }
}

fn run_with(set: &TraceSet) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a.stackline");
    write_run(set, &[], &run, &quick()).unwrap();
    (folder, run)
}

fn sample_run() -> (tempfile::TempDir, PathBuf) {
    run_with(&TraceSet { traces: vec![sample()] })
}

fn error(run: &Path) -> Error {
    read_run(run, &ReadSelection::all()).unwrap_err()
}

fn files(run: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(run.join("trace=0")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn flipped_bytes_of_all_tables_are_detected() {
    let (_folder, run) = sample_run();
    let files = files(&run);
    assert!(files.len() > 10);
    for file in files {
        let good = fs::read(&file).unwrap();
        for at in (0..good.len()).step_by(7) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&file, &bad).unwrap();
            let error = error(&run);
            assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
            assert!(error.to_string().contains(file.file_name().unwrap().to_str().unwrap()), "{error}");
        }
        for length in [0, 1, good.len() / 2, good.len() - 1] {
            fs::write(&file, &good[..length]).unwrap();
            assert!(matches!(error(&run), Error::Damaged { .. }));
        }
        fs::write(&file, &good).unwrap();
    }
    assert_same(&read_run(&run, &ReadSelection::all()).unwrap().traces[0], &sample());
}

#[test]
fn changed_bytes_of_the_manifest_are_detected() {
    let (_folder, run) = sample_run();
    let path = run.join("manifest.json");
    let good = fs::read_to_string(&path).unwrap();
    for (at, letter) in good.char_indices().filter(|(_, c)| c.is_ascii_alphanumeric()) {
        let mut bad = good.clone();
        let other = if letter.is_ascii_digit() { if letter == '1' { "2" } else { "1" } } else { "x" };
        if other == letter.to_string() {
            continue;
        }
        bad.replace_range(at..at + 1, other);
        fs::write(&path, &bad).unwrap();
        let error = read_run(&run, &ReadSelection::all()).map(|_| ()).expect_err(&bad[at.saturating_sub(40)..at + 1]);
        assert!(error.to_string().contains("manifest.json"), "{error}");
    }
    for length in (0..good.trim_end().len()).step_by(13) {
        fs::write(&path, &good[..good.floor_char_boundary(length)]).unwrap();
        assert!(read_run(&run, &ReadSelection::all()).is_err());
    }
    // White space and line breaks do not matter.
    let value: serde_json::Value = serde_json::from_str(&good).unwrap();
    fs::write(&path, value.to_string()).unwrap();
    assert!(read_run(&run, &ReadSelection::all()).is_ok());
}

/// Without checksums, as in version 1, the decoder has to handle the damage.
#[test]
fn damage_with_valid_checksums_gives_an_error_or_a_trace() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/store/v1");
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("old.stackline");
    fs::create_dir_all(run.join("trace=0")).unwrap();
    fs::copy(fixture.join("manifest.json"), run.join("manifest.json")).unwrap();
    for file in files(&fixture) {
        fs::copy(&file, run.join("trace=0").join(file.file_name().unwrap())).unwrap();
    }
    let (mut failed, mut survived) = (0, 0);
    for file in files(&run) {
        let good = fs::read(&file).unwrap();
        for at in (0..good.len()).step_by(11) {
            let mut bad = good.clone();
            bad[at] = bad[at].wrapping_mul(31).wrapping_add(97).wrapping_add(at as u8);
            fs::write(&file, &bad).unwrap();
            match read_run(&run, &ReadSelection::all()) {
                Ok(set) => {
                    survived += 1;
                    // All read data can be traversed.
                    for trace in &set.traces {
                        trace.events.ids().for_each(|e| assert!(trace.ancestors(e).count() <= trace.events.len()));
                    }
                }
                Err(Error::Damaged { .. } | Error::Newer { .. }) => failed += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
        fs::write(&file, &good).unwrap();
    }
    println!("{failed} damaged runs gave an error, {survived} a trace");
    assert!(failed > 500, "{failed}");
}

#[test]
fn missing_side_tables_are_noted_and_missing_main_tables_are_errors() {
    let (_folder, run) = sample_run();
    fs::remove_file(run.join("trace=0/links.parquet")).unwrap();
    let trace = &read_run(&run, &ReadSelection::all()).unwrap().traces[0];
    assert!(trace.links.is_empty());
    assert_eq!(trace.report.count_of("missing_table"), 1);
    fs::remove_file(run.join("trace=0/gpu.parquet")).unwrap();
    let text = error(&run).to_string();
    assert!(text.contains("gpu.parquet is damaged: the file is missing; import the source again"), "{text}");
}

#[test]
fn directories_without_a_run_report_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let message = |path: &Path| error(path).to_string();
    assert!(message(&folder.path().join("none")).ends_with("is not a Stackline run: no such directory"));
    assert!(message(folder.path()).ends_with("is not a Stackline run: the directory has no manifest.json"));
    fs::write(folder.path().join("manifest.json"), "{\"name\": \"web app\"}").unwrap();
    assert!(message(folder.path()).contains("lacks \"format\": \"stackline-run\""));
    let (_folder, run) = sample_run();
    fs::remove_file(run.join("manifest.json")).unwrap();
    assert!(message(&run).contains("is incomplete, because its import did not finish"));
}

#[test]
fn runs_of_newer_versions_are_refused() {
    let (_folder, run) = sample_run();
    let path = run.join("manifest.json");
    let mut value: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    value["version"] = 99.into();
    value.as_object_mut().unwrap().remove("checksum");
    fs::write(&path, value.to_string()).unwrap();
    let text = error(&run).to_string();
    assert!(
        text.contains("has format version 99, but this Stackline reads versions 1 to 6; update Stackline"),
        "{text}"
    );
}

#[test]
fn inconsistent_models_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a.stackline");
    let mut circle = random::long(10);
    circle.events.parent[3] = stackline_model::EventId(4);
    circle.events.parent[4] = stackline_model::EventId(3);
    let mut outside = sample();
    outside.gpu.launch[0] = stackline_model::EventId(1000);
    let mut short = sample();
    short.events.dur.pop();
    for (trace, words) in [(circle, "form a cycle"), (outside, "gpu.launch refers to"), (short, "differ in length")] {
        let error = write_run(&TraceSet { traces: vec![trace] }, &[], &run, &quick()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(!run.exists());
    }
}
