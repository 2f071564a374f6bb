//! Python packages and modules by the folders and files that frames name: whose code a function is.

/// The folder of PyTorch.
pub(crate) const TORCH: &str = "torch/";

/// Parts of paths of code that nobody who trains a model would change, besides that of frameworks ([`stackline_model::vocabulary`]).
pub(crate) const LIBRARIES: &[&str] = &[
    // What Inductor generates lies in its cache.
    "torchinductor_",
    TORCH,
    "torchvision/",
    "triton/",
    "flashinfer/",
    "flash_attn/",
    "xformers/",
    "apex/",
    "transformer_engine/",
    "bitsandbytes/",
    "diffusers/",
    "peft/",
    "timm/",
    "numpy/",
    "scipy/",
    "pandas/",
    "sklearn/",
    "matplotlib/",
    "PIL/",
    "cv2/",
    "albumentations/",
    "librosa/",
    "torchaudio/",
    "tqdm/",
    "wandb/",
    "tensorboard/",
    "logging/",
    "multiprocessing/",
    "asyncio/",
    "concurrent/futures/",
    "importlib/",
    "json/",
    "urllib/",
    "http/",
    "requests/",
    "threading.py",
    "contextlib.py",
    "runpy.py",
    "<frozen",
    "<built-in",
    "<method",
    "<string>",
];

/// Libraries whose functions are parts of models, or prepare what goes into them: people read them, and copy what they change.
pub(crate) const MODEL_LIBRARIES: &[&str] =
    &["transformers/", "diffusers/", "peft/", "timm/", "torchvision/", "sglang/", "vllm/", "megatron/core/"];

/// Modules of Python's own whose files traces name without a folder.
pub(crate) const MODULES: &[&str] = &[
    "abc.py",
    "copy.py",
    "dataclasses.py",
    "functools.py",
    "pickle.py",
    "queue.py",
    "random.py",
    "selectors.py",
    "socket.py",
    "ssl.py",
    "subprocess.py",
    "tempfile.py",
    "traceback.py",
    "typing.py",
    "weakref.py",
];

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
