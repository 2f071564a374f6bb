//! What goes wrong is said in one sentence: what, where, what to do; with the documented exit code.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{failure, run, stackline, write_sample};
use std::io::Write;
use std::process::Stdio;

fn one_line(text: &str) {
    assert!(text.starts_with("error: "), "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
}

#[test]
fn a_missing_file_is_named() {
    let (code, text) = failure(&["report", "no-such-file.json"]);
    one_line(&text);
    assert_eq!(code, Some(3));
    assert!(text.contains("no-such-file.json"), "{text}");
}

#[test]
fn a_directory_without_traces_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "not a trace").unwrap();
    let (code, text) = failure(&["report", folder.path().to_str().unwrap()]);
    one_line(&text);
    assert_eq!(code, Some(3));
    assert!(text.contains("no trace"), "{text}");
}

#[test]
fn what_is_no_trace_is_recognised_and_located() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [("a.json", &b"hello"[..]), ("b.json", b"{\"nodes\": [], \"schema\": \"1\"}"), ("c.gz", b"")] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let (code, text) = failure(&["report", path.to_str().unwrap()]);
        one_line(&text);
        assert_eq!(code, Some(3), "{text}");
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn a_run_that_was_cut_off_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let run_dir = folder.path().join("job.stackline");
    let run_dir = run_dir.to_str().unwrap();
    assert!(run(&["import", &trace, "-o", run_dir]).status.success());
    std::fs::write(format!("{run_dir}/manifest.json"), "{").unwrap();
    let (code, text) = failure(&["report", run_dir]);
    one_line(&text);
    assert_eq!(code, Some(3), "{text}");
}

#[test]
fn an_unknown_annotation_offers_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let (code, text) = failure(&["critical-path", &trace, "--annotation", "ProfilrStep"]);
    one_line(&text);
    assert_eq!(code, Some(2));
    assert!(text.contains("ProfilerStep#0"), "{text}");
}

#[test]
fn an_instance_out_of_range_says_how_many_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let (code, text) = failure(&["critical-path", &trace, "--annotation", "aten::mm", "--instance", "9"]);
    one_line(&text);
    assert_eq!(code, Some(2));
    assert!(text.contains("there are 2"), "{text}");
}

#[test]
fn an_unknown_option_offers_the_nearest() {
    let (code, text) = failure(&["report", "x.json", "--formt", "json"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("--format"), "{text}");
}

#[test]
fn an_unknown_rank_step_or_table_says_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 3);
    for (args, expected) in [
        (["--rank", "9"], "rank 3"),
        (["--steps", "7..9"], "0 to 2"),
        (["--table", "gpu_kernel"], "gpu_kernels"),
        (["--fail-on", "idel>3"], "did you mean idle"),
        (["--steps", "9..7"], "smaller comes first"),
    ] {
        let (code, text) = failure(&["report", &trace, args[0], args[1]]);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(expected), "{args:?}: {text}");
    }
}

#[test]
fn options_of_one_method_are_refused_by_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let rules = folder.path().join("rules.json");
    std::fs::write(&rules, "{\"rules\": [\n{\"phase\": \"forwrd\", \"name\": \"x\"}]}").unwrap();
    let rules = rules.display().to_string();
    for (method, option, expected) in [
        ("ctda", &["--zero-weight-launch-edges"][..], "--method hta only"),
        ("ctda", &["--data-load-events", "x"], "--phase-rules"),
        ("ctda", &["--overlay", "o.json"], "--method hta only"),
        ("ctda", &["--phase-rules", &rules], "line 2"),
        ("hta", &["--phase-rules", &rules], "--method ctda"),
    ] {
        let (code, text) = failure(&[&["critical-path", &trace, "--method", method], option].concat());
        one_line(&text);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(expected), "{option:?}: {text}");
    }
}

#[test]
fn several_ranks_need_a_choice_for_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (write_sample(folder.path(), 0), write_sample(folder.path(), 1));
    let (code, text) = failure(&["critical-path", &a, &b]);
    one_line(&text);
    assert_eq!(code, Some(2));
    assert!(text.contains("--rank 0|1"), "{text}");
}

#[test]
fn nothing_that_is_no_run_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let (code, text) = failure(&["import", &trace, "-o", &trace]);
    one_line(&text);
    assert_eq!(code, Some(2));
    assert!(std::fs::read_to_string(&trace).unwrap().contains("ProfilerStep"));
}

#[test]
fn output_that_cannot_be_written_fails_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let output = folder.path().join("missing/out.json");
    let (code, text) = failure(&["report", &trace, "--format", "json", "-o", output.to_str().unwrap()]);
    one_line(&text);
    assert_eq!(code, Some(1));
    assert!(text.contains("out.json"), "{text}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = stackline(&["report", &trace]).stdout(Stdio::from(full)).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    one_line(&String::from_utf8(output.stderr).unwrap());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let mut child =
        stackline(&["export", &trace, "--to", "chrome"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn standard_input_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let mut child = stackline(&["steps", "-", "--format", "csv", "--table", "steps"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text = std::fs::read(&trace).unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 4);
}

#[test]
fn conditions_set_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let output = run(&["report", &trace, "--fail-on", "idle>1%"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("idle is"));
    assert_eq!(run(&["report", &trace, "--fail-on", "idle>99%"]).status.code(), Some(0));
}
