//! Classification of call paths by their callers: backward, optimizer, data loading, modules, operators.

use rustc_hash::FxHashMap;
use stackline_model::library_workspaces::{WorkspaceLibrary, workspace_library};
use stackline_model::names::{MODULE_PREFIX, OPERATOR_PREFIX, OPTIMIZER_STEP, TAKE_BATCH};
use stackline_model::native_names::{autograd_node, is_autograd_engine, operator as native_operator};
use stackline_model::vocabulary::{TrainingPhase, is_in_folder, makes_weights, phase_of_code, phase_span};
use stackline_model::{MemoryObjectId, MemoryObjectKind, MemoryStackId, MemoryTrace, StrId};
use std::cmp::Ordering;

/// Module name of tensors of the outermost module.
const OUTERMOST: &str = "(outermost module)";

/// Contexts that a call path shows, such as backward pass, optimizer step or data loading.
#[derive(Clone, Copy, Debug, Default)]
struct PathContexts {
    backward: bool,
    optimizer: bool,
    /// Data loading.
    data: bool,
    /// Modules, and their functions such as a loss.
    forward: bool,
    /// True if the innermost frame is the closure of the optimizer's step.
    closure: bool,
    /// Forward pass within backward: recomputed activations.
    recomputed: bool,
    /// Code that creates, moves or loads weights and buffers of modules.
    weights: bool,
    /// Library whose working memory is allocated.
    workspace: Option<&'static WorkspaceLibrary>,
    /// True if the innermost frame is an operator.
    operator: bool,
}

/// Lookup of the contexts of each call path, and of the training phase of each object.
pub(crate) struct Callers<'a> {
    trace: &'a MemoryTrace,
    nodes: Vec<PathContexts>,
}

impl<'a> Callers<'a> {
    /// Compute the contexts of all call paths of a trace, from their frames and callers.
    pub(crate) fn new(trace: &'a MemoryTrace) -> Self {
        let frames: Vec<PathContexts> = trace
            .stacks
            .frames
            .iter()
            .map(|frame| of_frame(frame.function_text(&trace.strings), frame.file_text(&trace.strings)))
            .collect();
        let mut nodes: Vec<PathContexts> = Vec::with_capacity(trace.stacks.frame.len());
        for (parent, frame) in trace.stacks.parent.iter().zip(&trace.stacks.frame) {
            let outer = parent.some().and_then(|parent| nodes.get(parent.index())).copied().unwrap_or_default();
            let own = frames.get(frame.index()).copied().unwrap_or_default();
            nodes.push(PathContexts {
                backward: outer.backward || own.backward,
                // A closure of the step runs the model.
                optimizer: own.optimizer || outer.optimizer && !own.forward && !own.backward && !own.closure,
                data: outer.data || own.data,
                forward: outer.forward || own.forward,
                closure: own.closure,
                recomputed: outer.recomputed || outer.backward && own.forward,
                weights: outer.weights || own.weights,
                workspace: own.workspace.or(outer.workspace),
                operator: own.operator,
            });
        }
        Self { trace, nodes }
    }

    /// Contexts of a call path, such as backward or optimizer; all false if the path is unknown.
    fn at(&self, stack: MemoryStackId) -> PathContexts {
        stack.some().and_then(|stack| self.nodes.get(stack.index())).copied().unwrap_or_default()
    }

    /// True if a call path shows that it is in a backward pass.
    pub(crate) fn in_backward(&self, stack: MemoryStackId) -> bool {
        self.at(stack).backward
    }

    /// Training phase in which an object was allocated: `optimizer`, `backward`, `data`, `forward` or `other`, by its
    /// call path and its module.
    pub(crate) fn phase_of(&self, object: MemoryObjectId) -> &'static str {
        use MemoryObjectKind::{Gradient, OptimizerState, Parameter};
        let (objects, row) = (&self.trace.objects, object.index());
        // Parameters, gradients, optimizer state and buffers have the module that owns them, not a module whose call
        // allocated them.
        let is_module_state =
            matches!(objects.kind[row], Parameter | Gradient | OptimizerState) || self.is_named_by_module(row);
        self.phase(objects.stack[row], objects.module[row].is_some() && !is_module_state)
    }

    /// True if an object's name begins with its module, as recordings name tensors, or it belongs to the outermost
    /// module.
    fn is_named_by_module(&self, row: usize) -> bool {
        let [name, module] = [self.trace.objects.name[row], self.trace.objects.module[row]]
            .map(|text| text.some().map_or("", |text| self.trace.strings.get(text)));
        let is_after = |module: &str| name.strip_prefix(module).is_some_and(|rest| rest.starts_with('.'));
        !name.is_empty() && (module == OUTERMOST || !module.is_empty() && is_after(module))
    }

    /// Training phase that a call path shows: `optimizer`, `backward`, `data`, `forward` or `other`. `in_module` is
    /// true if the path is known to be in a module's call.
    fn phase(&self, stack: MemoryStackId, in_module: bool) -> &'static str {
        match self.at(stack) {
            PathContexts { optimizer: true, .. } => "optimizer",
            // Recordings show backward work under its forward operator.
            PathContexts { backward: true, .. } => "backward",
            PathContexts { data: true, .. } => "data",
            PathContexts { forward: true, .. } => "forward",
            _ if in_module => "forward",
            _ => "other",
        }
    }

    /// True if backward allocated an object by running a forward pass again.
    pub(crate) fn is_recomputed(&self, object: MemoryObjectId) -> bool {
        self.at(self.trace.objects.stack[object.index()]).recomputed
    }

    /// True if code that creates, moves or loads weights and buffers of modules allocated an object.
    pub(crate) fn is_of_weights(&self, object: MemoryObjectId) -> bool {
        self.at(self.trace.objects.stack[object.index()]).weights
    }

    /// Call path of the code that called the model, for an object of a forward pass; `None` for objects of other
    /// phases.
    pub(crate) fn model_call(&self, object: MemoryObjectId) -> Option<MemoryStackId> {
        let stack = self.trace.objects.stack[object.index()];
        let within = self.at(stack);
        if !within.forward || within.backward || within.optimizer {
            return None;
        }
        let outwards = std::iter::successors(stack.some(), |node| self.parent(*node));
        self.parent(outwards.take_while(|node| self.at(*node).forward).last()?)
    }

    /// CUDA library whose working memory an object is, by its call path.
    pub(crate) fn workspace_of(&self, object: MemoryObjectId) -> Option<&'static WorkspaceLibrary> {
        self.at(self.trace.objects.stack[object.index()]).workspace
    }

    /// True if a call path is in an optimizer step.
    pub(crate) fn in_optimizer(&self, stack: MemoryStackId) -> bool {
        self.at(stack).optimizer
    }

    /// True if a call path is in backward or in an optimizer, whose code the program cannot change.
    pub(crate) fn in_backward_or_optimizer(&self, stack: MemoryStackId) -> bool {
        let within = self.at(stack);
        within.backward || within.optimizer
    }

    /// True if one operator contains both the operator at `stack` and the allocation of its input. Then the time
    /// between belongs to this operator.
    pub(super) fn share_operator(&self, allocated: MemoryStackId, stack: MemoryStackId) -> bool {
        // The innermost frame is the reading operator itself, which may run repeatedly at the same line.
        let (mut one, mut other) = (Some(allocated), stack.some().and_then(|own| self.parent(own)));
        // Callers come before callees, so the later one of two different nodes is no common caller.
        while let (Some(a), Some(b)) = (one, other) {
            match a.cmp(&b) {
                Ordering::Less => other = self.parent(b),
                Ordering::Greater => one = self.parent(a),
                Ordering::Equal => {
                    return std::iter::successors(one, |node| self.parent(*node)).any(|n| self.at(n).operator);
                }
            }
        }
        false
    }

    /// Call path of the caller; `None` for an outermost frame.
    fn parent(&self, node: MemoryStackId) -> Option<MemoryStackId> {
        self.trace.stacks.parent.get(node.some()?.index())?.some()
    }

    /// Outermost operator of a call path, which the program calls, as its node and name; `None` without operators.
    pub(super) fn outermost_operator(&self, stack: MemoryStackId) -> Option<(MemoryStackId, StrId)> {
        let outwards = std::iter::successors(stack.some(), |node| self.parent(*node));
        let node = outwards.filter(|node| self.at(*node).operator).last()?;
        let frame = self.trace.stacks.frames.get(self.trace.stacks.frame.get(node.index())?.index())?;
        Some((node, frame.function()))
    }

    /// Names of the operators in a call path.
    pub(super) fn operators(&self, stack: MemoryStackId) -> impl Iterator<Item = StrId> + '_ {
        let frames = self.trace.stacks.frames_of(stack);
        frames.map(|frame| frame.function()).filter(|name| self.trace.strings.get(*name).starts_with(OPERATOR_PREFIX))
    }
}

/// Contexts that a single frame shows by its function and file.
fn of_frame(function: &str, file: &str) -> PathContexts {
    let is_node = file.is_empty() && function.contains("Backward") || autograd_node(function).is_some();
    let span = phase_span(function);
    // Framework code around the forward pass is no call of the model: the program's own function is in between.
    let is_phase = |phase| span.and_then(|span| span.phase).or_else(|| phase_of_code(file, function)) == Some(phase);
    PathContexts {
        backward: function == "backward"
            || is_autograd_engine(function)
            || is_node
            || is_phase(TrainingPhase::Backward),
        optimizer: function.starts_with(OPTIMIZER_STEP)
            || is_in_folder(file, "torch/optim/")
            || is_phase(TrainingPhase::Optimizer),
        data: function.starts_with(TAKE_BATCH)
            || is_in_folder(file, "torch/utils/data/")
            || is_phase(TrainingPhase::DataLoading),
        forward: is_call_of_module(function, file),
        closure: span.is_some_and(|span| span.in_closure),
        recomputed: false,
        weights: makes_weights(file, function),
        workspace: workspace_library(function),
        operator: function.starts_with(OPERATOR_PREFIX) || native_operator(function).is_some(),
    }
}

/// True if a frame runs a module or a function of `torch.nn`. Most other code there creates or moves modules, or
/// changes gradients.
fn is_call_of_module(function: &str, file: &str) -> bool {
    const CALLS: [&str; 3] = ["forward", "_call_impl", "_wrapped_call_impl"];
    CALLS.contains(&function) || function.starts_with(MODULE_PREFIX) || is_in_folder(file, "torch/nn/functional.py")
}

/// Cache of a test on names, so that each interned name is tested once.
pub(super) struct Names<'a> {
    trace: &'a MemoryTrace,
    is: fn(&str) -> bool,
    known: FxHashMap<StrId, bool>,
}

impl<'a> Names<'a> {
    /// Create an empty cache for the test `is`.
    pub(super) fn new(trace: &'a MemoryTrace, is: fn(&str) -> bool) -> Self {
        Self { trace, is, known: FxHashMap::default() }
    }

    /// True if a name passes the test.
    pub(super) fn passes_test(&mut self, name: StrId) -> bool {
        let (trace, is) = (self.trace, self.is);
        *self.known.entry(name).or_insert_with(|| is(trace.strings.get(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::of_frame;

    #[test]
    fn framework_code_determines_phases() {
        let engine = "/venv/lib/python3.11/site-packages/deepspeed/runtime/engine.py";
        assert!(of_frame("step", engine).optimizer && of_frame("backward", engine).backward);
        assert!(!of_frame("train", engine).optimizer);
        assert!(of_frame("DeepSpeedZeroOptimizer_Stage3.step", "").optimizer);
        assert!(of_frame("__iter__", "accelerate/data_loader.py").data);
        let closure = of_frame("[pl][profile][Strategy]DDPStrategy.training_step", "");
        assert!(closure.closure && !closure.optimizer && !closure.forward);
        // The program's own function is between this frame and the model.
        assert!(!of_frame("forward_step", "megatron/core/pipeline_parallel/schedules.py").forward);
    }
}
