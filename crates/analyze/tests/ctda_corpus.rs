//! Method "ctda" over real traces: coverage where threads depend on each other, agreement with HTA where they do not, and
//! invariants of any trace.

use crate::support::read_file;
use stackline_critical_path::ctda;
use stackline_critical_path::ctda::{CtdaEdgeKind, CtdaOptions, CtdaPath};
use stackline_critical_path::hta;
use stackline_critical_path::hta::HtaOptions;
use stackline_model::Trace;
use stackline_testkit::corpus;

/// Traces of training with an autograd thread, and the least coverage that the method must reach on them.
const TRAINING: &[&str] = &[
    "amd-mi250-toy-train",
    "amd-mi300-normalization",
    "amd-mi300-resnet-ddp-checkpointing",
    "nvidia-2080ti-linear",
    "nvidia-a100-ddp-nccl",
    "schema-2020-bare-array-resnet50",
    "schema-2021-v100-resnet50",
];
const MIN_COVERAGE: f64 = 0.9;

/// Of these HTA's path happens to cover more, since all their work is on the host and dense.
const HTA_COVERS_MORE: &[&str] = &["schema-2020-bare-array-resnet50", "schema-2021-v100-resnet50"];

/// Traces in which only one thread works.
const ONE_THREAD: &[&str] = &[
    "nvidia-a100-alexnet-cuda-sync",
    "nvidia-a100-simple-add-cuda-sync",
    "nvidia-a100-simple-add-et-pair",
    "nvidia-a100-event-sync",
    "nvidia-a100-event-sync-multi-stream",
];
const TOP: usize = 20;

fn trace(name: &str) -> Option<Trace> {
    Some(read_file(&corpus::folder()?.join(format!("kineto/{name}.json.gz"))))
}

fn analyze(trace: &Trace) -> CtdaPath {
    ctda::analyze(trace, &CtdaOptions::default()).unwrap()
}

#[test]
fn training_across_threads_is_covered() {
    for name in TRAINING {
        let Some(trace) = trace(name) else { return };
        let (ours, theirs) = (analyze(&trace), hta::analyze(&trace, &HtaOptions::default()).unwrap());
        let hta = theirs.path.weight_us * 1e3 / theirs.window_ns() as f64;
        println!("{name}: ctda {:.3}, hta {hta:.3}", ours.cpcr());
        assert!(ours.cpcr() >= MIN_COVERAGE, "{name}: {}", ours.cpcr());
        assert!(ours.cpcr() > hta || HTA_COVERS_MORE.contains(name), "{name}: HTA covers {hta}");
        // The GPU's time is dense enough in one of them that the path stays on it.
        let crosses = ours.graph.edges.iter().any(|e| e.kind == CtdaEdgeKind::CrossThread);
        assert!(crosses, "{name} has an autograd thread");
        assert!(ours.graph.nodes.len() * 2 < theirs.graph.nodes.len(), "{name}: the graph is smaller than HTA's");
    }
}

#[test]
fn single_thread_hotspots_agree_with_hta() {
    for name in ONE_THREAD {
        let Some(trace) = trace(name) else { return };
        let (ours, theirs) = (analyze(&trace), hta::analyze(&trace, &HtaOptions::default()).unwrap());
        let theirs: Vec<String> = theirs.top_names().into_iter().take(TOP).map(|s| s.name).collect();
        // HTA gives annotations no time.
        let hotspots = ours.hotspots().into_iter().filter(|h| h.category != "user_annotation");
        let common = hotspots.take(theirs.len()).filter(|h| theirs.contains(&h.name)).count();
        println!("{name}: {common} of {} names in common", theirs.len());
        assert!(common * 20 >= theirs.len() * 17, "{name}: {common} of {}", theirs.len());
    }
}

#[test]
fn every_trace_gives_a_valid_path_or_an_error() {
    for file in corpus::files("kineto") {
        let trace = read_file(&file);
        let name = file.display();
        let path = match ctda::analyze(&trace, &CtdaOptions::default()) {
            Ok(path) => path,
            Err(reason) => {
                println!("{name}: {reason}");
                continue;
            }
        };
        assert!((0.0..=1.0).contains(&path.cpcr()), "{name}: {}", path.cpcr());
        assert!(path.steps.windows(2).all(|s| s[0].to_ns <= s[1].from_ns), "{name}: steps overlap");
        assert!(path.steps.iter().all(|s| s.from_ns <= s.to_ns), "{name}: a step ends before it starts");
        let spots: i64 = path.hotspots().iter().map(|h| h.duration_ns).sum();
        let phases: i64 = path.phases().iter().map(|p| p.1).sum();
        assert_eq!((spots, phases), (path.executed_ns(), path.executed_ns()), "{name}");
        let same = path.apply(&[]);
        let moved = path.graph.nodes.iter().zip(&same.graph.nodes).find(|(a, b)| a != b);
        assert!(moved.is_none(), "{name}: a what-if without edits moves {moved:?}");
        let moved = path.graph.edges.iter().zip(&same.graph.edges).find(|(a, b)| a != b);
        assert!(moved.is_none(), "{name}: a what-if without edits moves {moved:?}");
        assert!(same == path, "{name}: a what-if without edits moves something");
        for node in &path.graph.nodes {
            let pieces = path.graph.pieces_of(node);
            assert!(pieces.iter().all(|p| p.start_ns < p.end_ns), "{name}: an empty piece");
            assert!(pieces.windows(2).all(|p| p[0].end_ns <= p[1].start_ns), "{name}: pieces overlap");
        }
    }
}

#[test]
fn steps_and_annotations_choose_the_window() {
    let Some(trace) = trace("nvidia-a100-ddp-nccl") else { return };
    for step in &trace.steps {
        let options = CtdaOptions { steps: Some((step.number, step.number)), ..CtdaOptions::default() };
        let by_number = ctda::analyze(&trace, &options).unwrap();
        assert_eq!(by_number.window_ns(), step.end - step.start);
        let annotation = format!("ProfilerStep#{}", step.number);
        let by_name = ctda::analyze(&trace, &CtdaOptions { annotation, ..CtdaOptions::default() }).unwrap();
        assert_eq!((by_name.window_ns(), by_name.steps), (by_number.window_ns(), by_number.steps));
        println!("step {}: {:.3}", step.number, by_number.graph.nodes.len());
    }
}
