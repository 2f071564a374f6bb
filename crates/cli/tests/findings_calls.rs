//! Tests of `findings` for call trees: profiles, and recordings without individual calls (`findings_programs.rs`
//! records some).

use crate::common;

use common::stackline;
use serde_json::Value;
use std::path::Path;

/// A profile as py-spy writes it: 2 s of waiting for a queue, 1 s of logging, 7 s of the program itself.
const PROFILE: &str = r#"{
  "$schema": "https://www.speedscope.app/file-format-schema.json",
  "shared": {"frames": [
    {"name": "main", "file": "/srv/me/train.py", "line": 40},
    {"name": "fetch", "file": "/srv/me/data.py", "line": 12},
    {"name": "get", "file": "/usr/lib/python3.11/queue.py", "line": 171},
    {"name": "info", "file": "/usr/lib/python3.11/logging/__init__.py", "line": 1477},
    {"name": "step", "file": "/srv/me/train.py", "line": 21}
  ]},
  "profiles": [{"type": "sampled", "name": "Thread 1 \"MainThread\"", "unit": "seconds", "startValue": 0, "endValue": 10,
    "samples": [[0, 1, 2], [0, 3], [0, 4]], "weights": [2, 1, 7]}]
}"#;

fn written(folder: &Path, text: &str) -> String {
    let path = folder.join("p.speedscope.json");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Exit code, output and errors.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = stackline(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn profiles_have_findings() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), PROFILE);
    let (code, text, error) = run(&["findings", &path]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.starts_with("2 findings; the analyzed thread takes 10.00 s."), "{text}");
    assert!(text.contains(" 1. /srv/me/data.py:12 in fetch  estimated gain 2000 ms"), "{text}");
    assert!(text.contains("Waiting for a queue") && text.contains("Logging blocks the host: 1000 ms"), "{text}");
    assert!(text.contains("only the total time per call path, not each call"), "{text}");
    assert!(text.contains("over the whole run, because no steps are marked"), "{text}");
    let (_, json, _) = run(&["findings", &path, "--format", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let rows = json["tables"]["findings"]["rows"].as_array().unwrap();
    let code_times: Vec<(&str, i64)> =
        rows.iter().map(|row| (row["code"].as_str().unwrap(), row["gain_ns"].as_i64().unwrap())).collect();
    assert_eq!(code_times, [("SL039", 2_000_000_000), ("SL029", 1_000_000_000)]);
    assert_eq!(json["combined"]["ns"].as_i64(), Some(3_000_000_000), "{json}");
    assert!(!text.contains("Excluded"), "{text}");
    // What takes the rest has no rule, and is named.
    assert!(text.contains("train.py"), "{text}");
}

#[test]
fn conditions_and_baselines_hold_for_calls() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), PROFILE);
    let (code, ..) = run(&["findings", &path, "--fail-on", "gain>15%"]);
    assert_eq!(code, Some(4));
    let (code, ..) = run(&["findings", &path, "--fail-on", "gain>25%"]);
    assert_eq!(code, Some(0));
    let before = folder.path().join("before.json");
    std::fs::write(&before, run(&["findings", &path, "--format", "json"]).1).unwrap();
    let after = written(folder.path(), &PROFILE.replace("[0, 3], [0, 4]", "[0, 4], [0, 4]"));
    let (code, text, error) = run(&["findings", &after, "--baseline", before.to_str().unwrap(), "--fail-on", "new"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains("Gone: ") && text.contains("Logging"), "{text}");
}

#[test]
fn data_missing_from_calls_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), PROFILE);
    for (options, expected) in [
        (&["--rank", "3"][..], "rank 3 cannot be selected: no process of the input has a rank number"),
        (&["--steps", "1..2"], "the input contains only totals over all steps"),
    ] {
        let (code, _, error) = run(&[&["findings", path.as_str()], options].concat());
        assert!(code == Some(2) && error.contains(expected), "{options:?}: {error}");
    }
    let counts = folder.path().join("stacks.txt");
    std::fs::write(&counts, "main;train 80\nmain;load 20\n").unwrap();
    let (code, _, error) = run(&["findings", counts.to_str().unwrap()]);
    assert!(code == Some(2) && error.contains("the input contains only samples"), "{error}");
}

#[test]
fn recordings_without_traces_are_analyzed_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let config = stackline_testkit::recording::Config::default();
    let runs = ["a.stackline", "b.stackline"].map(|name| {
        let streams = folder.path().join(name).join("streams");
        std::fs::create_dir_all(&streams).unwrap();
        for (name, file) in stackline_testkit::recording::streams(&config) {
            std::fs::write(streams.join(name), file).unwrap();
        }
        folder.path().join(name).to_str().unwrap().to_owned()
    });
    for command in ["findings", "report"] {
        let (code, _, error) = run(&[command, &runs[0], &runs[1]]);
        assert!(code == Some(2) && error.contains("pass one input at a time"), "{command}: {code:?} {error}");
    }
}

#[test]
fn suggested_next_command_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("stacks.txt");
    std::fs::write(&counts, "main;train 80\nmain;load 20\n").unwrap();
    for (input, next) in [(written(folder.path(), PROFILE), "findings"), (counts.to_str().unwrap().to_owned(), "view")]
    {
        let (code, text, error) = run(&["report", &input]);
        assert_eq!(code, Some(0), "{error}");
        assert!((text + &error).contains(&format!("Next: stackline {next} ")), "{error}");
        assert!(error.contains("not individual calls, so `report` shows the output of `stackline calls`"), "{error}");
    }
}
