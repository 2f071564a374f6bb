//! Vocabulary of PyTorch Lightning and Lightning Fabric: step and phase spans, functions, and package folders.
//!
//! `PyTorchProfiler` writes a span around each action of the trainer with `torch.profiler.record_function`:
//! `[pl][profile]` and the action's name; with `emit_nvtx=True` the same are NVTX ranges. Unless
//! `record_module_names=False` it also writes one around the forward pass of each module. The names below were observed
//! in a trace of Lightning 2.6 on a CPU. Names of tests, predictions, manual optimization, `emit_nvtx` and releases
//! before 2.0 are from the sources.

use super::TrainingPhase::{Backward, DataLoading, Forward, Optimizer};
use super::{Framework, PhaseSpan, StepRole, StepSpan, closure, code, matches, phase};

/// Prefix of the names of spans that Lightning's profiler writes.
pub const PROFILER: &str = "[pl]";

/// Prefix of spans of a module's forward, before the module's class with its package, a colon and its name.
/// `RegisterRecordFunction` of `profilers/pytorch.py` writes them.
pub const MODULE: &str = "[pl][module]";

/// Spans in which a loop takes its next batch. `_TrainingEpochLoop`, `_EvaluationLoop` and `_PredictionLoop` write them
/// in `_on_before_fetch`; until 2.0, names of evaluation and prediction ended with `_dataloader_next`.
const FETCHES: [&str; 5] = [
    "[pl][profile][_TrainingEpochLoop].train_dataloader_next",
    "[pl][profile][TrainingEpochLoop].train_dataloader_next",
    "[pl][profile][*EvaluationLoop].*_next",
    "[pl][profile][*EvaluationEpochLoop].*_next",
    "[pl][profile][*Prediction*Loop].predict*_next",
];

/// True if a span's name is one in which a Lightning loop takes its next batch, from any loader.
#[must_use]
pub fn takes_batch(span: &str) -> bool {
    span.starts_with(PROFILER) && FETCHES.iter().any(|fetch| matches(fetch, span))
}

/// Data-loading phase for the span pattern at an index of [`FETCHES`].
const fn fetch(at: usize) -> PhaseSpan {
    phase(DataLoading, FETCHES[at])
}

pub(super) const FRAMEWORK: Framework = Framework {
    packages: &["lightning/", "pytorch_lightning/", "lightning_fabric/", "lightning_utilities/", "torchmetrics/"],
    checkouts: &["/pytorch-lightning/src/"],
    // `_TrainingEpochLoop.advance` in `loops/training_epoch_loop.py`: forward, backward and the optimizer's step of one batch. The batch is
    // fetched before it.
    steps: &[StepSpan { name: "[pl][profile]run_training_batch", role: StepRole::Whole }],
    spans: &[
        fetch(0),
        fetch(1),
        fetch(2),
        fetch(3),
        fetch(4),
        // `_call_strategy_hook` in `trainer/call.py`; the batch's copy to the device, from `loops/training_epoch_loop.py`.
        phase(DataLoading, "[pl][profile][Strategy]*.batch_to_device"),
        // From `loops/optimization/automatic.py`. There the optimizer's step calls forward and backward as its closure.
        closure(Forward, "[pl][profile][Strategy]*.training_step"),
        phase(Forward, "[pl][profile][Strategy]*.validation_step"),
        phase(Forward, "[pl][profile][Strategy]*.test_step"),
        phase(Forward, "[pl][profile][Strategy]*.predict_step"),
        phase(Backward, "[pl][profile][Strategy]*.backward"),
        // `_call_lightning_module_hook` in `trainer/call.py`, from `loops/optimization/automatic.py` and `plugins/precision/precision.py`.
        phase(Optimizer, "[pl][profile][LightningModule]*.optimizer_step"),
        phase(Optimizer, "[pl][profile][LightningModule]*.optimizer_zero_grad"),
        phase(Optimizer, "[pl][profile][LightningModule]*.configure_gradient_clipping"),
        // `_ManualOptimization.on_run_start` in `loops/optimization/manual.py`.
        phase(Optimizer, "[pl][profile]optimizer_step"),
    ],
    code: &[
        // `_PrefetchDataFetcher.__next__` and similar ones; both package names of Lightning.
        code(DataLoading, "lightning/pytorch/loops/fetchers.py", &[]),
        code(DataLoading, "pytorch_lightning/loops/fetchers.py", &[]),
    ],
    ..Framework::named("Lightning")
};

/// Class and name of the module of a `RegisterRecordFunction` span, the class without its package. `None` for other
/// spans.
#[must_use]
pub fn module_of(span: &str) -> Option<(&str, &str)> {
    let (class, name) = span.strip_prefix(MODULE)?.split_once(": ")?;
    Some((class.rsplit('.').next().unwrap_or(class), name))
}

#[cfg(test)]
mod tests {
    use super::super::phase_span;
    use super::*;

    #[test]
    fn trainer_actions_map_to_phases() {
        let phase = |name: &str| phase_span(name).map(|span| span.phase);
        for (name, expected) in [
            ("[pl][profile][_TrainingEpochLoop].train_dataloader_next", DataLoading),
            ("[pl][profile][_EvaluationLoop].val_next", DataLoading),
            ("[pl][profile][Strategy]SingleDeviceStrategy.batch_to_device", DataLoading),
            ("[pl][profile][Strategy]DDPStrategy.training_step", Forward),
            ("[pl][profile][Strategy]DDPStrategy.backward", Backward),
            ("[pl][profile][LightningModule]Net.optimizer_step", Optimizer),
        ] {
            assert_eq!(phase(name), Some(Some(expected)), "{name}");
        }
        assert!(phase_span("[pl][profile][Strategy]DDPStrategy.training_step").is_some_and(|span| span.in_closure));
        for name in [
            "[pl][profile]run_training_epoch",
            "[pl][profile][Callback]TQDMProgressBar.on_train_start",
            "training_step",
        ] {
            assert_eq!(phase(name), None, "{name}");
        }
        assert!(takes_batch("[pl][profile][_PredictionLoop].predict_next") && !takes_batch("x.predict_next"));
    }

    #[test]
    fn steps_are_batches_of_training() {
        assert_eq!(FRAMEWORK.step_role("[pl][profile]run_training_batch"), Some(StepRole::Whole));
        assert_eq!(FRAMEWORK.step_role("[pl][profile]run_training_epoch"), None);
    }

    #[test]
    fn modules_are_named_with_their_class() {
        assert_eq!(module_of("[pl][module]torch.nn.modules.linear.Linear: head.0"), Some(("Linear", "head.0")));
        assert_eq!(module_of("[pl][profile]save_checkpoint"), None);
    }
}
