//! `record` with several processes, with one that cannot write its stream for a while, and with times that count from its begin. Without
//! PyTorch.

#![cfg(target_os = "linux")]
use crate::common;

use common::{recorder, stackline};
use stackline_recording::{Reader, Record};
use std::path::Path;

/// Starts two processes: a worker, whose PID it prints, and the resource tracker of `multiprocessing`, which ends a moment after the program. It
/// waits until both are recorded: a fast program could end before the tracker has started.
const SPAWNS: &str = "
import multiprocessing, os, sys, time

def work():
    print(os.getpid(), flush=True)

if __name__ == '__main__':
    time.sleep(float(sys.argv[1]))
    worker = multiprocessing.get_context('spawn').Process(target=work)
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    end = time.monotonic() + 30
    while len(os.listdir('run.stackline/streams')) < 3 and time.monotonic() < end:
        time.sleep(0.01)
";

/// Calls Python code for some seconds; for one of them its files may not grow.
const FULL_FOR_A_SECOND: &str = "
import resource, time

def busy(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))

_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
busy(0.3)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
busy(1.2)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
busy(0.7)
";

/// Record a program in a folder of its own; returns its output, and standard error.
fn record(folder: &Path, options: &[&str], program: &str, arguments: &[&str]) -> (String, String) {
    std::fs::write(folder.join("program.py"), program).unwrap();
    let mut command =
        stackline(&[&["record", "-o", "run.stackline"], options, &["--", "python3", "program.py"]].concat());
    command.args(arguments).current_dir(folder).env("STACKLINE_RECORDER", recorder());
    let output = command.output().unwrap();
    let [printed, messages] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{printed}{messages}");
    (printed, messages)
}

#[test]
fn helpers_that_end_shortly_after_are_not_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (_, messages) = record(folder.path(), &[], SPAWNS, &["0"]);
    assert!(messages.contains("of 3 processes"), "{messages}");
    assert!(!messages.contains("still running") && !messages.contains("records may be missing"), "{messages}");
}

/// True if the process is in the recorded part when it begins.
fn begins_within(folder: &Path, pid: &str) -> bool {
    let file = std::fs::read(folder.join(format!("run.stackline/streams/{pid}-0.slr"))).unwrap();
    let windows = |record: Record| if let Record::Window { open, .. } = record { Some(open) } else { None };
    Reader::new(&file).unwrap().find_map(windows).unwrap()
}

#[test]
fn spawned_processes_share_the_time_origin_of_the_command() {
    // By its own begin, the worker would be before the half second.
    for (option, expected) in [("--after", true), ("--duration", false)] {
        let folder = tempfile::tempdir().unwrap();
        let (worker, _) = record(folder.path(), &["--mode", "trace", option, "500ms"], SPAWNS, &["0.7"]);
        assert_eq!(begins_within(folder.path(), worker.trim()), expected, "{option}");
    }
}

#[test]
fn full_disks_are_reported_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (_, messages) = record(folder.path(), &[], FULL_FOR_A_SECOND, &[]);
    let [complaint, summary] = messages.lines().collect::<Vec<_>>()[..] else { panic!("{messages}") };
    assert!(complaint.starts_with("stackline: cannot write the recording: "), "{messages}");
    assert!(summary.contains(": file too large (RLIMIT_FSIZE) for "), "{messages}");
    assert!(summary.contains("; all records were written later") && !summary.contains("may be missing"), "{messages}");
}
