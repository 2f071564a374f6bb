//! Impossible GPU times, overlaps on one stream, clocks that differ, crossing spans.

use crate::forms::dump::{codes, lines, read, read_with};
use stackline_ingest::ReadOptions;
use stackline_testkit::mini;

fn host(name: &str, ts: f64, dur: f64) -> String {
    format!("1/1 cpu_op {name} {ts}+{dur}")
}

fn kernel(name: &str, ts: f64, dur: f64) -> String {
    format!("0/7 kernel {name} {ts}+{dur}")
}

fn on(device: &str, lines: &[String]) -> String {
    mini::trace(&format!("file deviceProperties=[{device}]\n{}", lines.join("\n")))
}

const A100: &str = r#"{"id": 0, "name": "NVIDIA A100", "computeMajor": 8}"#;
const B200: &str = r#"{"id": 0, "name": "NVIDIA B200", "computeMajor": 10}"#;
const MI300: &str = r#"{"id": 0, "name": "AMD Instinct MI300X", "computeMajor": 9}"#;

#[test]
fn implausible_gpu_times_are_excluded() {
    let second = 1e6;
    let json = on(
        A100,
        &[
            host("op", 100.0 * second, second),
            kernel("fine", 100.5 * second, 10.0),
            kernel("zero", 0.0, 5.0),
            kernel("before", 90.0 * second, 5.0),
            kernel("endless", 100.5 * second + 20.0, 1e12),
            kernel("a bit early", 99.5 * second, 5.0),
        ],
    );
    let trace = read(&json);
    let marked: Vec<String> = lines(&trace).into_iter().filter(|l| l.contains("implausible")).collect();
    let expected = [
        "zero kernel stream:0/7 0+5000 implausible",
        "before kernel stream:0/7 90000000000+5000 implausible",
        "endless kernel stream:0/7 100500020000+1000000000000000 implausible",
    ];
    assert_eq!(marked, expected);
    assert_eq!(trace.report.count_of("implausible_time"), 3);
    assert_eq!(trace.span(), Some((99_500_000_000, 101_000_000_000)));
    // Without CPU events no comparison is possible.
    assert_eq!(
        read(&on(A100, &[kernel("zero", 0.0, 5.0), kernel("late", 1e9, 5.0)])).report.count_of("implausible_time"),
        0
    );
}

/// Codes of two kernels on one stream that overlap by `micros`.
fn overlap(device: &str, micros: f64) -> Vec<String> {
    let records = [host("op", 0.0, 100.0), kernel("a", 10.0, 10.0 + micros), kernel("b", 20.0, 50.0)];
    codes(&read(&on(device, &records))).into_iter().filter(|c| c != "no_launch*2").collect()
}

#[test]
fn overlaps_are_classified() {
    assert!(overlap(A100, 0.0).is_empty());
    assert!(overlap(A100, -1.0).is_empty());
    assert_eq!(overlap(A100, 0.5), ["stream_overlap_noise"]);
    assert_eq!(overlap(A100, 3.0), ["stream_overlap"]);
    assert_eq!(overlap(MI300, 2.9), ["stream_overlap_noise"]);
    assert_eq!(overlap(B200, 2.9), ["stream_overlap_dependent_launch"]);
    assert_eq!(overlap(B200, 29.0), ["stream_overlap_dependent_launch"]);
    assert_eq!(overlap(B200, 40.0), ["stream_overlap"]);
}

#[test]
fn clipped_overlaps_are_counted() {
    let clipped = |device: &str, dur: f64| {
        let records = [host("op", 0.0, 100.0), kernel("a", 10.0, dur), kernel("b", 20.0, 50.0)];
        let options = ReadOptions { clip_overlaps: true, ..ReadOptions::default() };
        let trace = read_with(&on(device, &records), &options);
        (trace.events.dur[1], trace.report.count_of("clipped_overlap"))
    };
    assert_eq!(clipped(A100, 35.0), (10_000, 1));
    assert_eq!(clipped(A100, 9.0), (9_000, 0));
    // Dependent launches overlap by design.
    assert_eq!(clipped(B200, 13.0), (13_000, 0));
    assert_eq!(clipped(B200, 60.0), (10_000, 1));
    // Without the option, no time is changed.
    let trace = read(&on(A100, &[host("op", 0.0, 100.0), kernel("a", 10.0, 35.0), kernel("b", 20.0, 50.0)]));
    assert_eq!((trace.events.dur[1], trace.report.count_of("clipped_overlap")), (35_000, 0));
}

#[test]
fn spans_overlap_once_with_each_later_operation() {
    let records = [host("op", 0.0, 100.0), kernel("long", 10.0, 80.0), kernel("b", 20.0, 5.0), kernel("c", 40.0, 5.0)];
    // Each operation is compared with the end of all earlier ones, not only with that of its neighbor.
    assert_eq!(read(&on(A100, &records)).report.count_of("stream_overlap"), 2);
}

/// Codes of a stream of short kernels, of which the first ones last much longer than all.
fn covering(long: usize, later: usize, one_launch: bool) -> Vec<String> {
    let args = |i: usize| if one_launch { 1 } else { i + 1 };
    let records = (0..long + later).map(|i| {
        let (ts, dur, correlation) = (10 + 10 * i, if i < long { 5000 } else { 8 }, args(i));
        format!("0/7 kernel k{i} {ts}+{dur} correlation={correlation} stream=7")
    });
    let records: Vec<String> = std::iter::once(host("op", 0.0, 900.0)).chain(records).collect();
    let trace = read(&on(A100, &records));
    let marked = lines(&trace).into_iter().filter(|line| line.contains("implausible")).count() as u64;
    assert_eq!(marked, trace.report.count_of("implausible_length"));
    codes(&trace).into_iter().filter(|code| !code.starts_with("no_launch")).collect()
}

#[test]
fn operations_that_cover_many_later_ones_are_excluded() {
    assert_eq!(covering(1, 16, false), ["implausible_length"]);
    assert_eq!(covering(1, 15, false), ["stream_overlap*15"]);
    assert_eq!(covering(4, 16, false), ["implausible_length*4"]);
    // Kernels of one graph, and tracks that are not streams.
    assert_eq!(covering(1, 40, true), ["stream_overlap*40"]);
    // More of them count if they end long after all other events.
    assert_eq!(covering(5, 16, false), ["implausible_length*5"]);
}

/// A kernel with the correlation ID `id`.
fn numbered(name: &str, ts: usize, dur: usize, id: usize) -> String {
    format!("0/7 kernel {name} {ts}+{dur} correlation={id} stream=7 device=0")
}

/// Codes of a stream within one second of an operator.
fn codes_in_second(records: Vec<String>) -> Vec<String> {
    let records: Vec<String> = std::iter::once(host("op", 0.0, 1e6)).chain(records).collect();
    codes(&read(&on(A100, &records))).into_iter().filter(|code| !code.starts_with("no_launch")).collect()
}

#[test]
fn wrong_lengths_are_excluded_whatever_their_share() {
    // One in three of the kernels of a stream that otherwise runs in order.
    let wrong = |i: usize| i < 60 && i.is_multiple_of(2);
    let records = (0..90).map(|i| {
        let dur = if wrong(i) { 50_000 + i } else { 8 };
        numbered(["a", "b", "c"][i % 3], 10 + 10 * i, dur, i + 1)
    });
    assert_eq!(codes_in_second(records.collect()), ["implausible_length*30"]);
}

#[test]
fn lengths_beyond_the_return_of_a_wait_are_excluded() {
    let launch = |i: usize| {
        let call = format!("1/1 cuda_runtime cudaLaunchKernel {}+2 correlation={}", 10 + 10 * i, i + 1);
        [call, numbered(&format!("k{i}"), 14 + 10 * i, if i < 5 { 5000 } else { 6 }, i + 1)]
    };
    let with_wait = |returned: usize| {
        let wait = format!("1/1 cuda_runtime cudaDeviceSynchronize 310+{} correlation=99", returned - 310);
        let found = codes_in_second((0..30).flat_map(launch).chain([wait]).collect());
        found.into_iter().filter(|code| code.starts_with("implausible")).collect::<Vec<_>>()
    };
    assert_eq!(with_wait(400), ["implausible_length*5"]);
    assert!(with_wait(6000).is_empty());
}

#[test]
fn long_operations_of_concurrent_streams_are_kept() {
    // Two sequences of operations, one of them with long operations only.
    let short = (0..300).map(|i| numbered(["a", "b"][i % 2], 10 + 10 * i, 8, i + 1));
    let long = (0..10).map(|i| numbered("all_reduce", 12 + 300 * i, 250, 1000 + i));
    let found = codes_in_second(short.chain(long).collect());
    assert!(found.iter().all(|code| code.starts_with("stream_overlap")), "{found:?}");
    assert!(!found.is_empty());
}

#[test]
fn kernels_before_their_launch_reveal_clock_offsets() {
    let call = "1/1 cuda_runtime cudaLaunchKernel 20+5 correlation=1".to_owned();
    let trace = read(&on(A100, &[call, "0/7 kernel k 15+2 correlation=1 stream=7".to_owned()]));
    assert_eq!(codes(&trace), ["kernel_before_launch"]);
    assert_eq!((trace.events.start[1], trace.events.dur[1]), (15_000, 2_000));
    assert!(trace.report.is_clean());
}

#[test]
fn crossing_spans_keep_their_times_and_get_one_parent() {
    let json = on(
        A100,
        &[host("enter", 0.0, 10.0), host("opened", 8.0, 92.0), host("in it", 20.0, 5.0), host("out", 99.0, 3.0)],
    );
    let trace = read(&json);
    let rows = [
        "enter operator thread:1/1 0+10000",
        "opened operator thread:1/1 8000+92000 crossing",
        "in it operator thread:1/1 20000+5000 in opened",
        "out operator thread:1/1 99000+3000 crossing",
    ];
    assert_eq!(lines(&trace), rows);
    assert_eq!(codes(&trace), ["crossing*2"]);
}
