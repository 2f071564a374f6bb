//! Profiles: hand-made ones of each format, `stackline export`'s, and those of other programs.

use stackline_ingest::{ReadOptions, is_profile, read_paths, read_profile};
use stackline_model::{CallMetric, CallNodeId, CallingContextTree, Frame};
use std::path::{Path, PathBuf};

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn read(name: &str, bytes: &[u8]) -> CallingContextTree {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), name, bytes);
    assert!(is_profile(&path), "{name}");
    let tree = read_profile(&path, &ReadOptions::default()).unwrap();
    tree.check().unwrap();
    tree
}

/// One line per value: path, thread, metric and sum.
fn text(tree: &CallingContextTree) -> String {
    let frame = |node: CallNodeId| {
        let id = tree.nodes.frame[node.index()].some()?;
        let frame = &tree.frames[id.index()];
        let name = frame.name(&tree.strings);
        Some(match *frame {
            Frame::Python { file, line, .. } => format!("{name} ({}:{line})", tree.strings.get(file)),
            Frame::Native { file, line, library, .. } => {
                let some = |id: stackline_model::StrId| id.some().map_or("-", |id| tree.strings.get(id));
                format!("{name} [{} {}:{line}]", some(library), some(file))
            }
            _ => name,
        })
    };
    let path = |node: CallNodeId| {
        let up = |node: &CallNodeId| Some(tree.nodes.parent[node.index()]).filter(|parent| parent.is_some());
        let mut frames: Vec<String> = std::iter::successors(Some(node), up).filter_map(frame).collect();
        frames.reverse();
        frames.join(" > ")
    };
    let mut lines: Vec<String> = tree
        .metrics
        .iter()
        .map(|(node, thread, metric, stats)| {
            let thread = tree.strings.get(tree.threads[thread.index()].name);
            format!("{} | {thread} | {} {}", path(node), metric.name(&tree.strings), stats.sum)
        })
        .collect();
    lines.sort();
    let problems: Vec<String> = tree.report.problems.iter().map(|p| format!("{} × {}", p.count, p.code)).collect();
    format!("{}\n{}", lines.join("\n"), problems.join("\n"))
}

const SAMPLED: &str = r#"{"$schema": "https://www.speedscope.app/file-format-schema.json",
  "profiles": [{"type": "sampled", "name": "MainThread", "unit": "seconds", "startValue": 0, "endValue": 0.03,
    "samples": [[0, 1], [0, 1], [0, 2], []], "weights": [0.01, 0.005, 0.02, 0.1]},
   {"type": "evented", "name": "worker", "unit": "milliseconds", "startValue": 0, "endValue": 9, "events": [
    {"type": "O", "at": 1, "frame": 0}, {"type": "O", "at": 2, "frame": 2}, {"type": "C", "at": 5, "frame": 2}, {"type": "C", "at": 6, "frame": 0},
    {"type": "C", "at": 7, "frame": 1}, {"type": "O", "at": 8, "frame": 1}]}],
  "shared": {"frames": [{"name": "main", "file": "train.py", "line": 3}, {"name": "step", "file": "train.py", "line": 12}, {"name": "gemm", "file": "blas.c"}]}}"#;

#[test]
fn speedscope_sampled_and_evented() {
    insta::assert_snapshot!(text(&read("a.speedscope.json", SAMPLED.as_bytes())));
}

#[test]
fn truncated_profiles_keep_their_first_samples() {
    let shared_first = SAMPLED.replacen(
        "\"profiles\"",
        "\"shared\": {\"frames\": [{\"name\": \"a\"}, {\"name\": \"b\"}, {\"name\": \"c\"}]}, \"profiles\"",
        1,
    );
    let cut = &shared_first[..shared_first.find("\"type\": \"O\", \"at\": 2").unwrap()];
    let tree = read("a.json", cut.as_bytes());
    assert_eq!(tree.report.count_of("truncated"), 1);
    assert!(text(&tree).contains("a [- -:0] > b [- -:0] | MainThread | real_time 15000000"), "{}", text(&tree));
}

#[test]
fn collapsed_stacks() {
    let stacks = "main (train.py:3);step (train.py:12);gemm 12\nmain (train.py:3);step (train.py:12) 3\r\n\nmain (train.py:3);step (train.py:12);gemm 1\nstart_thread;operator() (int) 7\n";
    insta::assert_snapshot!(text(&read("collapsed.txt", stacks.as_bytes())));
    let folder = tempfile::tempdir().unwrap();
    let no_stacks = ["epoch 1\nloss 12\n", "a;b\nc;d\n", "", "[1, 2]\n", "step;loss\n1;2 3\n"];
    for (at, text) in no_stacks.iter().enumerate() {
        assert!(!is_profile(&write(folder.path(), &at.to_string(), text.as_bytes())), "{text:?}");
    }
}

const FIREFOX: &str = r#"{"meta": {"interval": 2, "startTime": 1000, "preprocessedProfileVersion": 49, "product": "train.py"}, "libs": [],
  "threads": [{"name": "main", "pid": "7", "tid": 8, "stringArray": ["main", "train.py", "gemm", "libblas.so"],
    "samples": {"stack": [1, 1, null, 0], "weight": null, "weightType": "samples"},
    "stackTable": {"frame": [0, 1], "prefix": [null, 0]},
    "frameTable": {"func": [0, 1], "line": [12, null]},
    "funcTable": {"name": [0, 2], "fileName": [1, null], "lineNumber": [3, null], "resource": [-1, 0]},
    "resourceTable": {"name": [3]}}]}"#;

#[test]
fn firefox_with_tables_of_each_thread_and_shared_ones() {
    let own = read("a.json", FIREFOX.as_bytes());
    insta::assert_snapshot!(format!("firefox\n{}", text(&own)));
    let tables = &FIREFOX[FIREFOX.find("\"stackTable\"").unwrap()..FIREFOX.rfind("}]}").unwrap()];
    let strings = "\"stringArray\": [\"main\", \"train.py\", \"gemm\", \"libblas.so\"], ";
    let shared = FIREFOX.replace(&format!(",\n    {tables}"), "").replace(strings, "");
    let shared = shared.replace("\"libs\": [],", &format!("\"libs\": [], \"shared\": {{{strings}{tables}}},"));
    assert_eq!(text(&read("b.json", shared.as_bytes())), text(&own));
}

/// A number as in protobuf.
fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A protobuf message: fields with their bytes.
fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut all = Vec::new();
    for (tag, bytes) in fields {
        all.push(*tag << 3 | 2);
        all.extend(varint(bytes.len()));
        all.extend_from_slice(bytes);
    }
    all
}

fn pprof() -> Vec<u8> {
    pprof_with(["cpu", "nanoseconds", "samples", "count"])
}

/// A profile with two kinds of values, each with its unit; samples have the second kind first.
fn pprof_with([first, first_unit, second, second_unit]: [&str; 4]) -> Vec<u8> {
    let texts = ["", first, first_unit, second, second_unit, "main", "train.py", "gemm", "libblas.so"];
    let mut fields: Vec<(u8, Vec<u8>)> = vec![
        (1, vec![0x08, 3, 0x10, 4]),
        (1, vec![0x08, 1, 0x10, 2]),
        // Innermost first; two functions are inlined into each other at the second location.
        (2, message(&[(1, &[2, 1]), (2, &[3, 90])])),
        (2, message(&[(1, &[1]), (2, &[1, 20])])),
        (2, message(&[(1, &[9, 1]), (2, &[1, 5])])),
        (3, vec![0x08, 1, 0x28, 8]),
        (4, [&[0x08, 1][..], &message(&[(4, &[0x08, 1, 0x10, 12])])].concat()),
        (
            4,
            [&[0x08, 2, 0x10, 1, 0x18, 0x40][..], &message(&[(4, &[0x08, 2, 0x10, 7]), (4, &[0x08, 1, 0x10, 13])])]
                .concat(),
        ),
        (5, vec![0x08, 1, 0x10, 5, 0x20, 6, 0x28, 3]),
        (5, vec![0x08, 2, 0x10, 7]),
    ];
    fields.extend(texts.iter().map(|text| (6, text.as_bytes().to_vec())));
    message(&fields.iter().map(|(tag, bytes)| (*tag, &bytes[..])).collect::<Vec<_>>())
}

#[test]
fn pprof_with_inlined_functions_and_two_kinds_of_values() {
    let tree = read("cpu.pb", &pprof());
    insta::assert_snapshot!(text(&tree));
    let packed = read("cpu.pb.gz", &stackline_testkit::io::gzip(&pprof()));
    assert_eq!(text(&packed), text(&tree));
}

/// A pprof profile of one stack, from the outermost function, for 5 ns.
fn pprof_of_stack(names: &[String]) -> Vec<u8> {
    let number = |tag: u8, value: usize| [&[tag << 3][..], &varint(value)].concat();
    let ids: Vec<u8> = (1..=names.len()).rev().flat_map(varint).collect();
    let mut fields: Vec<(u8, Vec<u8>)> =
        vec![(1, [number(1, 1), number(2, 2)].concat()), (2, message(&[(1, &ids[..]), (2, &[5][..])]))];
    for at in 1..=names.len() {
        fields.push((4, [number(1, at), message(&[(4, &number(1, at)[..])])].concat()));
        fields.push((5, [number(1, at), number(2, at + 2)].concat()));
    }
    let texts = ["", "cpu", "nanoseconds"].into_iter().chain(names.iter().map(String::as_str));
    fields.extend(texts.map(|text| (6, text.as_bytes().to_vec())));
    message(&fields.iter().map(|(tag, bytes)| (*tag, &bytes[..])).collect::<Vec<_>>())
}

/// A speedscope profile of the same stack.
fn speedscope_of_stack(names: &[String]) -> String {
    let frames: Vec<String> = names.iter().map(|name| format!(r#"{{"name": "{name}"}}"#)).collect();
    let stack: Vec<String> = (0..names.len()).map(|at| at.to_string()).collect();
    let (frames, stack) = (frames.join(","), stack.join(","));
    format!(
        r#"{{"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {{"frames": [{frames}]}},
        "profiles": [{{"type": "sampled", "name": "main", "unit": "nanoseconds", "startValue": 0, "endValue": 5,
        "samples": [[{stack}]], "weights": [5]}}]}}"#
    )
}

#[test]
fn a_hundred_thousand_frames() {
    const DEPTH: usize = 100_000;
    let names: Vec<String> = (0..DEPTH).map(|at| format!("f{at}")).collect();
    for (file, bytes) in [
        ("deep.txt", format!("{} 5\n", names.join(";")).into_bytes()),
        ("deep.speedscope.json", speedscope_of_stack(&names).into_bytes()),
        ("deep.pb", pprof_of_stack(&names)),
    ] {
        let tree = read(file, &bytes);
        assert_eq!((tree.nodes.len(), tree.metrics.len()), (DEPTH + 1, 1), "{file}");
        let (node, _, _, stats) = tree.metrics.iter().next().unwrap();
        let up = |node: &CallNodeId| Some(tree.nodes.parent[node.index()]).filter(|parent| parent.is_some());
        let frames = std::iter::successors(Some(node), up).filter_map(|node| tree.nodes.frame[node.index()].some());
        let found: Vec<String> = frames.map(|frame| tree.frames[frame.index()].name(&tree.strings)).collect();
        assert!(found.iter().eq(names.iter().rev()), "{file}: {:?}", found.first());
        assert_eq!(stats.sum, 5, "{file}");
    }
}

#[test]
fn lines_of_unlimited_length_are_skipped() {
    let tree = read("long.txt", format!("{} 3\nmain;step 4\n", "main;".repeat(2 << 20)).as_bytes());
    assert_eq!((tree.report.count_of("oversized_line"), tree.nodes.len()), (1, 3));
}

#[test]
fn profiles_are_not_traces() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "cpu.pb.gz", &stackline_testkit::io::gzip(&pprof()));
    let error = read_paths(&[path], &ReadOptions::default()).unwrap_err().to_string();
    insta::assert_snapshot!(error.rsplit('/').next().unwrap());
}

#[test]
fn damaged_profiles_report_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pprof();
    let error = |name: &str, bytes: &[u8]| {
        read_profile(&write(folder.path(), name, bytes), &ReadOptions::default()).unwrap_err().to_string()
    };
    let name = |text: String| text.rsplit('/').next().unwrap().to_owned();
    insta::assert_snapshot!(
        [
            name(error("cut.pb", &bytes[..bytes.len() - 3])),
            name(error("cut.json", &FIREFOX.as_bytes()[..FIREFOX.len() - 9])),
            name(error("early.speedscope.json", &SAMPLED.as_bytes()[..120])),
        ]
        .join("\n")
    );
}

/// Fractions are kept: all values are then in thousandths.
#[test]
fn collapsed_stacks_with_fractions() {
    let tree = read("a.txt", b"main;a 10\nmain;b 1.5\nmain;c 0.25\n");
    assert_eq!(tree.report.count_of("fractional_values"), 2);
    let text = text(&tree);
    for line in [
        "main [- -:0] > a [- -:0] |  | thousandths of samples 10000",
        "b [- -:0] |  | thousandths of samples 1500",
        "250",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn uncountable_values_are_reported() {
    let huge = SAMPLED.replace("0.01, 0.005, 0.02, 0.1", "-1, 0.005, 1e300, 0.1");
    let report = read("a.json", huge.as_bytes()).report;
    let counts = ["negative_value", "value_out_of_range", "negative_duration"].map(|code| report.count_of(code));
    assert_eq!(counts, [1, 1, 0]);
    let negative = report.problems.iter().find(|p| p.code == "negative_value").unwrap();
    assert!(!negative.message.contains("GPU"), "{}", negative.message);
}

/// Counters keep the unit of their values, in bytes or ns.
#[test]
fn counters_have_units() {
    let metrics = |kinds: [&str; 4]| {
        let tree = read("a.pb", &pprof_with(kinds));
        let sum = |metric: CallMetric| tree.exclusive(metric, |_| true).iter().map(|stats| stats.sum).sum::<u64>();
        let described =
            |metric: CallMetric| format!("{} {:?} {}", metric.name(&tree.strings), metric.unit(), sum(metric));
        tree.measured().into_iter().map(described).collect::<Vec<_>>()
    };
    let heap = metrics(["inuse_space", "bytes", "inuse_objects", "count"]);
    assert_eq!(heap, ["inuse_objects None 5", "inuse_space Bytes 115"]);
    assert_eq!(metrics(["inuse_space", "kilobytes", "inuse_objects", "count"])[1], "inuse_space Bytes 117760");
    assert_eq!(metrics(["cpu", "microseconds", "samples", "count"]), ["cpu_time Ns 115000", "samples None 5"]);
    // A second time is a counter, still with its unit.
    assert_eq!(metrics(["delay", "nanoseconds", "wait", "milliseconds"]), ["real_time Ns 5000000", "delay Ns 115"]);
    // Counters of one name and two units stay apart.
    assert_eq!(metrics(["heap", "bytes", "heap", "count"]), ["heap None 5", "heap (B) Bytes 115"]);
}

#[test]
fn metrics_follow_from_names_and_units() {
    let metrics_of = |kinds: &str| {
        let stacks = SAMPLED.replace("\"unit\": \"seconds\"", kinds).replace("0.01, 0.005, 0.02, 0.1", "10, 5, 20, 1");
        text(&read("a.json", stacks.as_bytes()))
    };
    assert!(
        metrics_of("\"unit\": \"bytes\"")
            .contains(CallMetric::Allocated.name(&stackline_model::StringTable::default()))
    );
    assert!(metrics_of("\"unit\": \"none\"").contains("samples"));
}
