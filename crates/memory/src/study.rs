//! What is known of a trace's waste, worked out once for all that show it.

use crate::patterns::{Pattern, PatternMatch, find};
use crate::replay::{Combination, Replay};
use crate::suggest::Suggestion;
use crate::tables::{NamedPeak, named_peaks, ranked_suggestions};
use crate::{Facts, Rules};
use stackline_model::{MemoryDeviceId, MemoryTrace};

/// Peaks, waste and what to do against it, of one trace.
#[derive(Debug)]
pub struct Study<'trace> {
    /// What happened to each object.
    pub facts: Facts<'trace>,
    /// The highest peaks of each device, by name.
    pub peaks: Vec<NamedPeak>,
    /// What matches a pattern of waste.
    pub matches: Vec<PatternMatch>,
    /// What to change, best first, each with the bytes that it saves at each peak.
    pub ranked: Vec<(Suggestion, Vec<i64>)>,
}

impl<'trace> Study<'trace> {
    /// Studies a trace: at most so many peaks of each device.
    pub fn new(trace: &'trace MemoryTrace, peaks_per_device: usize) -> Self {
        let peaks = named_peaks(trace, peaks_per_device);
        let facts = Facts::new(trace, Rules::default());
        let mut matches = find(&facts);
        // While the program runs, what is alive is no leak yet.
        matches.retain(|found| trace.saw_end || found.pattern != Pattern::MemoryLeak);
        let ranked = ranked_suggestions(&facts, &matches, &peaks);
        Self { facts, peaks, matches, ranked }
    }

    /// The trace that was studied.
    pub const fn trace(&self) -> &'trace MemoryTrace {
        self.facts.trace
    }

    /// The suggestions in their order.
    pub fn suggestions(&self) -> Vec<Suggestion> {
        self.ranked.iter().map(|(suggestion, _)| suggestion.clone()).collect()
    }

    /// Which of the suggestions together lower a device's peak furthest, without those that change numbers; what saves less than a
    /// thousandth of the peak is not worth a line of code.
    pub fn combination(&self, device: MemoryDeviceId) -> Option<Combination> {
        let peak = self.peaks.iter().find(|peak| peak.device == device)?;
        let suggestions = self.suggestions();
        let among: Vec<usize> =
            (0..suggestions.len()).filter(|at| !suggestions[*at].action.changes_numbers()).collect();
        Some(Replay::new(self.trace(), device, &suggestions).lower(&among, (peak.peak.bytes / 1000).max(1)))
    }
}
