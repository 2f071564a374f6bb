//! More workers where loaders with and without workers load, and where a batch takes much longer than the others.

use crate::findings_support;

use findings_support::{Program, text};
use serde_json::json;
use stackline_critical_path::exact::Exact;
use stackline_critical_path::exact::what_if::{Edit, Gain, predict};
use stackline_findings::removed_operators;
use stackline_model::Trace;
use stackline_timeline::Scope;
use stackline_timeline::steps::StepSelection;

const OWN: &str = "torch/utils/data/dataloader.py(788): _SingleProcessDataLoaderIter.__next__";
const OF_WORKERS: &str = "torch/utils/data/dataloader.py(1300): _MultiProcessingDataLoaderIter.__next__";
const WAIT: &str = "torch/utils/data/dataloader.py(1100): _MultiProcessingDataLoaderIter._try_get_data";

/// Six steps of 12 ms that wait 9 ms for a worker; one of them also takes a batch of a loader without workers.
fn waiting(own_us: Option<i64>) -> Program {
    let mut program = Program::new();
    for number in 0..6 {
        program.step(number, |p| {
            p.python(OF_WORKERS, |p| p.python(WAIT, |p| p.op("aten::empty", |p| p.work(9000))));
            p.op("aten::mm", |p| p.work(12_000));
            own_us.filter(|_| number == 3).into_iter().for_each(|us| p.python(OWN, |p| p.work(us)));
        });
    }
    program
}

/// Steps of 12 ms that load 9 ms, the first one so long.
fn loading(first_us: i64) -> Program {
    let mut program = Program::new();
    for number in 0..8 {
        program.step(number, |p| {
            p.python(OWN, |p| p.work(if number == 0 { first_us } else { 9000 }));
            p.op("aten::mm", |p| p.work(12_000));
        });
    }
    program
}

/// Gain of more workers, in percent of the window and in ns.
fn gain(trace: &Trace, more: u32) -> (f64, Gain) {
    let choice = StepSelection::select(trace, &Scope::default()).choice;
    let found = predict(trace, &choice, &[Edit::more_workers(more).unwrap()]).unwrap();
    (found.percent(found.gain.likely_ns), found.gain)
}

/// One batch that the program loads itself, as for an evaluation, does not end the waits of the training.
#[test]
fn worker_waits_shrink_despite_a_loader_without_workers() {
    let (without, _) = gain(&waiting(None).trace(), 4);
    let (with, bounds) = gain(&waiting(Some(500)).trace(), 4);
    assert!((40.0..44.0).contains(&without), "{without}");
    assert!((without - with).abs() < 2.0 && bounds.low_ns >= 0, "{without} {with} {bounds:?}");
    let found = waiting(Some(500)).found("SL009");
    assert!(found[0].title.contains("DataLoader workers are too slow"), "{}", text(&found));
    // Nor do a few short waits make a gain uncertain that is one of the program's own loading.
    let mut own = loading(9000);
    own.python(OF_WORKERS, |p| p.python(WAIT, |p| p.work(500)));
    let (_, gain) = gain(&own.trace(), 2);
    assert!(gain.low_ns > 30_000_000, "{gain:?}");
}

/// A slow first batch gives no information about the later ones, and workers have it no sooner.
#[test]
fn slow_first_batch_does_not_limit_later_batches() {
    let (even, _) = gain(&loading(9000).trace(), 1);
    let (cold, _) = gain(&loading(1_000_000).trace(), 1);
    assert!((40.0..44.0).contains(&even) && (40.0..44.0).contains(&cold), "{even} {cold}");
    // Where the first step counts, too: 8 batches of 9 ms are gained, and what two steps have of the first.
    let trace = loading(1_000_000).trace();
    let whole = stackline_critical_path::exact::WindowChoice::Whole;
    let ns = predict(&trace, &whole, &[Edit::more_workers(1).unwrap()]).unwrap().gain.likely_ns;
    assert!((60_000_000..100_000_000).contains(&ns), "{ns}");
}

/// Operators of the code that waits for workers are not those of the program's own loading: their recording stays.
#[test]
fn recording_overhead_is_removed_with_the_loading_only() {
    let overhead_note = |mut program: Program| {
        program.recorded(json!({"cost": {"begin_ns": 500, "end_ns": 500, "torch_ns": 0, "measured": 99}}));
        let trace = program.trace();
        removed_operators(&Exact::new(&trace), &[Edit::more_workers(4).unwrap()])
            .and_then(|recorded| recorded.sentence(10_000_000, 1))
    };
    assert_eq!(overhead_note(waiting(Some(500))), None);
    let mut own = Program::new();
    own.step(0, |p| p.python(OWN, |p| p.op("aten::stack", |p| p.work(9000))));
    let overhead_note = overhead_note(own);
    assert!(
        overhead_note.as_deref().is_some_and(|overhead_note| overhead_note.starts_with("1000 ns of the gain")),
        "{overhead_note:?}"
    );
}
