//! What-if over the corpus: replay without edits gives the observed times back, edits stay within reason.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod corpus_support;

use corpus_support::for_each_trace;
use stackline_analyze::critical_path::exact::what_if::{Candidate, Edit, SweepOptions};
use stackline_analyze::critical_path::exact::{Exact, WindowChoice};

#[test]
fn replay_without_edits_gives_the_observed_times() {
    for_each_trace(|name, trace| {
        let exact = Exact::new(trace);
        let what_if = exact.what_if();
        let graph = exact.graph();
        let observed: Vec<(i64, i64)> = graph.start.iter().copied().zip(graph.end.iter().copied()).collect();
        assert!(what_if.replayed() == observed, "{name}");
        let Ok(prediction) = what_if.predict(&WindowChoice::Whole, &[]) else { return };
        assert_eq!(prediction.gain.ns, 0, "{name}");
        assert_eq!((prediction.gain.low_ns, prediction.gain.high_ns), (0, 0), "{name}");
        // The path of the replay is that of the walk.
        let walked = exact.path(&WindowChoice::Whole).unwrap().by_category();
        assert_eq!(prediction.before.by_category, walked, "{name}");
        assert_eq!(prediction.after, prediction.before, "{name}");
    });
}

#[test]
fn steps_are_measured_between_their_ends() {
    for_each_trace(|name, trace| {
        let exact = Exact::new(trace);
        let what_if = exact.what_if();
        for (number, window) in exact.step_windows() {
            let choice = WindowChoice::Steps(number, number);
            let prediction = what_if.predict(&choice, &[]).unwrap();
            assert_eq!(prediction.after_ns, prediction.before_ns(), "{name} {number}");
            if exact.window(&choice).unwrap() == window {
                assert_eq!(prediction.after.by_category, exact.path_of(window).by_category(), "{name} {number}");
            }
        }
    });
}

#[test]
fn bounds_hold_the_prediction_and_sweeps_do_not_depend_on_threads() {
    for_each_trace(|name, trace| {
        let exact = Exact::new(trace);
        let what_if = exact.what_if();
        for text in ["scale kernel:* 0.5", "remove category:launch_latency", "scale kernel:* 2", "scale operator:* 0.5"]
        {
            let edit = Edit::parse(text).unwrap();
            match what_if.predict(&WindowChoice::Whole, &[edit]) {
                Ok(p) => {
                    let gain = p.gain;
                    assert!(gain.low_ns <= gain.ns && gain.ns <= gain.high_ns, "{name} {text} {gain:?}");
                    assert!(text.ends_with('2') || gain.ns >= 0, "{name} {text} {gain:?}");
                    assert_eq!(p.after.by_category.iter().map(|(_, ns)| ns).sum::<i64>(), p.after_ns, "{name} {text}");
                }
                Err(error) => println!("{name}: {text}: {error}"),
            }
        }
        let options = SweepOptions { candidates: 30, threads: 2 };
        let Ok(sweep) = what_if.sweep(&WindowChoice::Whole, &options, &|| false) else { return };
        let one = SweepOptions { threads: 1, ..options };
        let alone = what_if.sweep(&WindowChoice::Whole, &one, &|| false).unwrap();
        assert_eq!(sweep, alone, "{name}");
        for candidate in sweep.candidates.iter().take(8) {
            let share = |ns: i64| 100.0 * ns as f64 / sweep.window_ns as f64;
            let Candidate { edit, gain, also, on_path_ns, .. } = candidate;
            let (gain, low, high, on) = (share(gain.ns), share(gain.low_ns), share(gain.high_ns), share(*on_path_ns));
            println!(
                "{name}: {edit:.90} gains {gain:.1} % ({low:.1} to {high:.1}), on path {on:.1} %, also {also:.3?}"
            );
        }
    });
}

#[test]
fn a_sweep_that_is_stopped_keeps_what_it_has() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let text = stackline_synth::demo::generate(&stackline_synth::demo::Config { steps: 2, ..Default::default() });
    let trace = stackline_ingest::read_bytes("demo", text.as_bytes(), &Default::default()).unwrap();
    let exact = Exact::new(&trace);
    let what_if = exact.what_if();
    let asked = AtomicUsize::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) >= 3;
    let options = SweepOptions { candidates: 30, threads: 1 };
    let sweep = what_if.sweep(&WindowChoice::Whole, &options, &stop).unwrap();
    assert_eq!(sweep.tried, 3);
    assert!(!sweep.candidates.is_empty() && sweep.planned > 3, "{sweep:?}");
    let all = what_if.sweep(&WindowChoice::Whole, &options, &|| false).unwrap();
    assert!(all.candidates.iter().all(|c| !c.edit.ends_with(": 0.5") && !c.edit.contains(":  ")), "{all:?}");
}
