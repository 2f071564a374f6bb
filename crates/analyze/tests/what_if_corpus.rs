//! What-if over the corpus: replay without edits gives the observed times back, edits stay within reason.

use crate::support::for_each_small_trace;
use stackline_critical_path::exact::what_if;
use stackline_critical_path::exact::what_if::{Candidate, Edit, SweepOptions};
use stackline_critical_path::exact::{Exact, WindowChoice};

#[test]
fn replay_without_edits_gives_the_observed_times() {
    for_each_small_trace(|name, trace| {
        let exact = Exact::new(trace);
        let what_if = exact.what_if();
        let graph = exact.graph();
        let observed: Vec<(i64, i64)> = graph.start.iter().copied().zip(graph.end.iter().copied()).collect();
        assert!(what_if.replayed() == observed, "{name}");
        let Ok(prediction) = what_if.predict(&WindowChoice::Whole, &[]) else { return };
        assert_eq!(prediction.gain.likely_ns, 0, "{name}");
        assert_eq!((prediction.gain.low_ns, prediction.gain.high_ns), (0, 0), "{name}");
        // The path of the replay is that of the walk.
        let walked = exact.path(&WindowChoice::Whole).unwrap().by_category();
        assert_eq!(prediction.before.by_category, walked, "{name}");
        assert_eq!(prediction.after, prediction.before, "{name}");
    });
}

#[test]
fn steps_are_measured_between_their_ends() {
    for_each_small_trace(|name, trace| {
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
fn bounds_contain_the_prediction_and_sweeps_are_thread_independent() {
    for_each_small_trace(|name, trace| {
        let predict = |edits: &[Edit]| {
            let mut segments = Vec::new();
            let found = what_if::predict_in(Exact::new(trace), &WindowChoice::Whole, edits, Some(&mut segments));
            found.map(|found| (found, segments))
        };
        let sweep = |options: &SweepOptions| what_if::sweep(trace, &WindowChoice::Whole, options, &|| false);
        for text in ["scale kernel:* 0.5", "remove category:launch_latency", "scale kernel:* 2", "scale operator:* 0.5"]
        {
            let edit = Edit::parse(text).unwrap();
            match predict(&[edit]) {
                Ok((p, segments)) => {
                    let gain = p.gain;
                    assert!(gain.low_ns <= gain.likely_ns && gain.likely_ns <= gain.high_ns, "{name} {text} {gain:?}");
                    assert!(text.ends_with('2') || gain.likely_ns >= 0, "{name} {text} {gain:?}");
                    assert_eq!(p.after.by_category.iter().map(|(_, ns)| ns).sum::<i64>(), p.after_ns, "{name} {text}");
                    let (mut at, mut sums) = (0, p.after.by_category.map(|(category, _)| (category, 0)));
                    for segment in &segments {
                        assert!(segment.end_ns > at, "{name} {text}: {segment:?} after {at}");
                        sums[segment.category as usize].1 +=
                            segment.end_ns - std::mem::replace(&mut at, segment.end_ns);
                    }
                    assert_eq!((sums, at), (p.after.by_category, p.after_ns), "{name} {text}");
                }
                Err(error) => println!("{name}: {text}: {error}"),
            }
        }
        let options = SweepOptions { candidates: 30, threads: 2 };
        let Ok(found) = sweep(&options) else { return };
        let one = SweepOptions { threads: 1, ..options };
        let alone = sweep(&one).unwrap();
        assert_eq!(found, alone, "{name}");
        for candidate in found.candidates.iter().take(8) {
            let share = |ns: i64| 100.0 * ns as f64 / found.window_ns as f64;
            let Candidate { edit, gain, also, on_path_ns, .. } = candidate;
            let (gain, low, high, on) =
                (share(gain.likely_ns), share(gain.low_ns), share(gain.high_ns), share(*on_path_ns));
            println!(
                "{name}: {edit:.90} gains {gain:.1} % ({low:.1} to {high:.1}), on path {on:.1} %, also {also:.3?}"
            );
        }
    });
}

#[test]
fn interrupted_sweep_keeps_partial_results() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let text = stackline_testkit::demo::generate(&stackline_testkit::demo::Config { steps: 2, ..Default::default() });
    let trace = stackline_ingest::read_bytes("demo", text.as_bytes(), &Default::default()).unwrap();
    let exact = Exact::new(&trace);
    let what_if = exact.what_if();
    let options = SweepOptions { candidates: 30, threads: 1 };
    let checks = AtomicUsize::new(0);
    let count = || checks.fetch_add(1, Ordering::Relaxed) == usize::MAX;
    what_if.sweep(&WindowChoice::Whole, &options, &count).unwrap();
    let total_checks = checks.load(Ordering::Relaxed);
    // It is asked while an edit is tried, too: what was not finished does not count.
    checks.store(0, Ordering::Relaxed);
    let stop = || checks.fetch_add(1, Ordering::Relaxed) >= total_checks / 2;
    let sweep = what_if.sweep(&WindowChoice::Whole, &options, &stop).unwrap();
    assert!(sweep.tried > 0 && sweep.tried < sweep.planned, "{sweep:?}");
    assert!(!sweep.candidates.is_empty() && total_checks > 2 * sweep.planned, "{total_checks} {sweep:?}");
    let all = what_if.sweep(&WindowChoice::Whole, &options, &|| false).unwrap();
    assert!(all.candidates.iter().all(|c| !c.edit.ends_with(": 0.5") && !c.edit.contains(":  ")), "{all:?}");
}
