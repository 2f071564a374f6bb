//! Programs whose host runs ahead until CUDA's launch queue is full: a launch call that waits for space is not host
//! work.

use crate::what_if_support;

use stackline_critical_path::exact::{Exact, WindowChoice, what_if};
use stackline_testkit::mini::MiniTrace;
use stackline_testkit::rng::Rng;
use stackline_testkit::simulator::{Edit, Profile, Simulated, simulate};
use std::collections::{BTreeMap, VecDeque};
use what_if_support::{Accuracy, at, try_program};

fn programs(count: u64) -> impl Iterator<Item = (u64, Simulated)> {
    (0..count).map(|seed| (seed, simulate(seed, &Profile::full_queue(seed))))
}

#[test]
fn paths_through_full_queues_follow_the_gpu() {
    for (seed, simulated) in programs(12) {
        let trace = stackline_ingest::read_bytes("sim.json", simulated.json().as_bytes(), &Default::default()).unwrap();
        let exact = Exact::new(&trace);
        let path = exact.path(&WindowChoice::Whole).unwrap();
        let truth = simulated.truth();
        let is_gpu = |category: &str| category.starts_with("gpu_");
        let found: i64 = path.by_category().iter().filter(|(c, _)| is_gpu(c.name())).map(|(_, ns)| ns).sum();
        let true_ns: i64 = truth.bound_by_ns.iter().filter(|(c, _)| is_gpu(c)).map(|(_, ns)| ns).sum();
        let share = 100.0 * (found - true_ns).abs() as f64 / truth.window_ns as f64;
        println!(
            "seed {seed}: {} operations, GPU {found} ns on the path, {true_ns} in truth ({share:.2} % off)",
            simulated.gpu_operations()
        );
        assert!(share < 0.5, "seed {seed}: {found} ns of the GPU on the path, {true_ns} in truth");
    }
}

#[test]
fn edits_of_programs_with_full_queues_are_predicted() {
    let mut table: BTreeMap<String, Accuracy> = BTreeMap::new();
    for (seed, simulated) in programs(12) {
        try_program(seed, (&simulated, &simulated.json()), &|kind| kind != "MoreWorkers", &mut table);
    }
    for (name, accuracy) in &mut table {
        println!("{}", accuracy.row(name));
    }
    let (mut errors, mut inside, mut widths) = (Vec::new(), 0, Vec::new());
    for accuracy in table.into_values() {
        errors.extend(accuracy.errors);
        widths.extend(accuracy.widths);
        inside += accuracy.inside;
    }
    let all = errors.len();
    assert!(all >= 100, "{all}");
    assert!(
        at(&mut errors, 95) <= 0.5 && at(&mut errors, 100) <= 5.0,
        "{:?}",
        [50, 95, 100].map(|p| at(&mut errors, p))
    );
    assert!(inside * 100 >= all * 98, "{inside} of {all} in bounds");
    assert!(at(&mut widths, 50) <= 2.0, "{}", at(&mut widths, 50));
}

/// The case in which calls that waited for space looked like host work: all GPU work takes half as long.
#[test]
fn faster_kernels_shorten_the_calls_that_waited_for_room() {
    for (seed, simulated) in programs(6) {
        let half = Edit::ScaleKernels { name: String::new(), factor: 0.5 };
        let (before, after) = (simulated.truth().window_ns, simulated.edit(&half).unwrap().window_ns);
        let json = simulated.json();
        if let Some(folder) = std::env::var_os("FULL_QUEUES_TO") {
            std::fs::write(std::path::Path::new(&folder).join(format!("{seed}.json")), &json).unwrap();
        }
        let trace = stackline_ingest::read_bytes("sim.json", json.as_bytes(), &Default::default()).unwrap();
        let edits = [what_if::Edit::parse("scale kernel:* 0.5").unwrap()];
        let gain = what_if::predict(&trace, &WindowChoice::Whole, &edits).unwrap().gain;
        println!("seed {seed}: true gain {} ns of {before}, predicted {gain:?}", before - after);
        assert!(
            (before - after - gain.likely_ns).abs() * 200 <= before,
            "seed {seed}: {} gained, {gain:?}",
            before - after
        );
        assert!(
            (gain.low_ns..=gain.high_ns).contains(&(before - after)),
            "seed {seed}: {} gained, {gain:?}",
            before - after
        );
    }
}

/// Capacity of the queue of a context.
const DEPTH: usize = 1022;

/// A program with a separate simulation: all streams share the queue, event commands use space in it and have no
/// record, space is freed when a kernel starts, threads sleep before they continue, and times are whole µs.
/// Single-precision kernels take `factor` times as long. Returns the trace, and the total duration in µs.
fn rough(seed: u64, factor: f64) -> (String, i64) {
    let mut rng = Rng::new(seed ^ 0x0070_0707);
    let mut trace = MiniTrace::new("");
    let (mut now, mut free) = (0, [0i64; 2]);
    // Starts of commands in the queue, of events: with the kernel before them.
    let mut queue: VecDeque<i64> = VecDeque::new();
    let mut last = 0;
    let streams = 1 + seed as usize % 2;
    for correlation in 0..4_000 {
        now += rng.between(2, 6);
        let is_single = rng.below(3) == 0;
        // Half of it is a whole number, too.
        let dur = 2 * (rng.between(10, 30) + if is_single { rng.between(20, 60) } else { 0 });
        let dur = if is_single { (dur as f64 * factor).round() as i64 } else { dur };
        let (from, own, sleeps) = (now, rng.between(3, 6), rng.between(1, 12));
        now += own;
        let has_events = rng.below(8) == 0;
        for _ in 0..1 + 2 * usize::from(has_events) {
            if queue.len() >= DEPTH {
                let room = queue.pop_front().unwrap();
                now = if room > now { room + sleeps } else { now };
            }
            queue.push_back(last);
        }
        while queue.front().is_some_and(|&start| start <= now) {
            queue.pop_front();
        }
        let stream = if rng.below(4) == 0 { streams - 1 } else { 0 };
        let start = (free[stream] + 1).max(now + 4);
        free[stream] = start + dur;
        last = last.max(start);
        if let Some(slot) = queue.back_mut() {
            *slot = last;
        }
        let name = if is_single { "sgemm_float32" } else { "half_kernel" };
        let call = now - from;
        trace.add(&format!(
            "7/7           cuda_runtime  cudaLaunchKernel  {from}+{call}  correlation={correlation}
             gpu0/{stream} kernel        {name}            {start}+{dur}  correlation={correlation}"
        ));
    }
    let all = free.into_iter().max().unwrap_or(0);
    (trace.json(), all)
}

#[test]
fn queues_filled_by_events_are_full() {
    for seed in 0..12 {
        let (json, before) = rough(seed, 1.0);
        let truth = 1_000 * (before - rough(seed, 0.5).1);
        if let Some(folder) = std::env::var_os("FULL_QUEUES_TO") {
            std::fs::write(std::path::Path::new(&folder).join(format!("rough{seed}.json")), &json).unwrap();
        }
        let trace = stackline_ingest::read_bytes("rough.json", json.as_bytes(), &Default::default()).unwrap();
        let edits = [what_if::Edit::parse("scale kernel:sgemm_float32 0.5").unwrap()];
        let gain = what_if::predict(&trace, &WindowChoice::Whole, &edits).unwrap().gain;
        println!("seed {seed}: {before} µs, true gain {truth} ns, predicted {gain:?}");
        assert!((truth - gain.likely_ns).abs() * 500 <= truth, "seed {seed}: {truth} gained, {gain:?}");
        assert!((gain.low_ns..=gain.high_ns).contains(&truth), "seed {seed}: {truth} gained, {gain:?}");
    }
}
