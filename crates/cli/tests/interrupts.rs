//! Tests of Ctrl-C during long work, as a terminal sends it.

#![cfg(target_os = "linux")]
use crate::common;

use common::stackline;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const SIGINT: i32 = 2;

/// A trace that takes long: many steps, one after the other.
fn long_trace(folder: &Path, events: u64) -> String {
    let demo = stackline_testkit::demo::generate(&stackline_testkit::demo::Config::default());
    let file = folder.join("long.json");
    let mut target = std::io::BufWriter::new(std::fs::File::create(&file).unwrap());
    stackline_testkit::replicate::replicate(demo.as_bytes(), events, &mut target).unwrap();
    target.flush().unwrap();
    file.to_str().unwrap().to_owned()
}

fn spawn(args: &[&str]) -> Child {
    stackline(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

/// Status of a process in the kernel.
fn status(child: &Child, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    text.lines().find_map(|l| l.strip_prefix(key)).unwrap_or_default().trim().to_owned()
}

/// Wait until a process listens for Ctrl-C: from then on its work can be interrupted with a result.
fn wait_until_it_listens(child: &mut Child) {
    let began = Instant::now();
    let listens = |child: &Child| {
        let caught = u64::from_str_radix(&status(child, "SigCgt:"), 16).unwrap_or(0);
        caught & (1 << (SIGINT - 1)) != 0
    };
    while !listens(child) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it listened");
        assert!(began.elapsed() < Duration::from_secs(120), "it never listened");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Processor time that a process has used, in ticks of 10 ms. It does not grow while the machine does other things.
fn ticks(child: &Child) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().nth(11).and_then(|utime| utime.parse().ok()).unwrap_or(0)
}

fn end(child: Child) -> (Output, String, String) {
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let (out, err) = (out.into_owned(), err.into_owned());
    (output, out, err)
}

/// A sweep that is interrupted once it has worked for a number of ticks since it listens.
fn sweep_interrupted_after(trace: &str, worked: u64) -> (serde_json::Value, String) {
    let sweep = ["what-if", trace, "--sweep", "--candidates", "100000", "--threads", "1", "--format", "json"];
    let mut child = spawn(&sweep);
    wait_until_it_listens(&mut child);
    let listens = ticks(&child);
    while ticks(&child) < listens + worked {
        assert!(child.try_wait().unwrap().is_none(), "the sweep was over");
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(&child);
    let (output, out, err) = end(child);
    assert_eq!(output.status.code(), Some(0), "{err}");
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["interrupted"], true);
    (document, err)
}

#[test]
fn interrupted_sweeps_print_partial_results() {
    let folder = tempfile::tempdir().unwrap();
    let trace = long_trace(folder.path(), 500_000);
    // It looks for edits before it tries them: how long depends on the machine. All of them take many times as long.
    for worked in [25, 50, 100, 200, 400, 800] {
        let (document, err) = sweep_interrupted_after(&trace, worked);
        let (tried, planned) = (document["tried"].as_u64().unwrap(), document["planned"].as_u64().unwrap());
        assert!(tried <= planned, "{tried} of {planned}");
        let rows = document["tables"]["sweep"]["rows"].as_array().unwrap();
        assert!(rows.len() as u64 <= tried, "{} of {tried}", rows.len());
        if planned == 0 {
            assert!(err.contains("Stopped before any change was simulated."), "{err}");
        } else {
            let stopped = format!("Stopped: {tried} of {planned} changes were simulated.");
            assert!(err.contains(&stopped), "{err}");
        }
        if tried > 0 {
            assert!(tried < planned && !rows.is_empty(), "{tried} of {planned}");
            return;
        }
    }
    panic!("no edit was tried");
}

/// The first Ctrl-C requests the partial result, the second one ends the program. No process reads the result, so that the program is
/// alive for both, however fast it is.
#[test]
fn second_interrupts_end_the_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let trace = long_trace(folder.path(), 20_000);
    let (mut full, _reader) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while full.write(&[b' '; 4096]).is_ok() {}
    full.set_nonblocking(false).unwrap();
    let mut sweep = stackline(&["what-if", &trace, "--sweep"]);
    let sweep = sweep.stdin(Stdio::null()).stdout(OwnedFd::from(full)).stderr(Stdio::null());
    let mut child = sweep.spawn().unwrap();
    wait_until_it_listens(&mut child);
    interrupt(&child);
    let is_pending =
        |child: &Child| u64::from_str_radix(&status(child, "ShdPnd:"), 16).unwrap_or(0) & (1 << (SIGINT - 1)) != 0;
    // Two of a kind that are pending are one.
    while is_pending(&child) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(child.try_wait().unwrap(), None, "the first one ended it");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Commands without a handler: the signal ends the program as usual, and no half-written file stays.
#[test]
fn interrupted_paths_leave_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let trace = long_trace(folder.path(), 150_000);
    let text = std::fs::read(&trace).unwrap();
    let written = folder.path().join("out");
    std::fs::create_dir(&written).unwrap();
    let target = written.join("path.json");
    let target = target.to_str().unwrap();
    for method in ["exact", "ctda", "hta"] {
        let mut child = spawn(&["critical-path", "-", "--method", method, "--format", "json", "-o", target]);
        // Once it has taken all of the text, it puts the trace in order and looks for the path.
        child.stdin.take().unwrap().write_all(&text).unwrap();
        interrupt(&child);
        let (output, out, err) = end(child);
        assert_eq!(output.status.signal(), Some(SIGINT), "{method}: {:?} {err}", output.status);
        assert_eq!(out, "", "{method}");
        assert_eq!(std::fs::read_dir(&written).unwrap().count(), 0, "{method}");
    }
}
