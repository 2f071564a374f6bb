//! Python packages and modules: classification of files as user or library code, by their paths. This is the only
//! definition of the user's own code: a second one would report different lines for the same finding.

use super::FRAMEWORKS;

/// Folders in which packages are installed.
const INSTALLED: &[&str] = &["site-packages/", "dist-packages/"];

/// Folders of Python's standard modules.
const STANDARD: &[&str] = &["lib/python3", "lib64/python3"];

/// Folder of a PyTorch source checkout. Here PyTorch ranks below all frameworks; its names are in [`crate::names`].
const PYTORCH: &str = "/pytorch/";

/// Folder of NVIDIA's Apex in the checkout: containers have its source next to PyTorch's.
const APEX: &str = "apex/apex/";

/// The folder of PyTorch.
pub const TORCH: &str = "torch/";

/// Public folders and files of PyTorch, relative to its folder: archives that run without installation unpack it into
/// any folder. Excluded are names that other programs could have (`torch/testing/`). `torch/__init__.py` is PyTorch's,
/// because a program cannot import two packages of one name.
const PUBLIC_PARTS_OF_TORCH: &[&str] = &[
    "__config__.py",
    "__future__.py",
    "__init__.py",
    "amp/",
    "ao/",
    "autograd/",
    "backends/",
    "cuda/",
    "distributed/",
    "distributions/",
    "functional.py",
    "fx/",
    "hub.py",
    "jit/",
    "library.py",
    "linalg/",
    "mps/",
    "multiprocessing/",
    "nn/attention/",
    "nn/functional.py",
    "nn/grad.py",
    "nn/init.py",
    "nn/modules/",
    "nn/parallel/",
    "nn/parameter.py",
    "nn/utils/",
    "onnx/",
    "optim/",
    "overrides.py",
    "profiler/profiler.py",
    "serialization.py",
    "storage.py",
    "utils/backcompat/",
    "utils/checkpoint.py",
    "utils/cpp_extension.py",
    "utils/data/",
    "utils/flop_counter.py",
    "utils/hooks.py",
    "utils/module_tracker.py",
    "utils/tensorboard/",
    "xpu/",
];

/// Packages of PyTorch with private modules (`torch/utils/_pytree.py`), in addition to PyTorch itself.
const WITH_PRIVATE_MODULES: &[&str] = &["profiler", "utils"];

/// Words in names of private modules that programs have (`torch/_train.py`), and PyTorch does not.
const PROGRAM_WORDS: &[&str] = &[
    "data",
    "dataset",
    "datasets",
    "eval",
    "evaluate",
    "experiment",
    "infer",
    "loss",
    "losses",
    "main",
    "metric",
    "metrics",
    "model",
    "models",
    "plot",
    "plots",
    "run",
    "test",
    "tests",
    "train",
    "trainer",
    "training",
];

/// Folders of library code in addition to frameworks, which users do not change.
const LIBRARIES: &[&str] = &[
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
];

/// Parts of names of code without a file.
const WITHOUT_FILE: &[&str] = &["<frozen", "<built-in", "<method", "<string>"];

/// Standard modules of Python whose files have no folder in traces.
const MODULES: &[&str] = &[
    "abc.py",
    "contextlib.py",
    "copy.py",
    "dataclasses.py",
    "functools.py",
    "pickle.py",
    "queue.py",
    "random.py",
    "runpy.py",
    "selectors.py",
    "socket.py",
    "ssl.py",
    "subprocess.py",
    "tempfile.py",
    "threading.py",
    "traceback.py",
    "typing.py",
    "weakref.py",
];

/// Modules that start programs and threads. They are Python's own in every folder, because a program with a file of
/// such a name does not run.
const STARTING_MODULES: &[&str] = &["contextlib.py", "runpy.py", "threading.py"];

/// True if a file belongs to a framework, wherever the framework is installed.
#[must_use]
pub fn is_framework_code(file: &str) -> bool {
    FRAMEWORKS.iter().any(|framework| is_in_any(file, framework.packages))
}

/// True if a file is in the folder of a package such as `torch/`, below a folder of installed packages. Traces may
/// shorten paths to the part below that folder; other paths begin at the root, or with `./` (files below the program's
/// working directory).
#[must_use]
pub fn is_in_package(file: &str, package: &str) -> bool {
    is_in_any(file, &[package])
}

/// True if a file is in the folder of one of these packages ([`is_in_package`]).
fn is_in_any(file: &str, packages: &[&str]) -> bool {
    let is_any = |rest: &str| packages.iter().any(|package| rest.starts_with(package));
    match INSTALLED.iter().filter_map(|folder| Some(file.rfind(folder)? + folder.len())).max() {
        Some(at) => is_any(&file[at..]),
        None if file.starts_with('/') => in_checkouts(file).any(is_any),
        None => is_any(file),
    }
}

/// Relative paths of a file below the checkout folders of PyTorch and of other frameworks, if it is in one of their
/// packages.
fn in_checkouts(file: &str) -> impl Iterator<Item = &str> {
    let of_frameworks = FRAMEWORKS
        .iter()
        .flat_map(|framework| framework.checkouts.iter().map(move |folder| (*folder, framework.packages)));
    let checkouts = std::iter::once((PYTORCH, [TORCH, APEX].as_slice())).chain(of_frameworks);
    checkouts.flat_map(move |(folder, packages)| {
        let below = file.match_indices(folder).map(move |(at, _)| &file[at + folder.len()..]);
        below.filter(move |rest| packages.iter().any(|package| rest.starts_with(package)))
    })
}

/// True if a path contains this folder, or is of this file, at any location: `torch/optim/` does not match
/// `learn-torch/optim/`.
#[must_use]
pub fn is_in_folder(file: &str, folder: &str) -> bool {
    file.match_indices(folder).any(|(at, _)| at == 0 || file[..at].ends_with('/'))
}

/// True if a file is the user's own code. Parent folders with the name of a library do not matter.
#[must_use]
pub fn is_own_code(file: &str) -> bool {
    let has = |parts: &[&str]| parts.iter().any(|part| file.contains(part));
    // Traces shorten `/usr/lib/python3.11/queue.py` to its end.
    let is_pythons = || file.starts_with("python3.") || MODULES.contains(&file);
    let name = file.rsplit('/').next().unwrap_or(file);
    let is_library = has(INSTALLED)
        || has(STANDARD)
        || has(WITHOUT_FILE)
        || is_pythons()
        || STARTING_MODULES.contains(&name)
        || is_generated_code(file)
        || is_framework_code(file)
        || is_in_any(file, LIBRARIES)
        || is_in_unpacked_torch(file);
    !is_library
}

/// True if a file is part of PyTorch, recognized below any folder `torch/`: a public part, or a private folder or
/// module.
fn is_in_unpacked_torch(file: &str) -> bool {
    let is_folder = |at: usize| at == 0 || file[..at].ends_with('/');
    let mut below = file.match_indices(TORCH).filter(|(at, _)| is_folder(*at)).map(|(at, _)| &file[at + TORCH.len()..]);
    below.any(|path| PUBLIC_PARTS_OF_TORCH.iter().any(|part| path.starts_with(part)) || is_private_in_torch(path))
}

/// True if a path relative to PyTorch's folder begins with a private folder (`_dynamo/`, `utils/_sympy/`) or is a
/// private module (`_ops.py`).
fn is_private_in_torch(path: &str) -> bool {
    let (package, rest) = path.split_once('/').unwrap_or(("", path));
    let name = if WITH_PRIVATE_MODULES.contains(&package) { rest } else { path };
    let Some(name) = name.strip_prefix('_').filter(|name| !name.starts_with('_')) else { return false };
    match name.strip_suffix(".py").filter(|module| !module.contains('/')) {
        Some(module) => !module.split('_').any(|word| PROGRAM_WORDS.contains(&word)),
        None => name.contains('/'),
    }
}

/// True if TorchInductor generated a file, in any cache: `torchinductor_me/l4/cl4abcdef….py`. The folder consists of
/// the second and third letter of the file's name, which is `c` and a hash.
#[must_use]
pub fn is_generated_code(file: &str) -> bool {
    if ["torchinductor_", "torchinductor/", "torch_compile_debug/"].iter().any(|folder| file.contains(folder)) {
        return file.ends_with(".py");
    }
    let mut parts = file.rsplit('/');
    let (Some(name), Some(folder)) = (parts.next().and_then(|name| name.strip_suffix(".py")), parts.next()) else {
        return false;
    };
    let is_hash = name.len() >= 40 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    is_hash && name.starts_with('c') && folder.len() == 2 && name[1..].starts_with(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_installed_checked_out_or_shortened() {
        for file in [
            "megatron/core/transformer/mlp.py",
            "/opt/Megatron-LM/megatron/core/transformer/mlp.py",
            "/venv/lib/python3.11/site-packages/megatron/core/transformer/mlp.py",
        ] {
            assert!(is_framework_code(file), "{file}");
        }
        // Files that users of Megatron-LM change, and folders with names of libraries.
        for file in
            ["megatron/training/training.py", "pretrain_gpt.py", "/data/me/transformers/train.py", "src/jax/a.py"]
        {
            assert!(!is_framework_code(file), "{file}");
        }
        assert!(is_in_package("/opt/pytorch/torch/nn/modules/linear.py", "torch/"));
        assert!(!is_in_package("/opt/torch/nn/modules/linear.py", "torch/"));
        assert!(is_framework_code("/data/pytorch-lightning/src/lightning/pytorch/loops/loop.py"));
        assert!(!is_framework_code("/workspace/pytorch/datasets/coco.py"), "a package of another checkout");
    }

    #[test]
    fn user_code_is_distinguished_from_libraries() {
        for own in [
            "train.py",
            "my_torch/a.py",
            "src/queue.py",
            "my_queue.py",
            "/w/my_threading.py",
            "./transformers/a.py",
            "src/transformers/train.py",
            // Folders with names of libraries, or names that contain them.
            "/data/torchbench/run.py",
            "/data/me/transformers/train.py",
            "/workspace/pytorch/train.py",
            "/workspace/pytorch/json/read.py",
            "/data/me/learn-torch/train.py",
            "/data/me/learn-torch/optim/adam.py",
            "/data/me/learn-torch/cuda/train.py",
            "/data/me/learn-torch/_ops.py",
            "/data/me/torch/utils/metrics.py",
            "/data/me/torch/__main__.py",
            "/data/me/torch/_train.py",
            "/data/me/torch/utils/_metrics.py",
            "/data/me/torch/profiler/_plots.py",
            "/data/me/torch/nn/train.py",
            "/workspace/pytorch/apex/train.py",
            "/data/torch/train.py",
            "/data/me/python3.12-course/train.py",
            "/data/me/torchinductor-notes/train.py",
        ] {
            assert!(is_own_code(own), "{own}");
        }
        for library in [
            "torch/nn/modules/linear.py",
            "transformers/trainer.py",
            "queue.py",
            "python3.11/queue.py",
            "/usr/lib/python3.11/queue.py",
            "/usr/lib64/python3.9/queue.py",
            "/par/threading.py",
            "<frozen importlib._bootstrap>",
            "/opt/pytorch/torch/nn/modules/linear.py",
            "/mnt/unpacked-1/torch/nn/modules/linear.py",
            "/mnt/unpacked-1/torch/utils/_contextlib.py",
            "/mnt/unpacked-1/torch/_ops.py",
            "/mnt/unpacked-1/torch/__init__.py",
            "/mnt/unpacked-1/torch/_dynamo/eval_frame.py",
            "/mnt/unpacked-1/torch/utils/_pytree.py",
            "/mnt/unpacked-1/torch/profiler/_utils.py",
            "/mnt/unpacked-1/torch/utils/checkpoint.py",
            "/mnt/unpacked-1/torch/cuda/streams.py",
            "/mnt/unpacked-1/torch/nn/init.py",
            "/mnt/unpacked-1/torch/nn/utils/clip_grad.py",
            "/mnt/unpacked-1/torch/amp/autocast_mode.py",
            "/mnt/unpacked-1/torch/_compile.py",
            "/mnt/unpacked-1/torch/serialization.py",
            "/opt/pytorch/apex/apex/optimizers/fused_adam.py",
            "/venv/lib/python3.11/site-packages/transformers/a.py",
            "/cache/torchinductor_me/l4/cl4abcdef.py",
        ] {
            assert!(!is_own_code(library), "{library}");
        }
    }

    /// Private folders and modules of PyTorch from 2.0 to 2.15.
    const PRIVATE_IN_TORCH: &str = "
        _C/ _C_flatbuffer/ _VF.py _appdirs.py _awaits/
        _classes.py _compile.py _custom_class_base.py _custom_op/ _custom_ops.py
        _decomp/ _deploy.py _dispatch/ _dynamo/ _environment.py
        _export/ _functorch/ _guards.py _higher_order_ops/ _inductor/
        _jit_internal.py _lazy/ _library/ _linalg_utils.py _lobpcg.py
        _logging/ _lowrank.py _masked/ _meta_registrations.py _namedtensor_internals.py
        _native/ _numpy/ _opaque_base.py _ops.py _precompile.py
        _prims/ _prims_common/ _python_dispatcher.py _refs/ _six.py
        _size_docs.py _sources.py _storage_docs.py _streambase.py _strobelight/
        _subclasses/ _tensor.py _tensor_docs.py _tensor_iterator.py _tensor_str.py
        _thread_safe_fork.py _torch_docs.py _utils.py _utils_internal.py _vendor/
        _vmap_internals.py _weights_only_unpickler.py profiler/_chrome_trace_export.py profiler/_cuspy/ profiler/_memory_profiler.py
        profiler/_pattern_matcher.py profiler/_trace_validator.py profiler/_utils.py utils/_appending_byte_serializer.py utils/_config_module.py
        utils/_content_store.py utils/_contextlib.py utils/_cpp_embed_headers.py utils/_cpp_extension_versioner.py utils/_cuda_debug.py
        utils/_cuda_trace.py utils/_cxx_pytree.py utils/_debug_mode/ utils/_device.py utils/_dtype_abbrs.py
        utils/_exposed_in.py utils/_filelock.py utils/_foreach_utils.py utils/_functools.py utils/_get_clean_triton.py
        utils/_helion.py utils/_import_utils.py utils/_indented_buffer.py utils/_inspect.py utils/_mode_utils.py
        utils/_ordered_set.py utils/_pallas.py utils/_python_dispatch.py utils/_pytree.py utils/_runtime_estimation.py
        utils/_stats.py utils/_strobelight/ utils/_sympy/ utils/_thunk.py utils/_traceback.py
        utils/_triton.py utils/_typing_utils.py utils/_zip.py
        _a_module_of_tomorrow.py _tomorrow/ utils/_tomorrow.py";

    #[test]
    fn private_modules_of_an_unpacked_pytorch_are_not_user_code() {
        for part in PRIVATE_IN_TORCH.split_whitespace() {
            let file = if part.ends_with('/') { format!("{part}a.py") } else { part.to_owned() };
            assert!(!is_own_code(&format!("/mnt/unpacked-1/torch/{file}")), "{file}");
            assert!(is_own_code(&format!("/data/me/learn-torch/{file}")), "{file}");
        }
        for own in ["_train_loop.py", "utils/_plot_losses.py", "utils/__main__.py", "experiments/_old.py", "_notes.txt"]
        {
            assert!(is_own_code(&format!("/data/me/torch/{own}")), "{own}");
        }
    }

    #[test]
    fn inductor_files_in_any_cache_are_generated_code() {
        let hash = "abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrs";
        assert!(is_generated_code(&format!("/cache/inductor/ab/c{hash}.py")));
        for own in ["/w/ab/cab.py", "/w/train.py", "/w/l4/cl4model.py", "train.py"] {
            assert!(!is_generated_code(own), "{own}");
        }
    }
}
