//! Tests of error messages: one sentence with problem, location and remedy, and the documented exit code.

use crate::common;

use common::{failure, refusals, run, stackline, stdout, write, write_sample};
use std::io::Write;
use std::process::Stdio;

/// One line, and maybe a second one with the command to run instead.
fn one_line(text: &str) {
    assert!(text.starts_with("error: "), "{text}");
    let more: Vec<&str> = text.lines().skip(1).collect();
    assert!(more.is_empty() || matches!(more[..], [next] if next.starts_with("Next: stackline ")), "{text}");
}

#[test]
fn missing_files_are_named_in_errors() {
    let (code, text) = failure(&["report", "no-such-file.json"]);
    one_line(&text);
    assert_eq!(code, Some(3));
    assert!(text.contains("no-such-file.json"), "{text}");
}

#[test]
fn directories_without_traces_are_named_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "not a trace").unwrap();
    let (code, text) = failure(&["report", folder.path().to_str().unwrap()]);
    one_line(&text);
    assert_eq!(code, Some(3));
    assert!(text.contains("no trace"), "{text}");
}

#[test]
fn unsupported_files_are_recognized_and_located() {
    let folder = tempfile::tempdir().unwrap();
    // An execution trace can be read, by another command.
    let execution_trace = b"{\"nodes\": [], \"schema\": \"1\"}";
    for (name, bytes, expected_code) in [("a.json", &b"hello"[..], 3), ("b.json", execution_trace, 2), ("c.gz", b"", 3)]
    {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let (code, text) = failure(&["steps", path.to_str().unwrap()]);
        one_line(&text);
        assert_eq!(code, Some(expected_code), "{text}");
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn truncated_runs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let run_dir = folder.path().join("job.stackline");
    let run_dir = run_dir.to_str().unwrap();
    assert!(run(&["import", &trace, "-o", run_dir]).status.success());
    std::fs::write(format!("{run_dir}/manifest.json"), "{").unwrap();
    let (code, text) = failure(&["report", run_dir]);
    one_line(&text);
    assert_eq!(code, Some(3), "{text}");
}

#[test]
fn an_unknown_annotation_offers_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    write_sample(folder.path(), 0);
    let message = refusals(folder.path(), &[&["critical-path", "rank0.json", "--annotation", "ProfilrStep"]]);
    insta::assert_snapshot!(message);
}

#[test]
fn instances_out_of_range_list_the_number_available() {
    let folder = tempfile::tempdir().unwrap();
    write_sample(folder.path(), 0);
    let args = ["critical-path", "rank0.json", "--annotation", "aten::mm", "--instance", "9"];
    insta::assert_snapshot!(refusals(folder.path(), &[&args]));
}

#[test]
fn last_step_excluded_by_the_rules_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    for selection in [&["ProfilerStep#2"][..], &["aten::mm", "--instance", "2"]] {
        let args = [&["critical-path", &trace, "--method", "hta", "--annotation"], selection].concat();
        let (code, text) = failure(&args);
        one_line(&text);
        assert_eq!(code, Some(2));
        assert!(text.contains("--include-last-profiler-step"), "{text}");
        assert!(run(&[&args[..], &["--include-last-profiler-step"]].concat()).status.success());
    }
    let whole = stdout(&["critical-path", &trace, "--method", "hta"]);
    assert!(whole.starts_with("Critical path of the trace without its last profiler step"), "{whole}");
    let document = stdout(&["critical-path", &trace, "--method", "hta", "--format", "json"]);
    assert!(document.contains("\"last_step_left_out\""));
    let kept = stdout(&["critical-path", &trace, "--method", "hta", "--include-last-profiler-step"]);
    assert!(kept.starts_with("Critical path of the whole trace"), "{kept}");
}

#[test]
fn an_unknown_option_offers_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(refusals(folder.path(), &[&["report", "x.json", "--formt", "json"]]));
}

#[test]
fn negative_numbers_and_empty_texts_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let commands = [
        &["report", "x.json", "--rank", "-1"][..],
        &["report", "x.json", "--rank", "one"],
        &["critical-path", "x.json", "--annotation", "a", "--instance", "-1"],
        &["critical-path", "x.json", "--annotation", "a", "--instance", "-2..0"],
        &["critical-path", "x.json", "--annotation", ""],
        &["report", "x.json", "--limit", "-5"],
        &["report", "x.json", "--threads", "-5"],
    ];
    insta::assert_snapshot!(refusals(folder.path(), &commands));
}

#[test]
fn unknown_ranks_steps_and_tables_list_the_available_ones() {
    let folder = tempfile::tempdir().unwrap();
    write_sample(folder.path(), 3);
    let commands = [
        &["report", "rank3.json", "--rank", "9"][..],
        &["report", "rank3.json", "--steps", "7..9"],
        &["report", "rank3.json", "--table", "gpu_kernel"],
        &["report", "rank3.json", "--fail-on", "idel>3"],
        &["report", "rank3.json", "--steps", "9..7"],
    ];
    insta::assert_snapshot!(refusals(folder.path(), &commands));
}

#[test]
fn options_of_one_method_are_refused_by_others() {
    let folder = tempfile::tempdir().unwrap();
    write_sample(folder.path(), 0);
    write(folder.path(), "rules.json", "{\"rules\": [\n{\"phase\": \"forwrd\", \"name\": \"x\"}]}");
    let mut messages = String::new();
    for (method, option) in [
        ("ctda", &["--zero-weight-launch-edges"][..]),
        ("ctda", &["--data-load-events", "x"]),
        ("ctda", &["--overlay", "o.json"]),
        ("ctda", &["--save", "o.json"]),
        ("exact", &["--save", "o.json"]),
        ("exact", &["--zero-weight-launch-edges", "--what-if", "gpu=0"]),
        ("exact", &["--overlay", "o.json", "--show-all-edges"]),
        ("ctda", &["--phase-rules", "rules.json"]),
        ("hta", &["--phase-rules", "rules.json"]),
    ] {
        let args = [&["critical-path", "rank0.json", "--method", method], option].concat();
        messages += &refusals(folder.path(), &[&args]);
    }
    insta::assert_snapshot!(messages);
}

#[test]
fn several_ranks_need_a_choice_for_htas_path() {
    let folder = tempfile::tempdir().unwrap();
    write_sample(folder.path(), 10);
    write_sample(folder.path(), 9);
    let message = refusals(folder.path(), &[&["critical-path", "rank10.json", "rank9.json", "--method", "hta"]]);
    insta::assert_snapshot!(message);
}

#[test]
fn steps_and_what_if_edits_name_the_option_that_chose_the_method() {
    let folder = tempfile::tempdir().unwrap();
    write_sample(folder.path(), 0);
    let commands = [
        &["critical-path", "rank0.json", "--steps", "1", "--what-if", "gpu=x0.5"][..],
        &["critical-path", "rank0.json", "--steps", "1", "--method", "hta"],
    ];
    insta::assert_snapshot!(refusals(folder.path(), &commands));
}

#[test]
fn inputs_without_a_path_are_not_internal_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty.json");
    std::fs::write(&file, "{\"traceEvents\": []}").unwrap();
    for method in ["exact", "ctda", "hta"] {
        let (code, text) = failure(&["critical-path", file.to_str().unwrap(), "--method", method]);
        one_line(&text);
        assert_eq!(code, Some(3), "{method}: {text}");
    }
}

#[test]
fn long_names_are_shortened_in_suggestions() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let long = format!("ampere_sgemm_32x32_tn<{}>", "x, ".repeat(400));
    let text = std::fs::read_to_string(&trace).unwrap().replace("ampere_sgemm_32x32_tn", &long);
    std::fs::write(&trace, text).unwrap();
    let (_, message) = failure(&["what-if", &trace, "--scale", "kernel:*sgem_32*", "0.5"]);
    one_line(&message);
    assert!(message.contains("ampere_sgemm_32x32_tn<") && message.len() < 500, "{message}");
}

#[test]
fn only_runs_are_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let (code, text) = failure(&["import", &trace, "-o", &trace]);
    one_line(&text);
    assert_eq!(code, Some(2));
    assert!(std::fs::read_to_string(&trace).unwrap().contains("ProfilerStep"));
}

#[test]
fn runs_are_replaced_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (run_dir, photos) = (file("job.stackline"), file("photos"));
    for command in [&["import", &trace, "-o", &run_dir][..], &["export", &trace, "--to", "parquet", "-o", &run_dir]] {
        if !std::path::Path::new(&run_dir).exists() {
            assert!(run(command).status.success());
        }
        let (code, text) = failure(command);
        one_line(&text);
        assert_eq!(code, Some(2));
        assert!(text.contains("--force"), "{text}");
        assert!(run(&[command, &["--force"]].concat()).status.success());
        std::fs::create_dir_all(&photos).unwrap();
        let to_other_folder: Vec<&str> = command.iter().map(|a| if *a == run_dir { &photos } else { *a }).collect();
        assert_eq!(failure(&[&to_other_folder[..], &["--force"]].concat()).0, Some(2), "no run, never replaced");
    }
}

#[test]
fn csv_files_are_not_written_into_used_folders() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let tables = folder.path().join("tables");
    let export = ["export", &trace, "--to", "csv", "-o", tables.to_str().unwrap()];
    assert!(run(&export).status.success());
    assert!(run(&export).status.success(), "its own files are replaced");
    std::fs::write(tables.join("notes.txt"), "mine").unwrap();
    let (code, text) = failure(&export);
    one_line(&text);
    assert_eq!(code, Some(2));
    assert!(text.contains("notes.txt") && text.contains("--force"), "{text}");
    assert!(run(&[&export[..], &["--force"]].concat()).status.success());
    assert_eq!(std::fs::read_to_string(tables.join("notes.txt")).unwrap(), "mine");
}

#[test]
fn unwritable_output_fails_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let output = folder.path().join("missing/out.json");
    let (code, text) = failure(&["report", &trace, "--format", "json", "-o", output.to_str().unwrap()]);
    one_line(&text);
    assert_eq!(code, Some(1));
    assert!(text.contains("out.json"), "{text}");
}

#[test]
#[cfg(target_os = "linux")]
fn full_disks_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = stackline(&["report", &trace]).stdout(Stdio::from(full)).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    one_line(&String::from_utf8(output.stderr).unwrap());
}

#[test]
fn closed_pipes_are_not_errors() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let mut child =
        stackline(&["export", &trace, "--to", "chrome"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn standard_input_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let mut child = stackline(&["steps", "-", "--format", "csv", "--table", "steps"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text = std::fs::read(&trace).unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 4);
}

#[test]
fn conditions_set_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let output = run(&["report", &trace, "--fail-on", "idle>1%"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("idle is"));
    assert_eq!(run(&["report", &trace, "--fail-on", "idle>99%"]).status.code(), Some(0));
    let mut child = stackline(&["report", &trace, "--fail-on", "idle>1%"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(4), "nobody reads the report");
    // A check that cannot be judged must not pass.
    let host = folder.path().join("host.json");
    std::fs::write(&host, stackline_testkit::mini::trace("1/1 cpu_op a 0+5")).unwrap();
    let output = run(&["report", host.to_str().unwrap(), "--fail-on", "idle<1%"]);
    assert_eq!(output.status.code(), Some(1));
    one_line(&String::from_utf8(output.stderr).unwrap());
}

/// Only the first and the last of 20 launches have a kernel: the others may have run at any time after their launch.
#[test]
fn conditions_on_time_that_may_have_been_busy_are_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    let launch = |i: i64| format!("1/1 cuda_runtime cudaLaunchKernel {}+5 correlation={}", 100 * i, i + 1);
    let kernel = |i: i64| format!("gpu0/7 kernel gemm {}+10 correlation={}", 100 * i + 10, i + 1);
    let mut lines = vec!["1/1 user_annotation ProfilerStep#0 0+2000".to_owned()];
    lines.extend((0..20).map(launch).chain([0, 19].map(kernel)));
    let trace = folder.path().join("trace.json");
    std::fs::write(&trace, stackline_testkit::mini::trace(&lines.join("\n"))).unwrap();
    let judged = |condition: &str| {
        let output = run(&["report", trace.to_str().unwrap(), "--fail-on", condition]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for condition in ["idle>30%", "busy<90"] {
        let (code, message) = judged(condition);
        assert_eq!(code, Some(1), "{message}");
        assert!(message.contains("cannot be judged: GPU records of ") && message.contains(" is between "), "{message}");
    }
    assert_eq!(judged("idle>5%").0, Some(4), "known without the other kernels");
}

#[test]
fn restored_paths_keep_their_read_report_and_refuse_other_settings() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 3);
    let damaged = std::fs::read_to_string(&trace).unwrap().replacen("\"cat\": \"cpu_op\", ", "\"cat\": nan, ", 1);
    std::fs::write(&trace, damaged).unwrap();
    let saved = folder.path().join("path.json").to_str().unwrap().to_owned();
    let document = |args: &[&str]| stdout(&[&["critical-path", "--format", "json"], args].concat());
    let first = document(&[&trace, "--save", &saved]);
    assert!(first.contains("odd_value") && first.contains("\"rank\":3"), "{first}");
    assert_eq!(document(&["--restore", &saved]), first);
    let (code, text) = failure(&["critical-path", "--restore", &saved, "--annotation", "x", "--rank", "0"]);
    one_line(&text);
    assert_eq!(code, Some(2));
    assert!(text.contains("--annotation, --rank"), "{text}");
}

#[test]
fn edits_without_matches_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let args = ["critical-path", &trace, "--what-if", "gpu:*sgem_32*=x0.5", "--what-if", "cpu:nothing like it=0"];
    let text = stdout(&args);
    assert!(text.contains("no event is named '*sgem_32*'; nearest names: 'ampere_sgemm_32x32_tn'"), "{text}");
    let document = stdout(&[&args[..], &["--format", "json"]].concat());
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let warnings = document["warnings"].as_array().unwrap();
    let warning = warnings.iter().find(|w| w["code"] == "what_if_unmatched").unwrap();
    assert_eq!((warning["count"].as_u64(), warning["details"].as_array().unwrap().len()), (Some(2), 2));
}

#[test]
fn unsupported_edits_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_sample(folder.path(), 0);
    let selectors = ["gpu:zzz", "cpu", "Kernel:a", "kernel:ampere_sgem_32x32_tn", "stream:77"];
    let message = selectors.map(|what| refusals(folder.path(), &[&["what-if", "rank0.json", "--remove", what]]));
    insta::assert_snapshot!(message.concat());
}

#[test]
fn an_overlay_is_drawn_only_into_the_trace_of_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_sample(folder.path(), 0);
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (saved, other, target) = (file("path.json"), file("other.json"), file("overlay.json"));
    assert!(run(&["critical-path", &trace, "--save", &saved]).status.success());
    let text = std::fs::read_to_string(&trace).unwrap();
    std::fs::write(&other, text.replace("ampere_sgemm", "volta_sgemm")).unwrap();
    let overlay = |source: &str| failure(&["critical-path", "--restore", &saved, source, "--overlay", &target]);
    let (code, message) = overlay(&other);
    one_line(&message);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("other.json") && message.contains("the critical path is from another trace"), "{message}");
    // What is wrong with the source is said of the source, as an input that cannot be read.
    let mut tar = vec![0u8; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    std::fs::write(file("ranks.tar"), tar).unwrap();
    std::fs::write(&other, "{\"nothing\": 1}").unwrap();
    for (source, reason) in
        [("ranks.tar", "an archive"), ("missing.json", "cannot read"), ("other.json", "no list of trace events")]
    {
        let (code, message) = overlay(&file(source));
        one_line(&message);
        assert_eq!(code, Some(3), "{message}");
        assert!(message.contains(source) && message.contains(reason), "{message}");
    }
    assert!(!std::path::Path::new(&target).exists());
}

/// Two cycles of a profiler with the same numbers in one file: numbers choose none of them, numbers with a cycle do.
#[test]
fn steps_of_cycles_with_the_same_numbers_need_the_cycle() {
    let folder = tempfile::tempdir().unwrap();
    let cycle = |from: i64, count: i64| {
        (0..count).map(move |at| format!("1/1 user_annotation ProfilerStep#{at} {}+100\n", from + 100 * at))
    };
    let text: String = cycle(0, 3).chain(cycle(5_300, 4)).collect();
    let file = write(folder.path(), "cycles.json", stackline_testkit::mini::trace(&text));
    for command in ["steps", "operators", "critical-path", "findings"] {
        let (code, text) = failure(&[command, &file, "--steps", "0..2"]);
        one_line(&text);
        assert_eq!(code, Some(2), "{text}");
        assert!(
            text.contains(
                "steps 0 to 2 exist in 2 profiler cycles, so the step numbers are ambiguous. Select a cycle with \
                 --steps 0..2@1 ("
            ) && text.contains(" or --steps 0..2@2 ("),
            "{text}"
        );
        for cycle in ["0..2@1", "0..2@2"] {
            assert!(run(&[command, &file, "--steps", cycle]).status.success(), "{command}: {cycle}");
        }
        let (code, text) = failure(&[command, &file, "--steps", "0..2@3"]);
        assert_eq!(
            (code, text.contains("no profiler cycle 3; its steps belong to 2 profiler cycles")),
            (Some(2), true),
            "{text}"
        );
        assert!(run(&[command, &file]).status.success(), "{command}: the longer cycle without a choice");
        assert!(run(&[command, &file, "--steps", "3..3"]).status.success(), "{command}: numbers of one cycle alone");
    }
    let rules = write(folder.path(), "rules.py", String::new());
    let (code, text) = failure(&["findings", &file, "--steps", "0..2@1", "--rules", &rules]);
    let says_why = text.contains("--rules: Python rules cannot select a profiler cycle");
    assert_eq!((code, says_why), (Some(2), true), "{text}");
    let (code, text) = failure(&["record", "--steps", "0..2@1", "--", "true"]);
    assert_eq!((code, text.contains("a recording has no profiler cycles")), (Some(2), true), "{text}");
}
