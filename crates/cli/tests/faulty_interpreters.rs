//! Tests of `findings --rules` with faulty interpreters: shell scripts in place of Python, which need no package.

#![cfg(unix)]
use crate::common;
use crate::junit;

use common::{stackline, write_sample};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const HELLO: &str = r#"{"type":"hello","protocol":2,"version":"0"}"#;
const RULE: &str = r#"{"type":"rule","code":"MY001","name":"mine","about":"a","advice":"d","source":"r.py:1"}"#;
const OTHER: &str = r#"{"type":"rule","code":"MY002","name":"other","about":"a","advice":"d","source":"r.py:9"}"#;
const LOADED: &str = r#"{"type":"loaded"}"#;
const BEGIN: &str = r#"{"type":"begin","code":"MY001"}"#;
const FOUND: &str = r#"{"type":"found","code":"MY001","title":"flagged","file":"a.py","line":3,"gain":[1,200000,300000],"support":"exact","confidence":"high","facts":[{"name":"calls","value":2,"unit":""}]}"#;
const END: &str = r#"{"type":"end","code":"MY001"}"#;

/// Exit code, output and errors with an interpreter that says these lines and then does something.
fn with(lines: &[&str], then: &str) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let script = lines.iter().map(|line| format!("printf '%s\\n' '{line}'\n")).collect::<String>();
    run(folder.path(), &trace, &format!("#!/bin/sh\ncat >/dev/null\n{script}{then}\n"))
}

fn run(folder: &Path, trace: &str, script: &str) -> (Option<i32>, String, String) {
    run_as(folder, trace, script, &["--format", "json"])
}

fn run_as(folder: &Path, trace: &str, script: &str, form: &[&str]) -> (Option<i32>, String, String) {
    let python = folder.join("python");
    fs::write(&python, script).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let rules = folder.join("r.py");
    fs::write(&rules, "").unwrap();
    let mut command = stackline(&[&["findings", trace, "--rule-timeout", "0.1"], form].concat());
    let done = command.arg("--rules").arg(&rules).arg("--python").arg(&python).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

fn rows(document: &str, table: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(document).unwrap();
    document["tables"][table]["rows"].as_array().unwrap().clone()
}

#[test]
fn findings_of_python_rules_are_listed() {
    let (code, out, err) = with(&[HELLO, RULE, LOADED, BEGIN, FOUND, END], "");
    assert_eq!(code, Some(0), "{err}");
    let found = rows(&out, "findings");
    let mine = found.iter().find(|row| row["code"] == "MY001").unwrap();
    assert_eq!(
        (mine["title"].as_str(), mine["line"].as_i64(), mine["gain_low_ns"].as_i64()),
        (Some("flagged"), Some(3), Some(1))
    );
    assert_eq!((mine["method"].as_str(), mine["evidence"].as_str()), (Some("rule"), Some("calls 2")));
}

#[test]
fn findings_before_a_failure_of_a_rule_are_in_junit() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let failed = r#"{"type":"failed","code":"MY001","reason":"the rule raised KeyError","traceback":"r.py:7"}"#;
    let lines = [HELLO, RULE, LOADED, BEGIN, FOUND, failed, END].map(|line| format!("printf '%s\\n' '{line}'\n"));
    let script = format!("#!/bin/sh\ncat >/dev/null\n{}", lines.concat());
    let (code, xml, err) = run_as(folder.path(), &trace, &script, &["--as", "junit"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(junit::faults(&xml), Vec::<String>::new(), "{xml}");
    assert!(xml.contains("name=\"MY001 mine\"") && xml.contains("<failure message=\"flagged\""), "{xml}");
    assert!(
        xml.contains("name=\"MY001 mine: failed\"") && xml.contains("<error message=\"the rule raised KeyError\""),
        "{xml}"
    );
}

#[test]
fn invalid_lines_of_workers_are_refused() {
    let wrong_version = HELLO.replace('2', "1");
    let cases: [(&[&str], &str, i32, &str); 9] = [
        (&["printed"], "", 1, "cannot parse"),
        (&[HELLO, r#"{"type":"more"}"#], "", 1, "cannot parse"),
        (&[&wrong_version], "", 2, "rules need equal versions"),
        (&[HELLO], "exit 3", 1, "exited unexpectedly (exit status: 3)"),
        (&[HELLO, RULE, RULE], "", 2, "two rules have the code MY001"),
        (
            &[HELLO, r#"{"type":"refused","reason":"r.py:1: syntax error","input":false}"#],
            "",
            2,
            "r.py:1: syntax error",
        ),
        (
            &[HELLO, r#"{"type":"loading","source":"r.py"}"#],
            "exec sleep 600",
            2,
            "loading the Python rules of r.py took more than 0.1 s",
        ),
        (
            &[HELLO, RULE, LOADED, r#"{"type":"begin","code":"MY001"}"#, r#"{"type":"found","code":"MY009"}"#],
            "",
            1,
            "no rule \"MY009\"",
        ),
        (&[HELLO, RULE, LOADED], "exit 5", 1, "exited unexpectedly (exit status: 5)"),
    ];
    for (lines, then, expected_code, expected) in cases {
        let (code, out, err) = with(lines, then);
        assert_eq!((code, out.as_str()), (Some(expected_code), ""), "{lines:?}: {err}");
        assert!(err.contains(expected), "{lines:?}: {err}");
    }
}

#[test]
fn stuck_and_ended_interpreters_are_replaced() {
    for (then, expected) in [
        ("exec sleep 600", "the rule did not end within 0.1 s"),
        ("exit 7", "the rule ended the Python interpreter that ran it (exit status: 7)"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let trace = write_sample(folder.path(), 0);
        let print_line = |line: &str| format!("printf '%s\\n' '{line}'\n");
        let head: String = [HELLO, RULE, OTHER, LOADED].map(print_line).concat();
        let first: String = [BEGIN, FOUND].map(print_line).concat();
        let (begin, end) = (BEGIN.replace("MY001", "MY002"), END.replace("MY001", "MY002"));
        let found = FOUND.replace("MY001", "MY002");
        let second: String = [begin.as_str(), &found, &end].map(print_line).concat();
        // The second one is asked to leave out the rule that did not end.
        let script = format!(
            "#!/bin/sh\nrequest=$(cat)\n{head}case \"$request\" in *'\"skip\":[\"MY001\"]'*) ;; *) {first}{then};; esac\n{second}"
        );
        let (code, out, err) = run(folder.path(), &trace, &script);
        assert_eq!(code, Some(0), "{err}");
        let codes: Vec<Value> = rows(&out, "findings").iter().map(|row| row["code"].clone()).collect();
        assert!(codes.contains(&"MY001".into()) && codes.contains(&"MY002".into()), "{codes:?}");
        let unchecked = rows(&out, "not_checked");
        let mine = unchecked.iter().find(|row| row["code"] == "MY001").unwrap();
        assert!(mine["missing"].as_str().unwrap().starts_with(expected), "{mine}");
    }
}
