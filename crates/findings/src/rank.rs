//! Findings of a trace: runs all rules, estimates gains by replay, and ranks the results.

use super::exposed_collectives::exposed_collectives_ns;
use super::external_rules::ExternalRules;
use super::finding::{Candidate, Finding, RankedCandidate, Support};
use super::findings::{Findings, INDIVIDUALLY_REPLAYED, ranking_key};
use super::fix_location;
use super::gain::{ImplausibleGains, gain_per_step, limit_to_step, recording_overhead_ns};
use super::gain_estimate::GainEstimate;
use super::initialization;
use super::missing_records::missing_record_count;
use super::options::Options;
use super::recorded_operators::subtract_overhead;
use super::recording::{overhead_fact, recording_note};
use super::requirement::Requirement;
use super::rule_context::{RuleContext, SharedContext};
use super::rules;
use super::settings::DeclaredSettings;
use super::skipped_rules::{Reason, SkippedRule, incomplete_gpu};
use super::uncovered::{self, Covered};
use stackline_critical_path::CriticalPathError;
use stackline_critical_path::exact::what_if::{Edit, Gain, Gains, event_loop_note};
use stackline_critical_path::exact::{Exact, WindowChoice};
use stackline_model::{INFERRED, Trace};
use stackline_timeline::steps::{StepSelection, mean_step_ns};
use std::collections::BTreeMap;

/// Number of groups in which the remaining findings are replayed.
const REPLAY_GROUPS: usize = 8;

/// Run all rules over a trace and rank their findings by replayed gain.
///
/// # Errors
/// If the trace has no work, or no such steps.
pub fn find(trace: &Trace, options: &Options) -> Result<Findings, CriticalPathError> {
    find_with(trace, options, &ExternalRules::default(), &|_| true)
}

/// Run built-in rules over a trace, add the findings of Python rules, and rank those that pass `keep`. The others are
/// ignored, and excluded from the combined gain.
///
/// # Errors
/// See [`find`].
pub fn find_with(
    trace: &Trace,
    options: &Options,
    others: &ExternalRules,
    keep: &dyn Fn(&Finding) -> bool,
) -> Result<Findings, CriticalPathError> {
    let exact = Exact::new(trace);
    let (mut selection, spans) = StepSelection::select_or_infer_with_note(trace, &options.scope);
    selection.notes.extend(spans);
    let has_other_ranks = !options.is_alone && trace.meta.rank.is_some() && trace.meta.world_size != Some(1);
    // Other ranks may have no inferred steps.
    let whole = match selection.are_inferred() && has_other_ranks {
        true => Some(Box::new(find_in(&exact, StepSelection::select(trace, &options.scope), (options, others), keep)?)),
        false => None,
    };
    Ok(Findings { whole, ..find_in(&exact, selection, (options, others), keep)? })
}

/// Run all rules in one time window, replay the gains, and rank the findings that pass `keep`; the others are ignored.
fn find_in(
    exact: &Exact<'_>,
    selection: StepSelection,
    (options, others): (&Options, &ExternalRules),
    keep: &dyn Fn(&Finding) -> bool,
) -> Result<Findings, CriticalPathError> {
    let (trace, are_inferred) = (exact.trace(), selection.are_inferred());
    let StepSelection { choice, steps, mut notes, .. } = selection;
    let window = exact.window(&choice)?;
    let shared = SharedContext::new(exact, (window, steps), (&options.settings, are_inferred));
    let (mut proposals, mut unchecked) = ranked_candidates(&shared);
    proposals.extend(others.ranked_candidates(trace));
    unchecked.extend(others.unchecked.iter().cloned());
    let exposed_collectives_ns = exposed_collectives_ns(&shared);
    let gains = Gains::new(exact);
    let edits: Vec<Vec<Edit>> =
        proposals.iter().map(|proposal| proposal.candidate.gain_estimate.edits_to_replay()).collect();
    let all = gains.compute(&choice, &edits, options.threads)?;
    let per_step = |gain: Gain| gain_per_step(gain, steps.max(1) as i64);
    let step_ns = shared.step_ns();
    let standstill = shared.standstill();
    let usual_ns = standstill.without(step_ns, steps);
    let least_ns = (usual_ns as f64 * options.least_percent / 100.0) as i64;
    let (mut found, mut small, mut unknown) = (Vec::new(), Vec::new(), 0);
    let (mut beyond, mut covered) = (ImplausibleGains::default(), Covered::default());
    // Insignificant candidates, which notes report.
    let mut hidden = Vec::new();
    for (proposal, replayed) in proposals.into_iter().zip(all) {
        if let GainEstimate::Insignificant(why) = proposal.candidate.gain_estimate {
            let finding = to_finding(trace, proposal, None);
            if keep(&finding) {
                notes.push(format!("{}: {why} ({})", finding.title, finding.rule.code));
            } else {
                hidden.push(finding);
            }
            continue;
        }
        let estimate = &proposal.candidate.gain_estimate;
        let recording =
            replayed.map_or(0, |gain| recording_overhead_ns(&shared, estimate.likely_edits(), gain.likely_ns));
        let recording = recording / steps.max(1) as i64;
        let replayed = replayed.map(per_step).map(|gain| subtract_overhead(gain, recording));
        // The recording overhead may exceed the part that was subtracted from the step.
        let gain = estimate.gain(replayed, step_ns).map(|gain| limit_to_step(gain, step_ns));
        let is_unknown = gain.is_none() && !matches!(estimate, GainEstimate::None);
        let mut proposal = proposal;
        proposal.facts.extend(overhead_fact(recording));
        beyond.count_if_implausible(&proposal, step_ns);
        match gain {
            None if is_unknown => unknown += 1,
            Some(gain) if gain.likely_ns < least_ns.max(1) => small.push(to_finding(trace, proposal, Some(gain))),
            gain => {
                covered.add(&shared, &proposal, gain);
                found.push(FindingWithEdits {
                    edits: proposal.candidate.gain_estimate.repair_edits().to_vec(),
                    finding: to_finding(trace, proposal, gain),
                });
            }
        }
    }
    found.sort_by(|a, b| ranking_key(&a.finding).cmp(&ranking_key(&b.finding)));
    let (mut found, ignored): (Vec<_>, Vec<_>) = found.into_iter().partition(|entry| keep(&entry.finding));
    let combined = combine_gains(&shared, (&gains, &choice), &mut found, options.threads)?.map(per_step);
    let combined = combined.map(|all| limit_to_step(bounded_by_individual_gains(all, &found), step_ns));
    let uncovered = uncovered::find(&shared, &covered, (&gains, &choice), (step_ns, options.threads))?;
    if steps == 0 {
        notes.extend(insufficient_work_note(trace));
        notes.extend(initialization::note(trace, window.length_ns()));
    }
    notes.extend(messages_note(&shared).filter(|_| options.is_alone && !found.is_empty()).map(str::to_owned));
    notes.extend(standstill.note.clone());
    notes.extend(event_loop_note(exact, shared.window).filter(|_| !found.is_empty()).map(str::to_owned));
    notes.extend(recording_note(&shared));
    notes.extend(beyond.notes());
    if unknown > 0 {
        notes.push(match unknown {
            1 => "1 finding is excluded, because the trace does not show how much time its fix would save".to_owned(),
            _ => format!(
                "{unknown} findings are excluded, because the trace does not show how much time their fixes would save"
            ),
        });
    }
    let mut findings: Vec<Finding> = found.into_iter().map(|entry| entry.finding).collect();
    let is_incomplete = missing_record_count(trace) > 0;
    if is_incomplete {
        notes.push(
            "part of the trace is missing (`stackline doctor` lists the missing parts), so gains are estimated from \
             the recorded part only"
                .to_owned(),
        );
    }
    notes.extend(incomplete_gpu(trace, &unchecked));
    fix_location::fill_in(trace, &mut findings.iter_mut().collect::<Vec<_>>());
    for finding in &mut findings {
        finding.on_top_ns = finding.on_top_ns.map(|ns| ns / steps.max(1) as i64);
    }
    let ignored = ignored.into_iter().map(|entry| entry.finding).chain(hidden).collect();
    let rules = rules::trace_rules().map(super::Rule::info).chain(others.rules().cloned()).collect();
    let ranks = Vec::new();
    Ok(Findings {
        window: Some(choice.in_words()),
        step_ns,
        steps,
        are_inferred,
        whole: None,
        with_gpu_work: matches!(choice, WindowChoice::StepsWithWork(..) | WindowChoice::Between(..)),
        between_ns: between_ns(trace, &choice, (window.length_ns(), steps)),
        findings,
        ignored,
        combined,
        rules,
        unchecked,
        small,
        notes,
        exposed_collectives_ns,
        is_incomplete,
        is_of_calls: false,
        world_size: trace.meta.world_size,
        ranks,
        peaks: Vec::new(),
        uncovered,
    })
}

/// Mean time between steps, in ns per step; `None` below [`MIN_BETWEEN_SHARE`] of the mean step length with this time.
fn between_ns(trace: &Trace, choice: &WindowChoice, (length_ns, steps): (i64, usize)) -> Option<i64> {
    let each = length_ns / steps.max(1) as i64;
    let between = each - mean_step_ns(trace, choice)?;
    (between as f64 >= MIN_BETWEEN_SHARE * each as f64 && between > 0).then_some(between)
}

/// Least share of time between steps that is reported.
const MIN_BETWEEN_SHARE: f64 = 0.01;

/// Least number of GPU operations for reliable findings in a trace without steps.
const MIN_OPERATIONS: usize = 10;

/// Note on too few GPU operations in a trace without steps; `None` if the trace has none, or enough of them.
fn insufficient_work_note(trace: &Trace) -> Option<String> {
    let count = trace.gpu.len();
    let operations = if count == 1 { "operation" } else { "operations" };
    let note = || format!("the trace has only {count} GPU {operations} and no steps, so findings are unreliable");
    (1..MIN_OPERATIONS).contains(&count).then(note)
}

/// Note that gains depend on ranks outside of the trace, because messages last until the other rank is ready; `None`
/// without messages.
fn messages_note<'a>(shared: &'a SharedContext<'a>) -> Option<&'static str> {
    let has_messages = !RuleContext::new(shared, DeclaredSettings::NONE).messages().is_empty();
    has_messages.then_some(
        "sends and receives last until the other rank is ready, which the trace of one rank does not show. If other \
         ranks are not faster, gains may be as low as 0; analyze the traces of all ranks",
    )
}

/// Run all built-in rules: their candidates, and the rules whose requirements the trace does not meet.
fn ranked_candidates<'a>(shared: &'a SharedContext<'a>) -> (Vec<RankedCandidate>, Vec<SkippedRule>) {
    let (mut proposals, mut unchecked) = (Vec::new(), Vec::new());
    // A requirement is checked among all events: once, not for each rule.
    let mut met: BTreeMap<Requirement, bool> = BTreeMap::new();
    let mut is_met = |need: &Requirement| *met.entry(*need).or_insert_with(|| need.is_met(shared.exact.trace()));
    for rule in rules::trace_rules() {
        let info = rule.info();
        if let Some(&need) = rule.needs.iter().find(|need| !is_met(need)) {
            unchecked.push(SkippedRule { rule: info, reason: Reason::Missing(need) });
            continue;
        }
        let context = RuleContext::new(shared, rule.declared_settings());
        let (candidates, is_by_inferred_steps) = shared.track_use_of_steps(|| (rule.check)(&context));
        for mut candidate in candidates {
            let facts = candidate.facts.iter().map(|fact| context.words().displayed_fact(fact)).collect();
            if is_by_inferred_steps {
                candidate.confidence = candidate.confidence.lower();
            }
            let info = rule.info_of(&context, candidate.kind);
            proposals.push(RankedCandidate { rule: info, candidate, facts });
        }
    }
    (proposals, unchecked)
}

/// Finding with the edits that the combined gain includes.
struct FindingWithEdits {
    finding: Finding,
    edits: Vec<Edit>,
}

/// Replay the edits of all findings together, and return the combined gain in ns of the whole window; `None` without
/// edits.
///
/// Sets the gain that each of the first findings adds to those before it. Excludes groups of the remaining findings
/// that are incompatible with findings above them.
fn combine_gains(
    shared: &SharedContext<'_>,
    (gains, choice): (&Gains<'_, '_>, &WindowChoice),
    found: &mut [FindingWithEdits],
    threads: usize,
) -> Result<Option<Gain>, CriticalPathError> {
    let with_edits: Vec<usize> = (0..found.len()).filter(|&i| !found[i].edits.is_empty()).collect();
    let (with_edits, others) = with_edits.split_at(with_edits.len().min(INDIVIDUALLY_REPLAYED));
    let mut taken: Vec<usize> = Vec::new();
    let mut best: Option<Gain> = None;
    let mut rest = with_edits;
    while !rest.is_empty() {
        // All prefixes are replayed at once. After an incompatible finding, again without it.
        let lists: Vec<Vec<Edit>> =
            (1..=rest.len()).map(|n| union_of_edits(found, taken.iter().chain(&rest[..n]))).collect();
        let replayed = gains.compute(choice, &lists, threads)?.into_iter().zip(&lists);
        let replayed: Vec<Option<Gain>> = replayed
            .map(|(gain, edits)| {
                gain.map(|gain| subtract_overhead(gain, recording_overhead_ns(shared, edits, gain.likely_ns)))
            })
            .collect();
        let fitting = replayed.iter().take_while(|gain| gain.is_some()).count();
        for (&i, gain) in rest.iter().zip(&replayed).take(fitting) {
            found[i].finding.on_top_ns = gain.map(|gain| gain.likely_ns - best.map_or(0, |best| best.likely_ns));
            best = *gain;
            taken.push(i);
        }
        rest = rest.get(fitting + 1..).unwrap_or(&[]);
    }
    for group in others.chunks(others.len().div_ceil(REPLAY_GROUPS).max(1)) {
        let edits = union_of_edits(found, taken.iter().chain(group));
        let [gain] = gains.compute(choice, &[&edits], threads)?[..] else { continue };
        let Some(gain) =
            gain.map(|gain| subtract_overhead(gain, recording_overhead_ns(shared, &edits, gain.likely_ns)))
        else {
            continue;
        };
        best = Some(gain);
        taken.extend(group);
    }
    Ok(best)
}

/// Edits of several findings, each once in each case. Two rules may propose the same change of the same code, and a
/// repeated `scale` would change its time twice.
fn union_of_edits<'i>(found: &[FindingWithEdits], of: impl Iterator<Item = &'i usize>) -> Vec<Edit> {
    let mut union: Vec<Edit> = Vec::new();
    for &i in of {
        let is_new = |edit: &&Edit| !union.iter().any(|known| known.is_same_change(edit));
        let new: Vec<Edit> = found[i].edits.iter().filter(is_new).cloned().collect();
        union.extend(new);
    }
    union
}

/// Widen the bounds of the combined gain by the errors of single findings, which partly cancel because they are
/// independent.
///
/// The lower bound is at least the largest lower bound of a finding, unless the combined gain is less. The upper bound
/// is at least the largest upper bound of a finding.
fn bounded_by_individual_gains(all: Gain, found: &[FindingWithEdits]) -> Gain {
    let taken = || found.iter().map(|entry| &entry.finding).filter(|finding| finding.on_top_ns.is_some());
    let gains = || taken().filter_map(|finding| finding.gain);
    let surest = gains().map(|gain| gain.low_ns).max().unwrap_or(all.low_ns);
    let most = gains().map(|gain| gain.high_ns).max().unwrap_or(all.high_ns);
    let root = |errors: f64| errors.sqrt() as i64;
    let below = root(gains().map(|gain| ((gain.likely_ns - gain.low_ns) as f64).powi(2)).sum());
    let above = root(gains().map(|gain| ((gain.high_ns - gain.likely_ns) as f64).powi(2)).sum());
    let (low, high) = (all.low_ns.min(all.likely_ns - below), all.high_ns.max(all.likely_ns + above));
    Gain { low_ns: low.max(surest.min(all.likely_ns)), high_ns: high.max(most), ..all }
}

/// Convert a candidate and its gain per step to a finding, with lower confidence if the trace misses records.
fn to_finding(trace: &Trace, proposal: RankedCandidate, gain: Option<Gain>) -> Finding {
    let RankedCandidate { rule, candidate, facts } = proposal;
    let Candidate { title, place, mut events, kind, support, confidence, gain_estimate, .. } = candidate;
    let edits = gain_estimate.edits_to_replay().iter().map(|edit| edit.exact_text(trace)).collect();
    let edit_labels = gain_estimate.likely_edits().iter().map(ToString::to_string).collect();
    events.sort_unstable();
    events.dedup();
    let inferred = trace.attr(INFERRED);
    // Such as functions that are known from samples.
    let is_inferred = events.iter().any(|&event| inferred.get(event).is_some());
    let support = if is_inferred { Support::Inferred } else { support };
    let confidence = if missing_record_count(trace) > 0 { confidence.lower() } else { confidence };
    Finding {
        rule,
        title,
        place,
        change: None,
        events,
        facts,
        kind,
        support,
        confidence,
        gain,
        memory: None,
        on_top_ns: None,
        basis: gain_estimate.basis(),
        edits,
        edit_labels,
        ranks: Vec::new(),
    }
}
