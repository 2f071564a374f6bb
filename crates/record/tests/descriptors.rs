//! A program that closes all files that it did not open: its own files are unchanged, and the recording is complete.

use crate::support;

use stackline_recording::{FrameKey, Metric};
use std::path::Path;
use support::{Stream, here, recorded, streams, torch};

/// Record the program; returns the number of operators that it called.
fn run(python: &Path, (run, own): (&Path, &Path), (mode, limit): (&str, &[&str])) -> u64 {
    let mut command = recorded(python, run);
    command.env("STACKLINE_MODE", mode).arg(here("tests/programs/closes_all.py")).arg(own).args(limit);
    let output = command.output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{} {stderr}", output.status);
    assert!(
        std::fs::read(own).unwrap() == b"own".repeat(333_333),
        "the program's file was touched ({mode}, {limit:?})"
    );
    stdout.trim().parse().unwrap()
}

/// Number of calls of the operator in a stream.
fn called(stream: &Stream) -> u64 {
    let is_sinh = |&(thread, node, metric): &(u32, u32, Metric)| {
        let path = stream.path(thread, node);
        metric == Metric::CallTime
            && matches!(path.last(), Some(FrameKey::Operator { name }) if stream.text(*name) == "aten::sinh")
    };
    stream.stats.iter().filter(|(key, _)| is_sinh(key)).map(|(_, stats)| stats.count).sum()
}

#[test]
fn a_program_that_closes_all_files_keeps_its_own_and_is_recorded_to_the_end() {
    let Some(python) = torch() else { return };
    // The second one writes with a full disk after it lost its file, and cuts off what did not fit.
    for (mode, limit) in [("profile", &[][..]), ("trace", &["20000"])] {
        let folder = tempfile::tempdir().unwrap();
        let (recording, own) = (folder.path().join("run"), folder.path().join("own"));
        let count = run(&python, (&recording, &own), (mode, limit));
        let stream = &streams(&recording)[0];
        assert!(stream.ended && !stream.damaged && stream.lost.is_empty(), "{:?}", stream.lost);
        assert_eq!(called(stream), count);
    }
}

#[test]
fn a_program_that_closes_all_files_keeps_its_own_on_a_disk_that_stays_full() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (recording, own) = (folder.path().join("run"), folder.path().join("own"));
    let count = run(&python, (&recording, &own), ("trace", &["0", "stay"]));
    let stream = &streams(&recording)[0];
    assert!(!stream.damaged && !stream.ended);
    assert!(called(stream) < count);
}
