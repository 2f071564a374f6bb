//! Vocabulary of the inference engines SGLang and vLLM: names of their step spans. All names but one were observed in
//! recorded traces.

use super::{Framework, StepRole, StepSpan};

/// Vocabulary of SGLang and vLLM. Their code does not count as library code: a serving program may have no other.
pub(super) const ENGINES: Framework = Framework {
    steps: &[
        // SGLang: the scheduler's batch, such as `step[DECODE bs=31]`.
        StepSpan { name: "step[*]", role: StepRole::Whole },
        // vLLM: the worker's batch, such as `execute_4_context_0(…)_generation_4(…)` and `execute_context_2(512)_generation_3(3)`.
        StepSpan { name: "execute_*context_*_generation_*", role: StepRole::Whole },
        // vLLM: the worker's batch in `annotate_profile` of earlier versions, such as `execute_new_1_cached_8`; from
        // its source only.
        StepSpan { name: "execute_new_*_cached_*", role: StepRole::Whole },
    ],
    ..Framework::named("SGLang and vLLM")
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_servers_are_steps() {
        for name in ["step[DECODE bs=31]", "execute_context_2(512)_generation_3(3)", "execute_new_1_cached_8"] {
            assert_eq!(ENGINES.step_role(name), Some(StepRole::Whole), "{name}");
        }
        for name in ["step[", "execute_diffusion_1_1024x1024", "execute_new_request"] {
            assert_eq!(ENGINES.step_role(name), None, "{name}");
        }
    }
}
