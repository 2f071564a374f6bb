//! SL047: training steps with a forward pass that has no backward pass.

use crate::{Area, Candidate, Fact, GainEstimate, GainMethod, Requirement, Rule, RuleContext, Setting, Support};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_critical_path::exact::what_if::Action;
use stackline_model::names::MODULE_PREFIX;
use stackline_model::{EventId, EventKind, LinkKind, StrId, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::vocabulary::python::OPTIMIZER_STEP;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL047",
    name: "evaluation-in-step",
    area: Area::Host,
    about: "training steps also run forward passes without a backward pass, for an evaluation or in a network that is \
            not trained",
    why: "An evaluation in each step takes a share of the training time, although the model hardly changes between two \
         steps.",
    gain_methods: &[GainMethod::Replay, GainMethod::Speculative],
    gain_text: "The reported share is the percentage of the critical path in calls of the function and in the GPU \
                work that these calls launch. The estimate removes the calls and this GPU work (what-if operation \
                `remove`). For the lower bound, a tenth of this time remains, as if every tenth step ran the \
                evaluation (`scale`). If neither the function's name nor a call of Module.eval \
         identifies the code as an evaluation, the gain is speculative. For measured gains on the CPU, see \
         [accuracy](../findings-accuracy.md).",
    advice: "Evaluate every N steps or once per epoch, on a part of the data. For a network that is not trained (a \
        teacher, a frozen encoder), compute its outputs once and keep them, or run it in lower precision.",
    example: (
        "for batch in loader:\n    train_step(batch)\n    evaluate(model, validation)",
        "for i, batch in enumerate(loader):\n    train_step(batch)\n    if i % 100 == 0:\n        evaluate(model, validation)",
    ),
    cost: "one line; evaluation results are available less often",
    false_positives: "Nothing can be saved if the training method needs the forward pass, as with a teacher, a target \
                      network, or a roll-out in reinforcement learning. The gain of such code is speculative. A \
                      function is an evaluation if its \
        name has one of the words eval, evaluate, evaluation, validate, validation and test, or if it calls \
        Module.eval. The rule reports user functions whose modules run in every step without any operator that \
        autograd differentiates. Evaluations are also reported if they run in only some steps, but at least two. The \
        first forward pass of activation checkpointing is not reported. The estimated gain is too high if the program \
        evaluates less often in steps that were not recorded. The upper bound is the time of the forward pass itself. \
        The true gain may be higher, because training finds more of its data in caches if no evaluation runs between \
        two steps.",
    source: "common practice",
    needs: &[Requirement::PythonFrames, Requirement::Steps, Requirement::BackwardLinks],
    settings: &[Setting {
        name: "share",
        default: 3.0,
        range: (0.0, 100.0),
        about: "report only functions whose calls take at least this percentage of the critical path",
    }],
    advice_variants: &[],
    properties: &[],
    check,
};

/// Remaining share of the work in the lower bound: an evaluation in every tenth step.
const RARE_SHARE: f64 = 0.1;
/// Words in names of evaluation functions.
const EVALUATES: &[&str] = &["eval", "evaluate", "evaluation", "validate", "validation", "test"];
/// Names of code that repeats forward passes for the backward pass, which is part of training.
const RECOMPUTED: &[&str] = &["utils/checkpoint.py(", "CheckpointFunction"];

/// Operators in a call of a user function.
#[derive(Clone, Copy, Default)]
struct FunctionContents {
    /// True if autograd differentiates some operators.
    is_trained: bool,
    /// True if some operators of modules are not differentiated.
    is_forward: bool,
}

/// Find functions that run forward passes without a backward pass in each step, or evaluations in several steps.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    let trace = context.trace();
    let calls = forward_only(context);
    let mut by_function: BTreeMap<StrId, Vec<EventId>> = BTreeMap::new();
    for call in context.outermost(&calls) {
        by_function.entry(trace.events.name[call.index()]).or_default().push(call);
    }
    let in_each_step = |calls: &[EventId]| {
        let steps = context.steps_with(&trace.steps, calls.iter().copied());
        steps.len() >= 2 && context.are_all_steps(&steps)
    };
    let candidate = |calls: Vec<EventId>| {
        let is_evaluation = evaluates(context, &calls);
        let of_each = in_each_step(&calls);
        // An evaluation that occurs once may recur only after a thousand steps. Other forward passes in only some steps
        // are not known to be avoidable.
        let recurs = || context.steps_with(&trace.steps, calls.iter().copied()).len() >= 2;
        (of_each || (is_evaluation && recurs())).then(|| candidate(context, calls, is_evaluation, of_each)).flatten()
    };
    by_function.into_values().filter_map(candidate).collect()
}

/// Calls of user functions in which modules run and nothing is differentiated.
fn forward_only(context: &RuleContext<'_>) -> Vec<EventId> {
    let trace = context.trace();
    let has = |parts: &'static [&str]| {
        let matches: Vec<bool> =
            trace.strings.iter().map(|name| parts.iter().any(|part| name.contains(part))).collect();
        move |e: EventId| matches.get(trace.events.name[e.index()].index()).copied().unwrap_or(false)
    };
    let (is_module, is_recomputed) = (has(&[MODULE_PREFIX]), has(RECOMPUTED));
    let is_optimizer = has(&[OPTIMIZER_STEP, "torch/optim/"]);
    let differentiated: FxHashSet<EventId> = trace.links.of_kind(LinkKind::Backward).map(|(from, ..)| from).collect();
    let mut contents: FxHashMap<EventId, FunctionContents> = FxHashMap::default();
    for operator in context.operators() {
        let around = || trace.ancestors(operator);
        if around().any(|e| is_recomputed(e) || is_optimizer(e)) || is_recomputed(operator) {
            continue;
        }
        // A function of autograd is differentiated as a whole, with all operators in it.
        let is_trained = differentiated.contains(&operator) || around().any(|e| differentiated.contains(&e));
        // Only modules within the call count, not those around it.
        let mut in_module = false;
        for around in around() {
            if context.is_own_frame(around) {
                let contents = contents.entry(around).or_default();
                contents.is_trained |= is_trained;
                contents.is_forward |= in_module && !is_trained;
            }
            in_module |= trace.kind(around) == EventKind::PythonFunction && is_module(around);
        }
    }
    let forward =
        |(call, contents): (EventId, FunctionContents)| (contents.is_forward && !contents.is_trained).then_some(call);
    let mut calls: Vec<EventId> = contents.into_iter().filter_map(forward).collect();
    calls.sort_unstable();
    calls
}

/// Candidate for the calls of one function; `None` if their share of the critical path is small.
fn candidate(context: &RuleContext<'_>, calls: Vec<EventId>, is_evaluation: bool, of_each: bool) -> Option<Candidate> {
    let on_path: i64 = context.path_inside(&calls).iter().sum();
    let launched: Vec<EventId> = calls.iter().flat_map(|&call| context.launched_in(call)).collect();
    let path = context.on_path();
    let on_gpu: i64 = launched.iter().filter_map(|work| path.get(work)).sum();
    let share = context.percent(on_path + on_gpu);
    if share < context.setting("share") {
        return None;
    }
    let function = context.trace().name(calls[0]);
    let work = if is_evaluation { "Evaluation" } else { "Forward pass without a backward pass" };
    let cause = if of_each {
        format!("{work}{}", context.words().in_each_step())
    } else {
        let some = context.steps_with(&context.trace().steps, calls.iter().copied()).len();
        format!("{work} in {some} of {} steps", context.steps())
    };
    let mut removable = context.with_waits(&calls);
    removable.extend(&launched);
    removable.sort_unstable();
    removable.dedup();
    let edit = |action: Action| Some(vec![context.edit(action, format!("frame:{function}"), &removable)?]);
    let remove = edit(Action::Remove)?;
    let mut facts = vec![
        Fact::count("calls", calls.len()),
        Fact { name: "share of the critical path in the reported forward passes", value: share, unit: Unit::Percent },
        Fact::time("host time of the reported forward passes per step", context.per_step(context.total(&calls))),
    ];
    if !launched.is_empty() {
        facts.push(Fact::time(
            "GPU time of the reported forward passes per step",
            context.per_step(context.total(&launched)),
        ));
    }
    Some(Candidate {
        title: format!(
            "{cause}: {share:.0} % of the critical path (gain assumes that this code is removed; the remaining \
             training code may also get faster)"
        ),
        place: context.place(calls[0]),
        facts,
        gain_estimate: if is_evaluation {
            GainEstimate::range(remove, vec![edit(Action::Scale(RARE_SHARE))?])
        } else {
            GainEstimate::speculative(remove)
        },
        events: calls,
        kind: None,
        support: Support::Exact,
        confidence: if is_evaluation && of_each { Confidence::Medium } else { Confidence::Low },
    })
}

/// Test if calls of one function are evaluations, by a word of its name, or by a call of `Module.eval` inside.
fn evaluates(context: &RuleContext<'_>, calls: &[EventId]) -> bool {
    let trace = context.trace();
    let function = trace.name(calls[0]).rsplit("): ").next().unwrap_or_default();
    let sets_mode = |name: &str| super::matches_parts(name, &["torch/nn/modules/module.py(", "): eval"]);
    let all: FxHashSet<EventId> = calls.iter().copied().collect();
    let mut modes = context.named(&[EventKind::PythonFunction], sets_mode).into_iter();
    name_words(function).iter().any(|word| EVALUATES.contains(&word.as_str()))
        || modes.any(|mode| trace.ancestors(mode).any(|around| all.contains(&around)))
}

/// Words of a name such as `run_test` or `runTest`, in lower case.
fn name_words(name: &str) -> Vec<String> {
    let (mut parted, mut before) = (String::new(), '_');
    for letter in name.chars() {
        if letter.is_uppercase() && before.is_lowercase() {
            parted.push('_');
        }
        parted.extend(letter.to_lowercase());
        before = letter;
    }
    parted.split(|letter: char| !letter.is_alphabetic()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::name_words;

    #[test]
    fn names_are_split_into_words() {
        assert_eq!(name_words("retrieval"), ["retrieval"]);
        assert_eq!(name_words("_run_Test2"), ["", "run", "test", ""]);
        assert_eq!(name_words("Trainer.evaluateAll"), ["trainer", "evaluate", "all"]);
    }
}
