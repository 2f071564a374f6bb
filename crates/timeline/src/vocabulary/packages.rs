//! Names of Python packages and files by their role for a model; [`stackline_model::vocabulary`] determines the owner
//! of a file.

/// Libraries whose functions are parts of models or prepare model inputs. Users read this code and copy parts to change
/// them.
pub(crate) const MODEL_LIBRARIES: &[&str] =
    &["transformers/", "diffusers/", "peft/", "timm/", "torchvision/", "sglang/", "vllm/", "megatron/core/"];

/// File names, without folder, of JAX, its dependencies and Python's standard library in XProf frames. A user's file
/// with the same name cannot be distinguished.
pub(crate) const XPROF_LIBRARY_FILES: &[&str] = &[
    "ad.py",
    "api.py",
    "api_util.py",
    "array.py",
    "array_methods.py",
    "batching.py",
    "compiler.py",
    "contextlib.py",
    "convolution.py",
    "core.py",
    "dispatch.py",
    "enum.py",
    "fromnumeric.py",
    "lax.py",
    "lax_numpy.py",
    "layout.py",
    "linear_util.py",
    "mesh.py",
    "mlir.py",
    "numeric.py",
    "partial_eval.py",
    "pjit.py",
    "profiler.py",
    "pxla.py",
    "reductions.py",
    "sharding.py",
    "sharding_impls.py",
    "slicing.py",
    "thread.py",
    "traceback_util.py",
    "tree_util.py",
    "ufunc_api.py",
    "util.py",
    "xla_bridge.py",
];
