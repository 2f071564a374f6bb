//! CPU limits, OpenMP and recording cost in recordings.

use super::*;
use serde_json::{Value, json};
use stackline_model::{OPENMP, RECORDING};
use stackline_recording::{Cost, Processors};

fn described(trace: &Trace) -> Value {
    serde_json::from_str(trace.meta.entry(RECORDING).unwrap()).unwrap()
}

/// A rank with a limit of three processors, or of two and a half by its control group.
fn rank(pid: u32, rank: Option<u32>, boot: u64) -> Vec<u8> {
    let mut script = Script::new(process(pid, rank));
    script.records.push(Record::Machine { boot });
    script.thread(0, pid, 1);
    script.call(0, "def:step:4 aten::add", 2_000, 2_010);
    script.records.push(Record::Processors(Processors { machine: 8, allowed: 3, quota_milli: Some(2500) }));
    script.records.push(Record::Load { at_ns: 5_000, threads: 2, ran_ns: 70, waited_ns: 7 });
    script.records.push(Record::Cost(Cost { begin_ns: 1, end_ns: 1, torch_ns: None, measured: 1 }));
    script.records.push(Record::Cost(Cost { begin_ns: 120, end_ns: 80, torch_ns: Some(90), measured: 40 }));
    script.end()
}

#[test]
fn cpu_limits_and_cost_are_a_metadata_entry() {
    let trace = one(&rank(7, None, 1));
    let cost = json!({"begin_ns": 120, "end_ns": 80, "torch_ns": 90, "measured": 40});
    // The process began at 1000 ns.
    let process =
        json!({"pid": 7, "own": true, "machine": 8, "usable_milli": 2500, "loads": [[4000, 70, 7]], "cost": cost});
    assert_eq!(described(&trace), json!({ "processes": [process] }));
    assert!(trace.report.is_clean(), "{:?}", trace.report.problems);
}

#[test]
fn ranks_of_one_machine_are_listed_together() {
    let files = [rank(7, Some(0), 1), rank(8, Some(1), 1), rank(9, Some(2), 2)];
    let set = traces_of("run", files.iter().map(|file| ("stream", file.as_slice())));
    let processes = |trace: &Trace| -> Vec<(i64, bool)> {
        let entry = described(trace);
        let process_entries = entry["processes"].as_array().unwrap().iter();
        process_entries.map(|one| (one["pid"].as_i64().unwrap(), one["own"].as_bool().unwrap())).collect()
    };
    let found: Vec<_> = set.traces.iter().map(processes).collect();
    assert_eq!(found, [vec![(7, true), (8, false)], vec![(7, false), (8, true)], vec![(9, true)]]);
}

#[test]
fn cpu_usage_of_long_recordings_is_thinned() {
    let long = |pid: u32, boot: u64| {
        let mut script = Script::new(process(pid, Some(pid)));
        script.records.push(Record::Machine { boot });
        script.thread(0, pid, 1);
        script.call(0, "def:step:4 aten::add", 2_000, 2_010);
        script.records.push(Record::Processors(Processors { machine: 8, allowed: 3, quota_milli: None }));
        for look in 0..10_000_u32 {
            let ran_ns = u64::from(look) * 3;
            script.records.push(Record::Load { at_ns: 5_000 + i64::from(look), threads: 1, ran_ns, waited_ns: 0 });
        }
        script.end()
    };
    let files = [long(0, 1), long(1, 1), long(2, 2)];
    let set = traces_of("run", files.iter().map(|file| ("stream", file.as_slice())));
    let counts: Vec<Vec<usize>> = set.traces.iter().map(|trace| kept(&described(trace))).collect();
    assert_eq!(counts, [vec![2048, 2048], vec![2048, 2048], vec![4096]]);
}

/// Number of load samples per process of an entry; the samples are on a line from the first to the last one.
fn kept(entry: &Value) -> Vec<usize> {
    let process_entries = entry["processes"].as_array().unwrap().iter().map(|process| {
        let loads = process["loads"].as_array().unwrap();
        let at = |index: usize| (loads[index][0].as_i64().unwrap(), loads[index][1].as_i64().unwrap());
        let first = at(0).0;
        assert!((0..loads.len()).all(|index| at(index).1 == (at(index).0 - first) * 3));
        assert_eq!(at(loads.len() - 1).0, first + 9_999);
        loads.len()
    });
    process_entries.collect()
}

#[test]
fn recordings_without_cpu_data_have_no_entry() {
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    script.call(0, "def:step:4 aten::add", 2_000, 2_010);
    assert_eq!(one(&script.end()).meta.entry(RECORDING), None);
}

/// A sample in OpenMP is attributed to its caller.
#[test]
fn openmp_samples_show_the_waiting_function() {
    assert_eq!(OPENMP, stackline_recording::OPENMP);
    let mut script = Script::new(process(7, None));
    script.thread(0, 70, 1);
    let node = script.node(0, "def:main:4 def:work:5 span:(OpenMP)");
    for delta_ns in [1_500, 200] {
        script.records.push(Record::Sample { thread: 0, node, delta_ns, metric: Metric::CpuTime, value: 10 });
    }
    let trace = one(&script.end());
    let samples: Vec<EventId> = trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Sample).collect();
    assert!(samples.len() == 2 && samples.iter().all(|&e| trace.name(e) == OPENMP));
    assert_eq!(outline(&trace, 0), ["train.py(1): main* 495..705", "  train.py(1): work* 495..705"]);
}
