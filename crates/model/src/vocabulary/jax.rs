//! Vocabulary of JAX, libraries on it, and PyTorch/XLA: package folders, and Optax as optimizer code.
//!
//! Steps are numbered by an argument (`step_num`), which sources read: `jax.profiler.StepTraceAnnotation`, which the
//! loops of Flax' and MaxText's examples write around each step, and PyTorch/XLA's `StepTrace`. The packages are from
//! their sources only; XProf shortens the files of frames, so only other recorders have them.

use super::Framework;
use super::TrainingPhase::Optimizer;

/// Folder of gradient transformations: the whole update except the addition to the parameters.
const OPTAX: &str = "optax/";

pub(super) const FRAMEWORK: Framework = Framework {
    packages: &["jax/", "jaxlib/", "flax/", OPTAX, "orbax/", "chex/", "haiku/", "equinox/", "torch_xla/"],
    // `GradientTransformation.update` of each optimizer, and `apply_updates` in `optax/_src/update.py`.
    code: &[super::code(Optimizer, OPTAX, &[])],
    ..Framework::named("JAX")
};

#[cfg(test)]
mod tests {
    use super::super::{TrainingPhase, phase_of_code};

    #[test]
    fn updates_are_the_optimizers() {
        let phase = phase_of_code("/venv/lib/python3.11/site-packages/optax/_src/transform.py", "update_fn");
        assert_eq!(phase, Some(TrainingPhase::Optimizer));
    }
}
