//! Wordings of titles and facts for windows with several steps, with one step, and without steps.

use super::finding::Fact;

/// How names of facts end whose value is per step.
const PER_STEP: &str = ", a step";

/// The wordings for a number of steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepWords {
    steps: usize,
}

impl StepWords {
    /// Those for so many steps; 0 if the window has none and is one as a whole.
    pub(super) fn new(steps: usize) -> Self {
        Self { steps }
    }

    /// After an amount per step: `40 kernels a step`. Without steps it is that of all of the window.
    pub(super) fn a_step(self) -> &'static str {
        if self.steps == 0 { "" } else { " a step" }
    }

    /// After work that recurs: `a list is read in each step`.
    pub(super) fn in_each_step(self) -> &'static str {
        match self.steps {
            0 => "",
            1 => " in the one step looked at",
            _ => " in each step",
        }
    }

    /// After how often it recurs: `3 times a step`.
    pub(super) fn times_a_step(self) -> &'static str {
        match self.steps {
            0 => " times",
            1 => " times in the one step looked at",
            _ => " times a step",
        }
    }

    /// The subject and verb of a title about waits.
    pub(super) fn steps_wait(self) -> &'static str {
        if self.steps == 0 { "the program waits" } else { "steps wait" }
    }

    /// The subject and verb of a title about work that each step has.
    pub(super) fn each_step_holds(self) -> &'static str {
        match self.steps {
            0 => "the program holds",
            1 => "the one step looked at holds",
            _ => "each step holds",
        }
    }

    /// A fact with its name in words: without steps no value is per step.
    pub(super) fn name(self, fact: &Fact) -> Fact<String> {
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
        let said = |of: fn(StepWords) -> &'static str| words.map(of);
        assert_eq!(said(StepWords::a_step), ["", " a step", " a step"]);
        assert_eq!(said(StepWords::in_each_step), ["", " in the one step looked at", " in each step"]);
        assert_eq!(said(StepWords::steps_wait), ["the program waits", "steps wait", "steps wait"]);
        // Words of a program's own names are no words of ours.
        let named = |name| words.map(|words| words.name(&Fact::time(name, 1)).name);
        assert_eq!(named("together, a step"), ["together", "together, a step", "together, a step"]);
        assert_eq!(named("of a step ahead"), ["of a step ahead"; 3]);
    }
}
