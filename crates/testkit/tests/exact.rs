//! The exact method compared with ground truth: time per cause, to the ns.

use stackline_critical_path::exact::{Category, Exact, PathSegment, PathSegments, WindowChoice};
use stackline_critical_path::gpu_order::Evidence;
use stackline_testkit::simulator::{Claim, Damage, Profile, Truth, simulate};
use std::collections::BTreeMap;

/// Number of programs, by default or from the environment.
fn programs() -> u64 {
    std::env::var("STACKLINE_SIM_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

#[test]
fn time_per_cause_equals_the_ground_truth() {
    let mut wrong = Vec::new();
    for seed in 0..programs() {
        let run = simulate(seed, &Profile::any(seed));
        let trace = stackline_ingest::read_bytes("t.json", run.json().as_bytes(), &Default::default()).unwrap();
        let exact = Exact::new(&trace);
        let mut compare = |window: WindowChoice, truth: &Truth| {
            let path = exact.path(&window).unwrap();
            let sums = path.by_category().into_iter().filter(|(_, ns)| *ns > 0).map(|(c, ns)| (c.name(), ns));
            let found: BTreeMap<&str, i64> = sums.collect();
            if found != truth.bound_by_ns {
                wrong.push(seed);
                if wrong.len() <= 3 {
                    println!(
                        "seed {seed} {window:?} {:?}\n  found {found:?}\n  truth {:?}",
                        Profile::any(seed),
                        truth.bound_by_ns
                    );
                }
            }
        };
        compare(WindowChoice::Whole, run.truth());
        for step in run.steps() {
            compare(WindowChoice::Annotation { text: step.name.clone(), instances: (0, 0) }, &step.truth);
        }
    }
    println!("{} windows of {} programs wrong: {:?}", wrong.len(), programs(), &wrong[..wrong.len().min(40)]);
    assert!(wrong.is_empty());
}

/// Claims about damaged traces, summed over programs.
#[derive(Default)]
struct Claims {
    edges: u64,
    wrong_edges: u64,
    host: u64,
    wrong_host: u64,
    window_ns: i64,
    inferred_ns: i64,
    unknown_ns: i64,
}

/// Adjacent segments of one thread with one cause are one claim: releases of other activities in between don't
/// matter.
fn merged(segments: &PathSegments) -> Vec<PathSegment> {
    let mut merged: Vec<PathSegment> = Vec::new();
    for segment in segments.iter() {
        match merged.last_mut() {
            Some(last) if is_return(&segment) && (last.track, last.category) == (segment.track, segment.category) => {
                last.end = segment.end;
                last.evidence = last.evidence.max(segment.evidence);
            }
            _ => merged.push(segment),
        }
    }
    merged
}

fn is_return(segment: &PathSegment) -> bool {
    matches!(segment.category, Category::SyncReturn | Category::ThreadHandover)
}

impl Claims {
    fn check(&mut self, name: &str, seed: u64, damage: &[Damage]) {
        let run = simulate(seed, &Profile::any(seed));
        let damaged = run.damaged(damage, seed);
        let trace = stackline_ingest::read_bytes("t.json", damaged.json.as_bytes(), &Default::default()).unwrap();
        // The path is in the times of the device as reading has corrected them.
        let damaged = damaged.shifted(trace.meta.clocks.first().map_or(0, |clock| clock.applied_ns));
        let exact = Exact::new(&trace);
        let path = exact.path(&WindowChoice::Whole).unwrap();
        assert_eq!(path.length_ns(), path.window.length_ns(), "{name} seed {seed}");
        self.window_ns += path.length_ns();
        self.inferred_ns += path.inferred_ns();
        self.unknown_ns += path.by_category().iter().find(|c| c.0 == Category::Unknown).map_or(0, |c| c.1);
        for segment in merged(&path.segments).iter().filter(|h| h.evidence == Evidence::Exact) {
            let label = exact.track_label(segment.track);
            let on_stream = trace.tracks.get(segment.track).stream >= 0;
            let track = match label.split_once('/') {
                Some((_, stream)) if on_stream => format!("stream {stream}"),
                _ => label.clone(),
            };
            let (start_ns, end_ns) = (segment.start - run.started_ns(), segment.end - run.started_ns());
            let claim = Claim { start_ns, end_ns, category: segment.category.name(), track: &track };
            let reason = run.refute_damaged(&damaged, &claim);
            let is_host = segment.rule == "innermost_span";
            *(if is_host { &mut self.host } else { &mut self.edges }) += 1;
            *(if is_host { &mut self.wrong_host } else { &mut self.wrong_edges }) += u64::from(reason.is_some());
            if let Some(reason) = reason.filter(|_| !is_host) {
                println!("{name} seed {seed}: {reason} by {}", segment.rule);
            }
        }
    }

    fn row(&self, name: &str) -> String {
        let share = |ns: i64| 100.0 * ns as f64 / self.window_ns as f64;
        let (inferred, unknown) = (share(self.inferred_ns), share(self.unknown_ns));
        let Self { edges, wrong_edges, host, wrong_host, .. } = self;
        format!("| {name} | {wrong_edges} of {edges} | {wrong_host} of {host} | {inferred:.1} % | {unknown:.1} % |")
    }
}

/// Certain claims of a path on a damaged trace are right: a dependency leads from a real prerequisite. The table that
/// this test prints is in docs/measurements.md.
#[test]
fn damaged_records_give_no_wrong_exact_edges() {
    let clock = |offset_ns, jitter_ns| Damage::Clock { offset_ns, jitter_ns };
    let kinds: [(&str, Vec<Damage>); 14] = [
        ("none", vec![]),
        ("15 % of the kernels", vec![Damage::LostKernels(15)]),
        ("15 % of the launch calls", vec![Damage::LostLaunches(15)]),
        ("all Python frames", vec![Damage::NoPython]),
        ("all synchronisation records", vec![Damage::NoSyncs]),
        ("threads", vec![Damage::LostThreads]),
        ("none, records in another order", vec![Damage::Reordered]),
        ("none, times of the GPU off by up to 300 ns", vec![clock(0, 300)]),
        ("none, clock of the GPU 20 µs behind", vec![clock(-20_000, 0)]),
        ("none, clock of the GPU 20 µs ahead", vec![clock(20_000, 0)]),
        ("none, clock of the GPU 300 µs behind", vec![clock(-300_000, 0)]),
        ("none, clock of the GPU 300 µs ahead", vec![clock(300_000, 0)]),
        (
            "10 % of the kernels, all Python frames, all synchronisation records",
            vec![Damage::LostKernels(10), Damage::NoPython, Damage::NoSyncs],
        ),
        (
            "5 % of the kernels and launch calls, threads; times of the GPU off by up to 300 ns",
            vec![Damage::LostKernels(5), Damage::LostLaunches(5), Damage::LostThreads, clock(0, 300)],
        ),
    ];
    println!(
        "| records missing | exact dependencies that were none | exact host time that was a wait | inferred | unknown |"
    );
    println!("|---|---|---|---|---|");
    for (name, damage) in &kinds {
        let mut claims = Claims::default();
        for seed in 0..programs() {
            claims.check(name, seed, damage);
        }
        println!("{}", claims.row(name));
        // What is said for certain must be most of what is said.
        assert!(claims.inferred_ns * 3 < claims.window_ns, "{name}");
        assert!(claims.wrong_host * 100 <= claims.host, "{name}: {} of {}", claims.wrong_host, claims.host);
        if damage.is_empty() {
            assert_eq!(claims.wrong_host, 0);
        }
        let loses = |which: fn(&Damage) -> bool| damage.iter().any(which);
        let loses_all =
            loses(|d| matches!(d, Damage::LostKernels(_))) && loses(|d| matches!(d, Damage::LostLaunches(_)));
        let is_noisy = loses(|d| matches!(d, Damage::Clock { jitter_ns, .. } if *jitter_ns > 0));
        if loses_all || is_noisy {
            // Operations without any record are indistinguishable from missing operations, and so are ends whose
            // order noise has changed.
            assert!(claims.wrong_edges * 1_000 <= claims.edges, "{name}: {}", claims.wrong_edges);
        } else {
            assert_eq!(claims.wrong_edges, 0, "{name}");
        }
    }
}
