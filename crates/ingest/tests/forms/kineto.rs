//! What Kineto's writers of five years have in common, and the snapshot of one small trace as a whole.

use crate::dump::{arrows, backward, codes, gpu, lines, read};

/// One training step in small, as PyTorch's profiler writes it.
pub(crate) const STEP: &str = r#"{
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "computeMinor": 0}],
  "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2},
  "baseTimeNanoseconds": 1718000000000000000,
  "traceEvents": [
  {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "ts": 10, "args": {"name": "python3"}},
  {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 10, "args": {"labels": "GPU 0"}},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#5", "pid": 100, "tid": 100, "ts": 10.000, "dur": 90.000},
  {"ph": "X", "cat": "python_function", "name": "nn.Module: Linear_0", "pid": 100, "tid": 100, "ts": 11, "dur": 30,
   "args": {"Python id": 1, "Python parent id": null, "Python module id": 0}},
  {"ph": "X", "cat": "python_function", "name": "torch/nn/functional.py(12): linear", "pid": 100, "tid": 100, "ts": 12, "dur": 28},
  {"ph": "X", "cat": "user_annotation", "name": "forward", "pid": 100, "tid": 100, "ts": 12.5, "dur": 27},
  {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 100, "tid": 100, "ts": 13.001, "dur": 20.5,
   "args": {"External id": 7, "Sequence number": 40, "Fwd thread id": 0, "Input Dims": [[8, 4], [4, 4], []]}},
  {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 100, "tid": 100, "ts": 14, "dur": 15,
   "args": {"External id": 8, "Sequence number": 40, "Fwd thread id": 0}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 100, "ts": 20, "dur": 5,
   "args": {"correlation": 55, "External id": 8}},
  {"ph": "s", "id": 55, "pid": 100, "tid": 100, "ts": 20, "cat": "ac2g", "name": "ac2g"},
  {"ph": "f", "id": 55, "pid": 0, "tid": 7, "ts": 30, "cat": "ac2g", "name": "ac2g", "bp": "e"},
  {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 30, "dur": 12.25,
   "args": {"External id": 8, "device": 0, "stream": 7, "correlation": 55, "grid": [2, 1, 1], "est. achieved occupancy %": 31}},
  {"ph": "X", "cat": "gpu_user_annotation", "name": "forward", "pid": 0, "tid": 7, "ts": 30, "dur": 12.25},
  {"ph": "X", "cat": "cpu_op", "name": "AddmmBackward0", "pid": 100, "tid": 200, "ts": 60, "dur": 20,
   "args": {"External id": 9, "Sequence number": 40, "Fwd thread id": 1}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 100, "tid": 200, "ts": 62, "dur": 5, "args": {"correlation": 56}},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD", "pid": 0, "tid": 7, "ts": 70, "dur": 2,
   "args": {"device": 0, "stream": 7, "correlation": 56, "bytes": 4096}},
  {"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 7, "ts": 72, "dur": 3, "args": {"stream": 7, "device": 0}},
  {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 100, "ts": 21, "s": "t", "args": {"Bytes": 512}},
  {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 9, "dur": 100},
  {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 110, "s": "g"}
  ],
  "traceName": "rank1.json"
}"#;

#[test]
fn chrome_one_step_as_a_whole() {
    let trace = read(STEP);
    let meta = &trace.meta;
    let mut picture =
        vec![format!("{} rank {:?} of {:?}, base {}", meta.format, meta.rank, meta.world_size, meta.base_ns)];
    let mut section = |title: &str, lines: Vec<String>| {
        picture.push(format!("\n{title}"));
        picture.extend(lines);
    };
    section("events", lines(&trace));
    section("gpu", gpu(&trace));
    section("forward -> backward", backward(&trace));
    section("arrows", arrows(&trace));
    section("problems", codes(&trace));
    insta::assert_snapshot!(picture.join("\n"));
}

#[test]
fn the_same_arrows_in_and_out_of_order() {
    let Some(corpus) = crate::common::corpus() else { return };
    let links = |name: &str| {
        let text = std::fs::read_to_string(corpus.join("kineto").join(name)).unwrap();
        let trace = read(&text);
        let named = |op: &str| op.split_once("::").map_or(op, |(_, rest)| rest).to_owned();
        let mut pairs: Vec<(String, String)> =
            trace.flows.iter().map(|(from, to, _)| (named(trace.name(from)), named(trace.name(to)))).collect();
        pairs.sort();
        (pairs, backward(&trace), gpu(&trace))
    };
    let (in_order, out_of_order) = (links("flow-in-order.json"), links("flow-out-of-order.json"));
    assert_eq!(in_order, out_of_order);
    assert!(in_order.2.iter().any(|row| !row.contains("launch=-")), "{in_order:?}");
}

#[test]
fn every_prefix_gives_the_rows_before_the_cut() {
    let whole = lines(&read(STEP));
    // Every prefix is a truncated file: it ends with rows of the whole one, in order, and says that it was cut.
    let list = STEP.find("\"traceEvents\": [").unwrap() + 16;
    let behind = STEP.find("],\n  \"traceName\"").unwrap();
    for end in (list..STEP.len()).step_by(7) {
        let Some(prefix) = STEP.get(..end) else { continue };
        let trace = read(prefix);
        assert!(trace.report.count_of("truncated") == 1, "{end}: {:?}", codes(&trace));
        let names = |rows: &[String]| rows.iter().map(|r| r.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>();
        let rows = names(&lines(&trace));
        assert_eq!(rows, names(&whole)[..rows.len()], "cut at {end}");
        assert!(end < behind || rows.len() == whole.len());
    }
}
