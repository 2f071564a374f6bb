//! Tests of `findings`: baselines, suppressions, conditions of `--fail-on`.

use crate::common;
use crate::findings_support as findings;
use crate::junit;

use common::stdout;
use findings::{Case, run, text};
use serde_json::{Value, json};
use std::fs;

#[test]
fn junit_and_csv_list_ignored_findings() {
    let case = Case::new();
    // A file with a name that says comment is none.
    let ignore = case.file("comments.txt", "SL004\n");
    let xml = stdout(&["findings", &case.waits, "--as", "junit", "--ignore", &ignore]);
    assert_eq!(junit::faults(&xml), Vec::<String>::new(), "{xml}");
    assert!(xml.contains("name=\"SL004 host-sync\""), "{xml}");
    let skipped_element = "<skipped message=\"ignored: aten::item waits for the GPU in each step: ";
    assert!(xml.contains(skipped_element) && xml.contains(" per step at train.py:10 in step ("), "{xml}");
    assert!(xml.contains("comments.txt:1)"), "{xml}");
    let csv = stdout(&["findings", &case.waits, "--format", "csv", "--ignore", &ignore]);
    assert!(csv.contains("code,title,place,by") && csv.contains("train.py:10 in step,"), "{csv}");
    assert!(!stdout(&["findings", &case.waits, "--format", "csv"]).contains("title,place,by"));
    let table = stdout(&["findings", &case.waits, "--table", "ignored", "--ignore", &ignore]);
    assert!(table.contains("SL004"), "{table}");
    let sarif = stdout(&["findings", &case.waits, "--as", "sarif", "--ignore", &ignore]);
    assert!(sarif.contains("\"external\"") && !sarif.contains("inSource"), "{sarif}");
}

#[test]
fn baselines_distinguish_new_and_gone_findings() {
    let case = Case::new();
    let (before, after) = (case.file("before.json", ""), case.file("after.json", ""));
    stdout(&["findings", &case.waits, "--format", "json", "-o", &before]);
    stdout(&["findings", &case.repaired, "--format", "json", "-o", &after]);
    let gone = run(&[&case.repaired, "--baseline", &before, "--fail-on", "new"]);
    assert_eq!(gone.status.code(), Some(0), "{}", text(&gone.stderr));
    let shown = text(&gone.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let line = "Gone: SL004 aten::item waits for the GPU in each step: ";
    assert!(shown.contains(line) && shown.contains(" per step at train.py:10 in step"), "{shown}");
    let new = run(&[&case.waits, "--baseline", &after, "--fail-on", "new"]);
    assert_eq!(new.status.code(), Some(4));
    assert!(text(&new.stdout).contains("SL004 host-sync (new)"), "{}", text(&new.stdout));
    assert!(text(&new.stderr).contains("--fail-on: new: "), "{}", text(&new.stderr));
    let same = run(&[&case.waits, "--baseline", &before, "--fail-on", "new"]);
    assert_eq!(same.status.code(), Some(0));
    let document = fs::read_to_string(&before).unwrap();
    let older =
        document.replacen("stackline/findings/2", "stackline/findings/1", 1).replacen("combined", "together", 1);
    assert_ne!(older, document);
    let read = run(&[&case.waits, "--baseline", &case.file("older.json", &older), "--fail-on", "new"]);
    assert_eq!(read.status.code(), Some(0), "{}", text(&read.stderr));
    let newer = document.replacen("stackline/findings/2", "stackline/findings/9", 1);
    let refused = run(&[&case.waits, "--baseline", &case.file("newer.json", &newer)]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("written by another version of stackline"));
}

#[test]
fn conditions_determine_the_exit_code() {
    let case = Case::new();
    for (condition, code) in [("gain>5%", 4), ("gain>99%", 0), ("combined>5%", 4), ("count>0", 4), ("count>50", 0)] {
        assert_eq!(run(&[&case.waits, "--fail-on", condition]).status.code(), Some(code), "{condition}");
    }
    let old = run(&[&case.waits, "--fail-on", "together>5%"]);
    assert_eq!(old.status.code(), Some(4));
    assert!(text(&old.stderr).contains("--fail-on: together is now called combined"), "{}", text(&old.stderr));
}

#[test]
fn truncated_lists_are_not_judged() {
    let case = Case::new();
    let whole = fs::read_to_string(&case.waits).unwrap();
    let damaged = case.file("damaged.json", &whole[..whole.len() - 60]);
    let output = run(&[&damaged, "--fail-on", "gain>99%"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("--fail-on cannot be judged: damaged.json: records are missing"), "{stderr}");
    assert!(text(&output.stdout).contains("SL004"), "what was found is shown all the same");
    assert_eq!(run(&[&damaged, "--fail-on", "gain>99%", "--fail-on", "gain>5%"]).status.code(), Some(4));
    assert_eq!(run(&[&damaged]).status.code(), Some(0));
}

/// Two lines of one function that wait: the first one gains more.
fn two_waits(case: &Case, name: &str, lines: &[i64]) -> String {
    let lines: Vec<_> = lines.iter().map(|&line| (line, if line == 10 { 500 } else { 200 })).collect();
    case.file(name, &findings::logging(&lines))
}

#[test]
fn fixed_findings_are_gone_and_moved_ones_are_not() {
    let case = Case::new();
    let (both, one) = (two_waits(&case, "both.json", &[10, 20]), two_waits(&case, "one.json", &[20]));
    let before = case.file("before.txt", &stdout(&["findings", &both, "--format", "json"]));
    let shown = stdout(&["findings", &one, "--baseline", &before]);
    assert!(shown.contains(" 1. train.py:20 in step"), "{shown}");
    let gone: Vec<&str> = shown.lines().filter(|line| line.starts_with("Gone: SL029")).collect();
    assert!(gone.len() == 1 && gone[0].ends_with("at train.py:10 in step"), "{shown}");
    assert!(!shown.contains(" (gain was ") && !shown.contains("(new): SL029"), "{shown}");
}

#[test]
fn ignored_findings_are_listed() {
    let case = Case::new();
    let ignore = case.file("ignore", "SL004 train.py  # known\n");
    let shown = stdout(&["findings", &case.waits, "--ignore", &ignore]);
    assert!(shown.contains("Ignored: SL004 ") && !shown.contains("SL004 host-sync:"), "{shown}");
    let idle = case.file("idle", "SL004\nSL014 model.py\n");
    let stderr = text(&run(&[&case.waits, "--ignore", &idle]).stderr);
    assert!(
        stderr.contains("idle:2: the entry SL014 model.py of this ignore file matches no finding")
            && !stderr.contains("idle:1"),
        "{stderr}"
    );
    let mut program = [""; 12];
    program[9] = "def step():  # stackline: ignore[SL004]";
    case.file("train.py", &program.join("\n"));
    let source = case.folder.path().to_str().unwrap();
    let shown = stdout(&["findings", &case.waits, "--source-root", source]);
    assert!(shown.contains("\n  (comment at train.py:10)"), "{shown}");
    // In the line above, with a code that no rule has, which several findings at the line meet.
    program[8] = "# stackline: ignore[SL004, SL005, SL998]";
    program[9] = "def step():";
    case.file("train.py", &program.join("\n"));
    let output = run(&[&case.waits, "--source", source]);
    assert!(text(&output.stderr).contains("--source is now called --source-root; the old name will be removed"));
    assert!(text(&output.stdout).contains("\n  (comment at train.py:9)"), "{}", text(&output.stdout));
    let stderr = text(&output.stderr);
    assert_eq!(stderr.matches("SL998").count(), 1, "{stderr}");
    assert!(stderr.contains("train.py:9: the comment ignores an unknown finding code: \"SL998\""), "{stderr}");
}

#[test]
fn unused_suppression_comments_are_reported() {
    let case = Case::new();
    let mut program = [""; 12];
    program[2] = "x = 1  # stackline: ignore[SL014]";
    program[4] = "# stackline: ignore[SL977] nobody looks here";
    program[6] = "# stackline: ignore[]";
    program[9] = "def step():  # stackline: ignore[host-sync, SL005]";
    case.file("train.py", &program.join("\n"));
    case.file("other.py", "# stackline: ignore[SL004]");
    let stderr = text(&run(&[&case.waits, "--source-root", case.folder.path().to_str().unwrap()]).stderr);
    assert!(stderr.contains("train.py:3: the comment # stackline: ignore[SL014] matches no finding"), "{stderr}");
    assert!(stderr.contains("train.py:5: the comment ignores an unknown finding code: \"SL977\""), "{stderr}");
    assert!(stderr.contains("train.py:7: the comment # stackline: ignore[] names no finding code"), "{stderr}");
    assert!(!stderr.contains("train.py:10:") && !stderr.contains("other.py"), "{stderr}");
}

#[test]
fn omitted_findings_are_neither_new_nor_gone() {
    let case = Case::new();
    let all = case.file("all.txt", &stdout(&["findings", &case.waits, "--format", "json"]));
    let ignore = case.file("ignore", "SL004\n");
    for left_out in [&["--min-gain", "90"][..], &["--ignore", &ignore]] {
        let shown = stdout(&[&["findings", &case.waits, "--baseline", &all], left_out].concat());
        assert!(!shown.contains("Gone:") && !shown.contains("SL004 host-sync"), "it is there as before: {shown}");
        let few = stdout(&[&["findings", &case.waits, "--format", "json"], left_out].concat());
        let baseline = case.file("few.txt", &few);
        let output = run(&[&case.waits, "--baseline", &baseline, "--fail-on", "new"]);
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{shown}");
        assert!(shown.contains("SL004 host-sync: ") && !shown.contains("Note:"), "not new: {shown}");
        // Of an older version, which kept only their number.
        let mut document: Value = serde_json::from_str(&few).unwrap();
        assert!(document.as_object_mut().unwrap().remove("not_listed").is_some());
        let older = case.file("older.txt", &document.to_string());
        let output = run(&[&case.waits, "--baseline", &older, "--fail-on", "new"]);
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(4), "{shown}");
        assert!(shown.replace('\n', " ").contains("--min-gain or --ignore omitted"), "{shown}");
    }
    // What is mended is gone all the same.
    let shown = stdout(&["findings", &case.repaired, "--baseline", &all]);
    assert!(shown.contains("Gone: SL004"), "{shown}");
}

#[test]
fn findings_of_skipped_rules_are_not_gone() {
    let case = Case::new();
    let mut document: Value = serde_json::from_str(&stdout(&["findings", &case.waits, "--format", "json"])).unwrap();
    // A rule of one's own, which is not asked this time.
    let rows = document["tables"]["findings"]["rows"].as_array_mut().unwrap();
    let mut own = rows[0].clone();
    own["code"] = json!("MY001");
    rows.push(own);
    let before = case.file("own.json", &document.to_string());
    let shown = stdout(&["findings", &case.repaired, "--baseline", &before]);
    assert!(shown.contains("Gone: SL004") && !shown.contains("Gone: MY001"), "{shown}");
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("Rules not checked this time: MY001."), "{shown}");
}
