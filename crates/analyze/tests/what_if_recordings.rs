//! Edits of frames in recordings, whose samples hit few calls.

use crate::findings_support::Program;
use crate::support::read;

use serde_json::json;
use stackline_critical_path::exact::WindowChoice;
use stackline_critical_path::exact::what_if::{Edit, predict};
use stackline_model::INFERRED;

const FRAME: &str = "text.py(3): tokenize";
const OTHER: &str = "text.py(40): collate";
/// Samples are taken this often, in µs of the thread's time.
const PERIOD_US: i64 = 10_100;

/// Iterations with two operators and two functions between them, of which samples see few: the recording, and the total time of the
/// first function, in µs.
fn recorded(iterations: i64, seed: i64) -> (String, i64) {
    let mut program = Program::new();
    program.recorded(json!({}));
    let (mut next, mut all) = (1_000 + 977 * seed % PERIOD_US, 0);
    for iteration in 0..iterations {
        program.op("aten::mm", |p| p.work(300));
        let (begin, first) = (program.now, 400 + (iteration * 37 + seed) % 300);
        program.work(first);
        all += first;
        let middle = program.now;
        program.work(700);
        let end = program.now;
        while next < end {
            if next >= begin {
                let name = if next < middle { FRAME } else { OTHER };
                // As readers of recordings do: the span of a sample lasts until something else is known.
                program.span("python_function", name, begin, end - begin, json!({(INFERRED): true}));
                let now = std::mem::replace(&mut program.now, next);
                program.sample(1, name, PERIOD_US);
                program.now = now;
            }
            next += PERIOD_US;
        }
        program.op("aten::add", |p| p.work(200));
        program.work(5);
    }
    (program.text(json!({"id": 0, "name": "none"})), all)
}

#[test]
fn removing_a_frame_includes_unsampled_calls() {
    let (mut inside, mut off) = (0, Vec::new());
    for seed in 0..40 {
        let (text, all) = recorded(400, seed);
        let edits = [Edit::parse(&format!("remove frame:{FRAME}")).unwrap()];
        let found = predict(&read(&text), &WindowChoice::Whole, &edits).unwrap();
        let (truth, gain) = (1_000 * all, found.gain);
        inside += usize::from((gain.low_ns..=gain.high_ns).contains(&truth));
        off.push((gain.likely_ns - truth) as f64 / truth as f64);
        assert!(
            found.notes.iter().any(|note| note.contains("calls between operators are known only from samples")),
            "{:?}",
            found.notes
        );
        assert!(gain.low_ns > truth / 3 && gain.high_ns < truth * 3, "{truth}: {gain:?}");
    }
    let mean = off.iter().sum::<f64>() / off.len() as f64;
    let worst = off.iter().map(|off| off.abs()).fold(0.0, f64::max);
    println!("{inside} of 40 in bounds, mean error {mean:.3}, worst {worst:.3}");
    assert!(inside >= 38, "{inside}");
    assert!(mean.abs() < 0.1 && worst < 0.6, "{mean} {worst}");
}

/// A function runs for 20 ms between two operators: it computes for 2 ms and sleeps for the rest. Samples of CPU time do
/// not show the sleep.
#[test]
fn removing_a_frame_includes_its_unsampled_waits() {
    let mut program = Program::new();
    program.recorded(json!({}));
    for iteration in 0..100 {
        program.op("aten::mm", |p| p.work(300));
        program.work(10_000);
        if iteration % 5 == 0 {
            // The span of a sample is as long as the sample.
            let from = program.now - PERIOD_US / 2 + 100;
            program.span("python_function", FRAME, from, PERIOD_US, json!({(INFERRED): true}));
            program.sample(1, FRAME, PERIOD_US);
        }
        program.work(10_000);
        program.op("aten::add", |p| p.work(200));
        program.work(5);
    }
    let trace = read(program.text(json!({"id": 0, "name": "none"})));
    let edits = [Edit::parse(&format!("remove frame:{FRAME}")).unwrap()];
    let found = predict(&trace, &WindowChoice::Whole, &edits).unwrap();
    let (truth, gain) = (100 * 20_000_000, found.gain);
    assert!((gain.likely_ns - truth).abs() < truth / 100 && gain.high_ns >= truth, "{gain:?}");
    // 20 samples of 10.1 ms show 202 ms, by counting at least 123 ms; the waits may belong to another function.
    assert!((100_000_000..202_000_000).contains(&gain.low_ns), "{gain:?}");
    assert!(found.notes.iter().any(|note| note.contains("the thread waited")), "{:?}", found.notes);
}

/// Samples see a wait for the end of a thread up to the last of them only. A function of that thread goes: so does the wait.
#[test]
fn thread_waits_last_until_the_next_own_work() {
    let mut program = Program::new();
    program.recorded(json!({}));
    let mut on = |tid: i64, cat: &str, name: &str, (from, to): (i64, i64), args: serde_json::Value| {
        program.thread_span(tid, (cat, name), (from, to - from), args);
    };
    on(1, "python_function", "serve.py(52): main", (0, 100_500), json!({}));
    on(1, "cpu_op", "aten::randn", (0, 1_000), json!({}));
    let seen = json!({(INFERRED): true});
    on(1, "python_function", "threading.py(1125): Thread._wait_for_tstate_lock", (1_000, 90_000), seen);
    on(1, "cpu_op", "aten::add", (100_100, 100_400), json!({}));
    on(2, "python_function", "threading.py(988): Thread._bootstrap", (500, 100_000), json!({}));
    on(2, "cpu_op", "aten::mm", (500, 2_000), json!({}));
    on(2, "python_function", "serve.py(17): audit", (2_000, 92_000), json!({}));
    on(2, "cpu_op", "aten::mm", (92_000, 100_000), json!({}));
    let edits = [Edit::parse("remove frame:serve.py(17): audit").unwrap()];
    let gain =
        predict(&read(program.text(json!({"id": 0, "name": "none"}))), &WindowChoice::Whole, &edits).unwrap().gain;
    assert!((gain.likely_ns - 90_000_000).abs() < 1_000_000 && gain.high_ns >= 90_000_000, "{gain:?}");
}
