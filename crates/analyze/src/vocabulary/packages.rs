//! Python packages and files by what their functions are to a model; whose code a file is tells [`stackline_model::vocabulary`].

/// Libraries whose functions are parts of models, or prepare what goes into them: people read them, and copy what they change.
pub(crate) const MODEL_LIBRARIES: &[&str] =
    &["transformers/", "diffusers/", "peft/", "timm/", "torchvision/", "sglang/", "vllm/", "megatron/core/"];

/// Files of JAX, of what it uses and of Python's own, as XProf names them in frames: without their folder. A file of the user's own that is
/// called like one of them is not told from it.
pub(crate) const FILES_OF_XPROF: &[&str] = &[
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
