//! Vocabulary of DeepSpeed: step and phase spans, functions by training phase, and package folders.
//!
//! `instrument_w_nvtx` of `utils/nvtx.py` writes an NVTX range (roctx on AMD) around decorated functions, with their
//! qualified names, unless they run in `torch.compile`. PyTorch's profiler does not record them. All names are from the
//! sources of DeepSpeed 0.19. None was observed in a recorded trace, except the files of gradient reduction in Python
//! frames.

use super::TrainingPhase::{Backward, Communication, DataLoading, Forward, Optimizer};
use super::{Framework, StepRole, StepSpan, code, mixed, phase};

/// Parts of names of frames that reduce sharded gradients: ZeRO stages 1 and 2, in files of both names.
pub const SHARDED_GRADIENTS: &[&str] =
    &["deepspeed/runtime/zero/stage_1_and_2.py(", "deepspeed/runtime/zero/stage2.py("];

pub(super) const FRAMEWORK: Framework = Framework {
    packages: &["deepspeed/"],
    checkouts: &["/DeepSpeed/"],
    // `runtime/zero/stage3.py`: one step of all groups of parameters, each of which is a step of PyTorch's optimizer.
    steps: &[StepSpan { name: "DeepSpeedZeroOptimizer_Stage3.step", role: StepRole::End }],
    spans: &[
        // `runtime/engine.py`.
        phase(Forward, "DeepSpeedEngine.forward"),
        phase(Communication, "DeepSpeedEngine.allreduce_gradients"),
        phase(Backward, "DeepSpeedEngine.backward"),
        // `runtime/zero/partitioned_param_coordinator.py`: gathers, prefetches and releases parameters of modules:
        // `fetch_sub_module`, `__all_gather_params`, `release_sub_module`.
        phase(Communication, "PartitionedParameterCoordinator.*"),
        // `runtime/zero/parameter_offload.py`: hooks of modules that call the coordinator, named by their position:
        // `_start_of_forward_hook`, `_post_forward_module_hook`, `_run_before_backward_function`.
        phase(Communication, "DeepSpeedZeRoOffload.*_hook"),
        phase(Communication, "DeepSpeedZeRoOffload.*_backward_function"),
        // `runtime/zero/partition_parameters.py`.
        phase(Communication, "Init.*.all_gather_coalesced"),
        phase(Communication, "Init._all_gather"),
        phase(Communication, "*GatherCoalescedHandle.wait"),
        phase(Communication, "AllReduceCoalescedHandle.wait"),
        // `runtime/zero/stage3.py`: hooks of gradients, and the buckets that they fill.
        phase(Communication, "DeepSpeedZeroOptimizer_Stage3.*.reduce_partition_and_remove_grads"),
        phase(Communication, "DeepSpeedZeroOptimizer_Stage3.*_ipg_bucket"),
        phase(Communication, "DeepSpeedZeroOptimizer_Stage3.*_ipg_grads"),
        phase(Communication, "DeepSpeedZeroOptimizer_Stage3.__avg_scatter_*"),
        phase(Communication, "DeepSpeedZeroOptimizer_Stage3.partition_grads"),
        phase(Communication, "DeepSpeedZeroOptimizer_Stage3.independent_gradient_partition_epilogue"),
        mixed("DeepSpeedZeroOptimizer_Stage3._partition_all_parameters"),
        // The same file: `step`, `_prepare_sub_group`, `unscale_and_clip_grads`, `has_overflow`, `zero_grad` and their
        // callees.
        phase(Optimizer, "DeepSpeedZeroOptimizer_Stage3.*"),
        // `runtime/comm/coalesced_collectives.py`: functions without a class.
        phase(Communication, "reduce_scatter_coalesced"),
        phase(Communication, "all_to_all_quant_reduce"),
    ],
    code: &[
        code(Communication, "deepspeed/comm/", &[]),
        code(Communication, "deepspeed/runtime/comm/", &[]),
        code(Communication, "deepspeed/runtime/zero/partitioned_param_coordinator.py", &[]),
        code(
            Communication,
            "deepspeed/runtime/zero/partition_parameters.py",
            &["all_gather", "all_gather_coalesced", "_all_gather", "wait"],
        ),
        code(
            Communication,
            "deepspeed/runtime/engine.py",
            &["allreduce_gradients", "buffered_allreduce_fallback", "allreduce_bucket", "allreduce_no_retain"],
        ),
        code(
            Communication,
            "deepspeed/runtime/zero/stage3.py",
            &[
                "reduce_partition_and_remove_grads",
                "reduce_ready_partitions_and_remove_grads",
                "__reduce_and_partition_ipg_grads",
                "__avg_scatter_grads",
                "__avg_scatter_contiguous_grads",
                "independent_gradient_partition_epilogue",
            ],
        ),
        code(
            Communication,
            "deepspeed/runtime/zero/stage_1_and_2.py",
            &[
                "reduce_gradients",
                "reduce_ready_partitions_and_remove_grads",
                "reduce_independent_p_g_buckets_and_remove_grads",
                "reduce_ipg_grads",
                "average_tensor",
                "overlapping_partition_gradients_reduce_epilogue",
                "independent_gradient_partition_epilogue",
                "allreduce_bucket",
                "buffered_reduce_fallback",
            ],
        ),
        code(Communication, "deepspeed/runtime/pipe/p2p.py", &[]),
        code(
            Communication,
            "deepspeed/runtime/pipe/engine.py",
            &[
                "_exec_send_activations",
                "_exec_recv_activations",
                "_exec_send_grads",
                "_exec_recv_grads",
                "_exec_reduce_grads",
                "_exec_reduce_tied_grads",
            ],
        ),
        code(DataLoading, "deepspeed/runtime/dataloader.py", &["__next__"]),
        code(DataLoading, "deepspeed/runtime/pipe/engine.py", &["_exec_load_micro_batch"]),
        code(Forward, "deepspeed/runtime/engine.py", &["forward"]),
        code(Forward, "deepspeed/runtime/pipe/engine.py", &["_exec_forward_pass"]),
        code(Backward, "deepspeed/runtime/engine.py", &["backward"]),
        code(Backward, "deepspeed/runtime/pipe/engine.py", &["_exec_backward_pass"]),
        code(
            Optimizer,
            "deepspeed/runtime/engine.py",
            &["step", "_take_model_step", "clip_fp32_gradients", "zero_grad"],
        ),
        code(Optimizer, "deepspeed/runtime/pipe/engine.py", &["_exec_optimizer_step"]),
        code(Optimizer, "deepspeed/runtime/zero/stage3.py", &["step", "zero_grad"]),
        code(Optimizer, "deepspeed/runtime/zero/stage_1_and_2.py", &["step", "zero_grad"]),
        code(Optimizer, "deepspeed/runtime/bf16_optimizer.py", &["step", "zero_grad"]),
        code(Optimizer, "deepspeed/runtime/fp16/fused_optimizer.py", &["step", "zero_grad"]),
        code(Optimizer, "deepspeed/runtime/fp16/unfused_optimizer.py", &["step", "zero_grad"]),
        // Kernels of optimizers, on GPUs and CPUs.
        code(Optimizer, "deepspeed/ops/adam/", &[]),
        code(Optimizer, "deepspeed/ops/lamb/", &[]),
        code(Optimizer, "deepspeed/ops/lion/", &[]),
        code(Optimizer, "deepspeed/ops/adagrad/", &[]),
    ],
    ..Framework::named("DeepSpeed")
};

#[cfg(test)]
mod tests {
    use super::super::{phase_of_code, phase_span};
    use super::*;

    #[test]
    fn engine_and_zero_ranges_map_to_phases() {
        for (name, expected) in [
            ("DeepSpeedEngine.forward", Some(Forward)),
            ("DeepSpeedEngine.backward", Some(Backward)),
            ("DeepSpeedEngine.allreduce_gradients", Some(Communication)),
            ("PartitionedParameterCoordinator.fetch_sub_module", Some(Communication)),
            ("DeepSpeedZeRoOffload.setup_zero_stage3_hooks.<locals>._start_of_forward_hook", Some(Communication)),
            ("Init._convert_to_deepspeed_param.<locals>.all_gather_coalesced", Some(Communication)),
            ("NoGatherCoalescedHandle.wait", Some(Communication)),
            ("DeepSpeedZeroOptimizer_Stage3.__reduce_and_partition_ipg_grads", Some(Communication)),
            ("DeepSpeedZeroOptimizer_Stage3.__add_grad_to_ipg_bucket", Some(Communication)),
            ("DeepSpeedZeroOptimizer_Stage3.step", Some(Optimizer)),
            ("DeepSpeedZeroOptimizer_Stage3._partition_all_parameters", None),
        ] {
            assert_eq!(phase_span(name).map(|span| span.phase), Some(expected), "{name}");
        }
        assert!(phase_span("MyEngine.forward").is_none());
    }

    #[test]
    fn engine_and_zero_functions_map_to_phases() {
        for (file, function, expected) in [
            ("deepspeed/comm/comm.py", "all_reduce", Communication),
            ("deepspeed/runtime/zero/stage_1_and_2.py", "average_tensor", Communication),
            ("deepspeed/runtime/zero/stage3.py", "DeepSpeedZeroOptimizer_Stage3.step", Optimizer),
            ("deepspeed/runtime/pipe/engine.py", "PipelineEngine._exec_backward_pass", Backward),
            ("deepspeed/ops/adam/fused_adam.py", "step", Optimizer),
        ] {
            assert_eq!(phase_of_code(file, function), Some(expected), "{file}: {function}");
        }
        assert_eq!(phase_of_code("deepspeed/runtime/zero/stage3.py", "__init__"), None);
    }

    #[test]
    fn a_step_ends_with_all_groups_of_parameters() {
        assert_eq!(FRAMEWORK.step_role("DeepSpeedZeroOptimizer_Stage3.step"), Some(StepRole::End));
    }
}
