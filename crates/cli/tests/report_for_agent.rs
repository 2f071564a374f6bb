//! Tests of `report --for-agent`: one window, all ranks, at most 4,096 bytes.

use crate::common::{corpus, sample, stdout, write, write_sample};
use serde_json::{Value, json};
use stackline_testkit::mini::MiniTrace;

#[test]
fn kernels_of_several_ranks_are_summed_by_name() {
    let folder = tempfile::tempdir().unwrap();
    (0..4).for_each(|rank| drop(write_sample(folder.path(), rank)));
    let shown = stdout(&["report", folder.path().to_str().unwrap(), "--for-agent"]);
    assert!(shown.contains("\nKernels by time, summed over the 4 traces ("), "{shown}");
    let lines_of = |name: &str| shown.lines().filter(|line| line.starts_with(&format!("- {name}"))).collect::<Vec<_>>();
    // Three steps of four ranks: 400 of 545 µs a step.
    assert_eq!(lines_of("nccl"), ["- ncclDevKernel_AllReduce_Sum_f32_RING_LL: 4800 µs, 73.4 %, 12 calls"], "{shown}");
    assert_eq!(
        lines_of("ampere"),
        ["- ampere_sgemm_32x32_tn: 1440 µs, 22.0 %, 12 calls, shapes [[4,8],[8,16]]"],
        "{shown}"
    );
    assert_eq!(lines_of("void splitKreduce").len(), 1, "{shown}");
    assert!(!shown.contains("differs at"), "{shown}");
    assert!(lines_of("computation")[0].contains(" % on rank "), "{shown}");
}

#[test]
fn findings_and_numbers_share_a_window() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = MiniTrace::new(r#"file deviceProperties=[{"id": 0}]"#);
    let mut at = 1000;
    for step in 0..4_i64 {
        let kernel_us = 300 * (step + 1);
        let length = kernel_us + 320;
        trace.add_at(
            at,
            &format!(
                "1/1     user_annotation  ProfilerStep#{step}    0+{length}
                 1/1     python_function  train.py(10): step     1+{}
                 1/1     cpu_op           aten::mm               2+10
                 1/1     cuda_runtime     cudaLaunchKernel       4+5    correlation={}
                 1/1     cpu_op           aten::item             14+{}
                 1/1     cuda_runtime     cudaStreamSynchronize  15+{}  correlation={}
                 gpu0/7  kernel           gemm                   12+{kernel_us}  correlation={}",
                length - 2,
                2 * step + 1,
                kernel_us + 4,
                kernel_us + 2,
                2 * step + 2,
                2 * step + 1,
            ),
        );
        at += length + 10;
    }
    let file = write(folder.path(), "t.json", trace.json());
    for window in [&["--steps", "1..1"][..], &["--steps", "3..3"], &["--whole"], &[]] {
        let command = |first: &[&str]| stdout(&[first, window].concat());
        let findings: Value = serde_json::from_str(&command(&["findings", &file, "--format", "json"])).unwrap();
        let (ns, steps) = (findings["step_ns"].as_i64().unwrap(), findings["steps"].as_i64().unwrap());
        let window_name = if steps == 0 { "the trace" } else { "a step" };
        let head = format!(
            "\nFindings, by predicted gain ({window_name} takes {}):\n",
            stackline_present::human::duration(ns)
        );
        let shown = command(&["report", &file, "--for-agent"]);
        assert!(shown.contains(&head), "{window:?}: {head}: {shown}");
        let first = &findings["tables"]["findings"]["rows"][0];
        let line = format!("\n1. {} {}", first["code"].as_str().unwrap(), first["title"].as_str().unwrap());
        assert!(shown.contains(&line), "{window:?}: {line}: {shown}");
    }
}

#[test]
fn unrelated_traces_are_reported_as_partly_analyzed() {
    let folder = tempfile::tempdir().unwrap();
    let one = write(folder.path(), "one.json", sample(0).json());
    let other = write(folder.path(), "other.json", sample(0).json());
    let shown = stdout(&["report", &one, &other, "--for-agent"]);
    assert!(shown.contains("\nNote: findings cover only one.json, because "), "{shown}");
}

/// The top of a text about many ranks leaves room for kernels.
#[test]
fn many_ranks_leave_space_for_kernels() {
    let Some(file) = corpus("bundles/param-dlrm_kineto.tar.gz") else { return };
    let shown = stdout(&["report", &file, "--for-agent"]);
    // Where a finding gains least is left to `findings`.
    assert!(!shown.contains("smallest on rank"), "{shown}");
    // The commands of the last line repeat the path.
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("a".repeat(200)).join("b".repeat(100));
    std::fs::create_dir_all(&long).unwrap();
    let linked = long.join("dlrm.tar.gz");
    std::os::unix::fs::symlink(&file, &linked).unwrap();
    [shown, stdout(&["report", linked.to_str().unwrap(), "--for-agent"])].iter().for_each(|shown| ten_kernels(shown));
}

fn ten_kernels(shown: &str) {
    let (_, kernels) = shown.split_once("\nKernels by time, summed over the 8 traces (").unwrap();
    assert!(kernels.lines().filter(|line| line.starts_with("- ")).count() == 10 && shown.len() <= 4096, "{shown}");
    assert!(!kernels.contains("differs at"), "{shown}");
}

/// An optimizer of many small kernels, which `build` made.
#[test]
fn location_of_the_edit_is_named_if_different() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = MiniTrace::new(
        r#"file deviceProperties=[{"id": 0}]
        1/1 python_function train.py(41): build 0+20
        1/1 python_function torch/optim/adamw.py(12): __init__ 5+10"#,
    );
    for step in 0..3_i64 {
        let at = 1000 + 1000 * step;
        trace.add_at(
            at,
            &format!(
                "1/1 user_annotation ProfilerStep#{step} 0+900
                 1/1 python_function train.py(10): step 1+890
                 1/1 user_annotation Optimizer.step#AdamW.step 2+880"
            ),
        );
        for op in 0..60 {
            let (from, call) = (5 + 14 * op, 100 * step + op + 1);
            trace.add_at(
                at,
                &format!(
                    "1/1 cpu_op aten::add_ {from}+12
                     1/1 cuda_runtime cudaLaunchKernel {}+5 correlation={call}
                     gpu0/7 kernel add {}+3 correlation={call}",
                    from + 3,
                    from + 10
                ),
            );
        }
    }
    let file = write(folder.path(), "t.json", trace.json());
    let shown = stdout(&["report", &file, "--for-agent"]);
    assert!(shown.contains("\n   at train.py:10 in step\n   change train.py:41 in build\n"), "{shown}");
    let sarif: Value = serde_json::from_str(&stdout(&["findings", &file, "--as", "sarif"])).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let result = results.iter().find(|result| result["ruleId"] == "SL015").unwrap();
    let line = |role: &str| &result[role][0]["physicalLocation"]["region"]["startLine"];
    assert_eq!((line("locations"), line("relatedLocations")), (&json!(10), &json!(41)));
    assert!(result["message"]["text"].as_str().unwrap().contains(" Change here: train.py:41 in build."), "{result}");
    let others = results.iter().filter(|result| result["ruleId"] != "SL015");
    assert!(others.clone().all(|result| result.get("relatedLocations").is_none()));
    assert!(stdout(&["findings", &file, "--as", "junit"]).contains("\nchange here: train.py:41 in build\n"));
}

#[test]
fn waits_on_the_gpu_are_not_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let text = "1/1     cpu_op  aten::mm    0+100
                gpu0/7  kernel  gemm        0+30
                gpu0/8  kernel  event_wait  0+70
                gpu0/7  kernel  softmax     40+10";
    let file = write(folder.path(), "t.json", stackline_testkit::mini::trace(text));
    let shown = stdout(&["report", &file, "--for-agent"]);
    assert!(shown.contains("share of GPU work without GPU-side waits and markers;"), "{shown}");
    assert!(shown.contains("\n- gemm: 30.00 µs, 75.0 %, 1 calls\n") && !shown.contains("- event_wait"), "{shown}");
    // The commands are those for this file.
    assert!(shown.ends_with(&format!("More: stackline findings {file}, stackline report {file} --format json\n")));
}

#[test]
fn missing_steps_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let text = "1/1     cpu_op  aten::mm    0+100
                gpu0/7  kernel  gemm        0+30";
    let file = write(folder.path(), "t.json", stackline_testkit::mini::trace(text));
    let shown = stdout(&["report", &file, "--for-agent"]);
    assert!(shown.contains("\nSteps: none are marked, so numbers cover the whole trace.\n"), "{shown}");
}

/// A truncated trace has no measured causes of idle time.
#[test]
fn causes_of_idle_time_are_not_zero_in_truncated_files() {
    let folder = tempfile::tempdir().unwrap();
    let text = "1/1     cpu_op        aten::mm          0+100
                1/1     cuda_runtime  cudaLaunchKernel  5+3    correlation=1
                gpu0/7  kernel        gemm              10+30  correlation=1
                1/1     cuda_runtime  cudaLaunchKernel  55+3   correlation=2
                gpu0/7  kernel        gemm              60+30  correlation=2
                1/1     cuda_runtime  cudaLaunchKernel  91+3   correlation=3
                gpu0/7  kernel        gemm              97+30  correlation=3";
    let whole = stackline_testkit::mini::trace(text);
    // In the middle of the last record.
    let cut = whole[..whole.rfind("gemm").unwrap()].to_owned();
    let categories = |content: String| {
        let file = write(folder.path(), "t.json", content);
        let report: Value = serde_json::from_str(&stdout(&["report", &file, "--format", "json"])).unwrap();
        let rows = report["tables"]["gpu_time"]["rows"].as_array().unwrap();
        rows.iter().map(|row| row["category"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let busy = ["computation", "communication", "memory"];
    let idle = ["idle_host_wait", "idle_kernel_wait", "idle_other"];
    assert_eq!(categories(whole.clone()), [&busy[..], &idle[..]].concat());
    assert_eq!(categories(cut), [&busy[..], &["idle_unknown"]].concat());
}

#[test]
fn commands_for_memory_files_are_quoted_for_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let name = "a run's.memory";
    let file = write(folder.path(), name, "a o0 1000; k touch o0\nk end >\nf o0\nend\n");
    let shown = stdout(&["report", &file, "--for-agent"]);
    let quoted = format!("stackline memory '{}'", file.replace('\'', r"'\''"));
    assert!(shown.contains(&format!("More: {quoted}")), "{shown}");
}

/// Repeats of a pattern of launches serve as steps in findings and the critical path; tables are of the whole trace.
#[test]
fn inferred_steps_are_distinguished_from_marked_ones() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = MiniTrace::new("");
    for at in 0..12_i64 {
        trace.add_at(
            1000 * at,
            &format!(
                "1/1 cpu_op aten::linear 0+700
                 1/1 cuda_runtime cudaMemcpyAsync 720+10 correlation={}
                 gpu0/7 gpu_memcpy \"Memcpy DtoH (Device -> Pinned)\" 735+5 correlation={}",
                100 * at + 50,
                100 * at + 50
            ),
        );
        for kernel in 0..12 {
            let (id, from) = (100 * at + kernel + 1, 50 * kernel);
            trace.add_at(
                1000 * at,
                &format!(
                    "1/1 cuda_runtime cudaLaunchKernel {from}+40 correlation={id}
                     gpu0/7 kernel mlp {}+5 correlation={id}",
                    from + 42
                ),
            );
        }
    }
    let file = write(folder.path(), "t.json", trace.json());
    let shown = stdout(&["report", &file, "--for-agent"]);
    for part in [
        "\nSteps: none are marked, so numbers cover the whole trace. Only lines that name inferred steps cover these.\n",
        "\nCritical path of the inferred steps: ",
        " Note: steps are inferred from a repeated pattern of 13 launches, because the program marks no steps. The \
         inferred steps are 11 repeats ",
        "\nFindings, by predicted gain (an inferred step takes ",
    ] {
        assert_eq!(shown.matches(part).count(), 1, "{part}: {shown}");
    }
    assert!(!shown.contains("\"Steps\" above"), "{shown}");
    let whole = stdout(&["report", &file, "--for-agent", "--whole"]);
    assert!(whole.contains("\nSteps: none are marked, so numbers cover the whole trace.\n"), "{whole}");
}

#[test]
fn clock_shifts_and_the_number_of_unlisted_problems_are_named() {
    let folder = tempfile::tempdir().unwrap();
    // Spans that cross, an overlap on a stream, a call and kernels without a partner.
    let mut trace = MiniTrace::new(
        "file -
        100/100 cpu_op aten::mm 100000+5000
        8/1 cpu_op enter 100000+10
        8/1 cpu_op opened 100008+92
        100/100 cuda_runtime cudaLaunchKernel 104000+5 correlation=901
        gpu0/11 kernel a 3000+40
        gpu0/11 kernel b 3010+50",
    );
    for at in 0..20_i64 {
        let (call, id) = (100_000 + 100 * at, at + 1);
        // 100 ms before the launch.
        trace.add(&format!("100/100 cuda_runtime cudaLaunchKernel {call}+5 correlation={id}"));
        trace.add(&format!("gpu0/7 kernel k {}+20 correlation={id}", call + 10 - 100_000));
    }
    let file = write(folder.path(), "t.json", trace.json());
    let report: Value = serde_json::from_str(&stdout(&["report", &file, "--format", "json"])).unwrap();
    let problems = report["read_report"][0]["problems"].as_array().unwrap();
    assert!(problems.len() > 4, "{problems:?}");
    let shift = problems.iter().find(|problem| problem["code"] == "device_clock_shifted").unwrap();
    let shown = stdout(&["report", &file, "--for-agent"]);
    let amount = shift["example"].as_str().unwrap();
    let line = format!("\nDiagnostic of reading the trace: device_clock_shifted, count 1 ({amount})\n");
    assert!(shown.contains(&line), "{line}: {shown}");
    let more = format!("\nNot listed: {} more kinds of diagnostics of reading the trace\n", problems.len() - 4);
    assert!(shown.contains(&more), "{more}: {shown}");
    assert!(shown.len() <= 4096, "{shown}");
}
