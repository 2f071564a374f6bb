//! Messages of the recorder that cannot be written are lost, without effect on the program and the recording.

use crate::side_effects::called;
use crate::support;

use std::fs::File;
use std::io::{PipeReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::{here, interpreters, recorded, streams, torch};

const VERSIONS: [&str; 4] = ["3.10", "3.11", "3.12", "3.13"];

/// Installed interpreters.
fn pythons() -> Vec<std::path::PathBuf> {
    let found: Vec<_> = VERSIONS.iter().filter_map(|version| interpreters(version).pop()).collect();
    if found.is_empty() {
        println!("skipped: no CPython on PATH or in pyenv");
    }
    found
}

/// Standard errors that accept no data, by name; the readers are kept open.
fn full_errors(folder: &Path, kept: &mut Vec<PipeReader>) -> Vec<(&'static str, Stdio)> {
    let (_, unread) = std::io::pipe().unwrap();
    let (reader, mut full) = std::io::pipe().unwrap();
    kept.push(reader);
    let filled = full.try_clone().unwrap();
    // It waits for room, and ends with the reader.
    std::thread::spawn(move || full.write_all(&[0; 1 << 21]));
    vec![
        ("a full disk", File::options().write(true).open("/dev/full").unwrap().into()),
        ("a pipe without a reader", unread.into()),
        ("a pipe that is full", filled.into()),
        ("a file that may not grow", File::create(folder.join("log")).unwrap().into()),
    ]
}

/// Run a program that prints that it ran, and if the site's own `sitecustomize` ran.
fn run_stderr(command: &mut Command, stderr: Stdio) -> String {
    let output = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap().wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}: {}", command, output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Prints the number of its threads and if it is recorded: without output files the recorder must cost nothing.
const PROGRAM: &str = "import os, _stackline_bootstrap as bootstrap\n\
    print(len(os.listdir('/proc/self/task')), bootstrap.is_recording())";

#[test]
fn programs_run_without_recording_for_any_standard_error() {
    for python in pythons() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("sitecustomize.py"), "print('site')\n").unwrap();
        let path = std::env::join_paths([here("bootstrap"), folder.path().to_owned()]).unwrap();
        // No place for streams, and no recorder: the one line is the recorder's, the other is Python code's.
        for recorder in [None, Some("/nowhere/recorder.so")] {
            let command = || {
                let mut command = recorded(&python, Path::new("/proc/nowhere"));
                command.env("PYTHONPATH", &path).args(["-c", PROGRAM]);
                command.envs(recorder.map(|recorder| ("STACKLINE_RECORDER", recorder)));
                command
            };
            let mut kept = Vec::new();
            for (name, stderr) in full_errors(folder.path(), &mut kept) {
                assert_eq!(run_stderr(&mut command(), stderr), "site\n1 False\n", "{python:?}, {recorder:?}, {name}");
            }
            // Where it can be written, it is.
            let output = command().output().unwrap();
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(message.starts_with("stackline: not recording") && message.lines().count() == 1, "{message}");
        }
    }
}

#[test]
fn messages_are_not_written_to_files_of_programs_without_standard_error() {
    for python in pythons() {
        let folder = tempfile::tempdir().unwrap();
        let (run, own) = (folder.path().join("run"), folder.path().join("own"));
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec "$0" "$@" 2>&-"#]).arg(&python).arg(here("tests/programs/no_stderr.py"));
        command.args([&own, &run]);
        for (name, value) in recorded(&python, &run).get_envs() {
            command.env(name, value.unwrap());
        }
        assert!(command.status().unwrap().success());
        assert_eq!(std::fs::read_to_string(&own).unwrap(), "2 is mine\n");
    }
}

/// Start the program whose files may not grow for two seconds, and which ends by `os._exit`: the writer writes the
/// end.
fn spawn(python: &Path, run: &Path, stderr: Stdio) -> Child {
    let mut command = recorded(python, run);
    command.arg(here("tests/programs/full_disk.py")).args(["0", "exit"]);
    command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap()
}

#[test]
fn writers_with_unwritable_messages_continue_when_there_is_space() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Vec::new();
    let errors = full_errors(folder.path(), &mut kept);
    let run = |name: &str| folder.path().join(name);
    // All at once: they mostly wait.
    let children: Vec<_> =
        errors.into_iter().map(|(name, stderr)| (name, spawn(&python, &run(name), stderr))).collect();
    for (name, child) in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{name}: {}", output.status);
        let stream = &streams(&run(name))[0];
        assert!(stream.ended && !stream.damaged && stream.lost.is_empty(), "{name}: {:?}", stream.lost);
        assert_eq!(stream.exit, Some(0), "{name}");
    }
}

/// Forks while the child can have no stream. Its first operator detects this; later ones are not reported (each would
/// wait).
const FORKS_WITHOUT_A_PLACE: &str = r#"
import ctypes, os
import torch
value = torch.ones(3)
value.cosh()
waits = ctypes.c_uint64.in_dll(ctypes.CDLL(os.environ["STACKLINE_RECORDER"]), "STACKLINE_INJECTED_WAITS")
streams = os.path.join(os.environ["STACKLINE_RECORD"], "streams")
os.rename(streams, streams + ".kept")
open(streams, "w").close()
child = os.fork()
if child == 0:
    value.sinh()
    before = waits.value
    for _ in range(50):
        value.sinh()
    is_left_alone = waits.value == before and len(os.listdir("/proc/self/task")) == 1
    os._exit(0 if is_left_alone else 1)
ended = os.waitpid(child, 0)[1]
os.remove(streams)
os.rename(streams + ".kept", streams)
value.cosh()
print(ended)
"#;

#[test]
fn forked_children_without_a_stream_report_it_once_and_run_unrecorded() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let mut command = recorded(&python, run.path());
    let output =
        command.env("STACKLINE_INJECTED_COST_NS", "10000").args(["-c", FORKS_WITHOUT_A_PLACE]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{message}");
    let is_complaint = message.starts_with("stackline: cannot write the recording: cannot make ");
    assert!(
        is_complaint
            && message.ends_with("; the program continues without recording\n")
            && message.lines().count() == 1,
        "{message}"
    );
    let [parent] = &streams(run.path())[..] else { panic!("more than one stream") };
    assert_eq!(called(parent, "aten::cosh"), 2, "the parent's recording goes on");
    assert!(parent.ended && !parent.damaged);
}

/// A recorder that is interrupted at its first call, and then fails.
const FAILING_RECORDER: &str = r#"
import types
import _stackline_bootstrap as bootstrap
asked, registered = [], []
def frames():
    if asked:
        return ""
    asked.append("frames")
    raise KeyboardInterrupt
def start():
    asked.append("start")
    return "the recorder failed"
bootstrap._load = lambda: types.SimpleNamespace(
    frames=frames, start=start, start_without_python=start, stop=lambda: asked.append("stop"), collecting=None,
    resume_in_child=lambda: None, begin_text=lambda: "")
bootstrap.atexit = types.SimpleNamespace(register=lambda function: registered.append(function.__name__))
for _ in range(3):
    try:
        bootstrap.begin()
    except (KeyboardInterrupt, RuntimeError) as error:
        print(type(error).__name__, error)
print(*asked, *registered, bootstrap.is_recording())
"#;

#[test]
fn failed_recordings_are_stopped_and_the_next_one_ends() {
    for python in pythons() {
        let mut command = Command::new(python);
        command.env("PYTHONPATH", here("bootstrap")).env_remove("STACKLINE_RECORD").args(["-c", FAILING_RECORDER]);
        let output = command.output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "KeyboardInterrupt \nRuntimeError the recorder failed\nRuntimeError the recorder failed\n\
             frames start stop start stop end False\n",
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// A recorder that lacks a function is distinguished from a damaged one before it is used.
#[test]
fn recorders_without_a_function_are_of_another_version() {
    let source = std::fs::read_to_string(here("bootstrap/_stackline_bootstrap.py")).unwrap();
    let (_, list) = source.split_once("_FUNCTIONS = (").unwrap();
    let (list, _) = list.split_once(')').unwrap();
    for used in source.split("_recorder.").skip(1) {
        let name: String = used.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
        assert!(list.contains(&format!("\"{name}\"")), "{name} is used of the recorder, and not in the list");
    }
    let program = "import _stackline_bootstrap as bootstrap\nbootstrap._FUNCTIONS += ('newer',)\nbootstrap.begin()";
    for python in pythons() {
        let mut command = recorded(&python, Path::new(""));
        let output = command.args(["-c", program]).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains("ImportError: the recorder is of another version"), "{message}");
    }
}
