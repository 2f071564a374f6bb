//! Framework vocabulary as data: step and phase spans of training frameworks and inference engines, phases of their
//! functions, and packages whose code is not the user's. One module per framework.
//!
//! The vocabulary is in the lowest crate because three others use it: sources for step marks, analyses for phases and
//! source locations, memory analyses for the phase of an allocation. Names of operators and kernels, whose computation
//! only analyses know, are in the vocabulary of `analyze`.
//!
//! Each name has a comment with the project and the function that writes it. The modules state which names were
//! observed in recorded traces, and which are from sources only.

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

/// Training phase, recognized by the names of a framework's spans and functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainingPhase {
    /// Loading and preparing data.
    DataLoading,
    /// The forward pass.
    Forward,
    /// The backward pass.
    Backward,
    /// Collectives, and their preparation.
    Communication,
    /// The optimizer, and its changes of gradients.
    Optimizer,
}

impl TrainingPhase {
    /// Every phase.
    pub const ALL: [Self; 5] = [Self::DataLoading, Self::Forward, Self::Backward, Self::Communication, Self::Optimizer];
}

/// Role of a span in a training or serving loop: a whole step, or the end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepRole {
    /// The span is a step.
    Whole,
    /// A step ends with the span, and the next one begins.
    End,
}

/// Span that marks steps.
#[derive(Clone, Copy, Debug)]
pub struct StepSpan {
    /// Pattern of the name (see [`matches()`]).
    pub name: &'static str,
    /// Role of the span.
    pub role: StepRole,
}

/// Span that marks a phase.
#[derive(Clone, Copy, Debug)]
pub struct PhaseSpan {
    /// Pattern of the name (see [`matches()`]), which does not match likely names of a program's own spans.
    pub name: &'static str,
    /// Phase; none for a span with several phases, whose name would mislead rules for spans of any program.
    pub phase: Option<TrainingPhase>,
    /// True if the optimizer's step calls it as its closure: then it has its own phase, not the optimizer's.
    pub in_closure: bool,
}

/// Functions of a framework that belong to a phase.
#[derive(Clone, Copy, Debug)]
pub struct PhaseCode {
    /// File as Python imports it (`deepspeed/runtime/engine.py`), or a folder of such files, which ends with `/`.
    pub file: &'static str,
    /// Functions, without their class; empty for all of them.
    pub functions: &'static [&'static str],
    /// The phase.
    pub phase: TrainingPhase,
}

/// A training framework or an inference engine.
#[derive(Clone, Copy, Debug)]
pub struct Framework {
    /// Name.
    pub name: &'static str,
    /// Folders of its Python packages, with a `/` at the end.
    pub packages: &'static [&'static str],
    /// Folders of source checkouts, down to the packages: `/Megatron-LM/`.
    pub checkouts: &'static [&'static str],
    /// Spans that mark steps.
    pub steps: &'static [StepSpan],
    /// Spans that mark a phase, more specific ones first.
    pub spans: &'static [PhaseSpan],
    /// Code that belongs to a phase.
    pub code: &'static [PhaseCode],
}

impl Framework {
    /// Create a framework that has a name and no vocabulary yet.
    const fn named(name: &'static str) -> Self {
        Self { name, packages: &[], checkouts: &[], steps: &[], spans: &[], code: &[] }
    }

    /// Role of a span with this name, by the framework's step marks; `None` if the span marks no step.
    #[must_use]
    pub fn step_role(&self, span: &str) -> Option<StepRole> {
        self.steps.iter().find(|step| matches(step.name, span)).map(|step| step.role)
    }
}

/// Known frameworks, in the order in which their step marks are searched.
pub const FRAMEWORKS: &[Framework] = &[
    lightning::FRAMEWORK,
    inference::ENGINES,
    deepspeed::FRAMEWORK,
    megatron::FRAMEWORK,
    hugging_face::FRAMEWORK,
    jax::FRAMEWORK,
    tensorflow::FRAMEWORK,
];

/// Entry of a framework's span with this name: the training phase that it marks, or `phase: None` if it covers several.
/// `None` for spans of no framework.
#[must_use]
pub fn phase_span(name: &str) -> Option<&'static PhaseSpan> {
    FRAMEWORKS.iter().flat_map(|framework| framework.spans).find(|span| matches(span.name, name))
}

/// Training phase of a framework's function, by its file and its name with or without its class; `None` for other
/// functions.
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

/// Create the entry of a span that marks a training phase.
const fn phase(phase: TrainingPhase, name: &'static str) -> PhaseSpan {
    PhaseSpan { name, phase: Some(phase), in_closure: false }
}

/// Create the entry of a span that marks `phase` even where the optimizer's step calls it as its closure.
const fn closure(phase: TrainingPhase, name: &'static str) -> PhaseSpan {
    PhaseSpan { name, phase: Some(phase), in_closure: true }
}

/// Create the entry of a span that covers several training phases.
const fn mixed(name: &'static str) -> PhaseSpan {
    PhaseSpan { name, phase: None, in_closure: false }
}

/// Create the entry of functions in a framework's file that belong to a training phase.
const fn code(phase: TrainingPhase, file: &'static str, functions: &'static [&'static str]) -> PhaseCode {
    PhaseCode { file, functions, phase }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vocabulary_entries_have_the_required_form() {
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
    fn functions_are_matched_by_file_and_name() {
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
