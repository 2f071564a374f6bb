//! Edits of `what-if` and of `critical-path --what-if`, and windows of `--compare`: impossible
//! ones, and those without effect, are reported with the reason.

use crate::common;

use common::{corpus, failure, refusals, run, stackline, stdout, write_sample};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

fn sample() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    (folder, trace)
}

/// A trace of the demo, as the README makes it.
fn demo() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    std::fs::write(&file, stackline_testkit::demo::generate(&stackline_testkit::demo::Config::default())).unwrap();
    let path = file.to_str().unwrap().to_owned();
    (folder, path)
}

/// The sample, in its folder.
const RANK: &str = "rank0.json";

/// Output of one refused command.
fn refused(folder: &Path, args: &[&str]) -> String {
    refusals(folder, &[args])
}

#[test]
fn impossible_edits_and_syntax_errors_have_different_messages() {
    let (folder, _) = sample();
    let edits = [
        &["--scale", "kernel:*", "-1"][..],
        &["--scale", "kernel:*", "-1e3"],
        &["--scale", "kernel:*", "half"],
        &["--set", "kernel:*", "-5"],
        &["--set", "sync:*", "5"],
        &["--fuse", "operator:c10d*"],
        &["--graph", "kernel:*"],
        &["--more-workers", "1"],
        &["--more-workers", "0"],
        &["--more-workers", "1025"],
        &["--more-workers", "99999999999999999999"],
        &["--more-workers", "-1"],
        &["--more-workers", "many"],
        &["--remove", "disk:*"],
        &["--sweep", "--candidates", "0"],
        &["--sweep", "--candidates", "-2"],
        &["--sweep", "--annotation", ""],
        &["--sweep", "--annotation", "x", "--instance", "-1"],
    ];
    let messages: String =
        edits.iter().map(|edit| refused(folder.path(), &[&["what-if", RANK], *edit].concat())).collect();
    insta::assert_snapshot!(messages);
}

#[test]
fn only_collectives_are_overlapped() {
    let (folder, trace) = sample();
    let messages =
        ["kernel:*gemm*", "stream:7"].map(|what| refused(folder.path(), &["what-if", RANK, "--overlap", what]));
    insta::assert_snapshot!(messages.concat());
    let mixed = stdout(&["what-if", &trace, "--overlap", "kernel:*"]);
    assert!(mixed.contains("Edit: overlap kernel:* (3 events)"), "{mixed}");
    assert!(
        mixed.contains("6 of the 9 operations that kernel:* selects are not collectives and stay unchanged"),
        "{mixed}"
    );
    let alone = stdout(&["what-if", &trace, "--overlap", "stream:20"]);
    assert!(alone.contains("(3 events)") && !alone.contains("not collectives"), "{alone}");
}

#[test]
fn edits_without_effect_give_a_reason() {
    let (_folder, trace) = sample();
    let note = |args: &[&str]| -> String {
        let text = stdout(&[&["what-if", &trace, "--format", "json"], args].concat());
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["gain_ns"], 0, "{args:?}");
        document["notes"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect::<Vec<_>>().join("\n")
    };
    let waits = note(&["--scale", "sync:*", "0.5"]);
    assert!(
        waits.starts_with("'scale sync:* 0.5' selects 3 events and changes nothing: a wait lasts until"),
        "{waits}"
    );
    assert_eq!(waits.lines().count(), 1, "{waits}");
    assert!(note(&["--scale", "kernel:*", "1"]).contains("a factor of 1 does not change the time"));
    assert!(note(&["--set", "kernel:ampere*", "120000"]).contains("the selected events already have this duration"));
    assert!(
        note(&["--scale", "category:thread_handover", "0.5"]).contains("none of the selected critical-path categories")
    );
    let outside = note(&["--scale", "kernel:nccl*", "0.5", "--annotation", "aten::mm"]);
    assert!(outside.contains("runs after the end of the analyzed time window"), "{outside}");
}

#[test]
fn repeated_edits_have_no_further_effect() {
    let (folder, trace) = sample();
    let gain = |args: &[&str]| -> (Value, usize) {
        let text = stdout(&[&["what-if", &trace, "--format", "json"], args].concat());
        let document: Value = serde_json::from_str(&text).unwrap();
        (document["after_ns"].clone(), text.matches("is given more than once and applied once").count())
    };
    for edit in [&["--set", "kernel:*", "5"][..], &["--remove", "kernel:ampere*"], &["--fuse", "operator:aten::mm"]] {
        let (first_gain, second_gain) = gain(edit);
        assert_eq!(second_gain, 0);
        assert_eq!(gain(&[edit, edit].concat()), (first_gain, 1), "{edit:?}");
    }
    // A factor twice is its square, as documented.
    let quarter = gain(&["--scale", "kernel:*", "0.25"]).0;
    assert_eq!(gain(&["--scale", "kernel:*", "0.5", "--scale", "kernel:*", "0.5"]), (quarter, 0));
    let messages = refused(folder.path(), &["what-if", RANK, "--set", "kernel:*", "5", "--set", "kernel:*", "6"]);
    insta::assert_snapshot!(messages);
}

#[test]
fn suggested_names_have_the_kind_of_the_selector() {
    let (folder, _) = sample();
    let near = |selector| refused(folder.path(), &["what-if", RANK, "--remove", selector]);
    let selectors = [
        "collective:AllRedcue",
        "sync:cudaDeviceSynchronise",
        // What is around a call that waits names it, too.
        "sync:ProfilrStep",
        "kernel:sgem_32",
        "stream:9",
        "category:gpu_copy",
    ];
    insta::assert_snapshot!(selectors.map(near).concat());
}

#[test]
fn unknown_kinds_are_refused_by_every_method() {
    let (folder, _) = sample();
    let mut messages = String::new();
    for method in [&["--method", "hta"][..], &["--method", "ctda"], &[], &["--method", "exact"]] {
        let args = [&["critical-path", RANK, "--what-if", "disk:a=0"], method].concat();
        messages += &refused(folder.path(), &args);
    }
    for method in ["hta", "ctda"] {
        for edit in ["gpu=-200%", "gpu=x-1", "cpu=-3", "launch:a=0", "gpu=x1001", "gpu"] {
            messages += &refused(folder.path(), &["critical-path", RANK, "--method", method, "--what-if", edit]);
        }
    }
    insta::assert_snapshot!(messages);
}

#[test]
fn compare_names_the_window_of_each_method() {
    let (_folder, trace) = sample();
    let table = |args: &[&str]| -> Value {
        let args = [&["critical-path", &trace, "--compare", "--format", "json"], args].concat();
        serde_json::from_str::<Value>(&stdout(&args)).unwrap()["tables"]["methods"].clone()
    };
    let whole = table(&[]);
    for row in whole["rows"].as_array().unwrap() {
        let (start, end) = (row["window_start_ns"].as_i64().unwrap(), row["window_end_ns"].as_i64().unwrap());
        assert_eq!(row["window_ns"].as_i64(), Some(end - start), "{row}");
    }
    let notes = whole["notes"].to_string();
    assert!(notes.contains("hta: 1 last profiler step is excluded"), "{notes}");
    assert!(notes.contains("The methods analyze different windows"), "{notes}");
    assert!(notes.contains("exact 0.000 to 2.900, ctda 0.000 to 2.900, hta 0.000 to "), "{notes}");
    let step = table(&["--annotation", "ProfilerStep#1"]);
    assert_eq!(step["notes"].as_array().unwrap().len(), 0, "{step}");
    let people = stdout(&["critical-path", &trace, "--compare"]);
    assert!(people.contains("The methods analyze different windows"), "{people}");
}

#[test]
fn hints_name_steps_that_exist() {
    let (folder, _) = sample();
    let mut messages = String::new();
    for option in [&["--compare"][..], &["--method", "hta"]] {
        for steps in ["1", "1..2", "1..9", "11"] {
            messages += &refused(folder.path(), &[&["critical-path", RANK, "--steps", steps], option].concat());
        }
    }
    insta::assert_snapshot!(messages);
}

#[test]
fn impossible_times_are_named_as_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("absurd.json");
    let event = |cat: &str, tid: i32, args: &str| {
        format!(
            r#"{{"ph": "X", "cat": "{cat}", "name": "a", "pid": 1, "tid": {tid}, "ts": 1e300, "dur": 5, "args": {{{args}}}}}"#
        )
    };
    let call = event("cuda_runtime", 1, r#""correlation": 1"#).replace("\"a\"", "\"cudaLaunchKernel\"");
    let kernel = event("kernel", 7, r#""correlation": 1, "device": 0, "stream": 7"#);
    std::fs::write(&file, format!("[{},\n{call},\n{kernel}]", event("cpu_op", 1, ""))).unwrap();
    let file = file.to_str().unwrap();
    for command in [
        &["critical-path", file][..],
        &["critical-path", file, "--method", "ctda"],
        &["critical-path", file, "--method", "hta"],
        &["what-if", file, "--remove", "kernel:*"],
    ] {
        let (code, text) = failure(command);
        assert_eq!(code, Some(3), "{text}");
        assert!(text.contains("a usable start and a usable duration"), "{text}");
    }
    let doctor = stdout(&["doctor", file]);
    assert!(doctor.contains("lacks a plausible time"), "{doctor}");
    assert!(!doctor.contains("Import the trace again"), "{doctor}");
}

#[test]
fn examples_of_the_help_match_events_of_the_demo() {
    let (folder, _) = demo();
    let help = stdout(&["what-if", "--help"]);
    let examples: Vec<&str> = help.lines().filter_map(|l| l.trim().strip_prefix("stackline what-if ")).collect();
    assert!(examples.len() >= 4, "{help}");
    std::fs::rename(folder.path().join("trace.json"), folder.path().join("trace.json.gz")).unwrap();
    for example in examples {
        let words: Vec<&str> = example.split_whitespace().map(|word| word.trim_matches('\'')).collect();
        let mut command = stackline(&[&["what-if"], &words[..]].concat());
        let output = command.current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "{example}");
    }
}

/// Both ends of an arrow touch events that are on the path. Those of the exact path lie in them; HTA's are their starts and
/// ends (of GPU work up to 1 µs before the end), cut to whole µs.
#[test]
fn arrows_of_an_overlay_end_at_their_events() {
    let Some(trace) = corpus("kineto/amd-mi300-resnet-ddp-checkpointing.json.gz") else { return };
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("overlay.json");
    let target = target.to_str().unwrap();
    for method in ["hta", "exact"] {
        assert!(run(&["critical-path", &trace, "--whole", "--method", method, "--overlay", target]).status.success());
        let document: Value = serde_json::from_str(&std::fs::read_to_string(target).unwrap()).unwrap();
        let events = document["traceEvents"].as_array().unwrap();
        let track = |e: &Value| (e["pid"].to_string(), e["tid"].to_string());
        // In ns: the file has three decimals.
        let ns = |value: &Value| (value.as_f64().unwrap() * 1e3).round() as i64;
        let mut spans: BTreeMap<_, Vec<(i64, i64)>> = BTreeMap::new();
        for event in events.iter().filter(|e| e["ph"] == "X" && e["args"]["critical"] == 1) {
            let start = ns(&event["ts"]);
            spans.entry(track(event)).or_default().push((start, start + ns(&event["dur"])));
        }
        let fits = |at: i64, (from, to): (i64, i64)| match method {
            "exact" => from <= at && at <= to,
            _ => [from, to, to - (to - from).min(1_000)].iter().any(|point| point.div_euclid(1_000) * 1_000 == at),
        };
        for side in ["s", "f"] {
            let ends: Vec<&Value> = events.iter().filter(|e| e["cat"] == "critical_path" && e["ph"] == side).collect();
            let loose = ends.iter().find(|end| {
                let at = ns(&end["ts"]);
                !spans.get(&track(end)).is_some_and(|all| all.iter().any(|&span| fits(at, span)))
            });
            assert_eq!(loose, None, "{method}");
            assert!(ends.len() >= 10, "{method} {side}: {}", ends.len());
        }
    }
}
