//! Code that creates, moves or loads weights and buffers of modules, by file and function.

use super::is_in_folder;

/// Functions of files (as Python imports them) or of folders (which end with `/`); empty for all functions.
const CODE: &[(&str, &[&str])] = &[
    // PyTorch: `Module.to`, `cuda`, `half` … call `_apply`; layers are created in `__init__` and `reset_parameters`.
    (
        "torch/nn/modules/module.py",
        &[
            "_apply",
            "_load_from_state_dict",
            "bfloat16",
            "convert",
            "cuda",
            "double",
            "float",
            "half",
            "load",
            "load_state_dict",
            "register_buffer",
            "register_parameter",
            "to",
            "to_empty",
        ],
    ),
    ("torch/nn/modules/", &["__init__", "_reset_parameters", "reset_parameters"]),
    ("torch/nn/parameter.py", &[]),
    // safetensors: `load_file`, `load_model`.
    ("safetensors/", &[]),
    // Hugging Face: `PreTrainedModel.from_pretrained` and its callees, Accelerate's loading of checkpoints.
    (
        "transformers/modeling_utils.py",
        &[
            "_load_pretrained_model",
            "_load_state_dict_into_meta_model",
            "_load_state_dict_into_model",
            "from_pretrained",
            "load_state_dict",
        ],
    ),
    ("transformers/core_model_loading.py", &[]),
    ("accelerate/big_modeling.py", &[]),
    ("accelerate/utils/modeling.py", &["load_checkpoint_in_model", "load_state_dict", "set_module_tensor_to_device"]),
    ("diffusers/models/model_loading_utils.py", &[]),
    // vLLM and SGLang: their loaders create empty weights and fill them.
    ("vllm/model_executor/model_loader/", &[]),
    ("sglang/srt/model_loader/", &[]),
];

/// True if a function creates, moves or loads weights and buffers of modules.
#[must_use]
pub fn makes_weights(file: &str, function: &str) -> bool {
    let method = function.rsplit('.').next().unwrap_or(function);
    CODE.iter()
        .any(|(code, functions)| is_in_folder(file, code) && (functions.is_empty() || functions.contains(&method)))
}

#[cfg(test)]
mod tests {
    use super::makes_weights;

    #[test]
    fn functions_that_create_move_or_load_weights() {
        let torch = |file: &str| format!("/env/lib/python3.11/site-packages/torch/nn/modules/{file}");
        assert!(makes_weights(&torch("module.py"), "_apply"));
        assert!(makes_weights(&torch("linear.py"), "Linear.__init__"));
        assert!(makes_weights("/env/site-packages/safetensors/torch.py", "load_file"));
        assert!(makes_weights("/env/site-packages/transformers/modeling_utils.py", "from_pretrained"));
        // Calls of modules, and classes of the program with arbitrary content.
        assert!(!makes_weights(&torch("module.py"), "_call_impl"));
        assert!(!makes_weights(&torch("linear.py"), "forward"));
        assert!(!makes_weights("/srv/cache.py", "KeyValueCache.__init__"));
        assert!(!makes_weights("/srv/my-torch/nn/parameter.py", "fill"));
    }
}
