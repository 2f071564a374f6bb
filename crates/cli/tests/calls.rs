//! Tests of `calls` and of exports, on synthetic recordings.

use crate::common;

use common::{failure, stackline, stdout};
use serde_json::Value;
use stackline_testkit::recording::{Config, streams};
use std::path::Path;

/// A recording whose launcher was killed: it has nothing but streams.
fn write(run: &Path, config: &Config) -> String {
    std::fs::create_dir_all(run.join("streams")).unwrap();
    for (name, file) in streams(config) {
        std::fs::write(run.join("streams").join(name), file).unwrap();
    }
    run.to_str().unwrap().to_owned()
}

/// Runs a command in the folder of the run, so that paths in its output are always the same.
fn shown(folder: &Path, args: &[&str]) -> String {
    let output = stackline(args).current_dir(folder).env("COLUMNS", "100").output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn sample() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("train.stackline"), &Config { ranks: 2, ..Config::default() });
    folder
}

#[test]
fn views_of_the_call_tree() {
    let folder = sample();
    let view = |more: &[&str]| shown(folder.path(), &[&["calls", "train.stackline"], more].concat());
    insta::assert_snapshot!("calls_top_down", view(&[]));
    insta::assert_snapshot!("calls_bottom_up", view(&["--view", "bottom-up", "--top", "12"]));
    insta::assert_snapshot!("calls_flat", view(&["--view", "flat", "--hide", "native|libpython"]));
    insta::assert_snapshot!("calls_callers", view(&["--callers-of", "^aten::addmm$"]));
    insta::assert_snapshot!("calls_by_phase", view(&["--by", "phase", "--depth", "1"]));
    insta::assert_snapshot!("calls_by_thread", view(&["--by", "thread", "--view", "flat"]));
    insta::assert_snapshot!("calls_focus", view(&["--focus", "GeluBackward0", "--metric", "allocated"]));
    insta::assert_snapshot!("calls_samples", view(&["--metric", "cpu_time"]));
    insta::assert_snapshot!("calls_csv", view(&["--view", "flat", "--format", "csv", "--top", "5"]));
}

/// Shapes from `record --shapes` distinguish operators in every view, and in comparisons of runs that both have shapes.
#[test]
fn shapes_distinguish_operators() {
    let folder = tempfile::tempdir().unwrap();
    for (name, shapes) in [("plain", false), ("shaped", true), ("slower", true)] {
        let slower = if name == "slower" { 3 } else { 1 };
        write(&folder.path().join(name), &Config { shapes, slower, ..Config::default() });
    }
    let view = |more: &[&str]| shown(folder.path(), &[&["calls", "shaped"], more].concat());
    insta::assert_snapshot!("calls_shapes", view(&["--focus", "aten::linear f32"]));
    insta::assert_snapshot!("calls_shapes_flat", view(&["--view", "flat", "--hide", "py"]));
    insta::assert_snapshot!("calls_shapes_callers", view(&["--callers-of", "^aten::addmm$", "--depth", "2"]));
    insta::assert_snapshot!("calls_by_shapes", view(&["--by", "shapes", "--view", "flat"]));
    insta::assert_snapshot!("calls_shapes_csv", view(&["--view", "flat", "--format", "csv", "--top", "3"]));
    let by_operator = |run: &str| shown(folder.path(), &["calls", run, "--by", "operator", "--view", "flat"]);
    let rows = |text: String| text.lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(rows(by_operator("shaped")), rows(by_operator("plain")), "by name they are the same");
    let diff = |before: &str| shown(folder.path(), &["calls", "--diff", before, "slower", "--top", "30"]);
    assert!(diff("shaped").contains("aten::addmm  f32[512], f32[64,128], f32[128,512]"), "{}", diff("shaped"));
    assert!(!diff("plain").contains("f32["), "{}", diff("plain"));
    let collapsed = shown(folder.path(), &["export", "shaped", "--to", "collapsed"]);
    assert!(collapsed.contains(";aten::addmm f32[512], f32[64,128], f32[128,512] "), "{collapsed}");
}

#[test]
fn source_lines_are_listed_with_their_costs() {
    let folder = sample();
    let mut text = vec![String::new(); 60];
    text[47] = "    loss = model(batch)".to_owned();
    std::fs::write(folder.path().join("train.py"), text.join("\n")).unwrap();
    insta::assert_snapshot!(
        "calls_lines",
        shown(folder.path(), &["calls", "train.stackline", "--lines", "--top", "9", "--source-root", "."])
    );
}

#[test]
fn comparison_of_two_runs() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("before"), &Config { steps: 20, ..Config::default() });
    write(&folder.path().join("after"), &Config { steps: 20, slower: 3, ..Config::default() });
    insta::assert_snapshot!("calls_diff", shown(folder.path(), &["calls", "--diff", "before", "after", "--top", "6"]));
    let text = shown(folder.path(), &["calls", "--diff", "before", "after", "--format", "json"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    let rows = document["tables"]["calls"]["rows"].as_array().unwrap();
    let linear = rows.iter().find(|row| row["name"] == "feed_forward").unwrap();
    assert_eq!(
        linear["change"].as_i64().unwrap(),
        linear["inclusive"].as_i64().unwrap() - linear["before"].as_i64().unwrap()
    );
}

/// The tables that `record` makes are equal to the streams, and a stream that grew since is read again.
#[test]
fn merged_and_unmerged_recordings_give_equal_answers() {
    let folder = sample();
    let run = folder.path().join("train.stackline");
    let answers = || {
        let views: [&[&str]; 4] = [&[], &["--view", "flat"], &["--by", "process"], &["--metric", "cpu_time"]];
        views.map(|more| shown(folder.path(), &[&["calls", "train.stackline", "--format", "json"], more].concat()))
    };
    let from_streams = answers();
    stackline_engine::merge_calls(&run).unwrap();
    assert!(run.join("calls/call_nodes.parquet").exists());
    assert_eq!(answers(), from_streams);
    let (name, file) = streams(&Config { ranks: 2, steps: 30, ..Config::default() }).swap_remove(0);
    std::fs::write(run.join("streams").join(name), file).unwrap();
    assert_ne!(answers(), from_streams, "a process wrote on after the merge");
    std::fs::remove_dir_all(run.join("streams")).unwrap();
    assert_eq!(answers(), from_streams, "the tables alone are a run");
}

#[test]
fn document_keys() {
    let folder = sample();
    let document: Value =
        serde_json::from_str(&shown(folder.path(), &["calls", "train.stackline", "--format", "json"])).unwrap();
    assert_eq!(document["schema"], "stackline/calls/1");
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let text = [
        ("document", keys(&document)),
        ("recording", keys(&document["recording"])),
        ("process", keys(&document["recording"]["processes"][0])),
        ("calls", keys(&document["tables"]["calls"]["rows"][0])),
    ];
    let lines = serde_json::from_str::<Value>(&shown(
        folder.path(),
        &["calls", "train.stackline", "--lines", "--format", "json"],
    ))
    .unwrap();
    let text = text.into_iter().chain([("call_lines", keys(&lines["tables"]["call_lines"]["rows"][0]))]);
    insta::assert_snapshot!(
        "schema_calls",
        text.map(|(name, keys)| format!("{name}: {keys}")).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn dropped_records_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let run = write(&folder.path().join("run"), &Config { killed: true, ..Config::default() });
    assert!(stdout(&["calls", &run]).contains("process_killed"));
    let stream = std::fs::read_dir(folder.path().join("run/streams")).unwrap().next().unwrap().unwrap().path();
    let bytes = std::fs::read(&stream).unwrap();
    std::fs::write(&stream, &bytes[..bytes.len() - 3]).unwrap();
    assert!(stdout(&["calls", &run]).contains("cut_stream"));
}

#[test]
fn doctor_describes_recordings_of_sums() {
    let folder = sample();
    let text = shown(folder.path(), &["doctor", "train.stackline"]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("record --mode trace"), "{text}");
    assert!(text.contains("`stackline findings train.stackline` reports issues"), "{text}");
    let document = shown(folder.path(), &["doctor", "train.stackline", "--format", "json"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    let (tables, calls) =
        (&document["tables"], shown(folder.path(), &["calls", "train.stackline", "--format", "json"]));
    let calls: Value = serde_json::from_str(&calls).unwrap();
    let processes = calls["recording"]["processes"].as_array().unwrap();
    let pids = |rows: &Value| rows.as_array().unwrap().iter().map(|row| row["pid"].clone()).collect::<Vec<_>>();
    assert_eq!(pids(&tables["processes"]["rows"]), processes.iter().map(|p| p["pid"].clone()).collect::<Vec<_>>());
    let sources: usize = processes.iter().map(|process| process["sources"].as_array().unwrap().len()).sum();
    assert_eq!(tables["sources"]["rows"].as_array().unwrap().len(), sources);
    assert!(sources > 0);
}

#[test]
fn options_that_are_refused_are_not_in_the_help() {
    assert!(!stdout(&["calls", "--help"]).contains("--steps"));
    assert!(stdout(&["steps", "--help"]).contains("--steps"));
    let (code, text) = failure(&["calls", "x", "--steps", "3"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("contains only totals over all steps"), "{text}");
}

#[test]
fn exports_are_written_whole_or_refused() {
    let folder = sample();
    let run = folder.path().join("train.stackline");
    let run = run.to_str().unwrap();
    for (target, begin) in [
        ("collapsed", &b"<module> (train.py:88);"[..]),
        ("speedscope", b"{\"$schema\""),
        ("pprof", &[0x1f, 0x8b]),
        ("firefox", b"{"),
        ("flamegraph", b"<?xml"),
    ] {
        let file = folder.path().join(target);
        stdout(&["export", run, "--to", target, "--metric", "allocated", "-o", file.to_str().unwrap()]);
        assert!(std::fs::read(file).unwrap().starts_with(begin), "{target}");
    }
    let (code, text) = failure(&["export", run, "--to", "perfetto"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("only totals per call path were recorded") && text.contains("--mode trace"), "{text}");
    let trace = common::write_sample(folder.path(), 0);
    let (code, text) = failure(&["export", &trace, "--to", "pprof", "--metric", "allocate"]);
    assert!(code == Some(2) && text.contains("Its metrics are: host_time"), "{text}");
    assert_eq!(failure(&["export", &trace, "--to", "chrome", "--metric", "allocated"]).0, Some(2));
}

#[test]
fn missing_data_is_reported() {
    let folder = sample();
    let run = folder.path().join("train.stackline");
    let run = run.to_str().unwrap();
    for (more, words) in [
        (&["--metric", "cpu_tim"][..], "did you mean cpu_time"),
        (&["--callers-of", "no such"], "no frame matches"),
        (&["--focus", "("], "is not a regular expression"),
        (&["--view", "callers"], "add --callers-of PATTERN"),
        (&["--steps", "1"], "contains only totals over all steps"),
        (&["--rank", "7"], "the input has no rank 7; its ranks are 0, 1"),
        (&["--diff"], "--diff compares two runs"),
        (&["--lines", "--view", "flat"], "cannot be used with"),
    ] {
        let (code, text) = failure(&[&["calls", run], more].concat());
        assert_eq!(code, Some(2), "{more:?}: {text}");
        assert!(text.contains(words), "{more:?}: {text}");
    }
    let trace = common::write_sample(folder.path(), 0);
    let imported = folder.path().join("import.stackline");
    let imported = imported.to_str().unwrap();
    stdout(&["import", &trace, "-o", imported]);
    let (code, text) = failure(&["calls", imported]);
    assert_eq!(code, Some(2));
    assert!(text.contains("no call-tree recording"), "{text}");
    let (code, text) = failure(&["steps", run]);
    assert_eq!(code, Some(2));
    assert!(text.contains("open it with `stackline calls"), "{text}");
}

/// Exports for other programs are profiles with the same sums for `calls`, `report` and `diff`.
#[test]
fn exports_are_profiles() {
    let folder = sample();
    let run = folder.path().join("train.stackline").to_str().unwrap().to_owned();
    let sum = |input: &str, metric: &str| {
        let args = ["calls", input, "--metric", metric, "--view", "flat", "--format", "json", "--top", "0"];
        let document: Value = serde_json::from_str(&stdout(&args)).unwrap();
        let rows = document["tables"]["calls"]["rows"].as_array().unwrap();
        rows.iter().filter_map(|row| row["exclusive"].as_u64()).sum::<u64>()
    };
    let expected = sum(&run, "cpu_time");
    assert!(expected > 0);
    let mut profiles = Vec::new();
    for (target, metric) in
        [("pprof", "cpu_time"), ("speedscope", "real_time"), ("firefox", "real_time"), ("collapsed", "samples")]
    {
        let file = folder.path().join(format!("profile.{target}")).to_str().unwrap().to_owned();
        stdout(&["export", &run, "--to", target, "--metric", "cpu_time", "-o", &file]);
        assert_eq!(sum(&file, metric), expected, "{target}");
        assert!(stdout(&["report", &file]).contains("train.py"), "{target}");
        profiles.push(file);
    }
    let [pprof, speedscope, _, collapsed] = &profiles[..] else { panic!("{profiles:?}") };
    let same = stdout(&["diff", speedscope, speedscope]);
    assert!(same.contains("speedscope") && !same.contains("only in A"), "{same}");
    let (code, text) = failure(&["diff", collapsed, collapsed]);
    assert!(code == Some(2) && text.contains("calls --diff"), "{text}");
    let (code, text) = failure(&["calls", "--diff", collapsed, speedscope]);
    assert!(code == Some(2) && text.contains("the first run has the metrics samples, the second real_time"), "{text}");
    let (_, text) = failure(&["critical-path", pprof]);
    assert!(text.contains("is a profile") && text.contains("stackline calls"), "{text}");
    let back = folder.path().join("back.json");
    stdout(&["export", pprof, "--to", "speedscope", "--metric", "cpu_time", "-o", back.to_str().unwrap()]);
    assert_eq!(sum(back.to_str().unwrap(), "real_time"), expected);
}

/// A profile as a run directory has the answers of its file, in every command that opens profiles.
#[test]
fn imported_profiles_answer_as_their_files() {
    let folder = sample();
    for (target, has_times) in [("pprof", true), ("speedscope", true), ("firefox", true), ("collapsed", false)] {
        let (file, run) = (format!("f.{target}"), format!("r.{target}"));
        let export = ["export", "train.stackline", "--to", target, "--metric", "cpu_time", "--imports", "-o", &file];
        shown(folder.path(), &export);
        let imported = stackline(&["import", &file, "-o", &run]).current_dir(folder.path()).output().unwrap();
        let message = String::from_utf8(imported.stderr).unwrap();
        assert!(imported.status.success() && message.contains("imported a profile with "), "{message}");
        assert!(message.contains(&format!("Next: stackline calls {run}")), "{message}");
        let mut commands = vec![
            vec!["calls", &file],
            vec!["calls", &file, "--view", "flat", "--imports", "--format", "json"],
            vec!["calls", &file, "--by", "thread"],
            vec!["calls", &file, "--lines", "--format", "csv"],
            vec!["calls", "--diff", &file, &file],
            vec!["report", &file],
            vec!["report", &file, "--for-agent"],
            vec!["doctor", &file],
            vec!["export", &file, "--to", "collapsed", "--imports"],
            vec!["export", &file, "--to", "flamegraph"],
        ];
        if has_times {
            commands.extend([vec!["findings", &file], vec!["diff", &file, &file, "--format", "json"]]);
        }
        for of_file in commands {
            let of_run: Vec<&str> =
                of_file.iter().map(|&word| if word == file { run.as_str() } else { word }).collect();
            let answer = shown(folder.path(), &of_run).replace(&run, &file);
            assert_eq!(answer, shown(folder.path(), &of_file), "{of_run:?}");
        }
        let query = |name: &str| {
            let opened = stackline_query::OpenRun::open(&[folder.path().join(name)], &Default::default()).unwrap();
            let arguments = stackline_query::Arguments::new([("shape", "flat")]);
            format!("{:?}", stackline_query::run_query(&opened, "calls", &arguments).unwrap()).replace(&run, &file)
        };
        assert_eq!(query(&run), query(&file), "{target}");
    }
    // A run of a run is equal, too.
    let export = ["export", "r.pprof", "--to", "collapsed"];
    let once = shown(folder.path(), &export);
    shown(folder.path(), &["import", "r.pprof", "-o", "r.pprof", "--force"]);
    assert_eq!(shown(folder.path(), &export), once);
}

/// Of several inputs none may be a profile, and a pipe cannot be read twice.
#[test]
fn refused_imports_of_profiles_name_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let stacks = common::write(folder.path(), "stacks.txt", "main;load 3\nmain;train 5\n");
    let trace = common::write_sample(folder.path(), 0);
    let memory = common::write(folder.path(), "p.memory", "a x 1024; f x; end");
    let target = folder.path().join("run.stackline");
    let run = target.to_str().unwrap();
    for other in [&trace, &memory, &stacks] {
        let (code, text) = failure(&["import", &stacks, other, "-o", run]);
        assert!(code == Some(2) && text.contains("only if its file is the only input"), "{code:?} {text}");
    }
    let input = std::fs::File::open(&stacks).unwrap();
    let output = stackline(&["import", "-", "-o", run]).stdin(input).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && message.contains("give the profile as a file"), "{message}");
    assert!(!target.exists());
    stdout(&["import", &stacks, "-o", run]);
    let (code, text) = failure(&["import", &stacks, "-o", run]);
    assert!(code == Some(2) && text.contains("--force"), "{text}");
}

/// The calls of a trace as a profile have the sums that its tables have.
#[test]
fn traces_are_exported_as_profiles() {
    let folder = sample();
    let trace = common::write_sample(folder.path(), 0);
    let document = |args: &[&str]| -> Value { serde_json::from_str(&stdout(args)).unwrap() };
    let kernels = document(&["kernels", &trace, "--whole", "--table", "gpu_kernels", "--format", "json"]);
    let rows = kernels["tables"]["gpu_kernels"]["rows"].as_array().unwrap();
    let expected: u64 = rows.iter().filter_map(|row| row["total_ns"].as_u64()).sum();
    assert!(expected > 0);
    let sum = |file: &str, metric: &str| -> u64 {
        let read = document(&["calls", file, "--metric", metric, "--view", "flat", "--format", "json", "--top", "0"]);
        let rows = read["tables"]["calls"]["rows"].as_array().unwrap();
        rows.iter().filter_map(|row| row["exclusive"].as_u64()).sum()
    };
    for (target, metric) in [("pprof", "gpu_time"), ("speedscope", "real_time"), ("collapsed", "samples")] {
        let file = folder.path().join(format!("gpu.{target}")).to_str().unwrap().to_owned();
        stdout(&["export", &trace, "--to", target, "--metric", "gpu_time", "--whole", "-o", &file]);
        assert_eq!(sum(&file, metric), expected, "{target}");
    }
    let graph = folder.path().join("gpu.svg");
    stdout(&["export", &trace, "--to", "flamegraph", "-o", graph.to_str().unwrap()]);
    assert!(std::fs::read_to_string(graph).unwrap().contains("<svg"));
    let (code, text) = failure(&["export", &trace, &trace, "--to", "pprof", "-o", "x.pb.gz"]);
    assert!(code == Some(2) && text.contains("--rank"), "{text}");
}

/// An import is one frame in every view of calls, of profiles and of traces.
#[test]
fn imports_are_folded_unless_requested() {
    let folder = tempfile::tempdir().unwrap();
    let profile = r#"{"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": [
        {"name": "main", "file": "train.py", "line": 3},
        {"name": "_find_and_load", "file": "<frozen importlib._bootstrap>", "line": 9},
        {"name": "<module>", "file": "/env/lib/python3.11/site-packages/numpy/__init__.py", "line": 1},
        {"name": "step", "file": "train.py", "line": 8}]},
        "profiles": [{"type": "sampled", "name": "main", "unit": "nanoseconds", "startValue": 0, "endValue": 3000,
        "samples": [[0, 1, 2], [0, 3]], "weights": [1000, 2000]}]}"#;
    let profile = common::write(folder.path(), "t.speedscope.json", profile);
    let trace = stackline_testkit::mini::trace(
        "1/1 python_function train.py(3): main 0+100
         1/1 python_function <frozen importlib._bootstrap>(9): _find_and_load 10+20
         1/1 python_function numpy/__init__.py(1): <module> 11+15
         1/1 python_function train.py(8): step 40+50",
    );
    let trace = common::write(folder.path(), "t.json", trace);
    let is_folded = |text: &str| (text.contains("import of modules"), text.contains("_find_and_load"));
    for input in [&profile, &trace] {
        let export = ["export", input, "--to", "collapsed"];
        assert_eq!(is_folded(&stdout(&export)), (true, false), "{input}");
        assert_eq!(is_folded(&stdout(&[&export[..], &["--imports"]].concat())), (false, true), "{input}");
    }
    assert_eq!(is_folded(&stdout(&["diff", &profile, &profile, "--format", "json"])), (true, false));
    let opened = stackline_query::OpenRun::open(&[trace.into()], &Default::default()).unwrap();
    let arguments = stackline_query::Arguments::new([("shape", "flat")]);
    let page = format!("{:?}", stackline_query::run_query(&opened, "calls", &arguments).unwrap());
    assert_eq!(is_folded(&page), (true, false));
    let (code, text) = failure(&["export", &profile, "--to", "chrome", "--imports"]);
    assert!(code == Some(2) && text.contains("--imports applies only to profile formats"), "{text}");
}

/// Profiles are exported from archives and pipes, too, and a pipe with a trace is refused.
#[test]
fn packed_and_piped_profiles_are_exported() {
    let folder = tempfile::tempdir().unwrap();
    let stacks = folder.path().join("stacks.txt");
    std::fs::write(&stacks, "main;load 3\nmain;train 5\n").unwrap();
    let packed = folder.path().join("stacks.tar.gz");
    let mut tar = std::process::Command::new("tar");
    tar.arg("-czf").arg(&packed).arg("-C").arg(folder.path()).arg("stacks.txt");
    assert!(tar.status().unwrap().success());
    let plain = stdout(&["export", stacks.to_str().unwrap(), "--to", "collapsed"]);
    assert_eq!(plain, "main;load 3\nmain;train 5\n");
    assert_eq!(stdout(&["export", packed.to_str().unwrap(), "--to", "collapsed"]), plain);
    let piped = |file: &Path| {
        let input = std::fs::File::open(file).unwrap();
        let output = stackline(&["export", "-", "--to", "collapsed"]).stdin(input).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    assert_eq!(piped(&stacks), (Some(0), plain));
    let trace = common::write_sample(folder.path(), 0);
    let (code, message) = piped(Path::new(&trace));
    assert!(code == Some(2) && message.contains("give the trace as a file"), "{code:?} {message}");
}

/// `--rank` chooses the processes of a rank: of one recording, and of a folder with a recording of each rank.
#[test]
fn a_rank_of_recordings_can_be_chosen() {
    let folder = sample();
    let total = |args: &[&str]| -> u64 {
        let words = [args, &["--metric", "operator_time", "--view", "flat", "--format", "json", "--top", "0"]].concat();
        let document: Value = serde_json::from_str(&shown(folder.path(), &words)).unwrap();
        let rows = document["tables"]["calls"]["rows"].as_array().unwrap();
        rows.iter().filter_map(|row| row["exclusive"].as_u64()).sum()
    };
    let all = total(&["calls", "train.stackline"]);
    let of_ranks = ["0", "1"].map(|rank| total(&["calls", "train.stackline", "--rank", rank]));
    assert!(of_ranks[0] != of_ranks[1] && of_ranks[0] + of_ranks[1] == all, "{of_ranks:?} {all}");
    let head = |args: &[&str]| shown(folder.path(), args).lines().take(2).collect::<Vec<_>>().join("\n");
    let of_one = head(&["report", "train.stackline", "--rank", "1"]);
    assert_eq!(of_one, head(&["calls", "train.stackline", "--rank", "1"]));
    assert!(of_one.contains("2 processes") && head(&["report", "train.stackline"]).contains("4 processes"), "{of_one}");
    let agent = shown(folder.path(), &["report", "train.stackline", "--rank", "1", "--for-agent"]);
    assert!(agent.contains("2 processes"), "{agent}");
    let next = "stackline findings train.stackline --rank 1, stackline calls train.stackline --rank 1 --lines";
    assert!(agent.contains(next), "{agent}");
    // A recording of each rank, in a folder.
    for (at, (name, file)) in streams(&Config { ranks: 2, ..Config::default() }).into_iter().enumerate() {
        let streams = folder.path().join(format!("job/rank{}.stackline/streams", at / 2));
        std::fs::create_dir_all(&streams).unwrap();
        std::fs::write(streams.join(name), file).unwrap();
    }
    for rank in ["0", "1"] {
        let of_folder = shown(folder.path(), &["report", "job", "--rank", rank]);
        let of_recording = shown(folder.path(), &["report", &format!("job/rank{rank}.stackline")]);
        assert_eq!(of_folder, of_recording);
        assert!(shown(folder.path(), &["findings", "job", "--rank", rank]).contains("step"));
    }
    let output = stackline(&["report", "job", "--rank", "2"]).current_dir(folder.path()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && message.contains("rank 2 is not in the input; the input has ranks 0 to 1"),
        "{message}"
    );
    let output = stackline(&["report", "job"]).current_dir(folder.path()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("--rank N selects one"), "{message}");
    // The folder has a recording of each rank, the other side one of all ranks.
    let compared = |before: &str, rank: &str| -> Value {
        let words = ["diff", before, "train.stackline", "--rank", rank, "--format", "json"];
        serde_json::from_str::<Value>(&shown(folder.path(), &words)).unwrap()["tables"]["operators"].clone()
    };
    let of_one = compared("train.stackline", "1");
    assert!(of_one["rows"].as_array().is_some_and(|rows| !rows.is_empty()), "{of_one}");
    assert!(of_one == compared("job", "1") && of_one != compared("job", "0"), "{of_one}");
    let words = ["diff", "train.stackline", "train.stackline", "--rank", "7"];
    let output = stackline(&words).current_dir(folder.path()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("rank 7 is not in the input; the input has ranks 0 to 1"), "{message}");
    // The recordings of two jobs: each has a rank 0.
    for command in ["findings", "report", "calls"] {
        let several = if command == "calls" { &["."][..] } else { &["job", "train.stackline"] };
        let words = [&[command], several, &["--rank", "0"]].concat();
        let output = stackline(&words).current_dir(folder.path()).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(2) && message.contains("2 recordings contain a rank 0"),
            "{words:?}: {message}"
        );
        assert!(message.contains("job/rank0.stackline") && message.contains("train.stackline"), "{message}");
    }
}
