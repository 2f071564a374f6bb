//! Vocabulary of Megatron-LM and Megatron Core: phase spans, functions by training phase, and package folders.
//!
//! `nvtx_range_push` and `nvtx_decorator` of `core/utils.py` write NVTX ranges (roctx on AMD) if
//! `configure_nvtx_profiling` enables them (`--nvtx-ranges`): the module and the function, and usually a part of it.
//! Its timers (`forward-backward`, `optimizer`) write nothing into traces. With `--profile` the training loop calls
//! `prof.step()` of PyTorch's profiler, or uses `emit_nvtx`, which writes operators and PyTorch's optimizer marks as
//! ranges. Both give steps without Megatron's marks. All names are from the sources of Megatron Core 0.16; none was
//! observed in a recorded trace.

use super::TrainingPhase::{Backward, Communication, DataLoading, Forward, Optimizer};
use super::{Framework, code, mixed, phase};

pub(super) const FRAMEWORK: Framework = Framework {
    // Installed package. `megatron/training` and the adjacent scripts exist only in the checkout, where users change
    // them.
    packages: &["megatron/core/"],
    checkouts: &["/Megatron-LM/"],
    spans: &[
        // `core/pipeline_parallel/p2p_communication.py`: `send_forward_recv_backward` and similar ones, which are
        // neither forward nor backward.
        phase(Communication, "megatron.core.pipeline_parallel.p2p_communication.*"),
        // `core/pipeline_parallel/schedules.py`, `forward_backward_pipelining_with_interleaving`: forward passes only,
        // then alternating passes, then backward passes only, and last the rest of the gradient reduction.
        phase(Forward, "megatron.core.pipeline_parallel.schedules.*.warmup"),
        phase(Backward, "megatron.core.pipeline_parallel.schedules.*.cooldown"),
        phase(Communication, "megatron.core.pipeline_parallel.schedules.*.misc"),
        mixed("megatron.core.pipeline_parallel.schedules.*"),
        // `core/fusions`: autograd functions.
        phase(Backward, "megatron.core.fusions.*.backward"),
        phase(Forward, "megatron.core.fusions.*.forward"),
        // Parts of layers: `megatron.core.transformer.attention.forward.core_attention`, `….mlp.forward.linear_fc1`.
        phase(Forward, "megatron.core.transformer.*"),
        phase(Forward, "megatron.core.ssm.*"),
        phase(Forward, "megatron.core.models.*"),
    ],
    code: &[
        code(Communication, "megatron/core/pipeline_parallel/p2p_communication.py", &[]),
        code(
            Communication,
            "megatron/core/tensor_parallel/mappings.py",
            &[
                "_reduce",
                "_gather_along_last_dim",
                "_gather_along_first_dim",
                "_reduce_scatter_along_last_dim",
                "_reduce_scatter_along_first_dim",
            ],
        ),
        code(
            Communication,
            "megatron/core/distributed/param_and_grad_buffer.py",
            &["start_param_sync", "finish_param_sync", "start_grad_sync", "finish_grad_sync"],
        ),
        code(
            Communication,
            "megatron/core/distributed/distributed_data_parallel.py",
            &["start_param_sync", "start_grad_sync", "finish_grad_sync"],
        ),
        code(Communication, "megatron/core/distributed/finalize_model_grads.py", &[]),
        code(DataLoading, "megatron/core/datasets/", &[]),
        code(Forward, "megatron/core/pipeline_parallel/schedules.py", &["forward_step"]),
        code(Backward, "megatron/core/pipeline_parallel/schedules.py", &["backward_step", "custom_backward"]),
        code(Optimizer, "megatron/core/optimizer/", &[]),
    ],
    ..Framework::named("Megatron-LM")
};

#[cfg(test)]
mod tests {
    use super::super::{phase_of_code, phase_span};
    use super::*;

    #[test]
    fn schedule_and_layer_ranges_map_to_phases() {
        for (name, expected) in [
            ("megatron.core.pipeline_parallel.p2p_communication.send_forward_recv_backward", Some(Communication)),
            (
                "megatron.core.pipeline_parallel.schedules.forward_backward_pipelining_with_interleaving.warmup",
                Some(Forward),
            ),
            ("megatron.core.pipeline_parallel.schedules.forward_backward_pipelining_with_interleaving.steady", None),
            (
                "megatron.core.pipeline_parallel.schedules.forward_backward_pipelining_with_interleaving.cooldown",
                Some(Backward),
            ),
            ("megatron.core.transformer.mlp.forward.linear_fc1", Some(Forward)),
            ("megatron.core.fusions.fused_bias_swiglu.backward", Some(Backward)),
        ] {
            assert_eq!(phase_span(name).map(|span| span.phase), Some(expected), "{name}");
        }
        assert!(phase_span("forward-backward").is_none());
    }

    #[test]
    fn core_functions_map_to_phases() {
        for (file, function, expected) in [
            ("megatron/core/pipeline_parallel/schedules.py", "forward_step", Forward),
            ("megatron/core/pipeline_parallel/schedules.py", "backward_step", Backward),
            ("/opt/Megatron-LM/megatron/core/optimizer/optimizer.py", "step_with_ready_grads", Optimizer),
            ("megatron/core/distributed/finalize_model_grads.py", "finalize_model_grads", Communication),
            ("megatron/core/tensor_parallel/mappings.py", "_reduce", Communication),
        ] {
            assert_eq!(phase_of_code(file, function), Some(expected), "{file}: {function}");
        }
        let schedule = phase_of_code("megatron/core/pipeline_parallel/schedules.py", "forward_backward_no_pipelining");
        assert_eq!(schedule, None);
    }
}
