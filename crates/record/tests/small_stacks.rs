//! The sampler's signal handler on small alternate stacks, and together with all other users of signals.

use crate::support;

use stackline_recording::{FrameKey, Metric};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Stream, compile, here, interpreters, recorded, streams};

/// Largest number of bytes of the interrupted stack that the handler may use, for any options.
const MOST: usize = 4096;

fn installed() -> Vec<PathBuf> {
    let found: Vec<PathBuf> =
        ["3.10", "3.11", "3.12", "3.13"].iter().filter_map(|version| interpreters(version).pop()).collect();
    if found.is_empty() {
        println!("skipped: no CPython on PATH or in pyenv");
    }
    found
}

/// Samples of CPU time: number with a Python function on their path, and number of those that end in native frames.
fn samples_in(stream: &Stream, function: &str) -> (u64, u64) {
    let (mut all, mut native) = (0, 0);
    for (&(thread, node, _), stats) in stream.stats.iter().filter(|(key, _)| key.2 == Metric::CpuTime) {
        let path = stream.path(thread, node);
        let is = |frame: &&FrameKey| matches!(frame, FrameKey::Python { function: name, .. } if stream.text(*name) == function);
        if path.iter().any(is) {
            all += stats.count;
            native += if matches!(path.last(), Some(FrameKey::Native { .. })) { stats.count } else { 0 };
        }
    }
    (all, native)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Options that make samples large: native frames, counters, wall time.
const OPTIONS: [(&str, &str); 4] = [
    ("STACKLINE_NATIVE", "1"),
    ("STACKLINE_COUNTERS", "page-faults,context-switches,cpu-migrations,cycles,instructions"),
    ("STACKLINE_SAMPLE_HZ", "999"),
    ("STACKLINE_WALL_HZ", "199"),
];

#[test]
fn signal_handler_uses_little_of_a_small_stack() {
    for python in installed() {
        let folder = tempfile::tempdir().unwrap();
        let Some(library) = compile(folder.path(), "signals") else { return };
        let run = folder.path().join("run");
        std::fs::create_dir(&run).unwrap();
        let mut command = recorded(&python, &run);
        command.envs(OPTIONS).arg(here("tests/programs/small_stacks.py")).arg(library).arg("0.4");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}: {} {}", python.display(), output.status, text(&output.stderr));
        let stdout = text(&output.stdout);
        println!("{}: stack, its size, bytes that the kernel used, bytes used in all\n{stdout}", python.display());
        assert_eq!(stdout.lines().count(), 3, "{stdout}");
        for line in stdout.lines() {
            let numbers: Vec<usize> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [size, kernel, touched] = numbers[..] else { panic!("{line}") };
            assert!(touched > kernel, "{line}: no sample was taken on the stack");
            assert!(touched < size && touched - kernel <= MOST, "{line}: {} bytes", touched - kernel);
        }
        let stream = &streams(&run)[0];
        let (all, native) = samples_in(stream, "work");
        assert!(all > 100 && native * 2 > all, "{all} samples, {native} with native frames");
        assert!(stream.ended && !stream.damaged);
    }
}

/// Without memory for the handler's own stack, no frames are read on the program's, which may be small.
#[test]
fn samples_without_a_stack_have_no_frames() {
    let program = "import time\ndef work():\n    end = time.thread_time() + 0.4\n    \
                   while time.thread_time() < end: sum(range(100))\nwork()\n";
    for python in installed() {
        let folder = tempfile::tempdir().unwrap();
        let Some(library) = compile(folder.path(), "no_stacks") else { return };
        for options in [&OPTIONS[2..3], &OPTIONS[..]] {
            let run = tempfile::tempdir().unwrap();
            let mut command = recorded(&python, run.path());
            command.env("LD_PRELOAD", &library).envs(options.iter().copied());
            let output = command.args(["-X", "faulthandler", "-c", program]).output().unwrap();
            assert!(output.status.success(), "{}: {} {}", python.display(), output.status, text(&output.stderr));
            let stream = &streams(run.path())[0];
            let of_time = stream.stats.iter().filter(|(key, _)| key.2 == Metric::CpuTime);
            let samples: u64 = of_time.map(|(_, stats)| stats.count).sum();
            assert!(samples > 20, "{samples}");
            assert_eq!(samples_in(stream, "work"), (0, 0), "{}, {options:?}", python.display());
            let detail = &stream.sources["samples"].1;
            let lost = "samples lack native frames or all frames, because there was no memory for reading the stack";
            assert!(detail.contains(lost), "{detail}");
        }
    }
}

/// `seconds`: processor time in each part, in which samples are taken.
fn every_signal(command: &mut Command, library: &Path, seconds: &str) -> Output {
    let output = command.arg(here("tests/programs/every_signal.py")).arg(library).arg(seconds).output().unwrap();
    assert!(output.status.success(), "{} {}", output.status, text(&output.stderr));
    output
}

#[test]
#[ignore = "long: ./dev test --long"]
fn programs_may_use_every_signal_number() {
    for python in installed() {
        let folder = tempfile::tempdir().unwrap();
        let Some(library) = compile(folder.path(), "signals") else { return };
        let truth = text(&every_signal(&mut Command::new(&python), &library, "0.05").stdout);
        for options in [&OPTIONS[2..3], &OPTIONS[..]] {
            let run = tempfile::tempdir().unwrap();
            let output = every_signal(recorded(&python, run.path()).envs(options.iter().copied()), &library, "0.3");
            assert_eq!(text(&output.stdout), truth, "{}, {options:?}", python.display());
            let stream = &streams(run.path())[0];
            for function in ["python_handlers", "c_handlers", "after_taken"] {
                let (all, _) = samples_in(stream, function);
                assert!(all > 5, "{}, {function}: {all} samples", python.display());
            }
            assert!(stream.ended && !stream.damaged);
            println!("{}: {} signals came before the recorder noticed", python.display(), text(&output.stderr).trim());
        }
        println!("{truth}");
    }
}

/// A thread has only the stack that the program gave it: the recorder's memory for native frames is elsewhere.
#[test]
fn native_frames_take_little_of_a_small_stack() {
    let Some(python) = support::torch() else { return };
    for (kibibytes, has_room) in [("64", false), ("128", true), ("400", true)] {
        let run = tempfile::tempdir().unwrap();
        let mut command = recorded(&python, run.path());
        command.envs(OPTIONS).arg(here("tests/programs/thread_stacks.py")).arg(kibibytes);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{kibibytes} KiB: {} {}", output.status, text(&output.stderr));
        assert_eq!(text(&output.stdout), "multiplied 500 times\n");
        let stream = &streams(run.path())[0];
        let is_native = |frame: &&FrameKey| matches!(frame, FrameKey::Native { .. });
        let is_multiplication = |path: &[&FrameKey]| matches!(path.last(), Some(FrameKey::Operator { name }) if stream.text(*name) == "aten::mul");
        let calls = stream.calls();
        let hits_of = |native: bool| {
            calls.iter().filter(move |(path, _)| is_multiplication(path) && path.iter().any(is_native) == native)
        };
        let [with, without] = [true, false].map(|native| hits_of(native).map(|(_, count)| count).sum::<u64>());
        assert_eq!(with + without, 500, "{kibibytes} KiB");
        assert_eq!(with > 0, has_room, "{kibibytes} KiB: {with} with native frames");
        assert!(stream.lost.contains_key("native_frames_without_stack") || has_room, "{:?}", stream.lost);
    }
}

/// While a library is loaded, no thread of the recorder can start or end: the recorder waits for no thread while
/// others wait for its locks.
#[test]
fn libraries_that_wait_for_the_gil_block_no_other_thread() {
    for python in installed() {
        let folder = tempfile::tempdir().unwrap();
        let Some(library) = compile(folder.path(), "loading") else { return };
        let run = folder.path().join("run");
        std::fs::create_dir(&run).unwrap();
        let mut command = recorded(&python, &run);
        command.env("STACKLINE_NATIVE", "1").env("STACKLINE_SAMPLE_HZ", "99");
        let output = command.arg(here("tests/programs/loading.py")).arg(library).output().unwrap();
        assert!(output.status.success(), "{}: {output:?}", python.display());
        assert_eq!(text(&output.stdout), "replaced\n", "{}", python.display());
        let [stream] = &streams(&run)[..] else { panic!("not one stream") };
        assert!(stream.replaced && stream.ended && !stream.damaged, "{}", python.display());
    }
}
