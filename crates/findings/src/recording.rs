//! Fact and note on the overhead that recording adds to operators.

use super::finding::Fact;
use super::findings::Findings;
use super::rule_context::SharedContext;
use stackline_model::Unit;

/// Fact that a gain excludes this recording overhead, in ns per step; `None` below 1 µs.
pub(super) fn overhead_fact(recording: i64) -> Option<Fact<String>> {
    const MIN_REPORTED_NS: i64 = 1_000;
    let name = "recording overhead subtracted from the gain per step".to_owned();
    (recording >= MIN_REPORTED_NS).then(|| Fact { name, value: recording as f64 / 1e3, unit: Unit::Us })
}

/// Start of the note on the overhead of recording.
const SLOWED: &str = "recording slowed each operator by at least";

impl Findings {
    /// True if the overhead of recording is subtracted from the step length.
    #[must_use]
    pub fn subtracts_recording(&self) -> bool {
        self.notes.iter().any(|note| note.starts_with(SLOWED))
    }
}

/// Note for the report on the recording overhead per operator and in the step; `None` if unknown.
pub(super) fn recording_note(shared: &SharedContext<'_>) -> Option<String> {
    let recorded = shared.recorded_operators()?;
    let cost = recorded.cost();
    let torch = match cost.torch_ns {
        Some(ns) => format!("PyTorch's own recording takes {ns:.0} ns of this slowdown"),
        None => "This slowdown does not include PyTorch's own recording, whose cost is unknown".to_owned(),
    };
    Some(format!(
        "{SLOWED} {:.0} ns, in total {:.0} % of the recorded step. {torch}. Stackline subtracts this time from the \
         step length and from simulated gains, but not from other times. The number of cache misses that recording \
         adds is unknown",
        cost.ns(),
        100.0 * recorded.window_overhead_ns(shared.window) as f64 / shared.window.length_ns().max(1) as f64
    ))
}
