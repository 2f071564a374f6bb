//! Tests of `diff` for two memory snapshots.

use crate::common;

use common::{corpus, stackline, stdout};
use serde_json::{Value, json};
use stackline_testkit::mini;
use std::path::Path;

const MIB: u64 = 1 << 20;

/// A snapshot of allocations: at each line so many MiB.
pub(crate) fn snapshot(folder: &Path, name: &str, lines: &[(u32, u64)]) -> String {
    let mut address = 0x7f00_0000_0000u64;
    let mut events = Vec::new();
    for (time, (line, mib)) in lines.iter().enumerate() {
        let frames = [json!({"filename": "train.py", "line": line, "name": "step"})];
        events.push(json!({"action": "alloc", "addr": address, "size": mib * MIB, "stream": 0, "time_us": time, "frames": frames}));
        address += mib * MIB;
    }
    let path = folder.join(name);
    std::fs::write(&path, json!({"segments": [], "device_traces": [events]}).to_string()).unwrap();
    path.display().to_string()
}

#[test]
fn snapshots_are_compared_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let before = snapshot(folder.path(), "before.json", &[(3, 4), (5, 8)]);
    let after = snapshot(folder.path(), "after.json", &[(3, 4), (5, 2), (7, 32)]);
    let shown = |args: &[&str]| {
        let output = stackline(args).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    insta::assert_snapshot!(shown(&["diff", "before.json", "after.json"]));
    let document: Value = serde_json::from_str(&shown(&["diff", &before, &after, "--format", "json"])).unwrap();
    assert_eq!(document["schema"], "stackline/memory-diff/1");
    assert_eq!(document["tables"]["memory_diff_peaks"]["rows"][0]["change"], 26 * MIB);
    assert_eq!(document["tables"]["memory_diff"]["rows"][0]["change"], 32 * MIB);
    assert_eq!(document["tables"]["memory_diff"]["rows"][1]["change"], -6 * 1_048_576);
}

#[test]
fn incomparable_snapshots_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let memory = snapshot(folder.path(), "memory.json", &[(3, 4)]);
    let trace = folder.path().join("trace.json");
    std::fs::write(&trace, mini::trace("1/1 cpu_op aten::mm 5+50")).unwrap();
    let trace = trace.display().to_string();
    let refused = |args: &[&str]| {
        let output = stackline(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["diff", &memory, &trace]).contains("compare two of the same kind"));
    assert!(refused(&["diff", &memory, &memory, "--with", &memory]).contains("in pairs"));
    assert!(refused(&["diff", &memory, &memory, "--fail-on", "step>3%"]).contains("stackline memory AFTER"));
}

#[test]
fn autocast_on_a_real_model() {
    let Some(folder) = corpus("memory") else { return };
    let path = |name: &str| format!("{folder}/{name}");
    let shown = stdout(&["diff", &path("snapshot-forward-fp32.pickle"), &path("snapshot-forward-bf16.pickle")]);
    assert!(shown.contains("+212.7 MiB") && shown.contains("tocast copy)"), "{shown}");
}

/// Without a whole history, the highest known memory use is not called the peak.
#[test]
fn unknown_peaks_are_not_called_peaks() {
    let folder = tempfile::tempdir().unwrap();
    let whole = snapshot(folder.path(), "whole.json", &[(3, 4), (5, 8)]);
    let write = |name: &str, events: &[Value]| {
        let blocks = [json!({"address": 4096, "size": MIB, "requested_size": MIB, "state": "active_allocated"})];
        let segments = json!([{"device": 0, "address": 4096, "total_size": MIB, "stream": 0, "blocks": blocks}]);
        let path = folder.path().join(name);
        std::fs::write(&path, json!({"segments": segments, "device_traces": [events]}).to_string()).unwrap();
        path.display().to_string()
    };
    let moment = write("moment.json", &[]);
    let alloc = json!({"action": "alloc", "addr": 1 << 30, "size": MIB, "stream": 0, "time_us": 1, "frames": []});
    let late = write("late.json", &[alloc]);
    let shown = stdout(&["diff", &moment, &whole]);
    let expected = "\ncuda:0: the highest known memory use is 1024 KiB in A (at the time of the snapshot) and \
                    12.00 MiB in B (+11.00 MiB)\n";
    assert!(shown.contains(expected), "{shown}");
    assert!(shown.contains("A: the snapshot has no history, so its peak is unknown."), "{shown}");
    let shown = stdout(&["diff", &whole, &late]);
    let expected = "\ncuda:0: the highest known memory use is 12.00 MiB in A and 2048 KiB in B (within the recorded \
                    history) (";
    assert!(shown.contains(expected), "{shown}");
    assert!(shown.contains("B: the recording began late, so earlier peaks are unknown."), "{shown}");
    let shown = stdout(&["diff", &whole, &whole]);
    assert!(shown.contains("\ncuda:0: the memory peak is 12.00 MiB in A and 12.00 MiB in B (+0 B)\n"), "{shown}");
}

/// A device of which a file has no records used no 0 bytes there: that is not known.
#[test]
fn devices_of_one_file_are_not_zero_in_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let one = snapshot(folder.path(), "one.json", &[(3, 4), (5, 8)]);
    let text = std::fs::read_to_string(&one).unwrap();
    let mut moved: Value = serde_json::from_str(&text).unwrap();
    moved["device_traces"].as_array_mut().unwrap().insert(0, json!([]));
    let other = folder.path().join("other.json").display().to_string();
    std::fs::write(&other, moved.to_string()).unwrap();
    let shown = stdout(&["diff", &one, &other]);
    assert!(shown.contains("\ncuda:0: the memory peak is 12.00 MiB in A; B has no memory of this device\n"), "{shown}");
    assert!(shown.contains("\ncuda:1: A has no memory of this device; the memory peak is 12.00 MiB in B\n"), "{shown}");
    let document: Value = serde_json::from_str(&stdout(&["diff", &one, &other, "--format", "json"])).unwrap();
    for table in ["memory_diff_peaks", "memory_diff"] {
        let rows = document["tables"][table]["rows"].as_array().unwrap();
        let is_known = |row: &Value| [!row["bytes_before"].is_null(), !row["bytes_after"].is_null()];
        assert!(rows.iter().all(|row| is_known(row) == [row["device"] == "cuda:0", row["device"] == "cuda:1"]));
        assert!(!rows.is_empty() && rows.iter().all(|row| row["change"].is_null()), "{rows:?}");
    }
}
