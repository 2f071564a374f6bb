//! Mapping of events to source locations: file, line, function, module.

use crate::frame_names::frame;
use crate::vocabulary::packages::{MODEL_LIBRARIES, XPROF_LIBRARY_FILES};
use stackline_model::names::{MODULE_PREFIX, STEP_PREFIX};
use stackline_model::vocabulary::{is_in_package, is_own_code, lightning};
use stackline_model::{AttrColumn, EventId, EventKind, LINE, StackId, StrId, Trace};

/// Source location in a program; unknown parts are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLocation {
    /// File, as named in the trace.
    pub file: Option<String>,
    /// Line, from 1: the executed line if stacks or call sites were recorded, otherwise the function's first line.
    pub line: Option<u32>,
    /// Python function.
    pub function: Option<String>,
    /// Innermost module, such as `nn.Module: Linear_3`.
    pub module: Option<String>,
    /// Outermost operator.
    pub operator: Option<String>,
}

/// Kind of an event name: module, frame of the user's or a library's code, step, or other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameKind {
    Module,
    OwnFrame,
    LibraryFrame,
    Step,
    Other,
}

/// Classify an event name as module, step, frame or other.
fn kind_of(name: &str) -> NameKind {
    if name.starts_with(MODULE_PREFIX) || name.starts_with(lightning::MODULE) {
        return NameKind::Module;
    }
    if name.starts_with(STEP_PREFIX) {
        return NameKind::Step;
    }
    match frame(name) {
        Some((file, ..)) if name.starts_with('$') && XPROF_LIBRARY_FILES.contains(&file) => NameKind::LibraryFrame,
        Some((file, ..)) if is_own_code(file) => NameKind::OwnFrame,
        Some(_) => NameKind::LibraryFrame,
        None => NameKind::Other,
    }
}

/// Attribute with the call site of a function, such as `train.py:96`, which torch.profiler writes since PyTorch 2.15.
const CALLED_FROM: &str = "CallFrom";

/// Check by its name if a library frame of XProf may be called directly by the user's code.
fn may_be_called_by_user_code(name: &str) -> bool {
    name.starts_with('$') && !name.starts_with("$threading.py:") && !name.starts_with("$thread.py:")
}

/// Compact source location: names of frame, module and operator in the trace. Events of one location have equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLocationKey {
    frame: StrId,
    /// Executed line of the frame's function; 0 for the line in the frame's name.
    line: u32,
    module: StrId,
    operator: StrId,
}

/// Resolver of source locations for many events of a trace, with a cache.
pub struct SourceLocations<'a> {
    trace: &'a Trace,
    /// Kinds by name; empty if few locations are queried.
    kinds: Vec<NameKind>,
    called_from: AttrColumn<'a>,
}

/// Find the source location of one event; for GPU work that of its launch.
pub fn source_location_of(trace: &Trace, event: EventId) -> SourceLocation {
    let places = SourceLocations { trace, kinds: Vec::new(), called_from: trace.attr(CALLED_FROM) };
    places.place(places.key(event))
}

impl<'a> SourceLocations<'a> {
    /// Create a resolver by classifying all names of a trace.
    pub fn new(trace: &'a Trace) -> Self {
        Self { trace, kinds: trace.strings.iter().map(kind_of).collect(), called_from: trace.attr(CALLED_FROM) }
    }

    /// Kind of a name, from the cache if filled.
    fn kind(&self, name: StrId) -> NameKind {
        self.kinds.get(name.index()).copied().unwrap_or_else(|| kind_of(self.trace.strings.get(name)))
    }

    /// Check if an event is a call of a function of the user's own code.
    pub fn is_own_frame(&self, event: EventId) -> bool {
        self.trace.kind(event) == EventKind::PythonFunction
            && self.kind(self.trace.events.name[event.index()]) == NameKind::OwnFrame
    }

    /// Check if a frame name is that of a function of the user's own code.
    pub fn is_own_name(&self, name: StrId) -> bool {
        self.kind(name) == NameKind::OwnFrame
    }

    /// Find the key of an event's source location; for GPU work that of its launch.
    pub fn key(&self, event: EventId) -> SourceLocationKey {
        let trace = self.trace;
        // Compiled work has a stack with its source lines; its launch has the callers.
        let own_stack = self.trace.stacks.of_event(event).filter(|_| trace.gpu_operation(event).is_some());
        let event = launch_of(trace, event);
        let mut key = SourceLocationKey { frame: StrId::NONE, line: 0, module: StrId::NONE, operator: StrId::NONE };
        // A stack of library frames only is less specific than the launch.
        let mut of_stack = own_stack.and_then(|stack| self.own_frame_of(stack));
        let mut library_frame =
            own_stack.filter(|_| of_stack.is_none()).map_or(StrId::NONE, |stack| self.outermost_of(stack));
        let mut has_stack = of_stack.is_some();
        // Function that the next outer one called.
        let mut callee = None;
        for at in std::iter::once(event).chain(trace.ancestors(event)) {
            // Use the stack of the innermost event that has one, unless it was taken outside of the function found:
            // then it contains the line of a caller.
            if !has_stack && let Some(stack) = self.trace.stacks.of_event(at) {
                has_stack = true;
                of_stack = self.own_frame_of(stack);
            }
            let name = trace.events.name[at.index()];
            let caller_of = callee;
            if trace.kind(at) == EventKind::PythonFunction {
                callee = Some(at);
            }
            match (trace.kind(at), self.kind(name)) {
                // Traces of 2021 and before record steps as operators.
                (EventKind::Operator, kind) if kind != NameKind::Step => key.operator = name,
                (EventKind::PythonFunction | EventKind::Annotation, NameKind::Module) if key.module.is_none() => {
                    key.module = name;
                }
                (EventKind::PythonFunction, NameKind::OwnFrame) => {
                    key.frame = name;
                    key.line = caller_of.and_then(|callee| self.line_of_call(name, callee)).unwrap_or(0);
                    break;
                }
                // XProf omits functions that were running at its start, mostly those of the program's file. Their
                // callee is the outermost library frame, except for frames that start a thread.
                (EventKind::PythonFunction, NameKind::LibraryFrame)
                    if library_frame.is_none() || may_be_called_by_user_code(trace.strings.get(name)) =>
                {
                    library_frame = name;
                }
                _ => {}
            }
        }
        if let Some(frame) = of_stack {
            (key.frame, key.line) = (frame, 0);
        } else if key.frame.is_none() {
            key.frame = library_frame;
        }
        key
    }

    /// Key of an event's source line, without module and operator: events of one line have equal keys.
    pub fn line_key(&self, event: EventId) -> SourceLocationKey {
        SourceLocationKey { module: StrId::NONE, operator: StrId::NONE, ..self.key(event) }
    }

    /// Check if a source location is in the user's own code.
    pub fn is_own(&self, key: SourceLocationKey) -> bool {
        key.frame.is_some() && self.kind(key.frame) == NameKind::OwnFrame
    }

    /// Line at which the function `caller` called `callee`; `None` if the call site was not recorded, or is in another
    /// file.
    fn line_of_call(&self, caller: StrId, callee: EventId) -> Option<u32> {
        let strings = &self.trace.strings;
        let (file, line) = strings.get(self.called_from.text(callee)?).rsplit_once(':')?;
        let (of, ..) = frame(strings.get(caller))?;
        (file == of).then(|| line.parse().ok())?
    }

    /// Innermost frame of the user's own code in a recorded stack; `None` if there is none. Stacks contain the executed
    /// line.
    fn own_frame_of(&self, stack: StackId) -> Option<StrId> {
        self.trace.stacks.names(Some(stack)).find(|&name| self.kind(name) == NameKind::OwnFrame)
    }

    /// Outermost frame of a recorded Python stack, also of library code.
    fn outermost_of(&self, stack: StackId) -> StrId {
        self.trace.stacks.names(Some(stack)).last().unwrap_or_default()
    }

    /// Source location with the executed line of a sample; `None` if it is not in the user's own code, or unknown.
    pub fn line_of_sample(&self, sample: EventId) -> Option<SourceLocation> {
        let name = self.trace.events.name[sample.index()];
        let line = self.trace.attr(LINE).i64(sample).filter(|_| self.kind(name) == NameKind::OwnFrame)?;
        let (file, _, function) = frame(self.trace.strings.get(name))?;
        Some(SourceLocation {
            line: u32::try_from(line).ok(),
            file: Some(file.to_owned()),
            function: Some(function.to_owned()),
            ..SourceLocation::default()
        })
    }

    /// Frame names of the user's own code around an event, innermost first; from its recorded stack if there is one.
    pub fn own_frames(&self, event: EventId) -> Vec<StrId> {
        self.frames(event, |name| self.kind(name) == NameKind::OwnFrame)
    }

    /// Frame names of model libraries around an event, innermost first.
    pub fn model_frames(&self, event: EventId) -> Vec<StrId> {
        let name = |name: StrId| self.trace.strings.get(name);
        self.frames(event, |frame| MODEL_LIBRARIES.iter().any(|folder| is_in_package(name(frame), folder)))
    }

    /// Frame names around an event that satisfy a condition, innermost first; from its recorded stack if there is one.
    fn frames(&self, event: EventId, is_selected: impl Fn(StrId) -> bool) -> Vec<StrId> {
        let trace = self.trace;
        let own_stack = self.trace.stacks.of_event(event).filter(|_| trace.gpu_operation(event).is_some());
        let own_stack = own_stack.filter(|&stack| self.own_frame_of(stack).is_some());
        let event = launch_of(trace, event);
        let around = || std::iter::once(event).chain(trace.ancestors(event));
        let is_selected = |name: &StrId| is_selected(*name);
        match own_stack.or_else(|| around().find_map(|e| self.trace.stacks.of_event(e))) {
            Some(stack) => trace.stacks.names(Some(stack)).filter(is_selected).collect(),
            None => {
                let frames = around().filter(|&e| trace.kind(e) == EventKind::PythonFunction);
                frames.map(|e| trace.events.name[e.index()]).filter(is_selected).collect()
            }
        }
    }

    /// Source location of a Python function, from its frame name.
    pub fn frame_location(&self, frame: StrId) -> SourceLocation {
        self.place(SourceLocationKey { frame, line: 0, module: StrId::NONE, operator: StrId::NONE })
    }

    /// Resolve a source location key to texts: file, line, function, module and operator.
    pub fn place(&self, key: SourceLocationKey) -> SourceLocation {
        let text = |name: StrId| name.some().map(|name| self.trace.strings.get(name).to_owned());
        let mut place = SourceLocation {
            module: text(key.module).map(module_name),
            operator: text(key.operator),
            ..SourceLocation::default()
        };
        let name = text(key.frame).unwrap_or_default();
        if let Some((file, line, function)) = frame(&name) {
            place.file = Some(file.to_owned());
            // Frame names contain the first line of their function; line 1 of a whole file is an import.
            let is_begin = function == "<module>" && line == 1;
            let known = (line > 0 && !is_begin).then_some(line);
            place.line = if key.line > 0 { Some(key.line) } else { known };
            place.function = Some(function.to_owned());
        }
        place
    }
}

/// Convert a module span's name to the notation of PyTorch's profiler.
fn module_name(span: String) -> String {
    match lightning::module_of(&span) {
        Some((class, name)) => format!("{MODULE_PREFIX} {class} {name}"),
        None => span,
    }
}

impl SourceLocation {
    /// Text of the location in one line: `train.py:12 in step`, or the known parts.
    pub fn text(&self) -> String {
        let mut text = match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => file.clone(),
            _ => {
                let known: Vec<&str> =
                    [&self.module, &self.operator].into_iter().flatten().map(String::as_str).collect();
                return known.join(", ");
            }
        };
        if let Some(function) = &self.function {
            text.push_str(" in ");
            text.push_str(function);
        }
        text
    }
}

/// Launch of a GPU operation; for other events the event itself.
pub fn launch_of(trace: &Trace, event: EventId) -> EventId {
    trace.gpu_operation(event).and_then(|operation| trace.gpu.launcher(operation)).unwrap_or(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_names_are_parsed() {
        assert_eq!(frame("src/train.py(12): step"), Some(("src/train.py", 12, "step")));
        assert_eq!(frame("a(b).py(3): <lambda>"), Some(("a(b).py", 3, "<lambda>")));
        assert_eq!(frame("<built-in function linear>"), None);
        assert_eq!(frame("train.py(x): f"), None);
        assert_eq!(frame("$train.py:12 step"), Some(("train.py", 12, "step")));
        assert_eq!(
            frame("$<frozen importlib._bootstrap>:390 parent"),
            Some(("<frozen importlib._bootstrap>", 390, "parent"))
        );
        assert_eq!(frame("$builtins isinstance"), None);
        assert_eq!(kind_of("$train.py:12 step"), NameKind::OwnFrame);
        assert_eq!(kind_of("$array.py:629 _value"), NameKind::LibraryFrame);
    }

    #[test]
    fn framework_code_is_not_user_code() {
        for file in [
            "pytorch_lightning/trainer/trainer.py",
            "lightning_fabric/wrappers.py",
            "deepspeed/runtime/engine.py",
            "megatron/core/transformer/mlp.py",
            "/opt/Megatron-LM/megatron/core/transformer/mlp.py",
            "accelerate/accelerator.py",
            "flax/linen/module.py",
            "keras/src/trainers/trainer.py",
        ] {
            assert!(!is_own_code(file), "{file}");
        }
        assert!(
            is_own_code("pretrain_gpt.py")
                && is_own_code("megatron/training/training.py")
                && is_own_code("datasets/coco.py")
        );
    }

    #[test]
    fn locations_as_text() {
        let place = SourceLocation {
            file: Some("train.py".to_owned()),
            line: Some(3),
            function: Some("step".to_owned()),
            ..SourceLocation::default()
        };
        assert_eq!(place.text(), "train.py:3 in step");
        let place = SourceLocation { operator: Some("aten::item".to_owned()), ..SourceLocation::default() };
        assert_eq!(place.text(), "aten::item");
        let module = module_name("[pl][module]torch.nn.modules.linear.Linear: head.0".to_owned());
        assert_eq!(module, "nn.Module: Linear head.0");
        assert_eq!(module_name("nn.Module: Linear_3".to_owned()), "nn.Module: Linear_3");
    }
}
