//! Tests of recording exports with the programs that read them (`python/consumers`): they find the same data as
//! `calls`.
//!
//! No registry has the Firefox Profiler: tests of its format are next to the export (`stackline-present`).

use crate::common;

use common::stdout;
use serde_json::Value;
use stackline_recording::{CallDetail, ChunkWriter, FrameKey, HEADER, Metric, Process, Record, Stats, Thread};
use stackline_testkit::recording::{Config, streams};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout of a program that opens a file, which takes a second; a loaded machine may take some more.
const PATIENCE: Duration = Duration::from_secs(120);

/// The folder that `python/consumers_env.py` makes; where there is none the tests are skipped, but not in CI.
fn consumers() -> Option<PathBuf> {
    let folder = std::env::var_os("STACKLINE_CONSUMERS").map(PathBuf::from);
    if folder.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs STACKLINE_CONSUMERS (python/consumers_env.py)");
        println!("skipped: STACKLINE_CONSUMERS names no folder of consumers (python/consumers_env.py makes one)");
    }
    folder
}

/// Output of a command, as JSON.
fn printed(command: &mut Command, folder: &Path) -> Value {
    let (stdout_path, stderr_path) = (folder.join("said"), folder.join("complained"));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(File::create(&stdout_path).unwrap())
        .stderr(File::create(&stderr_path).unwrap())
        .spawn()
        .unwrap();
    let since = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if since.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("{command:?} did not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{command:?}: {status} {}", std::fs::read_to_string(stderr_path).unwrap());
    serde_json::from_slice(&std::fs::read(stdout_path).unwrap()).unwrap()
}

/// A script that runs a consumer.
fn script(name: &str, arguments: &[&Path]) -> Command {
    let mut command = Command::new("node");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/consumers").join(name)).args(arguments);
    command
}

/// The exclusive values of a recording by the names of frames, without those that have none.
fn truth(run: &str, metric: &str) -> BTreeMap<String, u64> {
    let text = stdout(&["calls", run, "--view", "flat", "--top", "0", "--metric", metric, "--format", "json"]);
    let file: Value = serde_json::from_str(&text).unwrap();
    let mut values = BTreeMap::new();
    for row in file["tables"]["calls"]["rows"].as_array().unwrap() {
        *values.entry(row["name"].as_str().unwrap().to_owned()).or_default() += row["exclusive"].as_u64().unwrap();
    }
    values.retain(|_, value| *value > 0);
    values
}

/// The self values that a consumer found, and their sum.
fn found<'a>(profiles: impl IntoIterator<Item = &'a Value>) -> (u64, BTreeMap<String, u64>) {
    let (mut total, mut values) = (0, BTreeMap::new());
    for profile in profiles {
        total += profile["total"].as_u64().unwrap();
        for (name, value) in profile["functions"].as_object().unwrap() {
            *values.entry(name.clone()).or_default() += value.as_u64().unwrap();
        }
    }
    values.retain(|_, value| *value > 0);
    (total, values)
}

fn export(run: &str, target: &str, metric: &str, file: &Path) {
    stdout(&["export", run, "--to", target, "--metric", metric, "--output", file.to_str().unwrap()]);
}

/// A made-up recording of two ranks.
fn recording(folder: &Path) -> String {
    let run = folder.join("run.stackline");
    std::fs::create_dir_all(run.join("streams")).unwrap();
    for (name, file) in streams(&Config { ranks: 2, ..Config::default() }) {
        std::fs::write(run.join("streams").join(name), file).unwrap();
    }
    run.to_str().unwrap().to_owned()
}

#[test]
fn speedscope_shows_the_numbers_of_calls() {
    let Some(consumers) = consumers() else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = recording(folder.path());
    let package = consumers.join("node_modules/speedscope");
    for (metric, unit) in [("operator_time", "nanoseconds"), ("cpu_time", "nanoseconds"), ("allocated", "bytes")] {
        let expected = truth(&run, metric);
        let sum: u64 = expected.values().sum();
        // Its own format, and two more that it reads.
        let files = ["run.speedscope.json", "run.pb.gz", "run.collapsed.txt"].map(|name| folder.path().join(name));
        for (target, file) in ["speedscope", "pprof", "collapsed"].into_iter().zip(&files) {
            export(&run, target, metric, file);
        }
        let [own, pprof, collapsed] =
            files.map(|file| printed(&mut script("speedscope.cjs", &[&package, &file]), folder.path()));
        let profiles = own[0].as_array().unwrap();
        assert!(profiles.iter().all(|profile| profile["unit"] == unit), "{metric}");
        assert_eq!(found(profiles), (sum, expected.clone()), "{metric}");
        // Of pprof it shows the type of sample that comes first, of which ours is the metric that was asked for.
        assert_eq!(found(pprof[0].as_array().unwrap()), (sum, expected.clone()), "pprof, {metric}");
        let (total, values) = found(collapsed[0].as_array().unwrap());
        assert_eq!((total, values.values().sum::<u64>()), (sum, sum), "collapsed, {metric}");
        // Names of Python frames have their lines there.
        for (name, value) in expected.iter().filter(|(name, _)| name.starts_with("aten::")) {
            assert_eq!(values.get(name), Some(value), "collapsed, {metric}, {name}");
        }
    }
}

#[test]
fn pprof_format_shows_the_numbers_of_calls() {
    let Some(consumers) = consumers() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (run, file) = (recording(folder.path()), folder.path().join("run.pb.gz"));
    export(&run, "pprof", "operator_time", &file);
    let package = consumers.join("node_modules/pprof-format");
    let types = printed(&mut script("pprof.cjs", &[&package, &file]), folder.path());
    let types = types.as_array().unwrap();
    for (metric, unit) in [("operator_time", "nanoseconds"), ("cpu_time", "nanoseconds"), ("allocated", "bytes")] {
        let name = if metric == "allocated" { "alloc_space" } else { metric };
        let one = types.iter().find(|one| one["type"] == name).unwrap();
        let expected = truth(&run, metric);
        assert_eq!(one["unit"], unit, "{metric}");
        assert_eq!(found([one]), (expected.values().sum(), expected), "{metric}");
    }
}

#[test]
fn flame_graph_is_xml_with_the_total() {
    let folder = tempfile::tempdir().unwrap();
    let (run, file) = (recording(folder.path()), folder.path().join("run.svg"));
    export(&run, "flamegraph", "operator_time", &file);
    let program = "import sys, json, xml.etree.ElementTree as tree\n\
                   root = tree.parse(sys.argv[1]).getroot()\n\
                   frames = [node for node in root.iter() if node.get('total_samples')]\n\
                   print(json.dumps([root.tag, [int(node.get('total_samples')) for node in frames]]))";
    let found = printed(Command::new("python3").args(["-c", program]).arg(&file), folder.path());
    let sum = truth(&run, "operator_time").values().sum::<u64>();
    assert_eq!(found[0], "{http://www.w3.org/2000/svg}svg");
    assert_eq!(found[1][0].as_u64(), Some(sum));
}

/// A recording in `trace` mode: operators that call each other, some thousand times.
fn trace_recording(folder: &Path) -> String {
    let command = vec!["python".to_owned(), "train.py".to_owned()];
    let process =
        Process { pid: 7, command, start_unix_ns: 5_000_000_000, start_monotonic_ns: 1_000, ..Process::default() };
    let mut records =
        vec![Record::Process(Box::new(process)), Record::Thread(Thread { id: 0, tid: 7, ..Thread::default() })];
    for (id, text) in (0..).zip(["aten::linear", "aten::t", "aten::addmm", "work", "train.py"]) {
        records.push(Record::Text { id, text: text.into() });
    }
    let operator = |name| FrameKey::Operator { name };
    let work = FrameKey::Python { function: 3, file: 4, line: 12, first_line: 10 };
    for (id, key) in (0..).zip([work, operator(0), operator(1), operator(2)]) {
        records.push(Record::Frame { id, key });
    }
    for (id, parent, frame) in [(1, 0, 0), (2, 1, 1), (3, 2, 2), (4, 2, 3)] {
        records.push(Record::Node { thread: 0, id, parent, frame });
    }
    let mut stats: BTreeMap<(u32, Metric), Stats> = BTreeMap::new();
    let mut last_end = 0;
    for call in 0..3_000_u64 {
        let at = 10_000 + call.cast_signed() * 1_000;
        let inner = 7 + call % 93;
        // Inner calls end first, and are written first.
        for (node, start, duration, own) in
            [(3, at + 1, inner, inner), (4, at + 200, 2 * inner, 2 * inner), (2, at, 600, 600 - 3 * inner)]
        {
            let detail = CallDetail::None;
            records.push(Record::Call {
                thread: 0,
                node,
                start_delta_ns: start - last_end,
                duration_ns: duration,
                detail,
            });
            last_end = start + duration.cast_signed();
            stats.entry((node, Metric::CallTime)).or_default().add(duration);
            stats.entry((node, Metric::OperatorTime)).or_default().add(own);
        }
    }
    records.extend(stats.into_iter().map(|((node, metric), stats)| Record::Stats { thread: 0, node, metric, stats }));
    records.push(Record::End { at_ns: 4_000_000 });
    let mut chunk = ChunkWriter::new();
    records.iter().for_each(|record| chunk.push(record).unwrap());
    let run = folder.join("trace.stackline");
    std::fs::create_dir_all(run.join("streams")).unwrap();
    std::fs::write(run.join("streams/7-0.slr"), [HEADER.as_slice(), chunk.finish()].concat()).unwrap();
    run.to_str().unwrap().to_owned()
}

#[test]
fn perfetto_shows_the_numbers_of_calls() {
    let Some(consumers) = consumers() else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = trace_recording(folder.path());
    let expected: BTreeMap<String, u64> = truth(&run, "call_time");
    assert_eq!(expected.len(), 3, "{expected:?}");
    for (target, name) in [("perfetto", "run.pftrace"), ("chrome", "run.json")] {
        let file = folder.path().join(name);
        stdout(&["export", &run, "--to", target, "--output", file.to_str().unwrap()]);
        let mut command = script("perfetto.cjs", &[&consumers.join("perfetto"), &file]);
        command.args([
            "select name, sum(dur), count(*) from slice where category = 'cpu_op' group by name order by name",
            "select name, value from stats where severity = 'error' and value > 0",
            "select count(*) from slice inner_ join slice outer_ on inner_.parent_id = outer_.id \
             where outer_.name = 'aten::linear' and inner_.name in ('aten::t', 'aten::addmm')",
        ]);
        let answers = printed(&mut command, folder.path());
        let rows = answers[0].as_array().unwrap();
        let sums = rows.iter().map(|row| (row[0].as_str().unwrap().to_owned(), row[1].as_u64().unwrap()));
        assert_eq!(sums.collect::<BTreeMap<_, _>>(), expected, "{target}");
        assert!(rows.iter().all(|row| row[2] == 3_000), "{target}: {rows:?}");
        assert_eq!(answers[1], Value::Array(Vec::new()), "{target}: errors of the import");
        assert_eq!(answers[2][0][0], 6_000, "{target}: calls below the one that made them");
    }
}
