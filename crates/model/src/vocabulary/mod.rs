//! Framework vocabulary as data: the spans that training frameworks and inference engines write into traces, the phase of training that
//! a function of theirs belongs to, and the packages whose code is not the user's. One module per framework.
//!
//! It lives in the bottom crate because sources ask it for marks of steps, analyses for phases and source locations, and memory analyses
//! for the phase of an allocation. Names of operators and kernels, of which only analyses know what they compute, are in the vocabulary of
//! `analyze`.
//!
//! Each name has a comment with the project and the function that writes it. The modules say which names were seen in recorded traces
//! and which are known from sources alone.

pub mod deepspeed;
mod hugging_face;
mod inference;
mod jax;
pub mod lightning;
mod megatron;
mod packages;
mod pattern;
mod tensorflow;
mod weights;

pub use packages::{TORCH, is_framework_code, is_generated_code, is_in_folder, is_in_package, is_own_code};
pub use pattern::matches;
pub use weights::makes_weights;

/// A phase of training, as far as a framework's own names tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainingPhase {
    /// Loading and preparing data.
    DataLoading,
    /// The forward pass.
    Forward,
    /// The backward pass.
    Backward,
    /// Collectives, and what prepares them.
    Communication,
    /// The optimizer, and what it does to gradients.
    Optimizer,
}

impl TrainingPhase {
    /// Every phase.
    pub const ALL: [Self; 5] = [Self::DataLoading, Self::Forward, Self::Backward, Self::Communication, Self::Optimizer];
}

/// The role of a span in a training or serving loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepRole {
    /// The span is a step.
    Whole,
    /// A step ends with the span, and the next one begins.
    End,
}

/// A span that marks steps.
#[derive(Clone, Copy, Debug)]
pub struct StepSpan {
    /// Pattern of its name (see [`matches()`]).
    pub name: &'static str,
    /// What it is of a step.
    pub role: StepRole,
}

/// A span whose name tells a phase.
#[derive(Clone, Copy, Debug)]
pub struct PhaseSpan {
    /// Pattern of its name (see [`matches()`]). It fits no name that a program is likely to give a span of its own.
    pub name: &'static str,
    /// The phase; none for a span of several, whose name would mislead rules for spans of any program.
    pub phase: Option<TrainingPhase>,
    /// Whether the optimizer's step calls it as its closure: its phase then is its own, not the optimizer's.
    pub in_closure: bool,
}

/// Functions of a framework that belong to a phase.
#[derive(Clone, Copy, Debug)]
pub struct PhaseCode {
    /// The file as Python imports it (`deepspeed/runtime/engine.py`), or a folder of such files, which ends with `/`.
    pub file: &'static str,
    /// The functions, without their class; empty for all of them.
    pub functions: &'static [&'static str],
    /// The phase.
    pub phase: TrainingPhase,
}

/// A training framework or an inference engine.
#[derive(Clone, Copy, Debug)]
pub struct Framework {
    /// Name.
    pub name: &'static str,
    /// Folders of its Python packages, each with a `/` at its end.
    pub packages: &'static [&'static str],
    /// Folders that its source is checked out to, down to where its packages lie: `/Megatron-LM/`.
    pub checkouts: &'static [&'static str],
    /// Spans that mark steps.
    pub steps: &'static [StepSpan],
    /// Spans that tell a phase, the more special ones first.
    pub spans: &'static [PhaseSpan],
    /// Code that tells a phase.
    pub code: &'static [PhaseCode],
}

impl Framework {
    /// A framework of which nothing but its name is known.
    const fn named(name: &'static str) -> Self {
        Self { name, packages: &[], checkouts: &[], steps: &[], spans: &[], code: &[] }
    }

    /// What a span of this name is of a step, by this framework's marks.
    #[must_use]
    pub fn step_role(&self, span: &str) -> Option<StepRole> {
        self.steps.iter().find(|step| matches(step.name, span)).map(|step| step.role)
    }
}

/// All frameworks that are known, in the order in which their marks of steps are looked for.
pub const FRAMEWORKS: &[Framework] = &[
    lightning::FRAMEWORK,
    inference::ENGINES,
    deepspeed::FRAMEWORK,
    megatron::FRAMEWORK,
    hugging_face::FRAMEWORK,
    jax::FRAMEWORK,
    tensorflow::FRAMEWORK,
];

/// The span of a framework that has this name and tells a phase, or says that it tells none.
#[must_use]
pub fn phase_span(name: &str) -> Option<&'static PhaseSpan> {
    FRAMEWORKS.iter().flat_map(|framework| framework.spans).find(|span| matches(span.name, name))
}

/// The phase of training that a function of a framework belongs to, by its file and its name with or without its class.
#[must_use]
pub fn phase_of_code(file: &str, function: &str) -> Option<TrainingPhase> {
    let method = function.rsplit('.').next().unwrap_or(function);
    let is_of = |code: &&PhaseCode| {
        let at_file = || file.strip_suffix(code.file).is_some_and(|folder| folder.is_empty() || folder.ends_with('/'));
        let is_file = if code.file.ends_with('/') { is_in_package(file, code.file) } else { at_file() };
        is_file && (code.functions.is_empty() || code.functions.contains(&method))
    };
    FRAMEWORKS.iter().flat_map(|framework| framework.code).find(is_of).map(|code| code.phase)
}

/// A span that tells `phase`.
const fn phase(phase: TrainingPhase, name: &'static str) -> PhaseSpan {
    PhaseSpan { name, phase: Some(phase), in_closure: false }
}

/// A span that tells `phase`, also where the optimizer's step calls it.
const fn closure(phase: TrainingPhase, name: &'static str) -> PhaseSpan {
    PhaseSpan { name, phase: Some(phase), in_closure: true }
}

/// A span of several phases.
const fn mixed(name: &'static str) -> PhaseSpan {
    PhaseSpan { name, phase: None, in_closure: false }
}

/// Functions of a file.
const fn code(phase: TrainingPhase, file: &'static str, functions: &'static [&'static str]) -> PhaseCode {
    PhaseCode { file, functions, phase }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_form_that_those_who_ask_rely_on() {
        for framework in FRAMEWORKS {
            let name = framework.name;
            assert!(
                framework.packages.iter().all(|folder| folder.ends_with('/') && !folder.starts_with('/')),
                "{name}"
            );
            assert!(
                framework.checkouts.iter().all(|folder| folder.ends_with('/') && folder.starts_with('/')),
                "{name}"
            );
            for code in framework.code {
                let is_own = framework.packages.iter().any(|folder| code.file.starts_with(folder));
                assert!(is_own && (code.file.ends_with('/') || code.file.ends_with(".py")), "{}", code.file);
                assert!(code.functions.iter().all(|function| !function.contains('.')), "{}", code.file);
            }
        }
    }

    #[test]
    fn functions_are_known_by_file_and_name() {
        let phase = phase_of_code("/venv/lib/python3.11/site-packages/deepspeed/runtime/engine.py", "step");
        assert_eq!(phase, Some(TrainingPhase::Optimizer));
        assert_eq!(
            phase_of_code("deepspeed/runtime/engine.py", "DeepSpeedEngine.step"),
            Some(TrainingPhase::Optimizer)
        );
        assert_eq!(phase_of_code("deepspeed/runtime/engine.py", "train"), None);
        assert_eq!(phase_of_code("mydeepspeed/runtime/engine.py", "step"), None, "another package");
        assert_eq!(phase_of_code("train.py", "step"), None);
    }
}
