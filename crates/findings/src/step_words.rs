//! Wordings of titles and facts for windows with several steps, with one step, and without steps.

use super::finding::Fact;
use stackline_model::format::duration;

/// Suffix of names of facts whose value is per step.
const PER_STEP: &str = " per step";

/// Phrases for titles and facts, such as "per step", by a number of steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepWords {
    steps: usize,
}

impl StepWords {
    /// Wordings for this number of steps; 0 for a window without steps.
    pub(super) fn new(steps: usize) -> Self {
        Self { steps }
    }

    /// Suffix of an amount per step: `40 kernels per step`. Without steps, the amount is that of the window.
    pub(super) fn per_step_suffix(self) -> &'static str {
        if self.steps == 0 { "" } else { " per step" }
    }

    /// Time per step in ns, as text: `12.00 ms per step`. Without steps, the time is that of the window.
    pub(super) fn time_per_step(self, ns: i64) -> String {
        format!("{}{}", duration(ns), self.per_step_suffix())
    }

    /// Suffix of recurring work: `copy.deepcopy in each step`.
    pub(super) fn in_each_step(self) -> &'static str {
        match self.steps {
            0 => "",
            1 => " in the one analyzed step",
            _ => " in each step",
        }
    }

    /// Suffix of a frequency: `3 times per step`.
    pub(super) fn times_per_step_suffix(self) -> &'static str {
        match self.steps {
            0 => " times",
            1 => " times in the one analyzed step",
            _ => " times per step",
        }
    }

    /// Copy a fact, with the name that is displayed: without steps, the name loses the suffix "per step".
    pub(super) fn displayed_fact(self, fact: &Fact) -> Fact<String> {
        let name = fact.name.strip_suffix(PER_STEP).filter(|_| self.steps == 0).unwrap_or(fact.name);
        Fact { name: name.to_owned(), value: fact.value, unit: fact.unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_no_step_one_and_several() {
        let words = [0, 1, 4].map(StepWords::new);
        let suffixes = |of: fn(StepWords) -> &'static str| words.map(of);
        assert_eq!(suffixes(StepWords::per_step_suffix), ["", " per step", " per step"]);
        assert_eq!(
            words.map(|words| words.time_per_step(15_000)),
            ["15.00 µs", "15.00 µs per step", "15.00 µs per step"]
        );
        assert_eq!(suffixes(StepWords::in_each_step), ["", " in the one analyzed step", " in each step"]);
        // Words within a name are not a suffix.
        let named = |name| words.map(|words| words.displayed_fact(&Fact::time(name, 1)).name);
        assert_eq!(named("total per step"), ["total", "total per step", "total per step"]);
        assert_eq!(named("per step ahead"), ["per step ahead"; 3]);
    }
}
