//! Settings of an opened run for reading source text, and the source files that were read.

use crate::OpenRun;
use crate::source_roots::SourceRoots;
use std::collections::BTreeSet;
use std::path::PathBuf;

impl OpenRun {
    /// Allow reading source text below additional directories, also for the baseline run. Without them, only inputs
    /// that are directories are readable, because a trace may name any file.
    #[must_use]
    pub fn with_source_roots(self, roots: &[PathBuf]) -> Self {
        self.with_sources(&SourceRoots::below_named(roots))
    }

    /// Forbid reading source text, for this run and for the baseline run.
    #[must_use]
    pub fn without_source(self) -> Self {
        self.with_sources(&SourceRoots::off())
    }

    /// Apply the settings for source text to this run and to its baseline run.
    fn with_sources(mut self, allowed: &SourceRoots) -> Self {
        allowed.apply_to(&mut self.source_roots);
        if let Some(baseline) = &mut self.baseline {
            allowed.apply_to(&mut baseline.source_roots);
        }
        self
    }

    /// Return the source files that were read for answers since the last call, also for the baseline run, and clear the
    /// list.
    pub fn take_source_files(&self) -> BTreeSet<String> {
        let of_baseline = self.baseline.iter().flat_map(|baseline| baseline.source_roots.take_read());
        self.source_roots.take_read().into_iter().chain(of_baseline).collect()
    }
}
