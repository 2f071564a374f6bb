//! GPU operations whose records a file contains several times count once.

use crate::repairs::{list, read, x};
use stackline_model::EventKind;

fn launch(name: &str, at: i64, id: i64) -> String {
    x("cuda_runtime", name, (100, 1), (at, 5), &format!(r#""correlation":{id}"#))
}

fn kernel(name: &str, time: (i64, i64), id: i64, grid: i64) -> String {
    let args = format!(r#""device":0,"stream":7,"correlation":{id},"grid":[{grid},1,1]"#);
    x("kernel", name, (0, 7), time, &args)
}

/// Numbers of GPU operations and of left out records.
fn counts(parts: &[&[String]]) -> (usize, u64) {
    let trace = read(&list(&parts.concat()));
    (trace.gpu.len(), trace.report.count_of("duplicate_operation"))
}

#[test]
fn records_that_are_equal_in_every_field_count_once() {
    let calls = [launch("cudaLaunchKernel", 100, 1), launch("cudaLaunchKernel", 110, 2)];
    let work = [kernel("a", (120, 20), 1, 4), kernel("b", (150, 20), 2, 4)];
    assert_eq!(counts(&[&calls, &work]), (2, 0));
    assert_eq!(counts(&[&calls, &work, &work]), (2, 2));
    assert_eq!(counts(&[&calls, &work, &work, &work]), (2, 4));
    assert_eq!(counts(&[&calls, &work, &calls, &work]), (2, 2), "the whole file");
    assert_eq!(counts(&[&calls, &work, &work[1..]]), (2, 1), "a part of it");
    let trace = read(&list(&[&calls[..], &work[..], &work[1..]].concat()));
    let kinds =
        [EventKind::Kernel, EventKind::Other].map(|kind| trace.events.kind.iter().filter(|k| **k == kind).count());
    assert_eq!(kinds, [2, 1]);
    let problem = trace.report.problems.iter().find(|problem| problem.code == "duplicate_operation").unwrap();
    assert_eq!((&*problem.example, problem.offsets.len()), ("b", 1));
    assert_eq!(trace.report.count_of("stream_overlap"), 0);
}

#[test]
fn records_that_differ_count_each() {
    let (calls, work) = ([launch("cudaLaunchKernel", 100, 1)], [kernel("a", (120, 20), 1, 4)]);
    for other in [
        kernel("b", (120, 20), 1, 4),
        kernel("a", (121, 20), 1, 4),
        kernel("a", (120, 21), 1, 4),
        kernel("a", (120, 20), 2, 4),
        kernel("a", (120, 20), 1, 8),
    ] {
        assert_eq!(counts(&[&calls, &work, std::slice::from_ref(&other)]), (2, 0), "{other}");
    }
    let unlinked = [kernel("a", (120, 20), 0, 4)];
    assert_eq!(counts(&[&calls, &unlinked, &unlinked]), (2, 0), "nothing shows that it is the same operation");
}

#[test]
fn parallel_nodes_of_a_graph_are_no_duplicates() {
    let call = [launch("cudaGraphLaunch", 100, 1)];
    let (nodes, last) = ([kernel("a", (120, 20), 1, 4)], [kernel("b", (150, 20), 1, 4)]);
    assert_eq!(counts(&[&call, &nodes, &nodes, &last]), (3, 0));
    assert_eq!(counts(&[&call, &nodes, &last, &nodes, &last]), (2, 2), "the whole graph");
}
