//! The edits of findings are what was replayed for them: given to `what-if` they gain what the findings say.

use crate::support::{self, read};

use stackline_analyze::Scope;
use stackline_analyze::critical_path::exact::what_if::{Edit, predict};
use stackline_analyze::findings::{self, Finding, HOPE, Options, REPLAY};
use stackline_analyze::steps::Looked;
use stackline_model::{Trace, Unit};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Every finding takes a replay of the whole trace.
const PER_TRACE: usize = 12;

/// What recording cost of what an edit does away with: findings take it out, and say so; in ns per step.
fn taken_out(finding: &Finding) -> f64 {
    let of_recording = |name: &str| name.starts_with("recording of operators, taken out of the gain");
    let fact = finding.facts.iter().find(|fact| of_recording(&fact.name));
    fact.map_or(0.0, |fact| {
        assert_eq!(fact.unit, Unit::Us);
        fact.value * 1e3
    })
}

/// Tries the edits of each finding of a trace: the rules whose findings were tried.
fn tried(name: &str, trace: &Trace) -> BTreeSet<String> {
    let mut rules = BTreeSet::new();
    // Small ones, too.
    let options = Options { least_percent: 0.0, ..Options::default() };
    let Ok(found) = findings::find(trace, &options) else { return rules };
    let Looked { choice, steps, .. } = Looked::or_inferred(trace, &Scope::default());
    assert_eq!(steps, found.steps, "{name}");
    let all = found.findings.iter().filter(|finding| !finding.edits.is_empty());
    for finding in all.take(PER_TRACE) {
        let told = format!("{name}: {} {}", finding.rule.code, finding.title);
        assert!([REPLAY, HOPE].contains(&finding.method), "{told}");
        // As the table has them.
        let edits = Edit::parse_all(&finding.edits.join("; ")).unwrap_or_else(|error| panic!("{told}: {error}"));
        assert_eq!(edits.iter().map(ToString::to_string).collect::<Vec<_>>(), finding.edits, "{told}");
        let predicted = predict(trace, &choice, &edits).unwrap_or_else(|error| panic!("{told}: {error}"));
        let per_step = predicted.gain.ns as f64 / steps.max(1) as f64;
        // Where recording cost less than 1 µs, no fact says how much.
        let off = (per_step - taken_out(finding) - finding.gain_ns() as f64).abs();
        let rounding = if trace.meta.entry(stackline_model::RECORDING).is_some() { 1_001.0 } else { 1.0 };
        assert!(off <= rounding, "{told}: {} told, {per_step} by what-if", finding.gain_ns());
        rules.insert(finding.rule.code.clone());
    }
    rules
}

#[test]
fn edits_of_findings_gain_what_they_say_on_real_traces() {
    let (all, looked) = (RefCell::new(BTreeSet::new()), RefCell::new(0));
    support::for_each_small_trace(|name, trace| {
        *looked.borrow_mut() += 1;
        all.borrow_mut().extend(tried(name, trace));
    });
    if looked.into_inner() > 0 {
        let all = all.into_inner();
        println!("{} rules: {all:?}", all.len());
        // One more on the large traces of `./dev test --long`.
        assert!(all.len() >= 11, "{all:?}");
    }
}

#[test]
fn edits_of_findings_gain_what_they_say_on_the_demo() {
    let text = stackline_testkit::demo::generate(&stackline_testkit::demo::Config::default());
    assert!(!tried("demo", &read(&text)).is_empty());
}
