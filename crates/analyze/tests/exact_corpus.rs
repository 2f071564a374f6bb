//! The exact critical path over the whole corpus: path = window, every operation in the graph, replay gives the
//! observed times back.

use rustc_hash::FxHashMap;
use stackline_critical_path::exact::{Category, Exact, WindowChoice};
use stackline_testkit::corpus;

/// Traces of whose path 5 % or more is unknown; docs/measurements.md says why.
const MOSTLY_UNKNOWN: &[&str] = &[
    "amd-mi210-gpu-only",
    "amd-mi300-sglang-decode-graph-replay",
    "amd-vllm-piecewise-graph-replay",
    "large-integers",
    "mtia-inference",
    "nvidia-a100-graph-launch-16-ranks",
    "old-category-names",
];

#[test]
fn path_length_equals_window_length() {
    for file in corpus::files("kineto") {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&file).unwrap();
        let trace = stackline_ingest::read_bytes(&name, &bytes, &Default::default()).unwrap();
        let exact = Exact::new(&trace);
        let Ok(path) = exact.path(&WindowChoice::Whole) else {
            println!("{name}: no path");
            continue;
        };
        assert_eq!(path.length_ns(), path.window.length_ns(), "{name}");
        let mut end = path.window.start;
        for segment in path.segments.iter() {
            assert!(segment.start == end && segment.end > end, "{name}: {segment:?} after {end}");
            end = segment.end;
        }
        assert_eq!(end, path.window.end, "{name}");
        // What the path needs to its last nanosecond cannot take longer.
        let slack: FxHashMap<u32, i64> =
            exact.event_slacks(path.window).iter().map(|row| (row.event, row.slack_ns)).collect();
        for segment in path.segments.iter().filter(|segment| segment.rule == "record") {
            let ends_there = trace.events.end(segment.event) == segment.end;
            let ns = slack[&trace.events.source_index[segment.event.index()]];
            assert!(!ends_there || ns == 0, "{name}: {} may take {ns} ns longer", trace.name(segment.event));
        }
        let total = path.window.length_ns() as f64;
        let shares: Vec<String> = path
            .by_category()
            .iter()
            .filter(|(_, ns)| *ns > 0)
            .map(|(c, ns)| format!("{} {:.1}", c.name(), 100.0 * *ns as f64 / total))
            .collect();
        println!(
            "{name}: {} nodes {} segments, inferred {:.1} %, cycles {}: {}",
            exact.graph().len(),
            path.segments.len(),
            100.0 * path.inferred_ns() as f64 / total,
            exact.graph().broken_cycles,
            shares.join(", ")
        );
        let unknown = 100.0 * path.by_category()[Category::Unknown as usize].1 as f64 / total;
        let is_listed = MOSTLY_UNKNOWN.iter().any(|listed| name.starts_with(listed));
        assert_eq!(unknown >= 5.0, is_listed, "{name}: {unknown:.1} % unknown");
    }
}
