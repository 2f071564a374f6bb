//! Flipped bits in compressed traces: garbage must not extend the window.

use crate::common;
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::Trace;
use stackline_testkit::damage;

fn length(trace: &Trace) -> i64 {
    trace.span().map_or(0, |(start, end)| end - start)
}

/// Files that are large enough to have data left after damage.
const TRACES: &[&str] =
    &["amd-mi300-normalization", "nvidia-h100-qwen1.5-0.5b", "nvidia-h100-bert-small", "no-gpu-rank"];

#[test]
fn garbled_times_do_not_extend_the_window() {
    let kind = damage::kind("corrupt-gzip").unwrap();
    let (mut read, mut right, mut reported, mut short) = (0, 0, 0, 0);
    for path in common::kineto() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !TRACES.iter().any(|t| name.starts_with(t)) {
            continue;
        }
        let text = common::text(&path);
        let whole = length(&read_bytes(&name, &text, &ReadOptions::default()).unwrap());
        for seed in 100..112 {
            let bytes = damage::apply(kind, &text, seed);
            let Ok(trace) = read_bytes(&name, &bytes, &ReadOptions::default()) else { continue };
            read += 1;
            let uncertain = trace.report.count_of("uncertain_window") > 0;
            let is_long = length(&trace) > 2 * whole;
            let is_short = 2 * length(&trace) < whole;
            assert!(!is_long || uncertain, "{name} {seed}: {} of {whole} ns: {:?}", length(&trace), trace.report);
            // Lost data is reported.
            let is_lost = trace.report.count_of("damaged_compression") > 0;
            assert!(!is_short || is_lost, "{name} {seed}: {} of {whole} ns", length(&trace));
            right += usize::from(!is_long && !is_short);
            short += usize::from(is_short);
            reported += usize::from(is_long);
        }
    }
    println!(
        "{read} damaged files: {right} windows within a factor of 2, {short} too short, {reported} too long and said so"
    );
    assert!(right * 10 >= read * 5 || common::corpus().is_none(), "{right} of {read}");
}

#[test]
fn truncated_files_are_not_called_garbled() {
    let kind = damage::kind("truncated-gzip").unwrap();
    for path in common::kineto() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !TRACES.iter().any(|t| name.starts_with(t)) {
            continue;
        }
        let text = common::text(&path);
        for seed in 0..10 {
            if let Ok(trace) = read_bytes(&name, &damage::apply(kind, &text, seed), &ReadOptions::default()) {
                let codes = ["garbled_time", "uncertain_window"].map(|code| trace.report.count_of(code));
                assert_eq!(codes, [0, 0], "{name} {seed}: {:?}", trace.report);
            }
        }
    }
}
