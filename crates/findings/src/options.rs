//! Options of the search for findings: steps, thresholds, minimum gain and threads.

use super::settings::Settings;
use stackline_timeline::Scope;

/// Options of the search for findings.
#[derive(Clone, Debug)]
pub struct Options {
    /// Selected steps.
    pub scope: Scope,
    /// Thresholds of the rules.
    pub settings: Settings,
    /// Minimum gain of a listed finding, in percent of a step.
    pub least_percent: f64,
    /// Threads for replay; 0 means one per core. Results do not depend on the number.
    pub threads: usize,
    /// True if the findings are not merged with those of other ranks. Then a trace with inferred steps is not searched
    /// as a whole, too.
    pub is_alone: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { scope: Scope::default(), settings: Settings::default(), least_percent: 0.5, threads: 0, is_alone: false }
    }
}
