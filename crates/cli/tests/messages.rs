//! Edits of `what-if` and of `critical-path --what-if`, and windows of `--compare`: what cannot be, or does nothing, is
//! said, and why.

use crate::common;

use common::{corpus, failure, run, stackline, stdout, write_sample};
use serde_json::Value;
use std::collections::BTreeMap;

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

fn refused(args: &[&str], expected: &[&str]) {
    let (code, text) = failure(args);
    assert_eq!(code, Some(2), "{args:?}: {text}");
    for part in expected {
        assert!(text.contains(part), "{args:?}: {text}");
    }
}

#[test]
fn what_is_understood_but_cannot_be_is_told_from_what_is_not_understood() {
    let (_folder, trace) = sample();
    for (args, expected) in [
        (
            &["--scale", "kernel:*", "-1"][..],
            "cannot make the what-if 'scale kernel:* -1': a factor is a number from 0",
        ),
        (&["--scale", "kernel:*", "-1e3"], "a factor is a number from 0 to 1000"),
        (&["--scale", "kernel:*", "half"], "\"half\" is not a factor such as 0.5"),
        (&["--set", "kernel:*", "-5"], "cannot make the what-if 'set kernel:* -5': a duration"),
        (&["--set", "sync:*", "5"], "cannot make the what-if 'set sync:* 5'"),
        (&["--fuse", "operator:c10d*"], "cannot make the what-if 'fuse operator:c10d*': no such span launches two"),
        (&["--graph", "kernel:*"], "choose the spans"),
        (&["--more-workers", "1"], "cannot make the what-if 'more-workers 1': the trace shows no wait"),
        (&["--more-workers", "0"], "more workers are 1 to 1024"),
        (&["--more-workers", "1025"], "more workers are 1 to 1024"),
        (&["--more-workers", "99999999999999999999"], "more workers are 1 to 1024"),
        (&["--more-workers", "-1"], "more workers are 1 to 1024"),
        (&["--more-workers", "many"], "\"many\" is not a number of workers"),
        (&["--remove", "disk:*"], "cannot understand the what-if 'disk:*': write WHAT:NAME"),
        (&["--sweep", "--candidates", "0"], "a sweep tries at least 1 edit"),
        (&["--sweep", "--candidates", "-2"], "1 or more"),
        (&["--sweep", "--annotation", ""], "leave the option out"),
        (&["--sweep", "--annotation", "x", "--instance", "-1"], "instances count from 0"),
    ] {
        refused(&[&["what-if", &trace], args].concat(), &[expected]);
    }
}

#[test]
fn only_collectives_are_overlapped() {
    let (_folder, trace) = sample();
    refused(
        &["what-if", &trace, "--overlap", "kernel:*gemm*"],
        &["'overlap kernel:*gemm*'", "none of it is a collective"],
    );
    refused(&["what-if", &trace, "--overlap", "stream:7"], &["none of it is a collective"]);
    let mixed = stdout(&["what-if", &trace, "--overlap", "kernel:*"]);
    assert!(mixed.contains("Edit: overlap kernel:* (3 events)"), "{mixed}");
    assert!(mixed.contains("6 of the 9 operations of kernel:* are no collectives: they stay as they are"), "{mixed}");
    let alone = stdout(&["what-if", &trace, "--overlap", "stream:20"]);
    assert!(alone.contains("(3 events)") && !alone.contains("no collectives"), "{alone}");
}

#[test]
fn edits_that_do_nothing_say_why() {
    let (_folder, trace) = sample();
    let note = |args: &[&str]| -> String {
        let text = stdout(&[&["what-if", &trace, "--format", "json"], args].concat());
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["gain_ns"], 0, "{args:?}");
        document["notes"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect::<Vec<_>>().join("\n")
    };
    let waits = note(&["--scale", "sync:*", "0.5"]);
    assert!(waits.starts_with("'scale sync:* 0.5' selects 3 events and changes nothing: a wait ends when"), "{waits}");
    assert_eq!(waits.lines().count(), 1, "{waits}");
    assert!(note(&["--scale", "kernel:*", "1"]).contains("times 1 is as before"));
    assert!(note(&["--set", "kernel:ampere*", "120000"]).contains("it takes that long already"));
    assert!(note(&["--scale", "category:thread_handover", "0.5"]).contains("no time of this cause"));
    let behind = note(&["--scale", "kernel:nccl*", "0.5", "--annotation", "aten::mm"]);
    assert!(behind.contains("comes after the window"), "{behind}");
}

#[test]
fn the_same_edit_twice_is_harmless() {
    let (_folder, trace) = sample();
    let gain = |args: &[&str]| -> (Value, usize) {
        let text = stdout(&[&["what-if", &trace, "--format", "json"], args].concat());
        let document: Value = serde_json::from_str(&text).unwrap();
        (document["after_ns"].clone(), text.matches("is given more than once, and counts once").count())
    };
    for edit in [&["--set", "kernel:*", "5"][..], &["--remove", "kernel:ampere*"], &["--fuse", "operator:aten::mm"]] {
        let (once, told) = gain(edit);
        assert_eq!(told, 0);
        assert_eq!(gain(&[edit, edit].concat()), (once, 1), "{edit:?}");
    }
    // A factor twice is its square, as documented.
    let quarter = gain(&["--scale", "kernel:*", "0.25"]).0;
    assert_eq!(gain(&["--scale", "kernel:*", "0.5", "--scale", "kernel:*", "0.5"]), (quarter, 0));
    refused(
        &["what-if", &trace, "--set", "kernel:*", "5", "--set", "kernel:*", "6"],
        &["'set kernel:* 5' and 'set kernel:* 6' contradict each other", "leave one of them out"],
    );
}

#[test]
fn names_near_a_selector_are_of_its_kind() {
    let (_folder, trace) = sample();
    let near = |selector: &str| {
        let (code, text) = failure(&["what-if", &trace, "--remove", selector]);
        assert_eq!(code, Some(2), "{text}");
        text
    };
    let collective = near("collective:AllRedcue");
    assert!(collective.contains("'ncclDevKernel_AllReduce_Sum_f32_RING_LL'"), "{collective}");
    assert!(!collective.contains("gemm"), "{collective}");
    assert!(near("sync:cudaDeviceSynchronise").contains("'cudaDeviceSynchronize'"));
    // What is around a call that waits names it, too.
    assert!(near("sync:ProfilrStep").contains("'ProfilerStep#0'"));
    assert!(near("kernel:sgem_32").contains("'ampere_sgemm_32x32_tn'"));
    assert!(near("stream:9").contains("stream:0/7"));
    assert!(near("category:gpu_copy").contains("'category:gpu_compute'"));
}

#[test]
fn unknown_kinds_are_refused_by_every_method() {
    let (_folder, trace) = sample();
    for (method, expected) in [
        (&["--method", "hta"][..], "cannot understand the what-if 'disk:a=0': write WHAT[:NAME]=CHANGE"),
        (&["--method", "ctda"], "cannot understand the what-if 'disk:a=0': write WHAT[:NAME]=CHANGE"),
        (&[], "cannot understand the what-if 'disk:a=0': write WHAT[:NAME]=CHANGE"),
        (&["--method", "exact"], "stackline what-if predicts by the exact method"),
    ] {
        refused(&[&["critical-path", &trace, "--what-if", "disk:a=0"], method].concat(), &[expected]);
    }
    for method in ["hta", "ctda"] {
        let with = |edit| ["critical-path", &trace, "--method", method, "--what-if", edit];
        for edit in ["gpu=-200%", "gpu=x-1", "cpu=-3", "launch:a=0", "gpu=x1001"] {
            refused(&with(edit), &[&format!("cannot make the what-if '{edit}'")]);
        }
        let (code, text) = failure(&with("gpu"));
        assert!(code == Some(2) && text.contains("cannot understand"), "{text}");
    }
}

#[test]
fn compare_says_which_window_each_method_chose() {
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
    assert!(notes.contains("hta: 1 profiler step, the last one, is left out"), "{notes}");
    assert!(notes.contains("The methods chose different windows"), "{notes}");
    assert!(notes.contains("exact 0.000 to 2.900, ctda 0.000 to 2.900, hta 0.000 to "), "{notes}");
    let step = table(&["--annotation", "ProfilerStep#1"]);
    assert_eq!(step["notes"].as_array().unwrap().len(), 0, "{step}");
    let people = stdout(&["critical-path", &trace, "--compare"]);
    assert!(people.contains("The methods chose different windows"), "{people}");
}

#[test]
fn hints_name_steps_that_exist() {
    let (_folder, trace) = sample();
    let hint = "chooses by name: use --annotation 'ProfilerStep#1' instead of --steps";
    for option in [&["--compare"][..], &["--method", "hta"]] {
        for steps in ["1", "1..2", "1..9"] {
            refused(&[&["critical-path", &trace, "--steps", steps], option].concat(), &[hint]);
        }
        refused(&[&["critical-path", &trace, "--steps", "11"], option].concat(), &["no step 11; ", "0 to 2"]);
    }
}

#[test]
fn times_that_cannot_be_are_the_reason() {
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
        assert!(text.contains("a start and duration that can be used"), "{text}");
    }
    let doctor = stdout(&["doctor", file]);
    assert!(doctor.contains("both have times that can be used"), "{doctor}");
    assert!(!doctor.contains("Import the trace again"), "{doctor}");
}

#[test]
fn the_examples_of_the_help_find_something_in_the_demo() {
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
