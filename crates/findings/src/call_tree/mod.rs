//! Rules over calling context trees: recordings without individual calls, and profiles.
//!
//! A calling context tree contains the number of calls and their time per call path, without order and timestamps, so
//! replay is impossible. The gain of a change is the removed time of the thread, as in `DeepContext` (section 4.3).
//! Each sample counts for one finding only: that of the outermost frame that a rule matches.

mod after_loop;
mod by_frame_name;
mod call_candidate;
mod call_rule_context;
mod copies;
mod first_batch;
mod frame_classes;
mod measured_length;
mod operators;
mod overhead;
mod python_time;
mod ranks;
mod repeated_work;
mod requirements;
mod setup_collections;
mod step_ends;
mod step_marks;
mod step_time;
mod steps;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod thread;
mod uncovered;
mod unsampled_time;

use crate::findings::ranking_key;
use crate::gain::{gain_per_step, limit_to_step};
use crate::rules;
use crate::{
    ExternalRules, Finding, Findings, GainBasis, MemoryFindings, Options, ProgramCondition, Reason, Requirement, Rule,
    RuleInfo, Settings, SkippedRule, Support,
};
use call_candidate::{BY_TIME, CallCandidate};
use call_rule_context::CallRuleContext;
pub use call_rule_context::place_of_call;
use frame_classes::FrameClasses;
use operators::Operators;
use stackline_calls::NoCalls;
use stackline_calls::ranks_of_calls;
use stackline_critical_path::exact::what_if::Gain;
use stackline_model::format::{count, duration};
use stackline_model::{CallMetric, CallingContextTree, Severity};
use std::collections::BTreeSet;
use std::sync::Arc;
pub use step_time::{StepTime, step_time};
use thread::TimeSource;

/// Rules over call trees.
const RULES: [&Rule; 11] = [
    &rules::dataloader_starved::RULE,
    &rules::preprocessing::RULE,
    &rules::unfused_optimizer::RULE,
    &rules::garbage_collection::RULE,
    &rules::recompilation::RULE,
    &rules::logging_in_step::RULE,
    &rules::operators_in_loops::RULE,
    &rules::host_waits::RULE,
    &rules::busy_python::RULE,
    &rules::copy_chains::RULE,
    &rules::zeroed_gradients::RULE,
];

/// Rules that require samples.
const NEEDS_SAMPLES: [&str; 4] = ["SL010", "SL029", "SL039", "SL043"];

/// Rules that require counted operators.
const NEEDS_OPERATORS: [&str; 4] = ["SL015", "SL026", "SL038", "SL042"];
/// Rules that require steps.
const NEEDS_STEPS: [&str; 2] = ["SL038", "SL043"];
/// Rules about the cost of operators, which require that operators compute on the host.
const CPU_ONLY: [&str; 2] = ["SL015", "SL042"];

/// Run rules over a calling context tree with folded imports ([`stackline_calls::fold_imports`]), for one rank or
/// all, and rank findings by their time. Findings that fail the test `keep` are ignored.
///
/// # Errors
/// If the tree has no times, or lacks the selected rank or steps.
pub fn find_in_calls(
    tree: &CallingContextTree,
    rank: Option<i64>,
    options: &Options,
    others: &ExternalRules,
    keep: &dyn Fn(&Finding) -> bool,
) -> Result<Findings, NoCalls> {
    if options.scope.steps.is_some() {
        return Err(NoCalls::Steps);
    }
    let merged = steps::with_steps_as_one(tree);
    let tree = merged.as_ref().unwrap_or(tree);
    let known = ranks_of_calls(tree);
    let found = match rank {
        None if known.len() > 1 => ranks::find(tree, known, options, keep),
        _ => find_for_rank(tree, rank, options, keep),
    };
    match found {
        Ok(found) => Ok(add_external_findings(found, others, options, keep)),
        // Findings of Python rules do not require times.
        Err(NoCalls::NoTimes(_)) if others.rules().next().is_some() => {
            Ok(add_external_findings(empty_findings(), others, options, keep))
        }
        Err(reason) => Err(reason),
    }
}

/// Run all rules for call trees on one thread, that of the rank if selected; an error without times.
fn find_for_rank(
    tree: &CallingContextTree,
    rank: Option<i64>,
    options: &Options,
    keep: &dyn Fn(&Finding) -> bool,
) -> Result<Findings, NoCalls> {
    let context = CallRuleContext::new(tree, rank, &options.settings).ok_or_else(|| no_times(tree, rank))?;
    let kinds = FrameClasses::new(&context);
    let mut candidates = by_frame_name::find(&context, &kinds);
    let operators = Operators::new(&context);
    candidates.extend(operators::find(&operators, &kinds));
    candidates.extend(copies::find(&operators, &kinds));
    candidates.extend(python_time::find(&context, &kinds));
    let step_ns = context.per_step(context.window_ns());
    let is_incomplete = tree.report.problems.iter().any(|problem| problem.severity == Severity::Lost);
    let uncovered = uncovered::find(&context, &kinds, &candidates);
    let priced = candidates.iter().map(|candidate| to_finding(&context, candidate, step_ns, is_incomplete));
    let (found, small): (Vec<Finding>, Vec<Finding>) =
        priced.partition(|finding| is_large_enough(finding, step_ns, options));
    let (mut findings, ignored): (Vec<Finding>, Vec<Finding>) = found.into_iter().partition(keep);
    findings.sort_by(|a, b| ranking_key(a).cmp(&ranking_key(b)));
    let combined = combined_gain(&findings, step_ns);
    Ok(Findings {
        step_ns,
        steps: context.steps.count,
        findings,
        ignored,
        combined,
        rules: rules::trace_rules().map(Rule::info).collect(),
        unchecked: skipped_rules(&context).collect(),
        small,
        notes: notes(&context, rank, is_incomplete),
        is_incomplete,
        is_of_calls: true,
        uncovered,
        ..Findings::from_memory(MemoryFindings::default())
    })
}

/// Check if a finding gains enough of a step to be listed; true without a gain in time.
fn is_large_enough(finding: &Finding, step_ns: i64, options: &Options) -> bool {
    let least_ns = (step_ns as f64 * options.least_percent / 100.0) as i64;
    finding.gain.is_none_or(|gain| gain.likely_ns >= least_ns.max(1))
}

/// Add findings of Python rules, which analyze all ranks at once.
fn add_external_findings(
    mut found: Findings,
    others: &ExternalRules,
    options: &Options,
    keep: &dyn Fn(&Finding) -> bool,
) -> Findings {
    let own = others.findings_of_calls(found.step_ns).into_iter();
    // Without times, stated gains cannot be compared with a step.
    let (own, small): (Vec<Finding>, Vec<Finding>) =
        own.partition(|finding| found.step_ns == 0 || is_large_enough(finding, found.step_ns, options));
    let (kept, ignored): (Vec<Finding>, Vec<Finding>) = own.into_iter().partition(keep);
    found.findings.extend(kept);
    found.findings.sort_by(|a, b| ranking_key(a).cmp(&ranking_key(b)));
    found.ignored.extend(ignored);
    found.small.extend(small);
    found.rules.extend(others.rules().cloned());
    found.unchecked.extend(others.unchecked.iter().cloned());
    found
}

/// Number of steps in the loop of a calling context tree; 0 without step marks.
#[must_use]
pub fn steps_of_calls(tree: &CallingContextTree) -> usize {
    let merged = steps::with_steps_as_one(tree);
    CallRuleContext::new(merged.as_ref().unwrap_or(tree), None, &Settings::default())
        .map_or(0, |context| context.steps.count)
}

/// Result without times, in which no built-in rule is checked.
fn empty_findings() -> Findings {
    let unchecked = |rule| SkippedRule { rule: Rule::info(rule), reason: Reason::Missing(Requirement::PythonTimes) };
    Findings {
        rules: rules::trace_rules().map(Rule::info).collect(),
        unchecked: rules::trace_rules().map(unchecked).collect(),
        is_of_calls: true,
        ..Findings::from_memory(MemoryFindings::default())
    }
}

/// Reason why a tree cannot be searched: an unknown rank, or the measured metrics, which are no times.
fn no_times(tree: &CallingContextTree, rank: Option<i64>) -> NoCalls {
    if let Some(rank) = rank {
        let known = ranks_of_calls(tree);
        if !known.contains(&rank) {
            return NoCalls::NoRank(rank, known);
        }
    }
    let is_chosen = |thread| rank.is_none_or(|rank| thread::rank_of(tree, thread) == Some(rank));
    let rows = tree.metrics.iter().filter(|(_, thread, ..)| is_chosen(*thread));
    let measured: BTreeSet<CallMetric> = rows.map(|(_, _, metric, _)| metric).collect();
    NoCalls::NoTimes(measured.iter().map(|metric| metric.name(&tree.strings).to_owned()).collect())
}

/// Convert a candidate to a finding with gain per step, limited to the step; lower confidence for incomplete
/// recordings.
fn to_finding(context: &CallRuleContext<'_>, candidate: &CallCandidate, step_ns: i64, is_incomplete: bool) -> Finding {
    let facts = candidate.facts.iter().map(|fact| context.words().displayed_fact(fact));
    let per = i64::try_from(context.steps_or_one()).unwrap_or(i64::MAX);
    let gain = limit_to_step(gain_per_step(candidate.gain, per), step_ns);
    // Elapsed times of operators may exceed the total of the samples.
    let gain = Gain { likely_ns: gain.likely_ns.min(step_ns), low_ns: gain.low_ns.min(step_ns), ..gain };
    // The host may run ahead of a GPU without waiting for it.
    let gain = if context.uses_gpu { Gain { low_ns: gain.low_ns.min(0), ..gain } } else { gain };
    let is_combined = !gain.is_speculative && !candidate.is_within_other;
    Finding {
        rule: candidate_info(context, candidate),
        title: candidate.title.clone(),
        place: candidate.place.clone(),
        change: None,
        events: Vec::new(),
        facts: facts.collect(),
        kind: candidate.kind,
        support: Support::Inferred,
        confidence: if is_incomplete { candidate.confidence.lower() } else { candidate.confidence },
        gain: Some(gain),
        memory: None,
        on_top_ns: is_combined.then_some(gain.likely_ns),
        basis: GainBasis::Model(BY_TIME),
        edits: Vec::new(),
        edit_labels: Vec::new(),
        ranks: Vec::new(),
    }
}

/// Metadata of a candidate's rule, with the advice variant that fits the program.
fn candidate_info(context: &CallRuleContext<'_>, candidate: &CallCandidate) -> Arc<RuleInfo> {
    candidate.rule.info_where(candidate.kind, |programs| match programs {
        ProgramCondition::Any => true,
        ProgramCondition::Jax => context.uses_jax(),
        ProgramCondition::WithoutGpu => !context.uses_gpu,
        ProgramCondition::Where(_) => false,
    })
}

/// Sum of the gains of findings that are no speculation and overlap no other finding, at most a step; `None` without
/// such.
fn combined_gain(findings: &[Finding], step_ns: i64) -> Option<Gain> {
    let mut gains = findings.iter().filter(|finding| finding.on_top_ns.is_some()).filter_map(|finding| finding.gain);
    let first = gains.next()?;
    let all = gains.fold(first, |all, gain| {
        Gain::new(
            all.likely_ns.saturating_add(gain.likely_ns),
            all.low_ns.saturating_add(gain.low_ns),
            all.high_ns.saturating_add(gain.high_ns),
        )
    });
    let likely_ns = all.likely_ns.min(step_ns);
    Some(Gain::new(likely_ns, all.low_ns.min(likely_ns), all.high_ns.min(step_ns).max(likely_ns)))
}

/// Rules that are not checked: those that need more than a call tree, and those without measurements.
fn skipped_rules<'c>(context: &'c CallRuleContext<'_>) -> impl Iterator<Item = SkippedRule> + 'c {
    let has_operators = context.in_operator.iter().any(|&inside| inside);
    let missing = move |rule: &&Rule| {
        let is = |codes: &[&str]| codes.contains(&rule.code);
        match () {
            () if !RULES.iter().any(|own| own.code == rule.code) => Some(Requirement::SingleCalls),
            () if context.uses_gpu && is(&CPU_ONLY) => Some(Requirement::SingleCalls),
            () if context.thread.known == TimeSource::Operators && is(&NEEDS_SAMPLES) => Some(Requirement::PythonTimes),
            () if !context.thread.knows_computing() && rule.code == rules::busy_python::RULE.code => {
                Some(Requirement::PythonTimes)
            }
            () if !has_operators && is(&NEEDS_OPERATORS) => Some(Requirement::Operators),
            () if context.steps.count == 0 && is(&NEEDS_STEPS) => Some(Requirement::Step),
            () => None,
        }
    };
    let unchecked = move |rule| Some(SkippedRule { rule: Rule::info(rule), reason: Reason::Missing(missing(&rule)?) });
    rules::trace_rules().filter_map(unchecked)
}

/// Notes about the analyzed time, one sentence each.
fn notes(context: &CallRuleContext<'_>, rank: Option<i64>, is_incomplete: bool) -> Vec<String> {
    let mut notes = vec![analyzed_part(context, rank)];
    notes.extend(exclusion_notes(context));
    notes.extend(maybe_after_note(context));
    notes.extend(blocked_note(context).or_else(|| between_note(context)));
    if !context.knows_waits() && context.thread.known == TimeSource::Cpu && context.blocked_ns == 0 {
        notes.push("times contain only CPU time, because waits were not recorded".to_owned());
    }
    if !context.thread.knows_computing() {
        notes.push(
            "times are wall time, which includes computing and waiting, because the samples do not distinguish the two"
                .to_owned(),
        );
    }
    if let Some(part) = context.overhead {
        let percent = 100.0 * part;
        notes.push(format!(
            "recording made steps {percent:.1} % longer. Stackline subtracts this overhead from the times, with the \
             same amount for each operator call"
        ));
    }
    if context.thread.known == TimeSource::Operators {
        notes.push(
            "there are no samples, so times contain only operators, not the Python code between \
             them"
                .to_owned(),
        );
    }
    if context.uses_gpu {
        notes.push(
            "times are host times. If the host runs ahead of the GPU, true gains are lower than the estimated gains, \
             possibly 0. Copies on the GPU are not checked here (rule SL017)"
                .to_owned(),
        );
    }
    if is_incomplete {
        notes.push(
            "part of the recording is missing (`stackline doctor` lists the missing parts), so times cover only the \
             recorded part"
                .to_owned(),
        );
    }
    notes
}

/// Note that samples do not show the thread for a large part of its steps.
fn blocked_note(context: &CallRuleContext<'_>) -> Option<String> {
    let blocked = context.blocked_ns;
    (blocked > 0).then(|| {
        let [step, sampled, blocked] =
            [context.window_ns(), context.window_ns() - blocked, blocked].map(|ns| duration(context.per_step(ns)));
        format!(
            "from the end of the first step to the end of the last step, a step takes {step} of wall time on average; \
             samples show only {sampled} of it. In the remaining {blocked}, {BLOCKED}"
        )
    })
}

/// Note that samples do not show the thread for a large time that may lie between its steps.
fn between_note(context: &CallRuleContext<'_>) -> Option<String> {
    let between = context.between_ns;
    (between > 0).then(|| {
        let (all, each) = (duration(call_candidate::signed(between)), duration(context.per_step(between)));
        format!(
            "from the end of the first step to the end of the last step, samples do not cover {all} of the analyzed \
             thread ({each} per step). This time is not counted, because it may lie outside of steps, such as in code \
             that runs once per epoch. In this time, {BLOCKED}"
        )
    })
}

/// State of the analyzed thread in time without samples, and the way to sample it.
const BLOCKED: &str = "the analyzed thread was blocked in calls that are not sampled (files, sockets, `select`, \
    `poll`, `epoll`, waits with a timeout), waited for a GPU, or had no processor. `stackline record --wall-hz 99` \
    also samples blocked threads";

/// Notes about time that all rules for call trees exclude: imports, compilation, code outside of the loop, first
/// batch.
fn exclusion_notes(context: &CallRuleContext<'_>) -> Vec<String> {
    let steps = &context.steps;
    let sum = |is_it: &dyn Fn(usize) -> bool| -> u64 {
        let all = context.thread.own.iter().enumerate().filter(|(node, _)| is_it(*node));
        all.fold(0, |sum, (_, time)| sum.saturating_add(time.ns))
    };
    let once = sum(&|node| steps.is_once[node]);
    let outside = sum(&|node| !steps.inside[node] && !steps.is_once[node]);
    let excess = context.first_batches_ns;
    let time = |ns: u64| duration(call_candidate::signed(ns));
    let notes = [
        (once > 0).then(|| format!("times exclude imports and compilations: {} of the analyzed thread", time(once))),
        (outside > 0).then(|| {
            format!(
                "times exclude code outside of the step loop: {} of the analyzed thread. In the function with the \
                 loop, the loop is assumed to extend from the first to the last line that runs operators or waits in \
                 each step",
                time(outside)
            )
        }),
        (excess > 0).then(|| {
            format!(
                "times exclude {} of loading the longest batch (probably the first): its excess over loading the \
                 other batches",
                time(excess)
            )
        }),
    ];
    notes.into_iter().flatten().collect()
}

/// Least share of a step in lines after the loop's last one that a note names, in percent.
const MAYBE_AFTER_PERCENT: f64 = 10.0;

/// Note that steps may include work after the loop, if it is much.
fn maybe_after_note(context: &CallRuleContext<'_>) -> Option<String> {
    let lines = &context.steps.maybe_after;
    let is_it = steps::below(context.tree, |node| lines.contains(&node));
    let of_node = |node: usize| if context.steps.inside[node] { context.thread.own[node].ns } else { 0 };
    let all = (0..is_it.len()).filter(|&node| is_it[node]).fold(0_u64, |sum, node| sum.saturating_add(of_node(node)));
    let first = lines.iter().find(|_| context.percent(all) >= MAYBE_AFTER_PERCENT && context.steps.count > 0)?;
    let place = context.place(context.tree.nodes.frame.get(first.index()).copied()?);
    let (place, time) = (place.text(), duration(context.per_step(all)));
    let code = if lines.len() > 1 { format!("the lines from {place} on") } else { place };
    Some(format!(
        "{code} may run after the step loop instead of in each step: {time} per step. Call counts do not show where \
         the code runs; `stackline record --mode trace` records each call"
    ))
}

/// Note on the analyzed thread, its step loop and number of steps.
fn analyzed_part(context: &CallRuleContext<'_>, rank: Option<i64>) -> String {
    let (tree, steps) = (context.tree, &context.steps);
    let text = |id| tree.strings.get(id);
    let thread = tree.threads.get(context.thread.id.index());
    let name = thread.map(|thread| text(thread.name)).filter(|name| !name.is_empty()).unwrap_or("one thread");
    let of = match thread {
        Some(thread) if tree.processes.len() > 1 && rank.is_none() => {
            format!(" of process {}", tree.process_title(thread.process))
        }
        _ => String::new(),
    };
    let threads = tree.threads.len();
    let which = if threads > 1 { format!(" (one of {threads} threads)") } else { String::new() };
    match (&steps.marks, steps.function) {
        (Some(marks), Some((function, file))) => format!(
            "times are those of {name}{of}{which}. Its step loop is in {} of {}: {} recorded steps, marked by {marks}",
            text(function),
            text(file),
            count(i64::try_from(steps.count).unwrap_or(i64::MAX))
        ),
        _ => format!(
            "times are those of {name}{of}{which}, over the whole run, because no steps are marked. Add a span \
             ProfilerStep#1, ProfilerStep#2, … around each step, which also enables rules SL038 and SL043"
        ),
    }
}
