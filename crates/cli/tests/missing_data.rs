//! Tests that missing data is not reported as 0, and that advice follows from the content of the file.

use crate::common;

use common::stdout;
use serde_json::Value;
use stackline_testkit::mini::MiniTrace;

/// Three operators that launch a kernel each; with the kernels or without.
fn program(with_kernels: bool) -> MiniTrace {
    let mut trace = MiniTrace::new("file -");
    for (at, correlation) in [(0, 1), (100, 2), (200, 3)] {
        let call = format!("100/7 cuda_runtime cudaLaunchKernel 10+5 correlation={correlation}");
        trace.add_at(at, &format!("100/7 cpu_op aten::mm 0+50\n{call}"));
        if with_kernels {
            trace.add_at(at, &format!("gpu0/7 kernel gemm 30+5 correlation={correlation}"));
        }
    }
    trace.add("100/7 cpu_op aten::view 400+5");
    trace
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
    let whole = answer("operators", &program(true).json());
    assert_eq!(row(&whole, "operators", "name", "aten::mm")["gpu_self_us"], 15.0);
    assert_eq!(row(&whole, "operators", "name", "aten::view")["gpu_self_us"], 0.0);
    let without = answer("operators", &program(false).json());
    assert!(row(&without, "operators", "name", "aten::mm")["gpu_self_us"].is_null());
    // The kernel of one operator alone is missing.
    let mut events = program(true);
    events.add("100/7 cpu_op aten::add 500+50\n100/7 cuda_runtime cudaLaunchKernel 510+5 correlation=99");
    let one = answer("operators", &events.json());
    assert!(row(&one, "operators", "name", "aten::add")["gpu_total_us"].is_null());
    assert_eq!(row(&one, "operators", "name", "aten::mm")["gpu_self_us"], 15.0);
}

#[test]
fn advice_for_ascend_names_its_own_profiler() {
    let host = "process 1 name=\"CANN\"\n1/7 cpu_op aten::mm 0+50\n1/8 - AscendCL@aclnnMatmul 10+5";
    let doctor = answer("doctor", &MiniTrace::new(&format!("file -\n{host}")).json());
    let advice = row(&doctor, "readiness", "what", "gpu_operations")["advice"].as_str().unwrap();
    assert!(advice.contains("torch_npu.profiler.ProfilerActivity.NPU") && !advice.contains("CUDA"), "{advice}");
    let device = "process 3 name=\"Ascend Hardware\"\nthread 3/2 name=\"Stream 2\"\n3/2 - MatMulV2 20+30";
    let doctor = answer("doctor", &MiniTrace::new(&format!("file -\n{host}\n{device}")).json());
    assert_eq!(row(&doctor, "readiness", "what", "gpu_operations")["state"], "there");
    let advice = row(&doctor, "readiness", "what", "launches")["advice"].as_str().unwrap();
    assert!(advice.contains("launches of torch_npu"), "{advice}");
}

#[test]
fn launches_without_operations_are_not_missing_launches() {
    let doctor = answer("doctor", &program(false).json());
    assert_eq!(row(&doctor, "readiness", "what", "launches")["state"], "there");
    let advice = row(&doctor, "readiness", "what", "gpu_operations")["advice"].as_str().unwrap();
    assert!(
        advice.starts_with("3 launch calls have no recorded GPU operation") && !advice.contains("ProfilerActivity"),
        "{advice}"
    );
}

/// The advice that a trace gets about something, if any.
fn advised(events: &MiniTrace, what: &str) -> Option<String> {
    let doctor = answer("doctor", &events.json());
    row(&doctor, "readiness", "what", what)["advice"].as_str().map(str::to_owned)
}

#[test]
fn advice_on_collectives_needs_collectives() {
    let mut events = program(true);
    let doctor = answer("doctor", &events.json());
    assert_eq!(row(&doctor, "readiness", "what", "collective_sizes")["state"], "no collectives");
    assert_eq!(advised(&events, "collective_sizes"), None);
    assert!(!advised(&events, "rank").unwrap().contains("init_process_group"));
    events.add("0/7 kernel ncclDevKernel_AllReduce_Sum_f32_RING_LL 600+5 device=0 stream=20");
    assert!(advised(&events, "collective_sizes").unwrap().contains("PyTorch 2.2"));
    assert!(advised(&events, "rank").unwrap().contains("init_process_group"));
}

#[test]
fn advice_on_modules_follows_from_python_frames() {
    let mut events = program(true);
    let modules = |events: &MiniTrace| advised(events, "modules").unwrap();
    assert!(modules(&events).contains("with_stack=True to get Python frames"), "{}", modules(&events));
    events.add("100/7 python_function train.py(3): main 500+5");
    assert!(modules(&events).starts_with("none of the Python frames (1) is an nn.Module call"), "{}", modules(&events));
    events.add("100/7 python_function nn.Module: Linear_0 520+5");
    assert!(
        modules(&events).starts_with("the trace has nn.Module frames (1), but none of them"),
        "{}",
        modules(&events)
    );
    let cpu = MiniTrace::new("file -\n100/7 cpu_op aten::mm 0+5\n100/7 python_function nn.Module: Linear_0 520+5");
    assert!(modules(&cpu).ends_with("no GPU operations to assign to modules"), "{}", modules(&cpu));
    let launches = advised(&cpu, "launches").unwrap();
    assert!(launches.starts_with("launch and synchronization records need GPU operations"), "{launches}");
}

#[test]
fn advice_depends_on_the_producer() {
    for (name, expected) in [("/host:CPU", "jax.profiler"), ("/job:localhost/device:CPU:0 Compute", "FULL_TRACE")] {
        let events = MiniTrace::new(&format!("file -\nprocess 1 name=\"{name}\"\n1/7 - f 0+5"));
        let doctor = answer("doctor", &events.json());
        let advice = row(&doctor, "readiness", "what", "gpu_operations")["advice"].as_str().unwrap();
        assert!(advice.contains(expected), "{name}: {advice}");
    }
    let jax = MiniTrace::new("file -\nprocess 1 name=\"/host:CPU\"\n1/7 - f 0+5");
    let memory = advised(&jax, "memory").unwrap();
    assert!(memory.contains("save_device_memory_profile") && memory.contains("`stackline calls"), "{memory}");
}

#[test]
fn the_rest_of_a_cut_file_is_missing() {
    let text = program(false).json();
    let doctor = answer("doctor", &text[..text.len() - 30]);
    let advice = row(&doctor, "readiness", "what", "gpu_operations")["advice"].as_str().unwrap();
    assert!(advice.starts_with("the trace file is truncated"), "{advice}");
}

/// A comparison, conditions on it and the report for a language model, of a trace that lacks a kernel.
#[test]
fn missing_kernels_are_reported_and_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let mut events = program(true);
    events.add("100/7 cuda_runtime cudaLaunchKernel 30+5 correlation=99");
    let (whole, part) = (file("whole.json", program(true).json()), file("part.json", events.json()));
    let expected =
        "in part.json, 1 of 4 launches have no device record. Changes of GPU work and steps are therefore not tested";
    for ([a, b], side) in [([&whole, &part], "B"), ([&part, &whole], "A")] {
        let diff: Value = serde_json::from_str(&stdout(&["diff", a, b, "--format", "json"])).unwrap();
        let first = diff["warnings"][0].as_str().unwrap();
        assert!(first.starts_with(&format!("{side}: {expected}")) && diff["confidence"] == "low", "{diff}");
        let judged = common::stackline(&["diff", a, b, "--fail-on", "gpu>3%"]).output().unwrap();
        let stderr = String::from_utf8(judged.stderr).unwrap();
        assert_eq!(judged.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(&format!("--fail-on cannot be judged: {side}: {expected}")), "{stderr}");
    }
    let line = "Failed checks: launch_without_record 1 (GPU times of operators are too small, idle times are too large, \
                and the critical path attributes time of missing kernels to the host). List ";
    for command in [&["report", part.as_str()][..], &["report", part.as_str(), "--for-agent"]] {
        let shown = stdout(command);
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn failed_checks_of_waits_and_collectives_are_named_with_the_results_they_affect() {
    let folder = tempfile::tempdir().unwrap();
    let waiting = |record: i64| {
        let mut trace = MiniTrace::new("file -");
        trace.add_at(
            1_000_000,
            &format!(
                "100/100  cpu_op        aten::mm             -70+100
                 100/100  cuda_runtime  cudaLaunchKernel     -60+5        correlation=7
                 gpu0/20  kernel        producer             -50+40       correlation=7
                 100/100  cuda_runtime  cudaEventRecord      {record}+3   correlation=9
                 100/100  cuda_runtime  cudaStreamWaitEvent  0+3          correlation=1
                 100/100  cuda_runtime  cudaLaunchKernel     5+5          correlation=8
                 gpu0/7   kernel        consumer             15+5         correlation=8
                 gpu0/7   cuda_sync     \"Stream Wait Event\"  1+0          correlation=1 wait_on_cuda_event_record_corr_id=9"
            ),
        );
        let path = folder.path().join(format!("{record}.json"));
        std::fs::write(&path, trace.json()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (sound, broken) = (waiting(-45), waiting(20));
    let line = "Failed checks: wait_on_future_record 1 (the critical path ignores waits for CUDA events that were \
                recorded later). List the affected events with `stackline check`.";
    for command in [&["report"][..], &["findings"], &["critical-path"], &["what-if", "--scale", "kernel:*", "0.5"]] {
        // Findings are wrapped.
        let shown = |file: &str| {
            let text = stdout(&[&command[..1], &[file], &command[1..]].concat());
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(shown(&broken).contains(line), "{command:?}: {}", shown(&broken));
        assert!(!shown(&sound).contains("Failed checks"), "{command:?}: {}", shown(&sound));
    }
    let mut trace = MiniTrace::new("file -");
    trace.add(
        "100/100  cpu_op        nccl:all_reduce      0+20
         100/100  cuda_runtime  cudaLaunchKernel     5+5      correlation=1
         gpu0/7   kernel        ncclDevKernel_AllReduce_Sum_f32_RING_LL()  30+100  correlation=1
         100/100  cpu_op        aten::mm             200+10",
    );
    let file = folder.path().join("collective.json");
    std::fs::write(&file, trace.json()).unwrap();
    for command in ["report", "findings", "collectives"] {
        let shown = stdout(&[command, file.to_str().unwrap()]);
        assert!(shown.contains("Failed checks: collective_fields 1 (sizes and bandwidths"), "{command}: {shown}");
    }
}
