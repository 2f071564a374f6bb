//! Tests of first and last lines of the output: truncated files, selected steps or rank, suggested next command.

use crate::common;

use common::{add_iteration, corpus, failure, run, sample, stackline, stdout, write, write_sample};
use stackline_testkit::mini::{self, MiniTrace};
use std::path::Path;
use std::process::Command;

fn spans(names: impl Iterator<Item = String>) -> String {
    let line = |(at, name): (usize, String)| format!("1/1 user_annotation {name} {}+80\n", 100 * at);
    mini::trace(&format!("file -\n{}", names.enumerate().map(line).collect::<String>()))
}

#[test]
fn truncation_is_reported_first() {
    let folder = tempfile::tempdir().unwrap();
    let whole = write_sample(folder.path(), 0);
    let text = std::fs::read_to_string(&whole).unwrap();
    let file = folder.path().join("cut.json");
    let file = file.to_str().unwrap();
    // In the middle of the last record, the kernel of the third step's collective at 2,250 µs.
    std::fs::write(file, &text[..text.rfind("\"Collective name\"").unwrap()]).unwrap();
    let line = "Incomplete input: cut.json: the file is truncated after the record of void splitKreduce_kernel<32, \
                float>(int, char*) at 2175 µs. All results cover only the part that could be read.";
    assert_eq!(stdout(&["report", file]).lines().next(), Some(line));
    let findings = stdout(&["findings", file]);
    assert!(findings.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(line), "{findings}");
    assert_eq!(stdout(&["report", file, "--for-agent"]).lines().nth(1), Some(line));
    assert!(!stdout(&["report", &whole]).contains("Incomplete input:"));
}

#[test]
fn spans_of_numbered_loops_are_suggested_as_steps() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let (path, pattern) = (file.to_str().unwrap(), r"^request (\d+)$");
    std::fs::write(&file, spans((0..5).map(|at| format!("request {at}")))).unwrap();
    let offer = "no steps are marked, but spans repeat like steps: 5 spans are named 'request 0', 'request 1', … \
                 (median length 80.00 µs)";
    for command in ["report", "steps"] {
        let output = stdout(&[command, path]);
        assert!(output.contains(offer) && output.contains(&format!("--step-annotation '{pattern}'")), "{output}");
    }
    let output = stdout(&["report", path, "--step-annotation", pattern]);
    assert!(output.contains("5 steps") && !output.contains("no steps are marked"), "{output}");
    // Numbers that begin again are those of layers, not of a loop.
    std::fs::write(&file, spans((0..6).map(|at| format!("layer {}", at % 3)))).unwrap();
    assert!(!stdout(&["report", path]).contains("no steps are marked"));
}

#[test]
fn steps_inferred_from_an_optimizer_are_labeled() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    std::fs::write(&file, spans((0..4).map(|_| "Optimizer.step#SGD.step".to_owned()))).unwrap();
    let output = stdout(&["steps", file.to_str().unwrap()]);
    assert!(output.starts_with("Note: the program marks no steps, so each step ends with Optimizer.step"), "{output}");
    let marked = write_sample(folder.path(), 0);
    assert!(!stdout(&["steps", &marked]).contains("marks no steps"));
}

#[test]
fn tables_cover_the_steps_and_hta_tables_note_their_window() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = sample(0);
    // A kernel long after the last step.
    trace.add("gpu0/7 kernel late 3000+50 correlation=99");
    let file = write(folder.path(), "late.json", trace.json());
    let table_of =
        |table: &str, more: &[&str]| stdout(&[&["kernels", &file, "--table", table, "--format", "csv"], more].concat());
    assert!(!table_of("gpu_kernels", &[]).contains("late") && table_of("gpu_kernels", &["--whole"]).contains("late"));
    let output = stdout(&["kernels", &file]);
    assert!(output.starts_with("Shown: steps 0 to 2 with their GPU work; --whole shows the whole trace."), "{output}");
    let hta = stdout(&["kernels", &file, "--table", "hta_kernel_types"]);
    assert!(hta.contains("Covers the whole trace except the last of several profiler steps"), "{hta}");
}

#[test]
fn programs_without_a_gpu_have_no_tables_of_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cpu.json");
    std::fs::write(&file, spans((0..3).map(|at| format!("f{at}")))).unwrap();
    let path = file.to_str().unwrap();
    for command in ["kernels", "timeline"] {
        let output = stdout(&[command, path]);
        let line = format!("No GPU work was recorded: GPU tables are omitted. Next: stackline operators {path}");
        assert_eq!(output.lines().next(), Some(&*line), "{output}");
        assert!(!output.contains("gpu_time") && !output.contains("hta_temporal"), "{output}");
    }
}

#[test]
fn path_of_several_ranks_is_that_of_the_slowest() {
    let folder = tempfile::tempdir().unwrap();
    let first = write_sample(folder.path(), 0);
    let second = write_sample(folder.path(), 1);
    let text = std::fs::read_to_string(&second).unwrap();
    // Its last step takes longer.
    let at = text.rfind(r#""dur": 900"#).unwrap();
    std::fs::write(&second, format!("{}{}", &text[..at], text[at..].replacen("900", "5000", 1))).unwrap();
    let output = stdout(&["critical-path", &first, &second]);
    assert!(output.contains("Note: shown is rank 1, the slowest of 2 ranks"), "{output}");
    assert!(!stdout(&["critical-path", &first, &second, "--rank", "0"]).contains("the slowest"));
}

/// Eight repeats of ten launches, so many µs from one to the next, after a start-up; no steps are marked.
fn write_unmarked_loop(folder: &Path, name: &str, (start_up, period): (i64, i64)) -> String {
    let mut trace = MiniTrace::new("");
    trace.add(&format!("1/1 cpu_op load 0+{start_up}"));
    for at in 0..8 {
        add_iteration(&mut trace, at, start_up + period * at);
    }
    write(folder, name, trace.json())
}

#[test]
fn slowest_rank_is_chosen_by_the_shown_inferred_steps() {
    let folder = tempfile::tempdir().unwrap();
    let long_start_up = write_unmarked_loop(folder.path(), "a.json", (90_000, 1000));
    let slow_steps = write_unmarked_loop(folder.path(), "b.json", (100, 1500));
    let output = stdout(&["critical-path", &long_start_up, &slow_steps]);
    assert!(output.contains("Critical path of the inferred steps"), "{output}");
    assert!(
        output.contains("Note: shown is rank 1, the slowest of 2 ranks (") && output.contains(" per step)"),
        "{output}"
    );
    // An annotation is shown as such, and chosen by.
    let of_load = stdout(&["critical-path", &long_start_up, &slow_steps, "--annotation", "load"]);
    assert!(of_load.contains("Note: shown is rank 0, the slowest of 2 ranks (90"), "{of_load}");
}

#[test]
fn snapshots_suggest_the_next_command() {
    let Some(one) = corpus("memory/snapshot-forward-bf16.pickle") else { return };
    let Some(other) = corpus("memory/snapshot-forward-fp32.pickle") else { return };
    let (code, error) = failure(&["check", &one]);
    assert!(code == Some(2) && error.ends_with(&format!("Next: stackline memory {one}\n")), "{error}");
    assert!(stdout(&["doctor", &one]).contains("Memory traces [memory_traces]"));
    let for_agent = stdout(&["report", &one, "--for-agent"]);
    assert!(for_agent.len() <= 4096 && for_agent.ends_with(&format!("More: stackline memory {one}\n")), "{for_agent}");
    let shown = run(&["report", &one]);
    assert!(String::from_utf8_lossy(&shown.stderr).ends_with(&format!("Next: stackline view {one}\n")));
    let series = run(&["report", &one, &other]);
    assert!(String::from_utf8_lossy(&series.stdout).contains("2 memory files in time order"), "{series:?}");
    assert!(String::from_utf8_lossy(&series.stderr).ends_with(&format!("Next: stackline diff {one} {other}\n")));
    let (code, error) = failure(&["report", &one, "--steps", "1..2"]);
    assert!(code == Some(2) && error.contains("does not accept --steps; leave that out"), "{error}");
}

/// Reports fit a terminal of 80 columns: lines wrap, tables shorten texts and then leave columns out.
#[test]
fn reports_fit_eighty_columns() {
    let fits = |folder: &Path, args: &[&str]| {
        // On a terminal, which pipes are not.
        let terminal = "import os, pty, sys\n\
                        process, terminal = pty.fork()\n\
                        if process == 0: os.execvp('sh', ['sh', '-c', '\"$@\" 2>/dev/null', 'sh'] + sys.argv[1:])\n\
                        try:\n    while shown := os.read(terminal, 65536): sys.stdout.buffer.write(shown)\n\
                        except OSError: pass\n\
                        sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))";
        let program = stackline(args);
        let mut command = Command::new("python3");
        command.args(["-c", terminal]).arg(program.get_program()).args(program.get_args()).current_dir(folder);
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.env("COLUMNS", "80").env("NO_COLOR", "1").output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let shown = String::from_utf8(output.stdout).unwrap().replace('\r', "");
        let wide: Vec<&str> = shown.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(!shown.is_empty() && wide.is_empty(), "{args:?}: {wide:#?}");
    };
    let folder = tempfile::tempdir().unwrap();
    crate::memory_diff::snapshot(folder.path(), "snapshot.json", &[(3, 4), (5, 8), (3, 4)]);
    fits(folder.path(), &["report", "snapshot.json"]);
    write_sample(folder.path(), 0);
    let Some(traces) = corpus("kineto") else { return };
    for name in ["nvidia-a100-event-sync", "amd-mi300-sglang-decode-graph-replay", "cpu-only-gloo"] {
        fits(Path::new(&traces), &["report", &format!("{name}.json.gz")]);
    }
    let Some(memory) = corpus("memory") else { return };
    for name in ["snapshot-train-step.pickle", "snapshot-no-history.pickle"] {
        fits(Path::new(&memory), &["report", name]);
    }
}

#[test]
fn calls_in_flight_are_reported_for_chrome_traces() {
    let folder = tempfile::tempdir().unwrap();
    let whole = mini::trace("file -\n1/1 - train B@0\n1/1 - work 10+20\n1/1 - wait_forever B@50\n1/2 - load 5+10");
    let file = write(folder.path(), "aborted.json", &whole);
    let line =
        |when: &str| format!("Call in flight {when}: aborted.json: wait_forever on thread 1, called from train.");
    let at_end = line("at the end of the recording");
    assert!(stdout(&["report", &file]).lines().any(|output| output == at_end), "{}", stdout(&["report", &file]));
    assert!(stdout(&["report", &file, "--for-agent"]).lines().any(|output| output == at_end));
    std::fs::write(&file, &whole[..whole.rfind("\"dur\"").unwrap()]).unwrap();
    let cut = line("at the end of the truncated file");
    assert!(stdout(&["report", &file]).lines().any(|output| output == cut), "{}", stdout(&["report", &file]));
    assert!(!stdout(&["report", &write_sample(folder.path(), 0)]).contains("Call in flight"));
}

#[test]
fn suggested_command_keeps_selecting_options() {
    let folder = tempfile::tempdir().unwrap();
    let file = write_sample(folder.path(), 0);
    let next = |options: &[&str]| {
        let output = run(&[&["report", &file], options].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(next(&[]), format!("Next: stackline findings {file}"));
    let source = folder.path().to_str().unwrap();
    for options in [
        &["--steps", "1..2"][..],
        &["--whole"],
        &["--rank", "0", "--no-source"],
        &["--source-root", source],
        &["--clip-overlaps", "--step-annotation", "ProfilerStep"],
    ] {
        let output = next(options);
        assert_eq!(output, format!("Next: stackline findings {file} {}", options.join(" ")));
        let words: Vec<&str> = output.split(' ').skip(2).collect();
        assert!(run(&words).status.success(), "{output}");
    }
    let spans = write(folder.path(), "spans.json", spans((0..3).map(|at| format!("f{at}"))));
    let output = run(&["report", &spans, "--whole", "--clip-overlaps"]);
    let output = String::from_utf8_lossy(&output.stderr);
    assert!(output.ends_with(&format!("Next: stackline view {spans} --clip-overlaps\n")), "{output}");
    for (events, next) in [("1/1 cpu_op aten::mm 0+100", "findings"), ("1/1 - mark @5", "doctor")] {
        let file = write(folder.path(), "cpu.json", mini::trace(events));
        let output = run(&["report", &file]);
        let output = String::from_utf8_lossy(&output.stderr);
        assert!(output.ends_with(&format!("Next: stackline {next} {file}\n")), "{output}");
    }
    let kernels = stdout(&["kernels", &spans, "--whole"]);
    assert!(kernels.contains(&format!("Next: stackline operators {spans} --whole\n")), "{kernels}");
}

#[test]
fn report_and_steps_have_the_same_spread_of_steps() {
    let folder = tempfile::tempdir().unwrap();
    let lengths = [900, 100, 110, 120, 130];
    let mut at = 0;
    let step = |(number, length): (usize, &i64)| {
        at += length;
        format!("1/1 user_annotation ProfilerStep#{number} {}+{length}\n", at - length)
    };
    let file = write(folder.path(), "t.json", mini::trace(&lengths.iter().enumerate().map(step).collect::<String>()));
    let spread = |command: &str, more: &[&str]| -> serde_json::Value {
        let text = stdout(&[&[command, &file, "--format", "json"], more].concat());
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["tables"]["steps_spread"]["rows"].clone()
    };
    for (more, steps) in [(&[][..], 4), (&["--whole"][..], 5), (&["--steps", "0..2"][..], 3)] {
        let report = spread("report", more);
        assert_eq!((&report, &report[0]["steps"]), (&spread("steps", more), &serde_json::json!(steps)), "{more:?}");
    }
    let listed = stdout(&["steps", &file]);
    assert!(listed.contains("warm-up") && listed.contains("Column left_out: reason"), "{listed}");
}

#[test]
fn report_explains_the_two_lengths_of_steps() {
    let folder = tempfile::tempdir().unwrap();
    let step = |at: i64| {
        let (start, id) = (1000 * at, at + 1);
        format!(
            "1/1 user_annotation ProfilerStep#{at} {start}+900\n1/1 cuda_runtime cudaLaunchKernel {}+5 correlation={id}\n\
             gpu0/7 kernel gemm {}+900 correlation={id}\n",
            start + 10,
            start + 200
        )
    };
    let file = write(folder.path(), "t.json", mini::trace(&(0..4).map(step).collect::<String>()));
    let line = "time: the step's span on the CPU. with_gpu: from the end of the previous step's GPU work to the end of \
                the step's own GPU work.";
    let report = stdout(&["report", &file]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(report.matches(line).count(), 1, "{report}");
    let steps = stdout(&["steps", &file]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(steps.contains("Column time_us: the step's span on the CPU. Column with_gpu_us: from the end"), "{steps}");
}
