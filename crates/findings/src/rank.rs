//! Findings of a trace: runs all rules, estimates gains by replay, and ranks the results.

use super::external_rules::ExternalRules;
use super::finding::{Candidate, Fact, Finding, GainEstimate, REPLAY, SPECULATIVE, Support};
use super::fix_location;
use super::gain::{
    ImplausibleGains, edits_of, edits_to_replay, gain_of, gain_per_step, recording_overhead_ns, repair_edits,
    subtract_overhead,
};
use super::initialization;
use super::memory::DevicePeak;
use super::options::Options;
use super::ranks::{RankTimes, exposed_collectives_ns};
use super::recording::{overhead_fact, recording_note};
use super::rule::{Requirement, RuleInfo};
use super::rule_context::{RuleContext, SharedContext};
use super::rules;
use super::skipped_rules::{Reason, SkippedRule, incomplete_gpu};
use super::uncovered::{self, Covered, Uncovered};
use stackline_critical_path::CriticalPathError;
use stackline_critical_path::exact::what_if::{Edit, Gain, Gains, event_loop_note};
use stackline_critical_path::exact::{Exact, WindowChoice};
use stackline_model::{INFERRED, Severity, Trace};
use stackline_timeline::steps::{StepSelection, mean_step_ns};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All findings of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Analyzed window in words, as in `what-if`: `steps 3 to 9`, `the inferred steps`, `the whole trace`. `None` for
    /// inputs other than traces.
    pub window: Option<String>,
    /// Step length in ns: the window divided by its steps, without the known overhead of recording
    /// operators.
    pub step_ns: i64,
    /// Number of steps in the window; 0 if the trace has no steps and the window is the whole trace.
    pub steps: usize,
    /// True if the program marks no steps, and the steps are repeats of a launch pattern.
    pub are_inferred: bool,
    /// Findings of the whole trace, if steps are inferred and other ranks may have none.
    pub whole: Option<Box<Self>>,
    /// True if steps end with the GPU work that they launched, not with their spans on the
    /// CPU.
    pub with_gpu_work: bool,
    /// Part of [`Self::step_ns`] between steps, such as evaluations and checkpoints, in ns; none if
    /// negligible.
    pub between_ns: Option<i64>,
    /// Listed findings by descending gain, with unsure ones ([`Finding::is_unsure`]) after the others. Findings about
    /// the measurement come last.
    pub findings: Vec<Finding>,
    /// Combined gain of all compatible findings, per step, in ns; of several ranks that of the slowest one, or of the
    /// one that all others wait for.
    pub combined: Option<Gain>,
    /// Findings that the user ignores.
    pub ignored: Vec<Finding>,
    /// All rules: built-in rules by code, then Python rules.
    pub rules: Vec<Arc<RuleInfo>>,
    /// Rules that were not checked.
    pub unchecked: Vec<SkippedRule>,
    /// Excluded findings with small gains, so that a comparison with another run does not report them as new or gone.
    pub small: Vec<Finding>,
    /// Notes for the reader, one sentence each.
    pub notes: Vec<String>,
    /// Exposed time of the GPU's collectives (nothing else runs), per step, in ns; none without
    /// collectives.
    pub exposed_collectives_ns: Option<i64>,
    /// True if part of the trace is missing.
    pub is_incomplete: bool,
    /// True for a call tree instead of a trace: times are of one thread, and there is no critical path.
    pub is_of_calls: bool,
    /// Analyzed ranks, ascending, if there are several; then the step is that of the slowest rank.
    pub ranks: Vec<RankTimes>,
    /// Devices with analyzed memory.
    pub peaks: Vec<DevicePeak>,
    /// Time that no finding covers; of several ranks on the slowest.
    pub uncovered: Uncovered,
}

impl Findings {
    /// Number of individually replayed findings that are incompatible with higher-ranked findings. 0 for several ranks,
    /// each of which has its own number.
    pub fn contradicting(&self) -> usize {
        let replayed = self.findings.iter().filter(|f| f.gain.is_some() && f.is_repair() && !f.edits.is_empty());
        let first = replayed.take(if self.ranks.is_empty() { INDIVIDUALLY_REPLAYED } else { 0 });
        first.filter(|finding| finding.on_top_ns.is_none()).count()
    }
}

/// Number of first findings whose additional gains are replayed one by one.
const INDIVIDUALLY_REPLAYED: usize = 12;
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
    let edits: Vec<Vec<Edit>> = proposals.iter().map(|proposal| edits_to_replay(&proposal.candidate)).collect();
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
        let recording =
            replayed.map_or(0, |gain| recording_overhead_ns(&shared, edits_of(&proposal.candidate), gain.ns));
        let recording = recording / steps.max(1) as i64;
        let mut proposal = proposal;
        proposal.facts.extend(overhead_fact(recording));
        let replayed = replayed.map(per_step).map(|gain| subtract_overhead(gain, recording));
        beyond.count_if_implausible(&proposal, step_ns);
        match gain_of(&proposal.candidate.gain_estimate, replayed, step_ns).map(|gain| limit_to_step(gain, step_ns)) {
            None if !matches!(proposal.candidate.gain_estimate, GainEstimate::None) => unknown += 1,
            Some(gain) if gain.ns < least_ns.max(1) => small.push(to_finding(trace, proposal, Some(gain))),
            gain => {
                covered.add(&shared, &proposal, gain);
                found.push(FindingWithEdits {
                    edits: repair_edits(&proposal.candidate),
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

/// Limit the upper bound of a gain to the length of a step, but not below the gain itself.
pub(super) fn limit_to_step(gain: Gain, step_ns: i64) -> Gain {
    Gain { high_ns: gain.high_ns.min(step_ns.max(gain.ns)), ..gain }
}

/// Number of missing records of a truncated or damaged trace.
pub(super) fn missing_record_count(trace: &Trace) -> u64 {
    let problems = trace.report.problems.iter().filter(|problem| problem.severity == Severity::Lost);
    problems.map(|problem| problem.count).sum()
}

/// Candidate finding with its rule and its facts.
pub(super) struct RankedCandidate {
    pub(super) rule: Arc<RuleInfo>,
    pub(super) candidate: Candidate,
    pub(super) facts: Vec<Fact<String>>,
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
        let context = RuleContext::new(shared, rule);
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

/// Sort key of findings in reports: descending gain, unsure findings after the others; ties by code, source location
/// and title. Memory findings follow findings that save time, because the gains are not comparable.
pub(super) fn ranking_key(finding: &Finding) -> impl Ord + use<'_> {
    let gain = Reverse(finding.gain.map(|g| (!finding.is_unsure(), g.ns, g.low_ns)));
    let memory = Reverse(finding.memory.as_ref().map(|m| (!finding.is_unsure(), m.lowers_bytes, m.bytes, m.low_bytes)));
    (gain, memory, finding.rule.code.as_str(), &finding.place, finding.title.as_str())
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
                gain.map(|gain| subtract_overhead(gain, recording_overhead_ns(shared, edits, gain.ns)))
            })
            .collect();
        let fitting = replayed.iter().take_while(|gain| gain.is_some()).count();
        for (&i, gain) in rest.iter().zip(&replayed).take(fitting) {
            found[i].finding.on_top_ns = gain.map(|gain| gain.ns - best.map_or(0, |best| best.ns));
            best = *gain;
            taken.push(i);
        }
        rest = rest.get(fitting + 1..).unwrap_or(&[]);
    }
    for group in others.chunks(others.len().div_ceil(REPLAY_GROUPS).max(1)) {
        let edits = union_of_edits(found, taken.iter().chain(group));
        let [gain] = gains.compute(choice, &[&edits], threads)?[..] else { continue };
        let Some(gain) = gain.map(|gain| subtract_overhead(gain, recording_overhead_ns(shared, &edits, gain.ns)))
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
    let below = root(gains().map(|gain| ((gain.ns - gain.low_ns) as f64).powi(2)).sum());
    let above = root(gains().map(|gain| ((gain.high_ns - gain.ns) as f64).powi(2)).sum());
    let (low, high) = (all.low_ns.min(all.ns - below), all.high_ns.max(all.ns + above));
    Gain { low_ns: low.max(surest.min(all.ns)), high_ns: high.max(most), ..all }
}

/// Convert a candidate and its gain per step to a finding, with lower confidence if the trace misses records.
fn to_finding(trace: &Trace, proposal: RankedCandidate, gain: Option<Gain>) -> Finding {
    let RankedCandidate { rule, candidate, facts } = proposal;
    let edits = edits_to_replay(&candidate).iter().map(|edit| edit.exact_text(trace)).collect();
    let edit_labels = edits_of(&candidate).iter().map(ToString::to_string).collect();
    let method = match candidate.gain_estimate {
        GainEstimate::Edits(_) | GainEstimate::Range(..) | GainEstimate::Sampled { .. } => REPLAY,
        GainEstimate::Speculative(_) | GainEstimate::SpeculativeRange(..) => SPECULATIVE,
        GainEstimate::Model { model, .. } => model,
        GainEstimate::Insignificant(_) | GainEstimate::None => "",
    };
    let Candidate { title, place, mut events, kind, support, confidence, .. } = candidate;
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
        method,
        edits,
        edit_labels,
        ranks: Vec::new(),
    }
}
