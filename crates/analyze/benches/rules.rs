//! CPU time of all rules beyond reading, next to its budget: `cargo bench -p stackline-analyze --bench rules`.
//!
//! Measured on the trace of `STACKLINE_BENCH_TRACE` (the SD3.5 trace of the corpus without it, where there is one) and on a synthetic
//! one of a million events. CPU time is that of the whole process, all threads together, as the kernel counts it (ticks of 10 ms); of
//! three runs the least.
#![allow(missing_docs, clippy::print_stdout, reason = "a program that prints figures")]

use stackline_findings as findings;
use stackline_findings::Options;
use stackline_ingest::{ReadOptions, read_bytes, read_paths};
use stackline_model::Trace;
use std::path::PathBuf;
use std::time::Instant;

/// A tick of the kernel's clock in seconds.
const TICK: f64 = 0.01;
const RUNS: usize = 3;
const EVENTS: u64 = 1_000_000;

/// CPU seconds of this process so far; none if the system does not report them.
fn cpu() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may hold spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    Some((ticks(11)? + ticks(12)?) * TICK)
}

/// Result of a call, and its CPU seconds (wall time if CPU time is not available).
fn timed<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let (begin, clock) = (cpu(), Instant::now());
    let result = run();
    let spent = begin.zip(cpu()).map(|(begin, end)| end - begin);
    (result, spent.unwrap_or_else(|| clock.elapsed().as_secs_f64()))
}

fn measure(name: &str, target: f64, read: impl FnOnce() -> Trace) {
    let (trace, reading) = timed(read);
    let once = || {
        let (found, seconds) = timed(|| findings::find(&trace, &Options::default()));
        (found.map_or(0, |found| found.findings.len()), seconds)
    };
    let runs: Vec<(usize, f64)> = (0..RUNS).map(|_| once()).collect();
    let least = runs.iter().map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min);
    let found = runs.first().map_or(0, |(found, _)| *found);
    let events = trace.events.len();
    let verdict = if least <= target { "within" } else { "beyond" };
    println!(
        "{name}: {events} events read in {reading:.2} s; {found} findings in {least:.2} CPU s, {verdict} the {target} s that it may take"
    );
}

/// The trace that is asked for, else that of the corpus.
fn real() -> Option<PathBuf> {
    let requested = std::env::var_os("STACKLINE_BENCH_TRACE").map(PathBuf::from);
    requested.or_else(|| stackline_testkit::corpus::file("kineto/amd-mi300-sd3.5-diffusion.json.gz"))
}

fn main() {
    match real() {
        Some(path) => measure("SD3.5", 0.6, || match read_paths(&[path], &ReadOptions::default()) {
            Ok(mut set) => set.traces.remove(0),
            Err(error) => panic!("{error}"),
        }),
        None => println!("no corpus: set STACKLINE_CORPUS, or STACKLINE_BENCH_TRACE to a trace"),
    }
    let demo = stackline_testkit::demo::generate(&stackline_testkit::demo::Config::default());
    let mut text = Vec::new();
    if let Err(error) = stackline_testkit::replicate::replicate(demo.as_bytes(), EVENTS, &mut text) {
        panic!("{error}");
    }
    measure("synthetic", 2.0, || match read_bytes("synthetic", &text, &ReadOptions::default()) {
        Ok(trace) => trace,
        Err(error) => panic!("{error}"),
    });
}
