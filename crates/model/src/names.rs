//! Names of PyTorch's events that several modules use; those of runtimes are in [`gpu_calls`](crate::gpu_calls).

pub use crate::gpu_calls::{begins_capture, is_fill_launch, is_graph_launch, is_kernel_launch, is_launch};

/// Prefix of spans in which PyTorch's autograd engine runs a node of the backward pass.
pub const BACKWARD_NODE: &str = "autograd::engine::evaluate_function";
/// Prefix of ATen's operators.
pub const OPERATOR_PREFIX: &str = "aten::";
/// Prefix of spans of optimizer steps: `Optimizer.step#AdamW.step`, and only `Optimizer.step` in early releases.
pub const OPTIMIZER_STEP: &str = "Optimizer.step";
/// Prefix of spans in which PyTorch takes a batch from a loader.
pub const TAKE_BATCH: &str = "enumerate(DataLoader)";
/// Name of step annotations without their number.
pub const STEP_NAME: &str = "ProfilerStep";
/// Prefix of step annotations, before the step's number.
pub const STEP_PREFIX: &str = "ProfilerStep#";

/// Prefix of Python frames that are calls of modules, before a space and the module's name.
pub const MODULE_PREFIX: &str = "nn.Module:";

/// Name of a module in traces, without [`MODULE_PREFIX`] and the space after it; none for other frames.
#[must_use]
pub fn module_name(frame: &str) -> Option<&str> {
    frame.strip_prefix(MODULE_PREFIX)?.strip_prefix(' ')
}

/// Class of a module in traces: `Linear` of `nn.Module: Linear_3` and of `nn.Module: Linear blocks.0.mlp`. None for
/// other names.
pub fn module_class(name: &str) -> Option<&str> {
    let name = name.strip_prefix(MODULE_PREFIX)?.trim_start();
    let class = name.split(' ').next().unwrap_or(name);
    let instance = class.rsplit_once('_').filter(|(class, number)| {
        !class.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    Some(instance.map_or(class, |(class, _)| class))
}

/// Parse the name of a Python frame into file, line and function: `train.py(12): step`, or `$train.py:12 step` of
/// XProf. None for other names.
#[must_use]
pub fn python_frame(name: &str) -> Option<(&str, u32, &str)> {
    if let Some(name) = name.strip_prefix('$') {
        let (place, function) = name.rsplit_once(' ')?;
        let (file, line) = place.rsplit_once(':')?;
        return Some((file, line.parse().ok()?, function));
    }
    let (head, function) = name.rsplit_once("): ")?;
    let (file, line) = head.rsplit_once('(')?;
    (!function.is_empty()).then_some((file, line.parse().ok()?, function))
}

/// Prefixes of spans in which `torch.compile` compiles: `Compile 0/0: function (file:line)`, with Dynamo's number of
/// the function and the number of earlier compilations.
const COMPILATION_PREFIXES: [&str; 2] = ["Compile ", "Recompile "];

/// Name of spans in which Python collects garbage.
pub const COLLECTION: &str = "Python GC";

/// Names that PyTorch gives the main threads of its processes.
pub const MAIN_THREADS: [&str; 3] = ["pt_data_worker", "pt_elastic", "pt_main_thread"];

/// Prefix of the file of Python's own frames around the import of a module.
pub const IMPORTS: &str = "<frozen importlib";

/// True if a span is a compilation (`COMPILATION_PREFIXES`), and not a user's span with a similar name.
#[must_use]
pub fn is_compilation(span: &str) -> bool {
    let number = COMPILATION_PREFIXES.iter().find_map(|prefix| span.strip_prefix(prefix));
    let number = number.and_then(|rest| rest.split(':').next()).unwrap_or_default();
    // `?` is an unknown number, `!1/0/0` a graph of compiled autograd, `0/0_1` a second attempt.
    let of_number = |c: char| c.is_ascii_digit() || matches!(c, '/' | '!' | '_' | '-');
    number == "?" || number.contains('/') && number.chars().all(of_number)
}

/// True if a span is a repeated compilation of a function: `Recompile 0/3: …`, or its backward, `Compile 0/3: lazy
/// backward`.
#[must_use]
pub fn is_recompilation(span: &str) -> bool {
    let number = |prefix: &&str| span.strip_prefix(*prefix)?.split(':').next()?.split_once('/');
    let again =
        |(_, attempt): (&str, &str)| attempt.split('_').next().is_some_and(|n| n.parse::<u32>().is_ok_and(|n| n > 0));
    is_compilation(span) && COMPILATION_PREFIXES.iter().find_map(number).is_some_and(again)
}

#[cfg(test)]
mod tests {
    use super::{is_compilation, module_name, python_frame};

    #[test]
    fn module_names_follow_their_prefix() {
        assert_eq!(module_name("nn.Module: LayerNorm_3"), Some("LayerNorm_3"));
        assert_eq!(module_name("torch/nn/modules/module.py(1): _call_impl"), None);
    }

    #[test]
    fn python_frame_names_have_file_line_and_function() {
        assert_eq!(python_frame("a/train.py(12): Model.step"), Some(("a/train.py", 12, "Model.step")));
        assert_eq!(python_frame("<string>(1): <lambda>"), Some(("<string>", 1, "<lambda>")));
        assert_eq!(python_frame("$queue.py:154 get"), Some(("queue.py", 154, "get")));
        for name in ["aten::mm", "train.py(12)", "train.py(12): ", "f(x): g", "$time sleep", "<built-in function len>"]
        {
            assert_eq!(python_frame(name), None, "{name}");
        }
    }

    #[test]
    fn compilations_have_numbers() {
        for name in [
            "Compile ?",
            "Compile ?: f (a.py:1)",
            "Compile 0/0: f (a.py:1)",
            "Recompile 12/3: f (a.py:1)",
            "Compile 0/0",
            "Compile !1/0/0_1: lazy backward",
        ] {
            assert!(is_compilation(name), "{name}");
        }
        for name in ["Compile", "Compile ", "Compile model", "Compile a/b: c", "compile 0/0", "Recompiled 0/0", "0/0"] {
            assert!(!is_compilation(name), "{name}");
        }
    }
}
