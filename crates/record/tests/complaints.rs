//! Lines of the recorder that cannot be written: they are lost, and neither the program nor the recording notices.

use crate::support;

use std::fs::File;
use std::io::{PipeReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::{here, interpreters, recorded, streams, torch};

const VERSIONS: [&str; 4] = ["3.10", "3.11", "3.12", "3.13"];

/// Interpreters to try: those that there are.
fn pythons() -> Vec<std::path::PathBuf> {
    let found: Vec<_> = VERSIONS.iter().filter_map(|version| interpreters(version).pop()).collect();
    if found.is_empty() {
        println!("skipped: no CPython on PATH or in pyenv");
    }
    found
}

/// Standard errors that take nothing, by name; the readers are kept open.
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

/// A program that says whether it ran, and whether the site's own `sitecustomize` did.
fn says(command: &mut Command, stderr: Stdio) -> String {
    let output = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap().wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}: {}", command, output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_program_whose_recording_cannot_begin_runs_whatever_its_standard_error_is() {
    for python in pythons() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("sitecustomize.py"), "print('site')\n").unwrap();
        let path = std::env::join_paths([here("bootstrap"), folder.path().to_owned()]).unwrap();
        // No place for streams, and no recorder: the one line is the recorder's, the other is Python code's.
        for recorder in [None, Some("/nowhere/recorder.so")] {
            let command = || {
                let mut command = recorded(&python, Path::new("/proc/nowhere"));
                command.env("PYTHONPATH", &path).args(["-c", "print('program')"]);
                command.envs(recorder.map(|recorder| ("STACKLINE_RECORDER", recorder)));
                command
            };
            let mut kept = Vec::new();
            for (name, stderr) in full_errors(folder.path(), &mut kept) {
                assert_eq!(says(&mut command(), stderr), "site\nprogram\n", "{python:?}, {recorder:?}, {name}");
            }
            // Where it can be written, it is.
            let output = command().output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.starts_with("stackline: not recording") && said.lines().count() == 1, "{said}");
        }
    }
}

#[test]
fn no_line_stands_in_a_file_of_a_program_without_standard_error() {
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

/// Starts the program whose files may not grow for two seconds, and which ends by `os._exit`: the writer writes the end.
fn spawn(python: &Path, run: &Path, stderr: Stdio) -> Child {
    let mut command = recorded(python, run);
    command.arg(here("tests/programs/full_disk.py")).args(["0", "exit"]);
    command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap()
}

#[test]
fn a_writer_whose_complaint_cannot_be_written_goes_on_when_there_is_room() {
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
