//! Programs that replace themselves by another one.

use crate::side_effects::{called, same};
use crate::support;

use stackline_recording::{FrameKey, Metric};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Output;
use support::{Stream, here, recorded, streams, torch};

fn python() -> PathBuf {
    torch().unwrap_or_else(|| PathBuf::from("python3"))
}

fn run(program: &str, argument: &str, variables: &[(&str, &str)]) -> (Output, Vec<Stream>) {
    let run = tempfile::tempdir().unwrap();
    let mut command = recorded(&python(), run.path());
    let output = command.envs(variables.iter().copied()).arg(here(program)).arg(argument).output().unwrap();
    let streams = streams(run.path());
    (output, streams)
}

/// A pending signal at the begin of the other program would kill it, because it has no handler.
#[test]
fn chained_programs_end_normally() {
    const PROGRAMS: usize = 60;
    let variables = [("STACKLINE_WALL_HZ", "2000"), ("STACKLINE_SAMPLE_HZ", "2000")];
    let (output, streams) = run("tests/programs/execs.py", &PROGRAMS.to_string(), &variables);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(streams.len(), PROGRAMS + 1);
    assert!(streams.iter().all(|stream| stream.ended && !stream.damaged));
    assert_eq!(streams.iter().filter(|stream| stream.replaced).count(), PROGRAMS);
    assert!(streams.iter().all(|stream| stream.process.pid == streams[0].process.pid));
}

#[test]
fn blocked_signals_do_not_outlive_the_program() {
    let (output, streams) = run("tests/programs/pending_exec.py", "", &[("STACKLINE_WALL_HZ", "2000")]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(output.stdout, b"unblocked\n");
    assert!(streams.len() == 1 && streams[0].replaced && streams[0].ended);
}

/// Samples of the function that runs after the failures.
fn sampled_after(stream: &Stream) -> u64 {
    let is = |frame: &&FrameKey| matches!(frame, FrameKey::Python { function, .. } if stream.text(*function) == "after_the_failures");
    let of_time = stream.stats.iter().filter(|(key, _)| key.2 == Metric::CpuTime);
    of_time
        .filter(|&(&(thread, node, _), _)| stream.path(thread, node).iter().any(is))
        .map(|(_, stats)| stats.count)
        .sum()
}

#[test]
fn recording_continues_after_a_failed_exec() {
    if torch().is_none() {
        return;
    }
    for (ending, killed) in [("ended", false), ("killed", true), ("killed-at-once", true)] {
        let (output, streams) = run("tests/programs/failed_exec.py", ending, &[("STACKLINE_SAMPLE_HZ", "199")]);
        assert_eq!(output.status.signal(), killed.then_some(9), "{output:?}");
        assert_eq!(output.stdout, if killed { b"".as_slice() } else { b"went on\n" });
        let [stream] = streams.as_slice() else { panic!("{} streams", streams.len()) };
        assert!(stream.ended != killed && !stream.replaced && !stream.damaged, "{ending}");
        assert_eq!((called(stream, "aten::sinh"), called(stream, "aten::cosh")), (3, 20), "{ending}");
        assert!(sampled_after(stream) > 20, "{ending}: {}", sampled_after(stream));
    }
}

/// One thread waits for a replacement that fails, while another one ends the recording.
#[test]
fn recordings_end_while_other_threads_wait() {
    for (ending, exit) in [("exit", Some(7)), ("stop", None)] {
        let (output, streams) = run("tests/programs/ends_in_exec.py", ending, &[("STACKLINE_SAMPLE_HZ", "199")]);
        assert_eq!(output.status.code(), Some(exit.unwrap_or(0)), "{output:?}");
        assert_eq!(output.stdout, if exit.is_some() { b"".as_slice() } else { b"[]\n" });
        let [stream] = streams.as_slice() else { panic!("{} streams", streams.len()) };
        assert!(stream.ended && !stream.replaced && !stream.damaged, "{ending}");
        assert_eq!(stream.exit, exit);
    }
}

/// Searches a program along `PATH` right after a write, while files may not grow any more: the remaining data cannot
/// be written.
const ENDS_ON_A_FULL_DISK: &str = r#"
import os, resource, time
import torch
value = torch.ones(3)
# By then the writer comes every half second.
time.sleep(1.1)
folder = os.path.join(os.environ["STACKLINE_RECORD"], "streams")
[stream] = [os.path.join(folder, name) for name in os.listdir(folder)]
size = os.path.getsize(stream)
value.cosh()
while os.path.getsize(stream) == size:
    time.sleep(0.001)
time.sleep(0.05)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
value.sinh()
os.environ["PATH"] = "/nowhere/a:/nowhere/b:/nowhere/c:" + os.environ["PATH"]
os.execvp("true", ["true"])
"#;

#[test]
fn unwritable_ends_are_reported_once_per_program_search() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let output = recorded(&python, run.path()).args(["-c", ENDS_ON_A_FULL_DISK]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let ending = "; if this process now starts another program with exec, the end of the recording will be missing";
    let (of_end, others): (Vec<&str>, Vec<&str>) = stderr.lines().partition(|line| line.ends_with(ending));
    let is_complaint = |line: &&str| line.starts_with("stackline: cannot write the recording: ");
    assert!(of_end.len() == 1 && of_end.iter().all(is_complaint), "{stderr}");
    // The periodic write may have happened between two folders, and reported that it continues.
    let is_retried = |line: &&str| line.ends_with("the recorder will retry the write");
    assert!(others.len() <= 1 && others.iter().all(is_retried), "{stderr}");
    let [stream] = &streams(run.path())[..] else { panic!("more than one stream") };
    assert!(!stream.ended && !stream.replaced && !stream.damaged);
    assert_eq!((called(stream, "aten::cosh"), called(stream, "aten::sinh")), (1, 0));
}

#[test]
fn exec_keeps_the_signature_of_the_interpreter() {
    let programs = [
        ("import os; os.execv('/bin/sh', ['sh', '-c', 'echo out; exit 5'])", Some(5)),
        ("import os; os.execve(path='/bin/sh', argv=('sh', '-c', 'echo $A'), env={'A': 'b'})", Some(0)),
        ("import os; os.execv('/bin/sh', ['sh', '-c', 'kill -TERM $$'])", None),
        ("import os; os.execv('/nowhere', ['nowhere'])", Some(1)),
        ("import os; os.execvp('no-such-program', ['no-such-program'])", Some(1)),
        ("import os; os.execv('/bin/true', 5)", Some(1)),
        ("import os; os.execv('/bin/true', [])", Some(1)),
        ("import os; os.execv()", Some(1)),
        ("import os; os.execve('/bin/true', ['true'], env=3)", Some(1)),
        (
            "import inspect, os\nfor f in (os.execv, os.execve): print(f, inspect.signature(f), f.__doc__, f.__module__, f in os.supports_fd)",
            Some(0),
        ),
        ("import os, pickle; print(pickle.dumps(os.execv), pickle.loads(pickle.dumps(os.execv)) is os.execv)", Some(0)),
        // A child that does nothing else leaves no stream, as before.
        ("import os; print(os.spawnv(os.P_WAIT, '/bin/sh', ['sh', '-c', 'exit 3']))", Some(0)),
    ];
    for (program, code) in programs {
        let (output, run) = same(&["-c", program]);
        assert_eq!(output.status.code(), code, "{program}");
        let streams = streams(run.path());
        assert!(streams.len() == 1 && streams[0].ended, "{program}");
        let is_python = program.contains("print(") || code == Some(1);
        assert_eq!(streams[0].replaced, !is_python, "{program}");
    }
}
