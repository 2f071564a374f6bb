//! Snapshots of text output and of document keys.

use crate::common;

use common::{corpus, run, stdout, write_sample};
use serde_json::Value;
use stackline_present::json::schema_version;
use std::collections::BTreeMap;

/// The sample twice, as two ranks.
fn ranks() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    write_sample(folder.path(), 0);
    write_sample(folder.path(), 1);
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn report_of_the_sample() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    insta::assert_snapshot!(stdout(&["report", &trace]));
    let of_steps = stdout(&["report", &trace, "--steps", "1..2"]);
    assert!(of_steps.contains("\nCritical path of steps 1 to 2 with their GPU work: 1900 µs, bound by "), "{of_steps}");
}

/// A trace of another program than PyTorch: only the composition of its time can be reported.
#[test]
fn report_of_a_plain_chrome_trace() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("build.json");
    let text = stackline_testkit::mini::trace(
        "file -
        thread 1/2 name=worker
        1/2  -  compile  0+900.5
        1/2  -  parse    B@10
        1/2  -  parse    E@400
        1/3  -  link     900.5+100",
    );
    std::fs::write(&file, text).unwrap();
    insta::assert_snapshot!(stdout(&["report", file.to_str().unwrap()]));
    assert!(stdout(&["operators", file.to_str().unwrap()]).contains("Spans by name and thread"));
}

#[test]
fn report_of_two_ranks() {
    let (_folder, path) = ranks();
    insta::assert_snapshot!(stdout(&["report", &path]));
}

#[test]
fn reports_of_real_traces() {
    for name in
        ["nvidia-a100-event-sync", "amd-mi250-toy-train", "cpu-only-gloo", "amd-mi300-sglang-decode-graph-replay"]
    {
        let Some(trace) = corpus(&format!("kineto/{name}.json.gz")) else { return };
        insta::assert_snapshot!(format!("report_{name}"), stdout(&["report", &trace]));
    }
}

#[test]
fn critical_paths_of_real_traces() {
    let Some(trace) = corpus("kineto/nvidia-a100-event-sync.json.gz") else { return };
    insta::assert_snapshot!(stdout(&["critical-path", &trace, "--method", "hta"]));
    let what_if = ["critical-path", &trace, "--annotation", "ProfilerStep", "--what-if", "gpu=x0.5"];
    insta::assert_snapshot!(stdout(&what_if));
    insta::assert_snapshot!(stdout(&[
        "critical-path",
        &trace,
        "--method",
        "hta",
        "--format",
        "csv",
        "--table",
        "critical_path"
    ]));
}

#[test]
fn exact_paths_of_a_real_trace() {
    let Some(trace) = corpus("kineto/nvidia-a100-event-sync.json.gz") else { return };
    insta::assert_snapshot!(stdout(&["critical-path", &trace]));
    insta::assert_snapshot!(stdout(&["critical-path", &trace, "--annotation", "ProfilerStep"]));
    insta::assert_snapshot!(stdout(&["critical-path", &trace, "--format", "csv", "--table", "segments"]));
    insta::assert_snapshot!(stdout(&["critical-path", &trace, "--compare"]));
    let document: Value = serde_json::from_str(&stdout(&["critical-path", &trace, "--format", "json"])).unwrap();
    assert_eq!(document["method"], "exact");
    assert_eq!(document["path_ns"], document["window_ns"]);
    let sum: i64 = document["bound_by_ns"].as_object().unwrap().values().map(|v| v.as_i64().unwrap()).sum();
    assert_eq!(Some(sum), document["window_ns"].as_i64());
}

#[test]
fn a_critical_path_across_threads() {
    let Some(trace) = corpus("kineto/amd-mi250-toy-train.json.gz") else { return };
    let ctda = ["critical-path", &trace, "--method", "ctda"];
    insta::assert_snapshot!(stdout(&ctda));
    insta::assert_snapshot!(stdout(&[&ctda[..], &["--steps", "1", "--what-if", "cpu:hipLaunchKernel=0"]].concat()));
    insta::assert_snapshot!(stdout(&[&ctda[..], &["--format", "csv", "--table", "critical_path"]].concat()));
}

#[test]
fn what_if_of_a_real_trace() {
    let Some(trace) = corpus("kineto/nvidia-a100-event-sync.json.gz") else { return };
    insta::assert_snapshot!(stdout(&["what-if", &trace, "--scale", "kernel:*", "0.5"]));
    insta::assert_snapshot!(stdout(&["what-if", &trace, "--sweep", "--limit", "5"]));
}

/// The keys of `what-if --format json` that are promised.
#[test]
fn what_if_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let document = |args: &[&str]| -> Value {
        serde_json::from_str(&stdout(&[&["what-if", &trace, "--format", "json"], args].concat())).unwrap()
    };
    let prediction = document(&["--scale", "kernel:*", "0.5"]);
    for key in ["window_start_ns", "window_end_ns", "before_ns", "after_ns", "gain_ns", "gain_low_ns", "gain_high_ns"] {
        assert!(prediction[key].is_i64(), "{key}");
    }
    assert_eq!(prediction["method"], "exact");
    assert_eq!(prediction["edits"][0]["edit"], "scale kernel:* 0.5");
    assert!(prediction["gain_percent"].is_number() && prediction["notes"].is_array());
    for key in ["bound_by_ns_before", "bound_by_ns_after"] {
        assert_eq!(prediction[key].as_object().unwrap().len(), 14, "{key}");
    }
    assert!(prediction["tables"]["bound_by"]["rows"].is_array() && prediction["tables"]["top"]["rows"].is_array());
    let sweep = document(&["--sweep", "--candidates", "3"]);
    assert!(sweep["tried"].as_u64().unwrap() <= 3 && sweep["planned"] == 3 && sweep["window_ns"].is_i64());
    let row = &sweep["tables"]["sweep"]["rows"][0];
    for key in ["edit", "gain_ns", "gain_percent", "low_percent", "high_percent", "on_path_ns", "events", "also"] {
        assert!(row.get(key).is_some(), "{key} {row}");
    }
}

#[test]
fn doctor_of_a_real_trace() {
    let Some(trace) = corpus("kineto/amd-mi210-gpu-only.json.gz") else { return };
    insta::assert_snapshot!(stdout(&["doctor", &trace]));
}

#[test]
fn table_commands_of_the_sample() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    for command in ["steps", "kernels", "operators", "collectives", "timeline"] {
        insta::assert_snapshot!(command, stdout(&[command, &trace]));
    }
    insta::assert_snapshot!("steps_csv", stdout(&["steps", &trace, "--format", "csv", "--steps", "1..2"]));
}

/// Keys and types of a document: one line per path, rows and lists by their first item.
fn shape(path: &str, value: &Value, out: &mut BTreeMap<String, &'static str>) {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "text",
        Value::Array(items) => {
            if let Some(first) = items.first() {
                shape(&format!("{path}[]"), first, out);
            }
            "list"
        }
        Value::Object(members) => {
            for (key, member) in members {
                shape(&format!("{path}.{key}"), member, out);
            }
            "object"
        }
    };
    out.insert(path.to_owned(), name);
}

#[test]
fn json_documents_keep_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let commands = ["report", "critical-path", "steps", "kernels", "operators", "collectives", "timeline", "doctor"];
    let exact = [("critical-path_exact", vec!["critical-path"])];
    let hta = |c: &'static str| match c {
        "critical-path" => (c, vec![c, "--method", "hta"]),
        _ => (c, vec![c]),
    };
    for (name, args) in commands.into_iter().map(hta).chain(exact) {
        let command = args[0];
        let text = stdout(&[&args[..], &[&trace, "--format", "json"]].concat());
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["schema"], format!("stackline/{command}/{}", schema_version(command)));
        let mut keys = BTreeMap::new();
        shape("", &document, &mut keys);
        let lines: Vec<String> = keys.iter().skip(1).map(|(path, kind)| format!("{path}: {kind}")).collect();
        insta::assert_snapshot!(format!("schema_{name}"), lines.join("\n"));
    }
}

#[test]
fn the_critical_path_document_has_the_promised_keys() {
    let Some(trace) = corpus("kineto/nvidia-a100-simple-add-cuda-sync.json.gz") else { return };
    let annotation = "[param|pytorch.model.alex_net|0|0|0|measure|forward]";
    let window = ["--annotation", annotation, "--instance", "1", "--format", "json"];
    let args = [&["critical-path", &trace, "--method", "hta"], &window[..]].concat();
    let document: Value = serde_json::from_str(&stdout(&args)).unwrap();
    assert_eq!(document["method"], "hta");
    assert_eq!((document["path_nodes"].as_u64(), document["path_events"].as_u64()), (Some(315), Some(159)));
    assert_eq!(document["weight_us"].as_f64(), Some(241_724.0));
    assert_eq!(document["edges"]["OPERATOR_KERNEL"].as_u64(), Some(350));
    assert!((document["bound_by"]["cpu_bound"].as_f64().unwrap() - 99.779).abs() < 0.001);
    assert_eq!(document["path"].as_array().unwrap().len(), 315);
    for key in ["event", "at", "time_ns", "name", "track"] {
        assert!(!document["path"][0][key].is_null(), "{key}");
    }
    assert!(document["read_report"].is_array() && document["window_ns"].is_i64());
}

#[test]
fn overlay_save_and_restore() {
    let Some(trace) = corpus("kineto/nvidia-a100-simple-add-cuda-sync.json.gz") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (overlay, saved) = (file("overlay.json.gz"), file("path.json"));
    let annotation = "[param|pytorch.model.alex_net|0|0|0|measure|forward]";
    let selection = ["--annotation", annotation, "--instance", "1"];
    let args = [&["critical-path", &trace][..], &selection, &["--overlay", &overlay, "--save", &saved]].concat();
    let output = run(&args);
    assert!(output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("marked 159 events as critical, added 42 flow events as arrows"),
        "{output:?}"
    );
    let again = stdout(&["critical-path", "--restore", &saved, "--format", "json"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!((again["path_nodes"].as_u64(), again["weight_us"].as_f64()), (Some(315), Some(241_724.0)));
    // The overlay is a trace itself, with the marks and the arrows.
    let report = stdout(&["doctor", &overlay, "--format", "json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert!(report["traces"][0]["events"].as_u64().unwrap() > 700);
}

#[test]
fn exact_path_is_drawn_into_its_trace() {
    let Some(trace) = corpus("kineto/nvidia-a100-simple-add-cuda-sync.json.gz") else { return };
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("overlay.json").to_str().unwrap().to_owned();
    let output = run(&["critical-path", &trace, "--overlay", &target]);
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&target).unwrap()).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let path = stdout(&["critical-path", &trace, "--format", "json"]);
    let path: Value = serde_json::from_str(&path).unwrap();
    let marked = events.iter().filter(|e| e["args"]["critical"] == 1 && e["cat"] != "critical_path").count();
    assert_eq!(Some(marked as u64), path["path_events"].as_u64());
    let (starts, ends): (Vec<&Value>, Vec<&Value>) =
        events.iter().filter(|e| e["cat"] == "critical_path").partition(|e| e["ph"] == "s");
    assert!(starts.len() > 1 && starts.len() == ends.len());
    // An arrow leads forward in time, from one track to another.
    for (from, to) in starts.iter().zip(&ends) {
        assert_eq!(from["id"], to["id"]);
        assert_ne!((&from["pid"], &from["tid"]), (&to["pid"], &to["tid"]));
        let time = |end: &Value| end["ts"].as_f64().unwrap();
        assert!(time(from) <= time(to) + 1.0, "{from} {to}");
    }
    assert!(starts.iter().any(|e| e["args"]["type"] == "launch"), "{:?}", starts[0]);
    let whole = std::fs::metadata(&target).unwrap().len();
    assert!(run(&["critical-path", &trace, "--overlay", &target, "--only-critical"]).status.success());
    assert!(std::fs::metadata(&target).unwrap().len() < whole);
}

#[test]
fn exports_are_read_back_and_redacted() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let packed = file("again.json.gz");
    assert!(run(&["export", &trace, "--to", "chrome", "-o", &packed]).status.success());
    let steps = |input: &str| stdout(&["steps", input, "--format", "csv"]);
    assert_eq!(steps(&trace), steps(&packed));
    let plain = stdout(&["export", &trace, "--to", "chrome"]);
    let redacted = stdout(&["export", &trace, "--to", "chrome", "--redact"]);
    assert!(plain.contains("secret") && !redacted.contains("secret") && redacted.contains("A100"));
    let (csv, parquet) = (file("csv"), file("job.stackline"));
    assert!(run(&["export", &trace, "--to", "csv", "-o", &csv]).status.success());
    let events = std::fs::read_to_string(format!("{csv}/events.csv")).unwrap();
    assert_eq!(events.lines().count(), 1 + 3 * 10);
    assert!(run(&["export", &trace, "--to", "parquet", "-o", &parquet, "--redact"]).status.success());
    assert_eq!(steps(&trace), steps(&parquet));
    let back = stdout(&["export", &parquet, "--to", "chrome"]);
    assert!(!back.contains("secret"));
    let perfetto = file("trace.pftrace");
    assert!(run(&["export", &trace, "--to", "perfetto", "-o", &perfetto]).status.success());
    assert!(std::fs::metadata(&perfetto).unwrap().len() > 1000);
}
