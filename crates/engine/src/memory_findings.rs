//! Findings of memory traces, built from matches of waste patterns and their suggestions.

mod messages;

use stackline_findings::{
    DevicePeak, Fact, Finding, Findings, GainBasis, MemoryFindings, MemoryGain, Options, Reason, Requirement, Rule,
    Settings, SkippedRule, Support, rules,
};
use stackline_ingest::diagnostics::{ONE_OF_PROCESSES, ONE_OF_RANKS, processes_of};
use stackline_memory::curve::device_of;
use stackline_memory::replay::Replay;
use stackline_memory::suggest::{Action, Suggestion, describe};
use stackline_memory::tables::{NamedPeak, Ranked};
use stackline_memory::{Certainty, Measure, MemoryAnalysis, Pattern, PatternMatch, Rules, frame_of, locate};
use stackline_model::{MemoryDeviceId, MemoryObjectId, MemoryTrace, Problem, StrId, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use std::collections::{BTreeMap, BTreeSet};

/// Patterns that are reported without a change of memory: they cost time, or their waste is too fragmented to remove.
const WITHOUT_CHANGE: [Pattern; 4] =
    [Pattern::DeadWrite, Pattern::Overallocation, Pattern::NonUniformAccess, Pattern::StructuredAccess];

/// Findings of a memory trace: one per suggestion (a source line and a kind of change), with the saved bytes and the
/// reduction at the highest peak of its device, regardless of the number of analyzed peaks. Patterns without a
/// known change follow. Excludes findings that save (or, without a change, concern) less than `least_percent` of that
/// peak. Findings that fail the test `keep` are ignored.
pub fn memory_findings(
    analysis: &MemoryAnalysis<'_>,
    least_percent: f64,
    keep: &dyn Fn(&Finding) -> bool,
) -> MemoryFindings {
    let builder = FindingBuilder::new(analysis);
    let mut findings = MemoryFindings { unchecked: unchecked(analysis), ..MemoryFindings::default() };
    for (which, peak) in analysis.highest_peaks().enumerate() {
        let mut followed: Vec<usize> = Vec::new();
        for (at, finding, is_enough) in builder.advised_findings((which, peak), least_percent) {
            let is_kept = keep(&finding);
            followed.extend(is_kept.then_some(at));
            match (is_enough, is_kept) {
                (true, true) => findings.findings.push(finding),
                (true, false) => findings.ignored.push(finding),
                (false, true) => findings.small.push(finding),
                (false, false) => {}
            }
        }
        findings.peaks.push(builder.device_peak(peak, &followed));
    }
    let (others, also_ignored): (Vec<_>, Vec<_>) = builder.without_change(least_percent).into_iter().partition(keep);
    findings.findings.extend(others);
    findings.ignored.extend(also_ignored);
    findings
}

/// Thresholds of the patterns of wasted memory, from the user's settings.
pub fn memory_rules(settings: &Settings) -> Rules {
    let get = |pattern: Pattern, name: &str| rules::find(pattern.code()).map_or(0.0, |rule| settings.get(rule, name));
    let kernels = |pattern| get(pattern, "kernels") as u32;
    let share = |pattern, name: &str| get(pattern, name) / 100.0;
    Rules {
        early_kernels: kernels(Pattern::EarlyAllocation),
        late_kernels: kernels(Pattern::LateDeallocation),
        idle_kernels: kernels(Pattern::TemporaryIdleness),
        leak_iterations: get(Pattern::MemoryLeak, "iterations") as u32,
        size_tolerance: share(Pattern::RedundantAllocation, "tolerance"),
        accessed_share: share(Pattern::Overallocation, "accessed"),
        fragmentation: share(Pattern::Overallocation, "fragmentation"),
        variation: share(Pattern::NonUniformAccess, "variation"),
    }
}

/// Number of peaks per device that findings use: the highest one.
const PEAKS: usize = 1;

/// Findings of an input that contains only memory data.
pub fn findings_of_memory(trace: &MemoryTrace, options: &Options, keep: &dyn Fn(&Finding) -> bool) -> Findings {
    let analysis = MemoryAnalysis::by_rules(trace, PEAKS, memory_rules(&options.settings));
    let mut found = Findings::from_memory_only(memory_findings(&analysis, options.least_percent, keep));
    found.notes.extend(messages::failed_requests(trace));
    found
}

/// Add the memory findings of a run, or mark memory rules as not checked if the run has no memory trace.
#[must_use]
pub fn findings_with_memory(
    found: Findings,
    memory: Option<&MemoryTrace>,
    options: &Options,
    keep: &dyn Fn(&Finding) -> bool,
) -> Findings {
    let of_memory = |trace| {
        let analysis = MemoryAnalysis::by_rules(trace, PEAKS, memory_rules(&options.settings));
        (trace, memory_findings(&analysis, options.least_percent, keep))
    };
    findings_with_known_memory(found, memory.map(of_memory), options)
}

/// Add memory findings that were computed before, or mark memory rules as not checked if there are none.
#[must_use]
pub fn findings_with_known_memory(
    found: Findings,
    memory: Option<(&MemoryTrace, MemoryFindings)>,
    options: &Options,
) -> Findings {
    let Some((trace, of_memory)) = memory else { return found.with_memory(MemoryFindings::unchecked()) };
    let mut found = found.with_memory(of_memory);
    found.notes.extend(messages::failed_requests(trace));
    if options.scope.steps.is_some() {
        found.notes.push("memory findings cover the whole run, not only the selected steps".to_owned());
    }
    if found.ranks.len() > 1 {
        found.notes.push(format!(
            "memory findings cover only {}; to see the memory findings of another rank, use --rank",
            trace.label
        ));
    }
    let processes = processes_of(&trace.report);
    if processes > 1 {
        found.notes.push(format!(
            "memory findings cover only {}, although {processes} processes have memory data",
            trace.label
        ));
    }
    let says_more = |problem: &Problem| problem.code != ONE_OF_PROCESSES && problem.code != ONE_OF_RANKS;
    if trace.report.problems.iter().any(says_more) {
        found.notes.push("reading the memory data gave notes or warnings; `stackline memory` lists them".to_owned());
    }
    found
}

/// Memory rules that cannot be checked on this trace, each with the data that is missing.
fn unchecked(analysis: &MemoryAnalysis<'_>) -> Vec<SkippedRule> {
    let (trace, can_detect_leaks) = (analysis.trace(), analysis.can_detect_leaks());
    let is_met = |need: &Requirement| match need {
        Requirement::MemoryAccesses => trace.has_accesses,
        Requirement::MemoryRanges => !trace.accesses.range.is_empty(),
        Requirement::MemoryEnd => can_detect_leaks,
        _ => true,
    };
    let skipped = |rule: &Rule| {
        let need = rule.needs.iter().copied().find(|need| !is_met(need))?;
        Some(SkippedRule { rule: rule.info(), reason: Reason::Missing(need) })
    };
    rules::memory_rules().filter_map(skipped).collect()
}

/// Evidence that an object wastes memory: a pattern match, or an operator that could write in place.
#[derive(Clone, Copy)]
enum WasteEvidence<'a> {
    Match(&'a PatternMatch),
    /// The producing operator could overwrite this input. No pattern covers this: an output may match another object.
    InPlace(MemoryObjectId),
}

/// Memory wasted by objects from one source line: pattern, objects, bytes and certainty.
struct Waste<'a> {
    pattern: Pattern,
    /// Largest object.
    largest: MemoryObjectId,
    /// Evidence for the largest object.
    known: WasteEvidence<'a>,
    objects: BTreeSet<MemoryObjectId>,
    bytes: u64,
    certainty: Certainty,
}

/// Builder of the findings of a memory trace, from pattern matches and ranked suggestions.
struct FindingBuilder<'a> {
    analysis: &'a MemoryAnalysis<'a>,
    /// Suggestions, ranked by their effect at the highest peak of each device.
    ranked: Vec<Ranked>,
    matches: BTreeMap<(Pattern, MemoryObjectId), &'a PatternMatch>,
}

impl<'a> FindingBuilder<'a> {
    /// Index the matches by pattern and object, and rank the suggestions by the highest peaks.
    fn new(analysis: &'a MemoryAnalysis<'a>) -> Self {
        let matches = analysis.matches.iter().map(|found| ((found.pattern, found.object), found)).collect();
        let ranked = analysis.ranked_by_highest();
        Self { analysis, ranked, matches }
    }

    /// Memory trace of the analysis.
    fn trace(&self) -> &'a MemoryTrace {
        self.analysis.trace()
    }

    /// Suggestion at an index of the ranking.
    fn suggestion(&self, at: usize) -> &Suggestion {
        &self.ranked[at].suggestion
    }

    /// Name of a device, empty if unknown.
    fn device_name(&self, device: MemoryDeviceId) -> String {
        let name = self.trace().devices.get(device.index()).map(|device| device.name).unwrap_or_default();
        self.trace().strings.get(name).to_owned()
    }

    /// Findings with a suggested change for the device of a peak. Each has the index of its suggestion, and a flag:
    /// true if the change saves enough. Findings without the flag have no details.
    fn advised_findings(&self, (which, peak): (usize, &NamedPeak), least_percent: f64) -> Vec<(usize, Finding, bool)> {
        let mut candidates = Vec::new();
        for (at, one) in self.ranked.iter().enumerate() {
            if device_of(self.trace(), one.suggestion.object) == peak.device {
                let saved = one.savings.get(which).and_then(|saved| u64::try_from(*saved).ok()).unwrap_or(0);
                candidates.push((at, saved, is_enough(saved, peak, least_percent)));
            }
        }
        let worth = candidates.iter().filter(|(.., is_enough)| *is_enough);
        let guesses = worth.map(|(at, ..)| *at).filter(|at| !self.suggestion(*at).members().all(is_sure));
        let sure = self.certain_reductions(guesses, peak.device);
        let mut advised = Vec::new();
        for (at, saved, is_enough) in candidates {
            let Some(waste) = self.waste_of(at) else { continue };
            let Some(mut finding) = self.finding(&waste) else { continue };
            let lowers_bytes = self.ranked[at].lowers.min(saved);
            let low_bytes = sure.get(&at).map_or(lowers_bytes, |sure| lowers_bytes.min(*sure));
            let (device, peak_bytes) = (self.device_name(peak.device), peak.peak.bytes);
            let gain = MemoryGain { bytes: saved, lowers_bytes, low_bytes, high_bytes: saved, peak_bytes, device };
            if is_enough {
                self.advise(&mut finding, (self.suggestion(at), &waste), gain);
            } else {
                // Only the data that identifies the finding in another run.
                (finding.memory, finding.edit_labels) = (Some(gain), vec![self.edit_label(self.suggestion(at))]);
            }
            advised.push((at, finding, is_enough));
        }
        advised
    }

    /// Certain reduction of a device's peak in bytes by suggestion: only recorded waste counts, not inferred waste.
    fn certain_reductions(&self, numbers: impl Iterator<Item = usize>, device: MemoryDeviceId) -> BTreeMap<usize, u64> {
        let sure = numbers.map(|at| (at, self.suggestion(at).with_members(is_sure)));
        let (none, some): (Vec<_>, Vec<_>) = sure.partition(|(_, sure)| sure.is_none());
        let mut savings: BTreeMap<usize, u64> = none.into_iter().map(|(at, _)| (at, 0)).collect();
        let (numbers, known): (Vec<usize>, Vec<Suggestion>) =
            some.into_iter().filter_map(|(at, sure)| Some((at, sure?))).unzip();
        let mut replay = Replay::new(self.trace(), device, &known);
        for (which, at) in numbers.into_iter().enumerate() {
            savings.insert(at, replay.lowers(which));
        }
        savings
    }

    /// Waste that the suggestion with an index removes; `None` for suggestions that are not against a pattern.
    fn waste_of(&self, at: usize) -> Option<Waste<'a>> {
        let suggestion = Some(self.suggestion(at)).filter(|suggestion| suggestion.action.is_against_pattern())?;
        Some(Waste {
            pattern: suggestion.pattern,
            largest: suggestion.object,
            known: match suggestion.action {
                Action::InPlace { owner } => WasteEvidence::InPlace(owner),
                _ => WasteEvidence::Match(self.matches.get(&(suggestion.pattern, suggestion.object))?),
            },
            objects: suggestion.members().map(|member| member.object).collect(),
            bytes: suggestion.total_bytes(),
            certainty: suggestion.weakest(),
        })
    }

    /// Add the suggested change and its savings to a finding.
    fn advise(&self, finding: &mut Finding, (suggestion, waste): (&Suggestion, &Waste<'_>), gain: MemoryGain) {
        finding.title = format!("{}; {}", finding.title, describe(self.trace(), suggestion));
        finding.facts.push(fact(
            "reduction of peak memory by this change alone",
            gain.lowers_bytes as f64,
            Unit::Bytes,
        ));
        if suggestion.copy_ns > 0 {
            let name = if waste.objects.len() > 1 {
                "total time to copy each memory object once between device and host"
            } else {
                "time to copy the memory object once between device and host"
            };
            finding.facts.push(fact(name, suggestion.total_copy_ns() as f64, Unit::Ns));
        }
        if let Some(ns) = suggestion.total_cost_ns().filter(|ns| *ns > 0) {
            finding.facts.push(fact("run time added by the change", ns as f64, Unit::Ns));
        }
        finding.memory = Some(gain);
        finding.basis = GainBasis::Replay;
        finding.edit_labels = vec![self.edit_label(suggestion)];
        finding.confidence = confidence(waste.certainty, suggestion.action.effort());
    }

    /// Label of a suggestion's edit, which is equal in all runs so that findings can be matched.
    fn edit_label(&self, suggestion: &Suggestion) -> String {
        let (trace, row) = (self.trace(), suggestion.object.index());
        let name = trace.strings.get(trace.objects.name[row]);
        match frame_of(trace, trace.objects.stack[row]) {
            None if !name.is_empty() => format!("{} of {name}", suggestion.action.name()),
            _ => suggestion.action.name().to_owned(),
        }
    }

    /// Findings of waste without a known change, one per pattern and source line.
    fn without_change(&self, least_percent: f64) -> Vec<Finding> {
        let mut found = Vec::new();
        for group in self.analysis.without_suggestion() {
            let Some(largest) = group.first().copied().filter(|first| is_reported_without_change(self.trace(), first))
            else {
                continue;
            };
            let bytes = group.iter().map(|one| one.bytes).fold(0, u64::saturating_add);
            let device = device_of(self.trace(), largest.object);
            if self.analysis.highest_peaks().any(|peak| peak.device == device && is_enough(bytes, peak, least_percent))
            {
                let certainty = group.iter().map(|one| one.certainty).fold(largest.certainty, Certainty::max);
                let waste = Waste {
                    pattern: largest.pattern,
                    largest: largest.object,
                    known: WasteEvidence::Match(largest),
                    objects: group.iter().map(|one| one.object).collect(),
                    bytes,
                    certainty,
                };
                found.extend(self.finding(&waste));
            }
        }
        found
    }

    /// Build the finding of waste, without a suggested change; `None` if the pattern has no rule.
    fn finding(&self, waste: &Waste<'_>) -> Option<Finding> {
        let rule = rules::find(waste.pattern.code())?.info();
        let mut facts = vec![
            fact("objects", waste.objects.len() as f64, Unit::None),
            fact("bytes", waste.bytes as f64, Unit::Bytes),
        ];
        facts.extend(messages::facts(&self.analysis.usage, waste));
        Some(Finding {
            rule,
            title: messages::title(&self.analysis.usage, waste),
            place: self.source_location(waste),
            change: None,
            events: Vec::new(),
            facts,
            kind: None,
            support: support(waste.certainty),
            confidence: confidence(waste.certainty, 0),
            gain: None,
            memory: None,
            on_top_ns: None,
            basis: GainBasis::Nothing,
            edits: Vec::new(),
            edit_labels: Vec::new(),
            ranks: Vec::new(),
        })
    }

    /// Source location of waste. Objects of several modules, such as repeated layers, get no module.
    fn source_location(&self, waste: &Waste<'_>) -> SourceLocation {
        let (trace, row) = (self.trace(), waste.largest.index());
        let module = trace.objects.module[row];
        let is_one = waste.objects.iter().all(|object| trace.objects.module[object.index()] == module);
        let text = |id: StrId| Some(trace.strings.get(id).to_owned()).filter(|text| !text.is_empty() && text != "??");
        let stack = match waste.known {
            WasteEvidence::Match(found) => found.stack(trace),
            WasteEvidence::InPlace(_) => trace.objects.stack[row],
        };
        let location = locate(trace, stack);
        SourceLocation {
            line: location.as_ref().map(|location| location.line).filter(|line| *line > 0),
            file: location.as_ref().and_then(|location| location.file.clone()),
            function: location.and_then(|location| location.function),
            module: text(module).filter(|_| is_one),
            operator: text(trace.objects.operator[row]),
        }
    }

    /// Highest peak of a device in bytes, also as reduced by the compatible ones of the suggestions `followed`, and
    /// without waste.
    fn device_peak(&self, peak: &NamedPeak, followed: &[usize]) -> DevicePeak {
        // As in the table of suggestions: savings below a thousandth of the peak do not justify a change.
        let least = (peak.peak.bytes / 1000).max(1);
        let knows = self.trace().has_accesses;
        DevicePeak {
            device: self.device_name(peak.device),
            bytes: peak.peak.bytes,
            mended_bytes: knows.then(|| {
                let chosen: Vec<Suggestion> = followed.iter().map(|at| self.suggestion(*at).clone()).collect();
                let all: Vec<usize> = (0..chosen.len()).collect();
                Replay::new(self.trace(), peak.device, &chosen).lower(&all, least).after.bytes
            }),
            needed_bytes: knows.then(|| self.peak_without_waste(peak, followed, (least, &is_sure))),
            perhaps_needed_bytes: knows.then(|| self.peak_without_waste(peak, followed, (least, &|_| true))),
        }
    }

    /// Highest peak of a device in bytes after the removal of waste with the certainty that `known` selects.
    fn peak_without_waste(
        &self,
        peak: &NamedPeak,
        followed: &[usize],
        (least, known): (u64, &dyn Fn(&Suggestion) -> bool),
    ) -> u64 {
        let is_waste = |action: &Action| !matches!(action, Action::Recompute { .. } | Action::Offload { .. });
        let of_waste = followed.iter().map(|at| self.suggestion(*at)).filter(|one| is_waste(&one.action));
        let sure: Vec<Suggestion> = of_waste.filter_map(|suggestion| suggestion.with_members(known)).collect();
        let all: Vec<usize> = (0..sure.len()).collect();
        Replay::new(self.trace(), peak.device, &sure).lower(&all, least).after.bytes
    }
}

/// True if the waste was recorded, not inferred.
fn is_sure(member: &Suggestion) -> bool {
    member.certainty < Certainty::Inferred
}

/// True if a saving in bytes is positive and at least a percentage of the peak.
fn is_enough(bytes: u64, peak: &NamedPeak, least_percent: f64) -> bool {
    bytes > 0 && bytes as f64 >= peak.peak.bytes as f64 * least_percent / 100.0
}

/// True if a match is reported even without a known change. The last use of a leaked object is unknown without records
/// of accesses, or while the object's memory grows.
fn is_reported_without_change(trace: &MemoryTrace, found: &PatternMatch) -> bool {
    let grows = matches!(found.measure, Some(Measure::Growth { .. })) || !trace.has_accesses;
    WITHOUT_CHANGE.contains(&found.pattern) || found.pattern == Pattern::MemoryLeak && grows
}

/// Named number of a finding, with its unit.
fn fact(name: &str, value: f64, unit: Unit) -> Fact<String> {
    Fact { name: name.to_owned(), value, unit }
}

/// Support of a finding by the certainty of its waste.
fn support(certainty: Certainty) -> Support {
    match certainty {
        Certainty::Exact => Support::Exact,
        Certainty::Partial => Support::Partial,
        Certainty::Inferred => Support::Inferred,
    }
}

/// Effort from which a change may cost more than it saves, even for certain waste: reuse, slices, copies to the host.
const GREAT_EFFORT: u8 = 3;

/// Confidence in a finding by the certainty of its waste; great effort lowers it by one level.
fn confidence(certainty: Certainty, effort: u8) -> Confidence {
    match certainty {
        Certainty::Exact if effort < GREAT_EFFORT => Confidence::High,
        Certainty::Exact => Confidence::Medium,
        Certainty::Partial if effort < GREAT_EFFORT => Confidence::Medium,
        Certainty::Partial | Certainty::Inferred => Confidence::Low,
    }
}
