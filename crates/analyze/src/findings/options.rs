//! How findings are looked for.

use super::settings::Settings;
use crate::Scope;

/// How to look.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which steps.
    pub scope: Scope,
    /// When rules fire.
    pub settings: Settings,
    /// Findings that gain less than this much of a step are left out, in percent.
    pub least_percent: f64,
    /// Threads for replay; 0 means one per core. Never changes the result.
    pub threads: usize,
    /// Whether no other rank's findings are merged with those of the trace: then they need not be looked for in all of it, too, where its
    /// steps are inferred.
    pub is_alone: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { scope: Scope::default(), settings: Settings::default(), least_percent: 0.5, threads: 0, is_alone: false }
    }
}
