//! Tests of `memory`, on a small snapshot and a small hand-written program.

use crate::common;

use common::{corpus, failure, recorder, refusals, stackline, stdout, torch};
use serde_json::{Value, json};
use std::path::Path;

pub(crate) const MIB: u64 = 1 << 20;

/// Runs the command in a folder, so that paths in its output are always the same.
pub(crate) fn shown(folder: &Path, args: &[&str]) -> String {
    let output = stackline(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A step that runs out of memory: 4 MiB of weights from before the records, activations, one freed; then a request of
/// 10 MiB, while 13 MiB lie free in two pieces and the device has 1 MiB.
fn snapshot() -> Value {
    let frames = |line: u32, function: &str| {
        json!([
            {"name": "at::native::mm", "filename": "??", "line": 0},
            {"name": "forward", "filename": "/venv/site-packages/torch/nn/linear.py", "line": 116},
            {"name": function, "filename": "train.py", "line": line},
            {"name": "<module>", "filename": "train.py", "line": 90},
        ])
    };
    let event = |action: &str, addr: u64, size: u64, time: u64, line: u32| json!({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time, "frames": frames(line, "step")});
    let block = |size: u64, state: &str, line: u32| {
        let requested = if line == 42 { MIB * 3 / 2 - 100 } else { size };
        json!({"size": size, "requested_size": requested, "state": state, "frames": frames(line, "build")})
    };
    let base = 0x7f00_0000_0000u64;
    let at = |mib: u64| base + mib * MIB;
    json!({
        "device_traces": [[
            event("segment_alloc", at(100), 20 * MIB, 1000, 40),
            event("alloc", at(100), 6 * MIB, 1001, 40),
            event("alloc", at(106), 5 * MIB, 1010, 41),
            event("alloc", at(111), MIB * 3 / 2 - 100, 1020, 42),
            event("free_requested", at(100), 6 * MIB, 1030, 50),
            event("free_completed", at(100), 6 * MIB, 1031, 50),
            {"action": "oom", "size": 10 * MIB, "device_free": MIB, "stream": 0, "time_us": 1040, "frames": frames(43, "step")},
        ]],
        "segments": [
            {"device": 0, "address": base, "total_size": 4 * MIB, "stream": 0, "segment_type": "large", "frames": [],
             "blocks": [block(4 * MIB, "active_allocated", 10)]},
            {"device": 0, "address": at(100), "total_size": 20 * MIB, "stream": 0, "segment_type": "large", "frames": [],
             "blocks": [block(6 * MIB, "inactive", 0), block(5 * MIB, "active_allocated", 41),
                        block(2 * MIB, "active_allocated", 42), block(7 * MIB, "inactive", 0)]},
        ],
    })
}

/// Two buffers: one allocated early and never freed in time, one that could reuse the other's memory.
const PROGRAM: &str = "a weights 4194304 name=weights kind=parameter at=train.py:10:build
a input 1048576 name=input at=train.py:20:step
a output 1048576 name=output at=train.py:21:step
h weights at=train.py:11:build
h input at=train.py:22:step
k first weights,input>input at=train.py:23:step
k second weights>output at=train.py:24:step
k third output>output at=train.py:25:step
d output at=train.py:26:step
f input at=train.py:30:step
f output at=train.py:31:step
f weights at=train.py:32:build
end
";

pub(crate) fn sample() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("oom.json"), snapshot().to_string()).unwrap();
    std::fs::write(folder.path().join("program.memory"), PROGRAM).unwrap();
    folder
}

/// Names of a file, as of a snapshot that somebody sent, do not drive the terminal.
#[test]
fn control_characters_in_names_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let text = "device \"\u{1b}[2Jgpu\u{202e}\"; a \"\u{1b}[31mx\u{202e}\" 64 at=\"\u{1b}t.py\":3:\"f\u{202e}\"; a y 8; k one y>y; f y; f \"\u{1b}[31mx\u{202e}\"; end";
    std::fs::write(folder.path().join("bad\u{202e}.memory"), text).unwrap();
    for more in [&[][..], &["--at", "P1"], &["--curve"], &["--objects"], &["--by", "phase"], &["--apply", "1"]] {
        let out = shown(folder.path(), &[&["memory", "bad\u{202e}.memory"], more].concat());
        assert!(!out.contains(['\u{1b}', '\u{202e}']), "{more:?}: {out:?}");
    }
}

/// Format as of `findings`: one kernel lies between.
#[test]
fn thresholds_can_be_set() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("late.memory"), "a x 64; k one x>x; a y 64; k two y>y; f x; f y; end").unwrap();
    let codes = |more: &[&str]| {
        let args = [&["memory", "late.memory", "--format", "json"], more].concat();
        let found: Value = serde_json::from_str(&shown(folder.path(), &args)).unwrap();
        let rows = found["tables"]["findings"]["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| row["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(codes(&[]).contains(&"SL051".to_owned()));
    assert!(!codes(&["--set", "SL051.kernels=2"]).contains(&"SL051".to_owned()));
    for (set, why) in [("SL051.kernels=x", "not a setting"), ("SL001.share=40", "not a memory rule")] {
        let output = stackline(&["memory", "late.memory", "--set", set]).current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{set}");
    }
    let renamed = ["memory", "late.memory", "--set", "SL058.touched=50"];
    let output = stackline(&renamed).current_dir(folder.path()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.contains("SL058.touched is now called SL058.accessed"), "{error}");
}

#[test]
fn empty_memory_files_are_reported() {
    let folder = sample();
    std::fs::write(folder.path().join("nothing.json"), r#"{"segments": [], "device_traces": []}"#).unwrap();
    let shown = shown(folder.path(), &["memory", "nothing.json"]);
    assert!(shown.contains("The input contains no memory objects"), "{shown}");
}

#[test]
fn snapshots_report_missing_call_paths() {
    let folder = tempfile::tempdir().unwrap();
    let head = |value: &Value| {
        std::fs::write(folder.path().join("one.json"), value.to_string()).unwrap();
        shown(folder.path(), &["memory", "one.json"]).lines().nth(1).unwrap().to_owned()
    };
    let mut without_history = snapshot();
    without_history["device_traces"] = json!([]);
    assert!(head(&without_history).contains("peaks are unknown and only live objects have call paths"));
    let text = snapshot().to_string().replace("\"frames\"", "\"other\"");
    let without_paths: Value = serde_json::from_str(&text).unwrap();
    assert!(head(&without_paths).contains("The snapshot has no call paths"));
    let text = without_history.to_string().replace("\"frames\"", "\"other\"");
    assert!(head(&serde_json::from_str(&text).unwrap()).contains("peaks and call paths are unknown"));
}

/// Findings come before source locations, and equal ones are merged.
#[test]
fn agent_reports_list_memory_findings() {
    let folder = tempfile::tempdir().unwrap();
    let late = |at: usize| format!("a o{at} 1000; k touch o{at}\n");
    let freed = |at: usize| format!("f o{at}\n");
    let text = (0..6).map(late).collect::<String>() + "k end >\n" + &(0..6).map(freed).collect::<String>() + "end\n";
    std::fs::write(folder.path().join("late.memory"), text).unwrap();
    let shown = shown(folder.path(), &["report", "late.memory", "--for-agent"]);
    let findings: Vec<&str> = shown.lines().filter(|line| line.contains("SL05")).collect();
    assert!(
        (1..6).contains(&findings.len()) && shown.contains(" findings of this rule have this location and saving"),
        "{shown}"
    );
    assert!(shown.find("\nFindings, by predicted saving:\n1. SL05").is_some(), "{shown}");
    assert!(shown.find("Findings, by") < shown.find("Live bytes at the memory peaks, by place"), "{shown}");
    assert!(shown.ends_with("More: stackline memory late.memory, stackline findings late.memory\n"), "{shown}");
}

/// The number of a call is no time.
#[test]
fn sources_without_times_have_none() {
    let folder = sample();
    let peaks = |file: &str| {
        let shown = shown(folder.path(), &["memory", file, "--format", "json"]);
        let document: Value = serde_json::from_str(&shown).unwrap();
        document["tables"]["memory_peaks"]["rows"][0].clone()
    };
    assert_eq!((&peaks("oom.json")["call"], &peaks("oom.json")["time"]), (&json!(2), &json!(19_000)));
    assert!(peaks("program.memory")["time"].is_null(), "{}", peaks("program.memory"));
}

#[test]
fn truncation_is_reported() {
    let folder = sample();
    let late = |at: usize| format!("a o{at} {} at=a.py:{at}:f; k touch o{at}\n", 1000 + at);
    let text: String = (0..6).map(late).collect::<String>()
        + "k end >\n"
        + &(0..6).map(|at| format!("f o{at}\n")).collect::<String>()
        + "end\n";
    std::fs::write(folder.path().join("many.memory"), text).unwrap();
    let note = "Some suggestions to combine with --apply are not in the table; --limit 0";
    assert!(shown(folder.path(), &["memory", "many.memory", "--limit", "1"]).contains(note));
    assert!(!shown(folder.path(), &["memory", "many.memory"]).contains(note));
}

#[test]
fn views_of_the_call_tree() {
    let folder = sample();
    let view = |more: &[&str]| shown(folder.path(), &[&["memory"], more].concat());
    insta::assert_snapshot!("memory_oom", view(&["oom.json"]));
    let for_agent = shown(folder.path(), &["report", "oom.json", "--for-agent"]);
    assert!(for_agent.len() <= 4096, "{}", for_agent.len());
    insta::assert_snapshot!("report_for_agent_oom", for_agent);
    insta::assert_snapshot!(
        "memory_by_path",
        view(&["oom.json", "--by", "path", "--peaks", "1", "--table", "memory_at_peak"])
    );
    insta::assert_snapshot!("memory_at", view(&["oom.json", "--at", "p1"]));
    insta::assert_snapshot!("memory_curve", view(&["oom.json", "--curve", "--format", "csv"]));
    insta::assert_snapshot!("memory_objects", view(&["oom.json", "--objects"]));
    insta::assert_snapshot!("memory_program", view(&["program.memory"]));
    insta::assert_snapshot!("memory_applied", view(&["program.memory", "--apply", "1,2"]));
    insta::assert_snapshot!("memory_rules", view(&["program.memory", "--rules", "drgpum"]));
}

#[test]
fn document_keys() {
    let folder = sample();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let mut text = Vec::new();
    for input in ["oom.json", "program.memory"] {
        let document: Value =
            serde_json::from_str(&shown(folder.path(), &["memory", input, "--format", "json"])).unwrap();
        assert_eq!(document["schema"], "stackline/memory/1");
        text.push(format!("document: {}", keys(&document)));
        text.push(format!("memory: {}", keys(&document["memory"])));
        for (name, table) in document["tables"].as_object().unwrap() {
            text.push(format!("{name}: {}", table["rows"].get(0).map_or(String::new(), keys)));
        }
    }
    insta::assert_snapshot!("schema_memory", text.join("\n"));
}

/// Other commands name those that read a memory snapshot; the help does not offer refused options.
#[test]
fn other_commands_refer_to_the_memory_command() {
    let folder = sample();
    for name in ["oom.json", "program.memory"] {
        let file = folder.path().join(name).to_str().unwrap().to_owned();
        for command in ["steps", "calls"] {
            let (code, text) = failure(&[command, &file]);
            assert_eq!(code, Some(2), "{command}: {text}");
            assert!(text.contains(&format!("open it with `stackline memory {file}`")), "{command}: {text}");
        }
    }
    let help = stdout(&["memory", "--help"]);
    assert!(!help.contains("--steps") && help.contains("--rank"), "{help}");
}

/// Parameters, their gradients and states of optimizers of a recording have names and modules, also once they lie in a run.
#[test]
fn tensors_of_a_recording_have_names() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/tests/programs/tensor_names.py");
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut command = stackline(&["record", "--mode", "trace", "--memory", "-o", &path("run.stackline"), "--"]);
    let recorded = command.arg(&python).arg(&program).env("STACKLINE_RECORDER", recorder()).output().unwrap();
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    stdout(&["import", &path("run.stackline"), "-o", &path("kept.stackline")]);
    for run in [path("run.stackline"), path("kept.stackline")] {
        let tables = |more: &[&str]| -> Value {
            serde_json::from_str(&stdout(&[&["memory", &run, "--format", "json"], more].concat())).unwrap()
        };
        let objects = tables(&["--objects"]);
        let objects = objects["tables"]["memory_objects"]["rows"].as_array().unwrap();
        for (name, kind) in [
            ("0.layers.1.weight", "parameter"),
            ("0.layers.1.weight.grad", "gradient"),
            ("0.layers.1.weight.exp_avg_sq", "optimizer state"),
        ] {
            let row = objects.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((&row["kind"], &row["module"]), (&json!(kind), &json!("0.layers.1")));
        }
        // While the model is trained: its parameters, their gradients and what the optimizer keeps.
        let modules = tables(&["--by", "module", "--peaks", "4"]);
        let rows = modules["tables"]["memory_at_peak"]["rows"].as_array().unwrap();
        let linear = rows.iter().filter(|row| row["module"] == "0.layers.1").map(|row| row["bytes"].as_u64().unwrap());
        assert!(linear.max().is_some_and(|most| most >= 4 * (256 + 32)), "{rows:#?}");
    }
}

/// A recorded program with injected waste: each is reported at its line, and that of 24 layers is one row.
#[test]
fn injected_waste_is_reported_by_line() {
    let Some(python) = torch() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/waste.py");
    let run = folder.path().join("waste.stackline").to_str().unwrap().to_owned();
    let mut command = stackline(&["record", "--mode", "trace", "--memory", "--shapes", "-o", &run, "--"]);
    let recorded = command.arg(&python).arg(&program).env("STACKLINE_RECORDER", recorder()).output().unwrap();
    let stderr = String::from_utf8_lossy(&recorded.stderr).into_owned();
    assert!(recorded.status.success() && stderr.contains(&format!("Next: stackline memory {run}")), "{stderr}");
    let document: Value = serde_json::from_str(&stdout(&["memory", &run, "--format", "json"])).unwrap();
    let source = std::fs::read_to_string(&program).unwrap();
    let line_of = |words: &str| source.lines().position(|line| line.contains(words)).unwrap() as u64 + 1;
    let rows = |table: &str| document["tables"][table]["rows"].as_array().unwrap().clone();
    let at = |table: &str, words: &str| -> Vec<Value> {
        let line = line_of(words);
        rows(table)
            .into_iter()
            .filter(|row| row["line"] == line && row["file"].as_str().unwrap().ends_with("waste.py"))
            .collect()
    };

    let unused = at("memory_waste", "written, never read");
    assert_eq!(unused.len(), 1, "{unused:?}");
    let first_unused = [&unused[0]["pattern"], &unused[0]["objects"], &unused[0]["bytes"], &unused[0]["certainty"]];
    assert_eq!(first_unused, [&json!("written, never read"), &json!(4), &json!(4 * 1_600_000), &json!("inferred")]);

    // What the kept graphs hold: an activation of each layer and step, one suggestion among the first.
    let suggestions = rows("memory_suggestions");
    let kept = suggestions.iter().position(|row| {
        row["line"] == line_of("one line") && row["against"] == "memory leak" && row["objects"] == 4 * 24
    });
    assert!(kept.is_some_and(|at| at < 3), "{kept:?} {suggestions:#?}");
    let kept = &suggestions[kept.unwrap()];
    assert_eq!((&kept["function"], &kept["action"]), (&json!("Layer.forward"), &json!("move free")));
    let saved = kept["saved_at_p1"].as_i64().unwrap();
    assert!(saved >= 3 * 24 * 65_536, "{kept}");
    assert!(suggestions.len() < 60, "{}", suggestions.len());
    assert!(
        !rows("memory_waste").iter().any(|row| row["pattern"] == "early allocation" && row["place"] == kept["place"])
    );

    // The same as a finding, beside those about time.
    let found: Value = serde_json::from_str(&stdout(&["findings", &run, "--format", "json"])).unwrap();
    let found = found["tables"]["findings"]["rows"].as_array().unwrap();
    let leak = found.iter().find(|row| row["code"] == "SL055" && row["line"] == line_of("one line"));
    assert!(
        leak.is_some_and(|leak| leak["gain_bytes"] == kept["saved_at_p1"] && leak["gain_ns"].is_null()),
        "{found:#?}"
    );
    let is_of_memory = |row: &&Value| !row["gain_bytes"].is_null();
    let with_gain = found.iter().filter(|row| is_of_memory(row) || !row["gain_ns"].is_null());
    assert!(with_gain.is_sorted_by_key(|row| is_of_memory(&row)), "bytes behind times");

    // The repair that is advised, by its number, and by running the repaired program.
    let number = kept["number"].to_string();
    let applied: Value =
        serde_json::from_str(&stdout(&["memory", &run, "--format", "json", "--apply", &number])).unwrap();
    let row = &applied["tables"]["memory_applied"]["rows"][0];
    assert_eq!(row["applied"], number.as_str());
    assert!(row["peak_after"].as_i64() < row["peak_before"].as_i64(), "{row}");
    let objects: Value =
        serde_json::from_str(&stdout(&["memory", &run, "--format", "json", "--objects", "--limit", "0"])).unwrap();
    let objects = objects["tables"]["memory_objects"]["rows"].as_array().unwrap();
    let leaked =
        |row: &&Value| row["line"] == line_of("one line") && row["freed_by"].is_null() && row["bytes"] == 65_536;
    let later: Vec<&Value> = objects.iter().filter(leaked).filter(|row| row["dtype"] == "f32").collect();
    assert!(later.len() >= 3 * 24, "{}", later.len());
}

/// The peak that the command names for a real trace is the highest total that PyTorch wrote into it.
#[test]
fn peaks_of_a_real_trace() {
    let Some(trace) = corpus("kineto/nvidia-h100-bert-small.json.gz") else { return };
    let document: Value =
        serde_json::from_str(&stdout(&["memory", &trace, "--format", "json", "--peaks", "1"])).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(std::fs::File::open(&trace).unwrap()), &mut text)
        .unwrap();
    let source: Value = serde_json::from_str(&text).unwrap();
    let totals = source["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == "[memory]");
    let highest = totals.filter_map(|event| event["args"]["Total Allocated"].as_i64()).max().unwrap();
    let rows = document["tables"]["memory_peaks"]["rows"].as_array().unwrap();
    let gpu = rows.iter().find(|row| row["device"] == "cuda:0").unwrap();
    assert_eq!(gpu["bytes"].as_i64(), Some(highest));
    assert!(!stdout(&["memory", &trace, "--by", "operator"]).is_empty());
}

#[test]
fn missing_data_is_reported() {
    let folder = sample();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(file("trick.pickle"), b"\x80\x02cos\nsystem\nU\x02ls\x85R.").unwrap();
    std::fs::write(file("plain.json"), stackline_testkit::mini::trace("1/1 - a 1+1")).unwrap();
    let drgpum = "[0]: 0(0), 1(4), 2(5)\n";
    std::fs::create_dir(file("half")).unwrap();
    std::fs::create_dir(file("rest")).unwrap();
    for (name, text) in [
        ("half/memory_liveness.txt", drgpum),
        ("rest/operation_stream_info.txt", "op_id: 1, ALLOC 0, stream_id: 0\n"),
        ("sums.json", "[[1, 2, 3], [[0, 1], [0, 2], [0, 3]]]"),
        ("wrong.memory", "a x 10\nf y\n"),
        ("what.bin", "hello"),
    ] {
        std::fs::write(file(name), text).unwrap();
    }
    let commands = [
        &["memory", "half"][..],
        &["memory", "rest"],
        &["memory", "half/memory_liveness.txt"],
        &["memory", "sums.json"],
        &["memory", "wrong.memory"],
        &["memory", "what.bin"],
        &["memory", "trick.pickle"],
        &["memory", "plain.json"],
        &["memory", "missing"],
        &["memory", "oom.json", "--at", "P9"],
        &["memory", "program.memory", "--apply", "99"],
        &["memory", "oom.json", "--steps", "1"],
        &["memory", "oom.json", "--rank", "1"],
        &["memory", "oom.json", "--peaks", "0"],
    ];
    insta::assert_snapshot!(refusals(folder.path(), &commands));
}

/// The memory data of a run are equal to those of its source, to the byte of each answer.
#[track_caller]
fn assert_kept(folder: &Path, source: &str, others: bool) {
    let run = format!("{}.stackline", source.replace('/', "-"));
    shown(folder, &["import", source, "-o", &run]);
    for view in
        [&[][..], &["--curve"], &["--objects"], &["--format", "json"], &["--by", "path"], &["--rules", "drgpum"]]
    {
        let view_of = |input: &str| shown(folder, &[&["memory", input], view].concat());
        assert_eq!(view_of(&run), view_of(source), "{source} {view:?}");
    }
    let again = format!("again-{run}");
    shown(folder, &["import", &run, "-o", &again]);
    assert_eq!(shown(folder, &["memory", &again]), shown(folder, &["memory", source]));
    if !others {
        assert_eq!(shown(folder, &["report", &run]), shown(folder, &["memory", &run]), "there is nothing else in it");
        let (code, text) = failure(&["steps", folder.join(&run).to_str().unwrap()]);
        assert_eq!(code, Some(2), "{text}");
        assert!(
            text.contains("contains only memory data and has no execution trace; open it with `stackline memory"),
            "{text}"
        );
    }
}

#[test]
fn runs_keep_memory() {
    let folder = sample();
    assert_kept(folder.path(), "oom.json", false);
    assert_kept(folder.path(), "program.memory", false);
    if let Some(trace) = corpus("kineto/nvidia-h100-bert-small.json.gz") {
        std::fs::copy(trace, folder.path().join("bert.json.gz")).unwrap();
        assert_kept(folder.path(), "bert.json.gz", true);
    }
    // With a trace beside it, in one run.
    std::fs::write(folder.path().join("plain.json"), stackline_testkit::mini::trace("1/1 - a 1+1")).unwrap();
    shown(folder.path(), &["import", "plain.json", "oom.json", "-o", "both"]);
    assert_eq!(shown(folder.path(), &["memory", "both"]), shown(folder.path(), &["memory", "oom.json"]));
    assert!(!shown(folder.path(), &["operators", "both"]).is_empty());
    std::fs::write(folder.path().join("both/memory=0/memory_calls.parquet"), "cut").unwrap();
    let (code, text) = failure(&["memory", folder.path().join("both").to_str().unwrap()]);
    assert_eq!(code, Some(3));
    assert!(text.contains("memory_calls.parquet is damaged"), "{text}");
}

#[test]
fn text_form_gives_equal_results() {
    let folder = sample();
    let text = shown(folder.path(), &["export", "program.memory", "--to", "memory-text"]);
    std::fs::write(folder.path().join("again.memory"), &text).unwrap();
    assert_eq!(shown(folder.path(), &["export", "again.memory", "--to", "memory-text"]), text);
    let csv_of = |input: &str| shown(folder.path(), &["memory", input, "--format", "csv"]);
    assert_eq!(csv_of("again.memory"), csv_of("program.memory"));
    // Of a snapshot, the objects and calls, but not the allocator.
    shown(folder.path(), &["export", "oom.json", "--to", "memory-text", "-o", "oom.memory"]);
    let peaks = |input: &str| shown(folder.path(), &["memory", input, "--at", "P1", "--format", "csv"]);
    assert_eq!(peaks("oom.memory"), peaks("oom.json"));
    for (args, words) in [
        (&["program.memory", "--steps", "1"][..], "no steps or ranks"),
        (&["program.memory", "program.memory"], "give only one input"),
    ] {
        let args: Vec<&str> = ["export", "--to", "memory-text"].iter().chain(args).copied().collect();
        let output = stackline(&args).current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(words), "{args:?}");
    }
}

#[test]
fn chrome_export_has_a_lane_per_object_with_its_waste() {
    let folder = sample();
    let lanes: Value =
        serde_json::from_str(&shown(folder.path(), &["export", "program.memory", "--to", "chrome"])).unwrap();
    let events = lanes["traceEvents"].as_array().unwrap();
    let has = |name: &str| events.iter().any(|event| event["name"] == name && event["pid"] == "memory of gpu:0");
    for name in ["in use", "allocate weights", "first", "weights", "input", "early allocation", "late deallocation"] {
        assert!(has(name), "{name}: {events:#?}");
    }
    shown(folder.path(), &["export", "oom.json", "--to", "perfetto", "-o", "oom.pftrace"]);
    assert!(std::fs::metadata(folder.path().join("oom.pftrace")).unwrap().len() > 100);
    let (code, text) = failure(&["export", folder.path().join("oom.json").to_str().unwrap(), "--to", "csv", "-o", "x"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("only memory data can be exported only to perfetto, chrome"), "{text}");
}

/// Tables that are asked for are there, with their columns, though they have nothing to say.
#[test]
fn requested_tables_may_be_empty() {
    let folder = sample();
    std::fs::write(folder.path().join("small.memory"), "a x 64; k one x>x; f x; end").unwrap();
    for name in ["memory_waste", "memory_suggestions", "memory_out_of_memory", "memory_allocator"] {
        let csv = shown(folder.path(), &["memory", "small.memory", "--table", name, "--format", "csv"]);
        assert!(
            csv.lines().count() == 1 && csv.contains("bytes") || csv.contains(",requested") || csv.contains("free"),
            "{name}: {csv}"
        );
        let text = shown(folder.path(), &["memory", "small.memory", "--table", name]);
        assert!(text.contains("(no rows)"), "{name}: {text}");
    }
    assert!(!shown(folder.path(), &["memory", "small.memory"]).contains("(no rows)"));
}
