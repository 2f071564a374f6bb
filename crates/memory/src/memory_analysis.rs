//! Memory analysis of a trace (usage, peaks, waste, suggestions), computed once.

use crate::patterns::{Pattern, PatternMatch, find, leak};
use crate::replay::{Combination, Replay};
use crate::suggest::{Site, Sites, Suggestion};
use crate::tables::{NamedPeak, Ranked, named_peaks, ranked_suggestions};
use crate::{ObjectUsage, Rules};
use stackline_model::{MemoryDeviceId, MemoryTrace};
use std::collections::{BTreeMap, BTreeSet};

/// Memory analysis of one trace: peaks, waste, suggestions.
#[derive(Debug)]
pub struct MemoryAnalysis<'trace> {
    /// Usage of each object.
    pub usage: ObjectUsage<'trace>,
    /// Highest peaks of each device, named.
    pub peaks: Vec<NamedPeak>,
    /// Matches of patterns of wasted memory.
    pub matches: Vec<PatternMatch>,
    /// Suggested changes, best first.
    pub ranked: Vec<Ranked>,
}

impl<'trace> MemoryAnalysis<'trace> {
    /// Analyze a trace with at most `peaks_per_device` peaks of each device.
    pub fn new(trace: &'trace MemoryTrace, peaks_per_device: usize) -> Self {
        Self::by_rules(trace, peaks_per_device, Rules::default())
    }

    /// Analyze a memory trace with the given thresholds for patterns of wasted memory.
    pub fn by_rules(trace: &'trace MemoryTrace, peaks_per_device: usize, rules: Rules) -> Self {
        let peaks = named_peaks(trace, peaks_per_device);
        let usage = ObjectUsage::new(trace, rules);
        let matches = find(&usage);
        let ranked = ranked_suggestions(&usage, &matches, &peaks);
        Self { usage, peaks, matches, ranked }
    }

    /// Memory trace that this analysis was computed from.
    pub const fn trace(&self) -> &'trace MemoryTrace {
        self.usage.trace
    }

    /// True if leaks can be detected: the records include the end of the program, or something grows, or there are
    /// enough steps to see growth.
    pub fn can_detect_leaks(&self) -> bool {
        self.matches.iter().any(|found| found.pattern == Pattern::MemoryLeak) || leak::is_detectable(&self.usage)
    }

    /// Suggested changes of memory use, best first, without their savings.
    pub fn suggestions(&self) -> Vec<Suggestion> {
        self.ranked.iter().map(|one| one.suggestion.clone()).collect()
    }

    /// Highest peak of live memory on each device.
    pub fn highest_peaks(&self) -> impl Iterator<Item = &NamedPeak> {
        self.positions_of_highest().map(|at| &self.peaks[at])
    }

    /// Indices in `peaks` of the first, highest peak of each device.
    fn positions_of_highest(&self) -> impl Iterator<Item = usize> {
        let is_first = |at: &usize| self.peaks[..*at].iter().all(|other| other.device != self.peaks[*at].device);
        (0..self.peaks.len()).filter(is_first)
    }

    /// Suggestions ranked by the savings at the highest peak of each device only: independent of the number of analyzed
    /// peaks.
    pub fn ranked_by_highest(&self) -> Vec<Ranked> {
        let kept: Vec<usize> = self.positions_of_highest().collect();
        let of_kept =
            |one: &Ranked| Ranked { savings: kept.iter().map(|at| one.savings[*at]).collect(), ..one.clone() };
        let mut ranked: Vec<Ranked> = self.ranked.iter().map(of_kept).collect();
        ranked.sort_by_cached_key(Ranked::order);
        ranked
    }

    /// Matches of waste patterns without a suggestion, by pattern and allocating line; within each group, the match
    /// with the most bytes comes first.
    pub fn without_suggestion(&self) -> Vec<Vec<&PatternMatch>> {
        let mut sites = Sites::new(self.trace());
        let all = self.ranked.iter().map(|one| &one.suggestion);
        let against = all.filter(|suggestion| suggestion.action.is_against_pattern());
        let members = against.flat_map(Suggestion::members);
        let advised: BTreeSet<(Pattern, Site)> =
            members.map(|member| (member.pattern, sites.site_of(member.object))).collect();
        let mut groups: BTreeMap<(Pattern, Site), Vec<&PatternMatch>> = BTreeMap::new();
        for found in &self.matches {
            groups.entry((found.pattern, sites.of_match(found))).or_default().push(found);
        }
        groups.retain(|key, _| !advised.contains(key));
        let mut groups: Vec<Vec<&PatternMatch>> = groups.into_values().collect();
        groups.iter_mut().for_each(|group| group.sort_by_key(|found| std::cmp::Reverse(found.bytes)));
        groups
    }

    /// Combination of suggestions that lowers a device's peak most, without those that change numerical results. `None`
    /// if the device has no peak.
    ///
    /// Suggestions that save less than a thousandth of the peak are left out.
    pub fn combination(&self, device: MemoryDeviceId) -> Option<Combination> {
        let peak = self.peaks.iter().find(|peak| peak.device == device)?;
        let suggestions = self.suggestions();
        let among: Vec<usize> =
            (0..suggestions.len()).filter(|at| !suggestions[*at].action.changes_numbers()).collect();
        Some(Replay::new(self.trace(), device, &suggestions).lower(&among, (peak.peak.bytes / 1000).max(1)))
    }
}
