//! The edits of findings are all that was replayed for them: `what-if` computes the same gain and bounds from them.

use crate::findings_support::{assert_replays, steps};
use crate::support::{self, read};

use stackline_critical_path::exact::what_if::{Edit, predict};
use stackline_findings as findings;
use stackline_findings::Options;
use stackline_model::Trace;
use stackline_testkit::simulator::injected_faults;
use stackline_timeline::steps::StepSelection;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Every finding takes several replays of the whole trace.
const PER_TRACE: usize = 12;

/// Tries the edits of each finding of a trace: the rules whose findings were tried.
fn rules_with_replayed_edits(name: &str, trace: &Trace) -> BTreeSet<String> {
    // Small ones, too.
    let options = Options { least_percent: 0.0, ..Options::default() };
    let Ok(found) = findings::find(trace, &options) else { return BTreeSet::new() };
    assert_replays(name, trace, &found, PER_TRACE)
}

#[test]
fn finding_gains_equal_what_if_on_real_traces() {
    let (all, examined) = (RefCell::new(BTreeSet::new()), RefCell::new(0));
    support::for_each_small_trace(|name, trace| {
        *examined.borrow_mut() += 1;
        all.borrow_mut().extend(rules_with_replayed_edits(name, trace));
    });
    if examined.into_inner() > 0 {
        let all = all.into_inner();
        println!("{} rules: {all:?}", all.len());
        // One more on the large traces of `./dev test --long`.
        assert!(all.len() >= 11, "{all:?}");
    }
}

#[test]
fn finding_gains_equal_what_if_on_the_demo() {
    let text = stackline_testkit::demo::generate(&stackline_testkit::demo::Config::default());
    assert!(!rules_with_replayed_edits("demo", &read(&text)).is_empty());
}

#[test]
fn finding_gains_equal_what_if_on_simulated_programs() {
    let mut rules = BTreeSet::new();
    for kind in injected_faults::kinds() {
        // Of some seeds a problem costs too little in every draw.
        let Some(injected) = kind.inject(1) else { continue };
        rules.extend(rules_with_replayed_edits(kind.name, &read(injected.faulty.json())));
    }
    assert!(rules.len() > 10, "{rules:?}");
}

/// The bounds of SL042 hold that the sums of the backward pass stay: `what-if` of the likely edits alone does not know of it.
#[test]
fn range_bounds_equal_what_if_bounds() {
    let program = steps(|p| {
        p.annotation("Optimizer.zero_grad#SGD.zero_grad", |p| {
            for _ in 0..40 {
                p.op("aten::zero_", |p| p.op("aten::fill_", |p| p.kernel("vectorized_elementwise_kernel", 2)));
            }
        });
        p.op("aten::mm", |p| p.kernel("gemm", 200));
        p.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", |p| {
            p.op("torch::autograd::AccumulateGrad", |p| {
                p.op("aten::add_", |p| p.kernel("vectorized_elementwise_kernel", 90));
            });
        });
    });
    let trace = program.trace();
    let found = findings::find(&trace, &Options::default()).unwrap();
    let finding = found.findings.iter().find(|finding| finding.rule.code == "SL042").unwrap();
    assert!(assert_replays("SL042", &trace, &found, usize::MAX).contains("SL042"));
    let likely: Vec<Edit> =
        finding.edits.iter().filter(|edit| !edit.starts_with("case ")).map(|edit| Edit::parse(edit).unwrap()).collect();
    assert!(likely.len() < finding.edits.len(), "{:?}", finding.edits);
    let selection = StepSelection::select_or_infer(&trace, &Default::default());
    let alone = predict(&trace, &selection.choice, &likely).unwrap().gain;
    let low_ns = finding.gain.unwrap().low_ns;
    assert!(low_ns < alone.low_ns / selection.steps as i64, "{low_ns}, {alone:?}");
}
