//! Vocabulary of Hugging Face (Transformers, Accelerate and libraries on them): functions by training phase, and
//! package folders.
//!
//! The libraries write no spans. Steps and phases are those of PyTorch's optimizer and loader, which they call.
//! `AcceleratedOptimizer` is a PyTorch optimizer, so PyTorch marks its steps. The functions below are from the sources
//! of Accelerate 1.15 and Transformers 4. Traces of the Trainer were recorded without Python frames.

use super::TrainingPhase::{Backward, DataLoading, Optimizer};
use super::{Framework, code};

pub(super) const FRAMEWORK: Framework = Framework {
    packages: &[
        "transformers/",
        "accelerate/",
        "trl/",
        "huggingface_hub/",
        "safetensors/",
        // Other programs also have a folder `datasets`.
        "datasets/formatting/",
    ],
    checkouts: &["/transformers/src/", "/accelerate/src/", "/datasets/src/"],
    code: &[
        // `Accelerator.backward`: scales the loss and runs backward.
        code(Backward, "accelerate/accelerator.py", &["backward"]),
        // `Accelerator.clip_grad_norm_`, which sums norms over ranks for sharded models.
        code(Optimizer, "accelerate/accelerator.py", &["clip_grad_norm_", "unscale_gradients"]),
        // `AcceleratedOptimizer.step`, and its wrapper for the gradient scaler.
        code(Optimizer, "accelerate/optimizer.py", &["step", "zero_grad", "patched_step"]),
        // `DataLoaderShard.__iter__`: prefetches one batch and copies it to the device.
        code(DataLoading, "accelerate/data_loader.py", &["__iter__"]),
        // `Trainer.get_batch_samples`: takes the batches of one step.
        code(DataLoading, "transformers/trainer.py", &["get_batch_samples", "_prepare_inputs"]),
    ],
    ..Framework::named("Hugging Face")
};

#[cfg(test)]
mod tests {
    use super::super::phase_of_code;
    use super::*;

    #[test]
    fn wrappers_have_the_phase_of_what_they_wrap() {
        assert_eq!(phase_of_code("accelerate/accelerator.py", "Accelerator.backward"), Some(Backward));
        assert_eq!(phase_of_code("accelerate/optimizer.py", "step"), Some(Optimizer));
        assert_eq!(phase_of_code("accelerate/data_loader.py", "__iter__"), Some(DataLoading));
        assert_eq!(phase_of_code("accelerate/accelerator.py", "prepare"), None);
    }
}
