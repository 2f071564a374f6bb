//! Traces recorded on an H100 (`fixtures/traces-h100`), with values that Python computes from the files.

use stackline_critical_path::exact::{Exact, WindowChoice};
use stackline_findings::{Findings, Options, Support, find};
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::Trace;
use stackline_timeline::Scope;
use stackline_timeline::confidence::Confidence;
use stackline_timeline::steps::StepSelection;
use std::io::Read as _;
use std::path::Path;

fn fixture(name: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/traces-h100").join(name);
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_end(&mut text).unwrap();
    read_bytes(name, &text, &ReadOptions::default()).unwrap()
}

fn findings(trace: &Trace) -> Findings {
    find(trace, &Options::default()).unwrap()
}

/// The GPU is 330 ms behind when the recording begins. The whole file has the same times, and kernels of 530.4 ms in each step.
#[test]
fn full_launch_queue_does_not_lengthen_steps() {
    let trace = fixture("full-launch-queue.json.gz");
    let exact = Exact::new(&trace);
    let length = |scope: &Scope| {
        let selection = StepSelection::select(&trace, scope);
        let (start, end) = selection.window(&trace).unwrap();
        let path = exact.path(&selection.choice).unwrap();
        assert_eq!((path.window.start, path.window.end), (start, end), "the path's window is the steps'");
        assert_eq!(path.segments.iter().map(|segment| segment.end - segment.start).sum::<i64>(), end - start);
        end - start
    };
    assert_eq!(length(&Scope::from_steps(Some((3, 3)))), 533_306_782);
    assert_eq!(length(&Scope::from_steps(Some((4, 4)))), 533_273_437);
    assert_eq!(length(&Scope::default()), 533_306_782 + 533_273_437);
    let found = findings(&trace);
    assert_eq!((found.steps, found.step_ns), (2, (533_306_782 + 533_273_437) / 2));
}

/// `float(value)` waits for the copy that threads of XLA's pool start meanwhile.
#[test]
fn jax_waits_for_value_reads() {
    let trace = fixture("jax-train.trace.json.gz");
    let exact = Exact::new(&trace);
    let base = trace.events.ids().map(|e| trace.events.start[e.index()]).min().unwrap();
    let path = exact.path(&WindowChoice::Whole).unwrap();
    // In each of the five steps the path goes back from the read to the end of its copy.
    let returns: Vec<i64> = path
        .segments
        .iter()
        .filter(|segment| segment.category.name() == "gpu_copy")
        .map(|segment| segment.end - base)
        .collect();
    assert_eq!(returns, [15_513_961, 17_410_459, 18_714_430, 20_047_522, 21_127_967]);
}

#[test]
fn jax_programs_get_jax_advice() {
    let (train, eager) = (fixture("jax-train.trace.json.gz"), fixture("jax-eager.trace.json.gz"));
    for trace in [&train, &eager] {
        for finding in findings(trace).findings {
            let rule = &finding.rule;
            assert!(!rule.advice.contains("torch"), "{}: {}", rule.code, rule.advice);
        }
    }
    let found = findings(&train).findings;
    let of = |code: &str| found.iter().find(|f| f.rule.code == code).unwrap();
    let advice = &of("SL012").rule.advice;
    assert!(advice.contains("jax.jit"), "{advice}");
    let read = of("SL004");
    assert!(read.title.starts_with("np.asarray(jax.Array) waits for the GPU in each step"), "{}", read.title);
    assert_eq!((read.support, read.confidence), (Support::Inferred, Confidence::Medium));
    // What the program called; JAX's own wrapper is within it.
    assert_eq!(read.place.text(), "array.py:293 in __float__");
}

/// `x = jax.nn.gelu(x @ weight)` is line 23 of the program, the update of the weights line 29; cuBLAS' kernels in a graph have no names of XLA.
#[test]
fn lines_of_a_compiled_step() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/profiles-h100/jax-train.xplane.pb.gz");
    let set = stackline_ingest::read_paths(&[path], &ReadOptions::default()).unwrap();
    let trace = &set.traces[0];
    let analysis = stackline_analyze::analyses::find("gpu_lines").unwrap();
    let table = (analysis.run)(trace, &Scope { whole: true, ..Scope::default() }).remove(0);
    let texts = |name: &str| match &table.column(name).unwrap().values {
        stackline_model::Values::Str(texts) => texts.clone(),
        other => panic!("{other:?}"),
    };
    let numbers = |name: &str| match &table.column(name).unwrap().values {
        stackline_model::Values::I64(numbers) => numbers.iter().map(|n| n.unwrap()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let file = "/srv/train/benches/gpu/jax_programs.py";
    let lines: Vec<Option<String>> = texts("line").into_iter().map(|l| Some(l?.replace(file, ""))).collect();
    let lines: Vec<Option<&str>> = lines.iter().map(Option::as_deref).collect();
    let expected = [
        Some(":23 in train.<locals>.loss"),
        None,
        Some(":29 in train.<locals>.step"),
        Some(":24 in train.<locals>.loss"),
    ];
    assert_eq!(lines, expected);
    assert_eq!(numbers("count"), [150, 45, 40, 15]);
    let all: i64 = trace.gpu.event.iter().map(|e| trace.events.dur[e.index()]).sum();
    assert_eq!(numbers("total_ns").iter().sum::<i64>(), all);
    // Findings about such a kernel name the same line.
    let fusion = trace.events.ids().find(|&e| trace.name(e) == "gemm_fusion_dot_8").unwrap();
    let place = stackline_timeline::source_location::source_location_of(trace, fusion);
    assert_eq!((place.line, place.function.as_deref()), (Some(23), Some("train.<locals>.loss")));
}
