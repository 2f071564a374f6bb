//! What was not recorded is not 0, and advice follows from what the file holds.

use crate::common;

use common::stdout;
use serde_json::Value;

fn span(cat: &str, name: &str, pid: i64, ts: i64, args: &str) -> String {
    format!(r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":7,"ts":{ts},"dur":5,"args":{{{args}}}}}"#)
}

/// Three operators that launch a kernel each; with the kernels or without.
fn program(with_kernels: bool) -> Vec<String> {
    let mut events = Vec::new();
    for i in 0..3 {
        let (ts, id) = (100 * i, format!(r#""correlation":{}"#, i + 1));
        events.push(format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":100,"tid":7,"ts":{ts},"dur":50,"args":{{}}}}"#
        ));
        events.push(span("cuda_runtime", "cudaLaunchKernel", 100, ts + 10, &id));
        if with_kernels {
            events.push(span("kernel", "gemm", 0, ts + 30, &format!(r#""device":0,"stream":7,{id}"#)));
        }
    }
    events.push(span("cpu_op", "aten::view", 100, 400, ""));
    events
}

fn answer(command: &str, text: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    std::fs::write(&file, text).unwrap();
    serde_json::from_str(&stdout(&[command, file.to_str().unwrap(), "--format", "json"])).unwrap()
}

fn row<'a>(document: &'a Value, table: &str, key: &str, value: &str) -> &'a Value {
    let rows = document["tables"][table]["rows"].as_array().unwrap();
    rows.iter().find(|row| row[key] == value).unwrap_or_else(|| panic!("no {value} in {rows:?}"))
}

#[test]
fn gpu_time_that_was_not_recorded_is_null() {
    let list = |events: &[String]| format!("[{}]", events.join(","));
    let whole = answer("operators", &list(&program(true)));
    assert_eq!(row(&whole, "operators", "name", "aten::mm")["gpu_self_us"], 15.0);
    assert_eq!(row(&whole, "operators", "name", "aten::view")["gpu_self_us"], 0.0);
    let without = answer("operators", &list(&program(false)));
    assert!(row(&without, "operators", "name", "aten::mm")["gpu_self_us"].is_null());
    // The kernel of one operator alone is missing.
    let mut events = program(true);
    events.push(r#"{"ph":"X","cat":"cpu_op","name":"aten::add","pid":100,"tid":7,"ts":500,"dur":50}"#.to_owned());
    events.push(span("cuda_runtime", "cudaLaunchKernel", 100, 510, r#""correlation":99"#));
    let one = answer("operators", &list(&events));
    assert!(row(&one, "operators", "name", "aten::add")["gpu_total_us"].is_null());
    assert_eq!(row(&one, "operators", "name", "aten::mm")["gpu_self_us"], 15.0);
}

#[test]
fn launches_without_operations_are_no_missing_launches() {
    let doctor = answer("doctor", &format!("[{}]", program(false).join(",")));
    assert_eq!(row(&doctor, "readiness", "what", "launches")["state"], "there");
    let advice = row(&doctor, "readiness", "what", "gpu_operations")["advice"].as_str().unwrap();
    assert!(advice.starts_with("3 launch calls are recorded") && !advice.contains("ProfilerActivity"), "{advice}");
}

/// The advice that a trace gets about something, if any.
fn advised(events: &[String], what: &str) -> Option<String> {
    let doctor = answer("doctor", &format!("[{}]", events.join(",")));
    row(&doctor, "readiness", "what", what)["advice"].as_str().map(str::to_owned)
}

#[test]
fn advice_on_collectives_needs_collectives() {
    let mut events = program(true);
    let doctor = answer("doctor", &format!("[{}]", events.join(",")));
    assert_eq!(row(&doctor, "readiness", "what", "collective_sizes")["state"], "no collectives");
    assert_eq!(advised(&events, "collective_sizes"), None);
    assert!(!advised(&events, "rank").unwrap().contains("init_process_group"));
    events.push(span("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 600, r#""device":0,"stream":20"#));
    assert!(advised(&events, "collective_sizes").unwrap().contains("PyTorch 2.2"));
    assert!(advised(&events, "rank").unwrap().contains("init_process_group"));
}

#[test]
fn advice_on_modules_follows_from_python_frames() {
    let mut events = program(true);
    let modules = |events: &[String]| advised(events, "modules").unwrap();
    assert!(modules(&events).contains("with_stack=True: Python frames name them"), "{}", modules(&events));
    events.push(span("python_function", "train.py(3): main", 100, 500, ""));
    assert!(modules(&events).starts_with("no Python frame (1) is of an nn.Module"), "{}", modules(&events));
    events.push(span("python_function", "nn.Module: Linear_0", 100, 520, ""));
    assert!(modules(&events).starts_with("nn.Module frames are recorded (1), but none"), "{}", modules(&events));
    let cpu = [span("cpu_op", "aten::mm", 100, 0, ""), span("python_function", "nn.Module: Linear_0", 100, 520, "")];
    assert!(modules(&cpu).ends_with("comes with GPU operations"), "{}", modules(&cpu));
    assert_eq!(advised(&cpu, "launches").as_deref(), Some("comes with GPU operations, which are missing"));
}

#[test]
fn each_producer_gets_its_own_advice() {
    let process = |name: &str| format!(r#"{{"ph":"M","name":"process_name","pid":1,"args":{{"name":"{name}"}}}}"#);
    for (name, expected) in [("/host:CPU", "jax.profiler"), ("/job:localhost/device:CPU:0 Compute", "FULL_TRACE")] {
        let events = [process(name), span("", "f", 1, 0, "")];
        let doctor = answer("doctor", &format!("[{}]", events.join(",")));
        let advice = row(&doctor, "readiness", "what", "gpu_operations")["advice"].as_str().unwrap();
        assert!(advice.contains(expected), "{name}: {advice}");
    }
}

#[test]
fn the_rest_of_a_cut_file_is_missing() {
    let text = format!(r#"{{"traceEvents":[{}"#, program(false).join(","));
    let doctor = answer("doctor", &text[..text.len() - 30]);
    let advice = row(&doctor, "readiness", "what", "gpu_operations")["advice"].as_str().unwrap();
    assert!(advice.starts_with("the file is cut: the rest is missing"), "{advice}");
}
