//! Answers for files of other profilers in the corpus: the right readings of its README, which a plain script computed.

use crate::common;

use common::{corpus, stdout};
use serde_json::Value;

/// Document of a command about a file of the corpus; `None` without a corpus.
fn document(command: &str, file: &str) -> Option<Value> {
    let path = corpus(file)?;
    Some(serde_json::from_str(&stdout(&[command, &path, "--format", "json"])).unwrap())
}

fn rows<'d>(document: &'d Value, table: &str) -> &'d [Value] {
    document["tables"][table]["rows"].as_array().unwrap()
}

/// Time (ns) of a rank's GPU by category, in the order of the table.
fn gpu_time(report: &Value, rank: Option<i64>) -> Vec<(&str, i64)> {
    let of_rank = rows(report, "gpu_time").iter().filter(|row| row["rank"].as_i64() == rank);
    of_rank.map(|row| (row["category"].as_str().unwrap(), row["time_ns"].as_i64().unwrap())).collect()
}

/// Weights come from the host in each step, and nothing overlaps the copies.
#[test]
fn copies_are_the_first_finding() {
    const FILE: &str = "nsys/h100-2gpu-h2d-bound.sqlite";
    let Some(found) = document("findings", FILE) else { return };
    let first = &rows(&found, "findings")[0];
    let title = first["title"].as_str().unwrap();
    assert!(first["code"] == "SL064" && title.starts_with("Copies of "), "{first}");
    assert!(title.contains("(Memcpy HtoD (Pinned -> Device))"), "{title}");
    let report = document("report", FILE).unwrap();
    for (rank, kernels, from_host, on_device) in
        [(0, 22_385_163, 920_871_273, 19_613_651), (1, 22_444_359, 920_756_165, 19_589_893)]
    {
        // Each instant counts once, and kernels precede copies: the sum is that of all copies and fills.
        let small = if rank == 0 { 1_568 + 3_808 + 14_784 } else { 1_792 + 4_064 + 14_432 };
        let times = gpu_time(&report, Some(rank));
        assert_eq!(times[0], ("computation", kernels));
        assert_eq!(times[2], ("memory", from_host + on_device + small));
        let total = |name: &str| {
            let row = rows(&report, "gpu_kernels").iter().find(|row| row["rank"] == rank && row["name"] == name);
            row.map(|row| (row["count"].as_i64().unwrap(), row["total_ns"].as_i64().unwrap()))
        };
        assert_eq!(total("Memcpy HtoD (Pinned -> Device)"), Some((223, from_host)));
        assert_eq!(total("Memcpy DtoD (Device -> Device)"), Some((225, on_device)));
    }
}

#[test]
fn nothing_is_found_in_a_healthy_program() {
    const FILE: &str = "nsys/generated-healthy.sqlite";
    let Some(found) = document("findings", FILE) else { return };
    assert!(rows(&found, "findings").is_empty(), "{}", found["tables"]["findings"]);
    assert_eq!(found["notes"].as_array().map(Vec::len), Some(0), "{}", found["notes"]);
    let report = document("report", FILE).unwrap();
    let times = gpu_time(&report, None);
    let window: i64 = times.iter().map(|(_, ns)| ns).sum();
    let idle: i64 = times.iter().filter(|(category, _)| category.starts_with("idle_")).map(|(_, ns)| ns).sum();
    assert_eq!((idle, window), (3_990_000, 403_990_000));
    assert_eq!(format!("{:.2} %", 100.0 * idle as f64 / window as f64), "0.99 %");
}

#[test]
fn three_operations_are_too_few_for_conclusions() {
    let Some(found) = document("findings", "nsys/rtx3080-minimal.sqlite") else { return };
    let note = "the trace has only 3 GPU operations and no steps, so findings are unreliable";
    assert_eq!(found["notes"], serde_json::json!([note]));
    assert!(rows(&found, "findings").iter().all(|row| row["gain_ns"].is_null()), "{}", found["tables"]["findings"]);
}

#[test]
fn operators_of_a_tensorflow_1_timeline() {
    let Some(report) = document("report", "tensorflow/tf1-timeline-train.json") else { return };
    let operators = rows(&report, "operators");
    let first = &operators[0];
    assert_eq!((&first["name"], &first["calls"]), (&"Conv3DBackpropFilterV2".into(), &25.into()));
    assert_eq!(first["host_self_us"].as_f64(), Some(5_912_679.0));
    let calls: i64 = operators.iter().filter_map(|row| row["calls"].as_i64()).sum();
    let us: f64 = operators.iter().filter_map(|row| row["host_self_us"].as_f64()).sum();
    assert_eq!((calls, us), (484, 11_804_608.0));
    let trace = &report["traces"][0];
    assert_eq!(trace["end_ns"].as_i64().unwrap() - trace["start_ns"].as_i64().unwrap(), 7_714_885_000);
}

/// Parameters, gradients and optimizer state are the peak; a snapshot without history has none, and names the remedy.
#[test]
fn conclusions_from_snapshots() {
    let Some(train) = document("memory", "memory/snapshot-train-step.pickle") else { return };
    let notes = train["tables"]["memory_composition"]["notes"].to_string();
    assert!(notes.contains("Parameters, gradients and optimizer state are 99.3 % of the peak"), "{notes}");
    assert!(notes.contains("Checkpointing activations or a smaller batch won't help"), "{notes}");
    let without = corpus("memory/snapshot-no-history.pickle").unwrap();
    let shown = stdout(&["memory", &without]).split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "The snapshot has no allocation history, so peaks and call paths are unknown.",
        "torch.cuda.memory._record_memory_history()",
        "of reserved memory (27.4 %) are free, in 710 blocks. The largest free block has 314.0 MiB.",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}
