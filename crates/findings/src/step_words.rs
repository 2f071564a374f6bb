//! Wordings of titles and facts for windows with several steps, with one step, and without steps.

use super::finding::Fact;

/// Suffix of displayed names of facts whose value is per step.
const PER_STEP: &str = " per step";
/// The same suffix in names of rules' facts.
const A_STEP: &str = ", a step";

/// Wordings for a number of steps.
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
    pub(super) fn a_step(self) -> &'static str {
        if self.steps == 0 { "" } else { " per step" }
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
    pub(super) fn times_a_step(self) -> &'static str {
        match self.steps {
            0 => " times",
            1 => " times in the one analyzed step",
            _ => " times per step",
        }
    }

    /// Subject and verb of a title about waits.
    pub(super) fn steps_wait(self) -> &'static str {
        if self.steps == 0 { "the program waits" } else { "steps wait" }
    }

    /// Subject and verb of a title about work of each step.
    pub(super) fn each_step_holds(self) -> &'static str {
        match self.steps {
            0 => "the program holds",
            1 => "the one analyzed step holds",
            _ => "each step holds",
        }
    }

    /// Fact with its displayed name. Without steps, no value is per step.
    pub(super) fn name(self, fact: &Fact) -> Fact<String> {
        let stem = fact.name.strip_suffix(PER_STEP).or_else(|| fact.name.strip_suffix(A_STEP));
        let name = match stem {
            Some(stem) if self.steps == 0 => stem.to_owned(),
            Some(stem) => format!("{stem}{PER_STEP}"),
            None => fact.name.to_owned(),
        };
        Fact { name, value: fact.value, unit: fact.unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_no_step_one_and_several() {
        let words = [0, 1, 4].map(StepWords::new);
        let said = |of: fn(StepWords) -> &'static str| words.map(of);
        assert_eq!(said(StepWords::a_step), ["", " per step", " per step"]);
        assert_eq!(said(StepWords::in_each_step), ["", " in the one analyzed step", " in each step"]);
        assert_eq!(said(StepWords::steps_wait), ["the program waits", "steps wait", "steps wait"]);
        // Words within a name are not a suffix.
        let named = |name| words.map(|words| words.name(&Fact::time(name, 1)).name);
        assert_eq!(named("total per step"), ["total", "total per step", "total per step"]);
        assert_eq!(named("total, a step"), ["total", "total per step", "total per step"]);
        assert_eq!(named("of a step ahead"), ["of a step ahead"; 3]);
    }
}
