//! Tests that answers name the time window of their numbers and missing records.

use crate::common::document;
use serde_json::Value;
use stackline_engine::OpenOptions;
use stackline_query::{Arguments, OpenRun, run_query};
use stackline_testkit::mini::MiniTrace;

fn opened(trace: &MiniTrace) -> OpenRun {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    std::fs::write(&path, trace.json()).expect("written");
    OpenRun::open(&[path], &OpenOptions::default()).expect("opens")
}

fn answered(opened: &OpenRun, name: &str, arguments: &[(&str, &str)]) -> Value {
    document(&run_query(opened, name, &Arguments::new(arguments.iter().copied())).expect("answered"))
}

/// Twelve repeats of thirteen launches without marks of steps, of 1 ms each, and 1 s of the host after them.
fn unmarked() -> MiniTrace {
    let mut trace = MiniTrace::new("1/1 cpu_op aten::to 20000+1000000");
    for at in 0..12_i64 {
        let copy = 100 * at + 50;
        trace.add_at(
            1000 * at,
            &format!(
                "1/1 cpu_op aten::linear 0+700
                 1/1 cuda_runtime cudaMemcpyAsync 720+10 correlation={copy}
                 gpu0/7 gpu_memcpy \"Memcpy DtoH (Device -> Pinned)\" 735+5 correlation={copy}"
            ),
        );
        for kernel in 0..12 {
            let (id, from) = (100 * at + kernel + 1, 50 * kernel);
            let launch = format!("1/1 cuda_runtime cudaLaunchKernel {from}+40 correlation={id}");
            trace.add_at(1000 * at, &format!("{launch}\ngpu0/7 kernel mlp {}+5 correlation={id}", from + 42));
        }
    }
    trace
}

#[test]
fn paths_of_inferred_steps_are_not_called_those_of_the_whole_trace() {
    let opened = opened(&unmarked());
    for (steps, window) in [(&[][..], "the inferred steps"), (&[("steps", "whole")][..], "the whole trace")] {
        let overview = answered(&opened, "overview", steps);
        let of_report = &overview["critical_path"][0]["exact"];
        let path = answered(&opened, "path", steps);
        assert_eq!([&of_report["window"], &path["window"]], [window, window]);
        assert_eq!(of_report["window_notes"], path["notes"]);
        let is_noted = path["notes"].to_string().contains("steps are inferred from a repeated pattern of 13 launches");
        assert_eq!(is_noted, window == "the inferred steps", "{path}");
        let length = path["end"].as_f64().zip(path["start"].as_f64()).map(|(end, start)| end - start);
        assert_eq!(of_report["window_ns"].as_f64(), length);
        assert_eq!(length.is_some_and(|ns| ns > 1e9), window == "the whole trace", "{length:?}");
    }
}

#[test]
fn paths_of_marked_steps_name_them() {
    let mut trace = MiniTrace::new("");
    for at in 0..3_i64 {
        let step = format!("1/1 user_annotation ProfilerStep#{at} 0+900\n1/1 cpu_op aten::mm 10+800");
        trace.add_at(1000 * at, &step);
    }
    let opened = opened(&trace);
    for (steps, window) in [(&[][..], "steps 0 to 2"), (&[("steps", "1")][..], "step 1")] {
        let overview = answered(&opened, "overview", steps);
        assert_eq!(overview["critical_path"][0]["exact"]["window"], window);
        assert_eq!(answered(&opened, "path", steps)["window"], window);
    }
}

#[test]
fn failed_checks_are_in_the_overview() {
    let mut trace = unmarked();
    assert_eq!(answered(&opened(&trace), "overview", &[])["failed_checks"], Value::Array(Vec::new()));
    for at in 0..8 {
        trace.add_at(1000 * at, "1/1 cuda_runtime cudaLaunchKernel 650+10 correlation=9999");
    }
    let failed = answered(&opened(&trace), "overview", &[])["failed_checks"].clone();
    assert_eq!((failed[0]["check"].as_str(), failed[0]["count"].as_u64()), (Some("launch_without_record"), Some(8)));
    assert!(
        failed[0]["consequence"].as_str().is_some_and(|text| text.starts_with("GPU times of operators")),
        "{failed}"
    );
}
