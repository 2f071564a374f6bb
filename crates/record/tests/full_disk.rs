//! A disk that is full for two seconds: the recording loses no data, and the program is unaffected.

use crate::support;

use stackline_recording::{FrameKey, Metric, Record};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Stream, all_records, here, recorded, streams, torch};

const ENOSPC: i32 = 28;
const EFBIG: i32 = 27;

/// True for the node of the operator that the program calls.
fn is_sinh(stream: &Stream, thread: u32, node: u32) -> bool {
    let path = stream.path(thread, node);
    matches!(path.last(), Some(FrameKey::Operator { name }) if stream.text(*name) == "aten::sinh")
}

/// Check that all calls are recorded, and that the outage is reported if there was one: the last block of a file may
/// have had space for all data.
fn check(run: &Path, trace: bool, (count, has_outage): (u64, bool), error: i32) {
    let stream = &streams(run)[0];
    assert!(stream.ended && !stream.damaged && stream.lost.is_empty(), "{:?}", stream.lost);
    let times = stream.stats.iter().filter(|(key, _)| key.2 == Metric::CallTime);
    let called = times.filter(|(key, _)| is_sinh(stream, key.0, key.1)).map(|(_, stats)| stats.count).sum::<u64>();
    assert_eq!(called, count);
    let events = stream.events.iter().filter(|&&(thread, node, _)| is_sinh(stream, thread, node)).count() as u64;
    assert_eq!(events, if trace { count } else { 0 });
    let outages: Vec<(i32, u64, i64)> = all_records(run)
        .into_iter()
        .filter_map(|record| match record {
            Record::Outage { from_ns, to_ns, error, dropped } => Some((error, dropped, (to_ns - from_ns) / 1_000_000)),
            _ => None,
        })
        .collect();
    println!("{outages:?}");
    if !has_outage {
        return assert_eq!(outages, []);
    }
    let [(reason, 0, ms)] = outages[..] else { panic!("{outages:?}") };
    assert!(reason == error && (1000..4000).contains(&ms), "{outages:?}");
}

fn program(python: &Path, run: &Path, trace: bool) -> Command {
    let mut command = recorded(python, run);
    command.env("STACKLINE_MODE", if trace { "trace" } else { "profile" });
    command.arg(here("tests/programs/full_disk.py"));
    command
}

/// Number of operators that the program called, and true if it printed (once) that the recording cannot be written.
fn count(stdout: &str, stderr: &str) -> (u64, bool) {
    let complaints = stderr.matches("stackline: cannot write the recording").count();
    assert!(complaints <= 1 && complaints == stderr.lines().count(), "{stderr}");
    (stdout.trim().lines().last().unwrap().parse().unwrap(), complaints == 1)
}

#[test]
#[ignore = "long: ./dev test --long"]
fn temporary_size_limits_lose_nothing() {
    let Some(python) = torch() else { return };
    for (trace, limit) in [(false, 0), (true, 0), (true, 20_000)] {
        let run = tempfile::tempdir().unwrap();
        let output = program(&python, run.path(), trace).arg(limit.to_string()).output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{} {stderr}", output.status);
        let found = count(&stdout, &stderr);
        assert!(found.1);
        check(run.path(), trace, found, EFBIG);
    }
}

#[test]
fn permanent_size_limits_keep_written_records() {
    let Some(python) = torch() else { return };
    for trace in [false, true] {
        let run = tempfile::tempdir().unwrap();
        let output = program(&python, run.path(), trace).args(["0", "stay"]).output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{} {stderr}", output.status);
        let (count, has_complaint) = count(&stdout, &stderr);
        assert!(has_complaint);
        let stream = &streams(run.path())[0];
        assert!(!stream.damaged && !stream.ended);
        let times = stream.stats.iter().filter(|(key, _)| key.2 == Metric::CallTime);
        let called = times.filter(|(key, _)| is_sinh(stream, key.0, key.1)).map(|(_, stats)| stats.count).sum::<u64>();
        assert!(called > count / 10 && called < count, "{called} of {count}");
    }
}

/// A file system of this size in bytes, mounted while this value lives.
struct Small(tempfile::TempDir);

impl Small {
    /// `None`, with the reason on standard output, if it cannot be mounted.
    fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let output =
            Command::new("mount").args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(folder.path()).output().ok()?;
        if !output.status.success() {
            println!("skipped: no tmpfs can be mounted: {}", String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        Some(Self(folder))
    }

    /// Fill all remaining space, to the last byte.
    fn fill(&self) {
        let path = self.0.path().join("filler");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        for size in [1 << 16, 1 << 12, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

#[test]
fn a_full_disk_for_two_seconds_loses_nothing() {
    let Some(python) = torch() else { return };
    for trace in [false, true] {
        let Some(disk) = Small::mount("size=16m") else { return };
        let run = disk.0.path().join("run");
        let mut child = program(&python, &run, trace).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut output = String::new();
        stdout.read_line(&mut output).unwrap();
        std::thread::sleep(Duration::from_millis(1200));
        let since = Instant::now();
        // The file system gives freed space to any file, so all space that the recorder frees is filled, too.
        while since.elapsed() < Duration::from_secs(2) {
            disk.fill();
            std::thread::sleep(Duration::from_millis(50));
        }
        std::fs::remove_file(disk.0.path().join("filler")).unwrap();
        let (mut output, mut complaints) = (String::new(), String::new());
        stdout.read_to_string(&mut output).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
        assert!(child.wait().unwrap().success(), "{complaints}");
        let found = count(&output, &complaints);
        assert!(found.1 || !trace);
        check(&run, trace, found, ENOSPC);
    }
}
