//! Tests of memory files as inputs: alone, in archives, from pipes, with traces.

use crate::common;
use crate::memory::{MIB, sample, shown};

use common::{corpus, failure, run, stackline, stdout, write_sample};
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

fn archive(path: &Path, files: &[&Path]) {
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(path);
    for file in files {
        tar.arg("-C").arg(file.parent().unwrap()).arg(file.file_name().unwrap());
    }
    assert!(tar.status().unwrap().success());
}

#[test]
fn archives_contain_one_memory_trace() {
    let Some(snapshot) = corpus("memory/snapshot-no-history.pickle") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one.tar.gz"), folder.path().join("two.tar.gz"));
    let other = folder.path().join("other.pickle");
    std::fs::copy(&snapshot, &other).unwrap();
    archive(&one, &[Path::new(&snapshot)]);
    archive(&two, &[Path::new(&snapshot), &other]);
    let plain = stdout(&["memory", &snapshot, "--format", "json", "--table", "memory_allocator"]);
    let packed = stdout(&["memory", one.to_str().unwrap(), "--format", "json", "--table", "memory_allocator"]);
    let rows = |text: &str| serde_json::from_str::<Value>(text).unwrap()["tables"].clone();
    assert_eq!(rows(&packed), rows(&plain));
    let imported = folder.path().join("one.stackline");
    stdout(&["import", one.to_str().unwrap(), "-o", imported.to_str().unwrap()]);
    let kept = stdout(&["memory", imported.to_str().unwrap(), "--format", "json", "--table", "memory_allocator"]);
    assert_eq!(rows(&kept), rows(&plain));
    // Findings are those of one; `memory`, which their message names, shows several.
    let (code, message) = failure(&["findings", two.to_str().unwrap()]);
    assert!(code == Some(3) && message.contains("the input contains 2 memory traces"), "{code:?} {message}");
    assert!(run(&["memory", two.to_str().unwrap()]).status.success());
}

#[test]
fn compressed_memory_files_in_folders_are_named() {
    let Some(snapshot) = corpus("memory/snapshot-no-history.pickle") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    archive(&folder.path().join("snapshot.tar.gz"), &[Path::new(&snapshot)]);
    let output = run(&["report", path]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success()
            && message.contains("has only memory data, so `report` shows the output of `stackline memory`"),
        "{message}"
    );
    // Beside traces it is left out, and that is said.
    write_sample(folder.path(), 0);
    for command in ["report", "findings"] {
        let output = run(&[command, path]);
        let message = [output.stdout, output.stderr].concat();
        let message = String::from_utf8_lossy(&message);
        assert!(output.status.success() && message.contains("snapshot.tar.gz"), "{command}: {message}");
    }
}

#[test]
fn piped_input_is_identified_by_content() {
    let Some(snapshot) = corpus("memory/snapshot-no-history.pickle") else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let piped =
        |args: &[&str], input: &str| stackline(args).stdin(Stdio::from(File::open(input).unwrap())).output().unwrap();
    assert!(piped(&["memory", "-"], &snapshot).status.success());
    let run_directory = folder.path().join("both.stackline");
    let output = piped(&["import", "-", &snapshot, "-o", run_directory.to_str().unwrap()], &trace);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout(&["steps", run_directory.to_str().unwrap()]).contains("steps"));
    assert!(run(&["memory", run_directory.to_str().unwrap()]).status.success());
}

#[test]
fn files_without_memory_are_named_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let stacks = folder.path().join("stacks.txt");
    std::fs::write(&stacks, "main;step 3\nmain;load 4\n").unwrap();
    let (_, message) = failure(&["memory", stacks.to_str().unwrap()]);
    assert!(message.contains("stackline calls"), "{message}");
    // A folder of traces stays one, whatever else lies in it.
    write_sample(folder.path(), 0);
    std::fs::write(folder.path().join("memory_size_list.txt"), "op_id=1, size=2\n").unwrap();
    let path = folder.path().to_str().unwrap();
    for args in [&["report", path][..], &["diff", path, path]] {
        let output = run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    // Without traces it is told what is missing.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("memory_size_list.txt"), "op_id=1, size=2\n").unwrap();
    let (_, message) = failure(&["memory", folder.path().to_str().unwrap()]);
    assert!(message.contains("memory_liveness.txt"), "{message}");
}

/// Several memory traces in one place: one is shown, which says so, and the others can be chosen.
#[test]
fn one_of_several_processes_is_shown_and_others_are_selectable() {
    let folder = sample();
    std::fs::write(folder.path().join("small.memory"), "a x 64; k one x>x; f x; end").unwrap();
    shown(folder.path(), &["import", "program.memory", "small.memory", "-o", "both.stackline"]);
    let peak = |more: &[&str]| {
        let args = [&["memory", "both.stackline", "--format", "json"], more].concat();
        let document: Value = serde_json::from_str(&shown(folder.path(), &args)).unwrap();
        (document["memory"]["label"].clone(), document["tables"]["memory_peaks"]["rows"][0]["bytes"].clone())
    };
    assert_eq!(peak(&[]), (json!("program.memory"), json!(6 * MIB)));
    assert_eq!(peak(&["--process", "small.memory"]), (json!("small.memory"), json!(64)));
    let head = |args: &[&str]| shown(folder.path(), args);
    assert!(
        head(&["memory", "both.stackline"])
            .contains("\nShown is 1 of 2 memory traces in the input; --process selects another one.\n")
    );
    assert!(!head(&["memory", "small.memory"]).contains("--process"));
    let refused = |args: &[&str]| {
        let output = stackline(args).current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let unknown = refused(&["memory", "both.stackline", "--process", "17"]);
    assert!(unknown.contains("no process \"17\"; the processes are: program.memory, small.memory"), "{unknown}");
    assert!(refused(&["memory", "small.memory", "--process", "17"]).contains("--process does not apply"));
    assert!(refused(&["memory", "both.stackline", "--process", "17", "--rank", "0"]).contains("give only one of them"));
}

#[test]
fn doctor_describes_memory_files() {
    let folder = sample();
    let rows = |inputs: &[&str]| {
        let text = shown(folder.path(), &[&["doctor"][..], inputs, &["--format", "json"]].concat());
        let document: Value = serde_json::from_str(&text).unwrap();
        document["tables"]["memory_traces"]["rows"].as_array().unwrap().clone()
    };
    for (file, format) in [("oom.json", "snapshot"), ("program.memory", "memory-text")] {
        let rows = rows(&[file]);
        assert_eq!((rows.len(), rows[0]["format"].as_str()), (1, Some(format)));
        assert!(rows[0]["objects"].as_i64().unwrap() > 1 && rows[0]["calls"].as_i64().unwrap() > 1, "{rows:?}");
        assert!(rows[0]["state"].as_str().is_some_and(|state| state.contains("repaired, skipped or lost")), "{rows:?}");
    }
    assert_eq!(rows(&["oom.json", "program.memory"]).len(), 2);
    let text = shown(folder.path(), &["doctor", "program.memory"]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Analyze it with `stackline memory program.memory`"), "{text}");
}

/// The text of a trace without objects is read again.
#[test]
fn the_text_of_an_empty_trace_is_memory_text() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.json").display().to_string();
    std::fs::write(&empty, r#"{"segments": [], "device_traces": []}"#).unwrap();
    let text = folder.path().join("empty.memory").display().to_string();
    stdout(&["export", &empty, "--to", "memory-text", "-o", &text]);
    for file in [&empty, &text] {
        let shown = stdout(&["memory", file]);
        assert!(shown.contains("The input contains no memory objects"), "{file}: {shown}");
    }
}

/// A timeline of sums is named as such, also if it is empty or has fractions.
#[test]
fn sums_of_a_timeline_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("timeline.json").display().to_string();
    for text in ["[[1, 2], [[0, 1], [0, 2]]]", "[[], []]", "[[1.5, 2.5], [[0.0, 1], [0.5, 2]]]"] {
        std::fs::write(&file, text).unwrap();
        let (_, message) = failure(&["memory", &file]);
        assert!(message.contains("only memory totals per category"), "{text}: {message}");
    }
}
