//! Effects that a recording must not have: on output, exit code, signals and results; and events that it must
//! survive.

use crate::support;

use stackline_recording::{FrameKey, Metric, Stats};
use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::{here, recorded, streams, torch};

fn python() -> PathBuf {
    torch().unwrap_or_else(|| PathBuf::from("python3"))
}

/// Run a program alone and recorded, and require equal results.
pub(crate) fn same(arguments: &[&str]) -> (Output, tempfile::TempDir) {
    let run = tempfile::tempdir().unwrap();
    let alone = Command::new(python()).args(arguments).output().unwrap();
    let watched = recorded(&python(), run.path()).args(arguments).output().unwrap();
    assert_eq!(watched.stdout, alone.stdout, "{arguments:?}");
    assert_eq!(watched.status, alone.status, "{arguments:?}");
    assert_eq!(String::from_utf8_lossy(&watched.stderr), String::from_utf8_lossy(&alone.stderr), "{arguments:?}");
    (watched, run)
}

#[test]
fn exit_codes_and_signals_are_unchanged() {
    let endings = [
        ("print('done')", Some(0)),
        ("import sys; sys.exit(7)", Some(7)),
        ("raise ValueError('no')", Some(1)),
        ("import os; print('out', flush=True); os._exit(3)", Some(3)),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", None),
        ("import os; os.abort()", None),
        (
            "import signal, os; signal.signal(signal.SIGUSR1, lambda *_: print('caught')); os.kill(os.getpid(), signal.SIGUSR1)",
            Some(0),
        ),
        ("import os, signal; signal.raise_signal(signal.SIGINT)", None),
        ("import atexit; atexit.register(lambda: print('last words')); print('first')", Some(0)),
        ("import threading; threading.Thread(target=lambda: print('thread')).start()", Some(0)),
    ];
    for (program, code) in endings {
        let (output, _run) = same(&["-c", program]);
        assert_eq!(output.status.code(), code, "{program}");
    }
}

/// Number of calls of operators with this name.
pub(crate) fn called(stream: &support::Stream, operator: &str) -> u64 {
    let is = |key: &FrameKey| matches!(key, FrameKey::Operator { name } if stream.text(*name) == operator);
    let calls = stream.calls();
    calls.iter().filter(|(path, _)| path.last().is_some_and(|key| is(key))).map(|(_, count)| count).sum()
}

#[test]
fn recordings_ended_by_os_exit_are_complete() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let program = here("tests/programs/exits.py");
    let output = recorded(&python, run.path()).arg(program).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n");
    let streams = streams(run.path());
    assert_eq!(streams.len(), 11);
    for stream in streams {
        let is_child = stream.process.role == stackline_recording::Role::Fork;
        assert!(stream.ended && !stream.damaged);
        assert_eq!(called(&stream, "aten::cosh"), if is_child { 0 } else { 7 });
        assert_eq!(
            called(&stream, "aten::sinh"),
            u64::from(stream.exit.filter(|_| is_child).map_or(0, i32::cast_unsigned))
        );
        assert!(is_child || stream.exit == Some(3), "{:?}", stream.exit);
    }
}

#[test]
fn os_exit_keeps_the_signature_of_the_interpreter() {
    let programs = [
        ("import os; os._exit(status=9)", Some(9)),
        ("import os; os._exit(-1)", Some(255)),
        ("import os; os._exit('1')", Some(1)),
        (
            "import inspect, os; print(os._exit, inspect.signature(os._exit), os._exit.__doc__, os._exit.__module__)",
            Some(0),
        ),
        ("import os, pickle; print(pickle.dumps(os._exit), pickle.loads(pickle.dumps(os._exit)) is os._exit)", Some(0)),
        ("import atexit, os; atexit.register(os._exit, 4)", Some(4)),
    ];
    for (program, code) in programs {
        let (output, _run) = same(&["-c", program]);
        assert_eq!(output.status.code(), code, "{program}");
    }
}

#[test]
fn python_that_ignores_the_environment_is_not_recorded() {
    for option in ["-I", "-S", "-E"] {
        same(&[option, "-c", "import sys; print(sorted(sys.modules) != [], sys.flags.isolated)"]);
    }
}

#[test]
fn a_sitecustomize_of_the_user_still_runs() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("sitecustomize.py"), "print('the user was here')").unwrap();
    let run = tempfile::tempdir().unwrap();
    let path = std::env::join_paths([here("bootstrap"), folder.path().into()]).unwrap();
    let program = "import sitecustomize; print(sitecustomize.__file__)";
    let output = recorded(&python(), run.path()).env("PYTHONPATH", path).args(["-c", program]).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.starts_with("the user was here\n"), "{stdout}");
    assert!(stdout.contains(&folder.path().display().to_string()), "{stdout}");
}

#[test]
fn write_failures_are_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = recorded(&python(), &file).args(["-c", "print('still works')"]).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success());
    assert_eq!(output.stdout, b"still works\n");
    assert!(complaint.starts_with("stackline: ") && complaint.lines().count() == 1, "{complaint}");
}

/// Also with shapes, for which PyTorch copies references to inputs.
#[test]
fn results_are_identical_to_the_bit() {
    let Some(python) = torch() else { return };
    let program = here("../../python/examples/train_gpt.py");
    let arguments = [program.to_str().unwrap(), "--steps", "5"];
    let (output, run) = same(&arguments);
    assert!(String::from_utf8_lossy(&output.stdout).contains("final loss"));
    let of_sources = |run: &Path| {
        let stream = streams(run).remove(0);
        assert!(stream.ended);
        stream.sources
    };
    let sources = of_sources(run.path());
    assert!(sources["python"].0 && sources["pytorch"].0);
    let run = tempfile::tempdir().unwrap();
    let with_shapes = recorded(&python, run.path()).env("STACKLINE_SHAPES", "1").args(arguments).output().unwrap();
    let stderr_and_stdout =
        |output: &Output| [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!((with_shapes.status, stderr_and_stdout(&with_shapes)), (output.status, stderr_and_stdout(&output)));
    assert!(of_sources(run.path())["shapes"].0);
}

#[test]
fn children_of_every_kind_are_recorded() {
    if torch().is_none() {
        return;
    }
    let program = here("tests/programs/children.py");
    let (_, run) = same(&[program.to_str().unwrap()]);
    let streams = streams(run.path());
    let processes_with_calls =
        |role| streams.iter().filter(|stream| stream.process.role == role && !stream.calls().is_empty()).count();
    use stackline_recording::Role;
    // The program itself and its subprocess; two workers and one plain fork; two spawned and two from the fork server.
    assert_eq!(
        (processes_with_calls(Role::Main), processes_with_calls(Role::Fork), processes_with_calls(Role::Spawn)),
        (2, 3, 4)
    );
}

#[test]
fn a_kill_loses_a_second_at_most() {
    if torch().is_none() {
        return;
    }
    for moment in [900, 1400, 2300] {
        let run = tempfile::tempdir().unwrap();
        let mut child = recorded(&python(), run.path())
            .arg(here("tests/programs/ticking.py"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        wait_for_output(&mut stdout);
        std::thread::sleep(Duration::from_millis(moment));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut stdout, &mut rest).unwrap();
        // Each line: seconds since the start, operators so far.
        let ticks: Vec<(f64, u64)> = rest
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(at, count)| Some((at.parse().ok()?, count.parse().ok()?)))
            .collect();
        let &(end, _) = ticks.last().unwrap();
        let streams = streams(run.path());
        assert!(!streams[0].ended);
        let recorded: u64 = streams[0]
            .calls()
            .iter()
            .filter(|(path, _)| format!("{:?}", path.last()).contains("Operator"))
            .map(|(_, count)| count)
            .sum();
        let a_second_before = ticks.iter().take_while(|(at, _)| *at < end - 1.0).last().map_or(0, |tick| tick.1);
        assert!(
            recorded >= a_second_before,
            "{recorded} operators recorded, {a_second_before} ran a second before the end"
        );
    }
}

fn wait_for_output(from: &mut impl std::io::Read) {
    let mut byte = [0];
    while from.read(&mut byte).unwrap() == 1 && byte != *b"\n" {}
}

#[test]
fn a_full_disk_ends_the_recording_only() {
    if torch().is_none() {
        return;
    }
    // A limit on the size of files simulates a full disk.
    let run = tempfile::tempdir().unwrap();
    let program = here("../../python/examples/train_gpt.py");
    let command = format!("ulimit -f 8; exec '{}' '{}' --steps 3", python().display(), program.display());
    let output = recorded(Path::new("bash"), run.path()).args(["-c", &command]).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("final loss"));
    assert_eq!(complaint.matches("stackline: ").count(), 1, "{complaint}");
    assert!(!streams(run.path()).is_empty());
}

#[test]
fn many_forks_do_no_harm() {
    let run = tempfile::tempdir().unwrap();
    let program = here("tests/programs/forks.py");
    let output = recorded(&python(), run.path()).arg(program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"200 children, 0 failed\n");
}

#[test]
#[ignore = "long: ./dev test --long"]
fn children_of_sampled_processes_end() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let program = here("tests/programs/forks_sampled.py");
    let output = recorded(&python, run.path()).env("STACKLINE_SAMPLE_HZ", "97").arg(program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"20 children, 20 as they should\n");
}

#[test]
fn trace_calls_sum_to_the_tree() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let program = here("../../python/examples/train_gpt.py");
    let output = recorded(&python, run.path())
        .env("STACKLINE_MODE", "trace")
        .arg(program)
        .args(["--steps", "20"])
        .output()
        .unwrap();
    assert!(output.status.success());
    let stream = &streams(run.path())[0];
    let mut sums: HashMap<(u32, u32), Stats> = HashMap::new();
    // Garbage collections are spans, too, but no calls of operators.
    let is_call = |&&(thread, node, _): &&(u32, u32, u64)| !stream.stats.contains_key(&(thread, node, Metric::GcTime));
    for &(thread, node, ns) in stream.events.iter().filter(is_call) {
        sums.entry((thread, node)).or_default().add(ns);
    }
    let tree = stream.stats.iter().filter(|(key, _)| key.2 == Metric::CallTime);
    let tree: HashMap<(u32, u32), Stats> = tree.map(|(&(thread, node, _), &stats)| ((thread, node), stats)).collect();
    assert!(stream.events.len() > 20_000, "{} calls", stream.events.len());
    assert_eq!(sums, tree);
    let size = run.path().join("streams").read_dir().unwrap().next().unwrap().unwrap().metadata().unwrap().len();
    assert!(size < 24 * stream.events.len() as u64, "{size} bytes");
}

/// True if the kernel counts CPU usage of threads.
fn is_counted() -> bool {
    std::fs::read_to_string("/proc/self/schedstat").is_ok()
}

#[test]
fn traces_report_cpu_limits_and_recording_cost() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let program = "import torch\nfor _ in range(2000): torch.ones(3).sinh()";
    let output = recorded(&python, run.path()).env("STACKLINE_MODE", "trace").args(["-c", program]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stream = &streams(run.path())[0];
    let processors = stream.processors.unwrap();
    assert!(processors.allowed > 0 && processors.machine > 0, "{processors:?}");
    // Two operators or more in each of 2000 turns, one of 61 is timed; what is interrupted does not count.
    let cost = stream.cost.unwrap();
    assert!((10..1000).contains(&cost.measured), "{cost:?}");
    let is_likely = |ns: u32| (1..50_000).contains(&ns);
    assert!(is_likely(cost.begin_ns) && is_likely(cost.end_ns), "{cost:?}");
    assert!(cost.torch_ns.is_some_and(|ns| (1..5_000).contains(&ns)), "{cost:?}");
    if is_counted() {
        let (first, last) = (stream.loads[0], stream.loads[stream.loads.len() - 1]);
        // To import PyTorch takes some.
        assert!(last.0 > first.0 && last.1 >= 1 && last.2 > first.2 + 10_000_000, "{:?}", stream.loads);
    }
}

/// Even a very short program has two readings to compare.
#[test]
fn cpu_usage_is_first_read_at_the_begin() {
    let run = tempfile::tempdir().unwrap();
    let output = recorded(&python(), run.path()).env("STACKLINE_MODE", "trace").args(["-c", "0"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stream = &streams(run.path())[0];
    assert_eq!(stream.loads.len() >= 2, is_counted(), "{:?}", stream.loads);
    assert!(stream.loads.is_sorted_by(|a, b| a.0 < b.0 && a.2 <= b.2), "{:?}", stream.loads);
}

#[test]
fn only_selected_steps_are_recorded() {
    let Some(python) = torch() else { return };
    for (variable, value, steps) in [("STACKLINE_STEPS", "10..13", 4), ("STACKLINE_EVERY", "8", 3)] {
        let run = tempfile::tempdir().unwrap();
        let program = here("../../python/examples/train_gpt.py");
        let output =
            recorded(&python, run.path()).env(variable, value).arg(program).args(["--steps", "20"]).output().unwrap();
        assert!(output.status.success());
        let stream = &streams(run.path())[0];
        let called = |operator: &str| -> u64 {
            let calls = stream.calls();
            let is_called = |path: &[&FrameKey]| match path.last() {
                Some(FrameKey::Span { name } | FrameKey::Operator { name }) => stream.text(*name).starts_with(operator),
                _ => false,
            };
            calls.iter().filter(|(path, _)| is_called(path)).map(|(_, count)| count).sum()
        };
        assert_eq!(called("Optimizer.step#"), steps, "{variable}");
        assert_eq!(called("aten::cross_entropy_loss"), steps, "{variable}");
    }
}

#[test]
fn processes_may_be_recorded_again() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let output = Command::new(python)
        .arg(here("tests/programs/twice.py"))
        .args([support::recorder().as_path(), run.path()])
        .env("STACKLINE_MEMORY", "1")
        .env("STACKLINE_SAMPLE_HZ", "999")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Each as it was requested, independent of the previous one.
    for (part, count, frames) in [("0", 5, [true, true]), ("1", 7, [false, false]), ("2", 0, [true, false])] {
        let stream = &streams(&run.path().join(part))[0];
        assert!(stream.ended);
        let paths: Vec<_> = stream.stats.keys().map(|&(thread, node, _)| stream.path(thread, node)).collect();
        let has = |is: fn(&FrameKey) -> bool| paths.iter().flatten().any(|frame| is(frame));
        let found = [
            has(|frame| matches!(frame, FrameKey::Python { .. })),
            has(|frame| matches!(frame, FrameKey::Native { .. })),
        ];
        assert_eq!(found, frames, "{part}");
        assert!(stream.stats.keys().any(|key| key.2 == Metric::CpuTime), "{part}");
        let is_on = |name: &str| stream.sources.get(name).is_some_and(|source| source.0);
        assert_eq!(["python", "native", "pytorch", "memory"].map(is_on), [frames[0], frames[1], count > 0, count > 0]);
        assert_eq!(["aten::sinh", "aten::cosh", "aten::tanh"].map(|name| called(stream, name)), [count, count, 0]);
        let allocated: u64 =
            stream.stats.iter().filter(|(key, _)| key.2 == Metric::Allocated).map(|(_, stats)| stats.sum).sum();
        assert_eq!(allocated, 4 * count * 12, "bytes");
    }
}
