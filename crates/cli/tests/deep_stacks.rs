//! Exports and comparisons of a profile whose stack has 100,000 frames: no recursion, and no quadratic time.

use crate::common;

use common::{stdout, write};
use serde_json::Value;
use stackline_testkit::mini;
use std::path::Path;
use std::time::{Duration, Instant};

const DEPTH: usize = 100_000;

/// A profile of speedscope with one stack of all frames, for so many ns, and one of the first two, for 3 ns.
fn profile(folder: &Path, name: &str, ns: u64) -> String {
    let frames: Vec<String> = (0..DEPTH).map(|at| format!(r#"{{"name": "f{at}"}}"#)).collect();
    let stack: Vec<String> = (0..DEPTH).map(|at| at.to_string()).collect();
    let (frames, stack, end) = (frames.join(","), stack.join(","), ns + 3);
    let text = format!(
        r#"{{"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {{"frames": [{frames}]}},
        "profiles": [{{"type": "sampled", "name": "main", "unit": "nanoseconds", "startValue": 0, "endValue": {end},
        "samples": [[{stack}], [0, 1]], "weights": [{ns}, 3]}}]}}"#
    );
    write(folder, name, text)
}

/// Output of a command that takes a second or two, where quadratic time would be minutes.
fn linear(args: &[&str]) -> String {
    let start = Instant::now();
    let output = stdout(args);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(30), "{args:?} took {took:?}");
    output
}

#[test]
fn deep_stacks_are_exported() {
    let folder = tempfile::tempdir().unwrap();
    let file = profile(folder.path(), "deep.speedscope.json", 5);
    let graph = folder.path().join("deep.svg");
    linear(&["export", &file, "--to", "flamegraph", "-o", graph.to_str().unwrap()]);
    let graph = std::fs::read_to_string(graph).unwrap();
    // A box for each frame, and one for all.
    assert_eq!((graph.matches("<title>").count(), graph.matches(">f99999</text>").count()), (DEPTH + 1, 1));
    let collapsed = linear(&["export", &file, "--to", "collapsed"]);
    let lines: Vec<&str> = collapsed.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "f0;f1 3"));
    assert!(lines[1].ends_with(";f99998;f99999 5"), "{:?}", lines[1].get(lines[1].len() - 40..));
    assert_eq!(lines[1].matches(';').count(), DEPTH - 1);
    let packed = folder.path().join("deep.pb.gz");
    linear(&["export", &file, "--to", "pprof", "-o", packed.to_str().unwrap()]);
    assert_eq!(linear(&["export", packed.to_str().unwrap(), "--to", "collapsed"]), collapsed);
}

#[test]
fn deep_stacks_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (profile(folder.path(), "a.json", 5), profile(folder.path(), "b.json", 7));
    let document: Value = serde_json::from_str(&linear(&["diff", &before, &after, "--format", "json"])).unwrap();
    let rows = document["tables"]["paths"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 512, "one for each path of at most 512 frames");
    let times = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name);
        row.map(|row| (row["before_ns"].as_f64().unwrap(), row["after_ns"].as_f64().unwrap()))
    };
    assert_eq!((times("f0"), times("f0 > f1 > f2")), (Some((8.0, 10.0)), Some((5.0, 7.0))));
    let first: Vec<String> = (0..512).map(|at| format!("f{at}")).collect();
    assert_eq!(times(&first.join(" > ")), Some((5.0, 7.0)));
    let note = format!("Call paths of more than 512 frames ({}) have no rows", 2 * (DEPTH - 512));
    assert!(document["notes"].to_string().contains(&note), "{}", document["notes"]);
}

/// Nested spans of a trace are limited in the same way.
#[test]
fn deep_spans_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let spans: String = (0..600).map(|at| format!("1/1 user_annotation f{at} {at}..{}\n", 2000 - at)).collect();
    let file = write(folder.path(), "spans.json", mini::trace(&spans));
    let document: Value = serde_json::from_str(&stdout(&["diff", &file, &file, "--format", "json"])).unwrap();
    assert_eq!(document["tables"]["paths"]["rows"].as_array().map(Vec::len), Some(512));
    let note = "Call paths of more than 512 frames (176) have no rows";
    assert!(document["notes"].to_string().contains(note), "{}", document["notes"]);
}
