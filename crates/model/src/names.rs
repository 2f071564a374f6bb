//! Names that PyTorch gives events, as far as more than one part of the code goes by them; those of runtimes stand in
//! [`gpu_calls`](crate::gpu_calls).

pub use crate::gpu_calls::{captures, is_fill_launch, is_graph_launch, is_kernel_launch, is_launch};

/// What names of spans begin with in which the autograd engine of PyTorch runs a node of the backward pass.
pub const BACKWARD_NODE: &str = "autograd::engine::evaluate_function";
/// How names of ATen's operators begin.
pub const OPERATOR_PREFIX: &str = "aten::";
/// How names of spans begin in which PyTorch's optimizers make a step: `Optimizer.step#AdamW.step`, and `Optimizer.step` alone in early
/// releases.
pub const OPTIMIZER_STEP: &str = "Optimizer.step";
/// How names of spans begin in which PyTorch takes a batch from a loader.
pub const TAKE_BATCH: &str = "enumerate(DataLoader)";
/// What step annotations are called, without their number.
pub const STEP_NAME: &str = "ProfilerStep";
/// What names of step annotations begin with; the step's number follows.
pub const STEP_PREFIX: &str = "ProfilerStep#";

/// What names of Python frames that are calls of modules begin with; the module's name follows, behind a space.
pub const MODULE_PREFIX: &str = "nn.Module:";

/// A module as traces name it without [`MODULE_PREFIX`] and the space behind it; none of other frames.
#[must_use]
pub fn module_name(frame: &str) -> Option<&str> {
    frame.strip_prefix(MODULE_PREFIX)?.strip_prefix(' ')
}

/// The class of a module as traces name it: `Linear` of `nn.Module: Linear_3` and of `nn.Module: Linear blocks.0.mlp`. None for
/// what is no module.
pub fn module_class(name: &str) -> Option<&str> {
    let name = name.strip_prefix(MODULE_PREFIX)?.trim_start();
    let class = name.split(' ').next().unwrap_or(name);
    let instance = class.rsplit_once('_').filter(|(class, number)| {
        !class.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    Some(instance.map_or(class, |(class, _)| class))
}

/// File, line and function of a Python frame: `train.py(12): step`, or `$train.py:12 step` of XProf. None for other names.
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

/// What names of spans begin with in which `torch.compile` compiles: `Compile 0/0: function (file:line)`, with the number
/// that Dynamo gives the function and how often it was compiled before.
pub const COMPILATION_PREFIXES: [&str; 2] = ["Compile ", "Recompile "];

/// The name of spans in which Python collects garbage.
pub const COLLECTION: &str = "Python GC";

/// Names that PyTorch gives the main threads of its processes.
pub const MAIN_THREADS: [&str; 3] = ["pt_data_worker", "pt_elastic", "pt_main_thread"];

/// What the file of Python's own frames around the import of a module begins with.
pub const IMPORTS: &str = "<frozen importlib";

/// Whether a span is a compilation ([`COMPILATION_PREFIXES`]), and not one of the user's that is called like it.
#[must_use]
pub fn is_compilation(span: &str) -> bool {
    let number = COMPILATION_PREFIXES.iter().find_map(|prefix| span.strip_prefix(prefix));
    let number = number.and_then(|rest| rest.split(':').next()).unwrap_or_default();
    // `?` is one whose number is not known, `!1/0/0` is a graph of compiled autograd's, `0/0_1` a second attempt.
    let of_number = |c: char| c.is_ascii_digit() || matches!(c, '/' | '!' | '_' | '-');
    number == "?" || number.contains('/') && number.chars().all(of_number)
}

/// Whether a span is of a function that is compiled again: `Recompile 0/3: …`, or the backward of one, `Compile 0/3: lazy backward`.
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
    fn modules_are_named_behind_their_prefix() {
        assert_eq!(module_name("nn.Module: LayerNorm_3"), Some("LayerNorm_3"));
        assert_eq!(module_name("torch/nn/modules/module.py(1): _call_impl"), None);
    }

    #[test]
    fn python_frames_have_file_line_and_function() {
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
