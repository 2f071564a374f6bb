//! XLA modules: source operator and source lines of each instruction.
//!
//! Texts are read as bytes, because a single text that is not UTF-8 would make all others unreadable. The field numbers
//! are those of XLA's `hlo.proto` and `xla_data.proto`. Files of JAX before 0.8 have one line per instruction, later
//! ones a stack.

use super::plane::text;
use prost::Message;
use rustc_hash::FxHashMap;

#[derive(Clone, PartialEq, Message)]
struct Proto {
    #[prost(message, optional, tag = "1")]
    module: Option<ModuleMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ModuleMessage {
    #[prost(message, repeated, tag = "3")]
    computations: Vec<Computation>,
    #[prost(message, optional, tag = "17")]
    frames: Option<FrameIndex>,
}

#[derive(Clone, PartialEq, Message)]
struct Computation {
    #[prost(message, repeated, tag = "2")]
    instructions: Vec<Instruction>,
    #[prost(int64, tag = "5")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Instruction {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    opcode: Vec<u8>,
    #[prost(message, optional, tag = "7")]
    origin: Option<Origin>,
    #[prost(int64, repeated, tag = "38")]
    called: Vec<i64>,
}

/// `OpMetadata` of an instruction: operator, source file and line, and stack frame.
#[derive(Clone, PartialEq, Message)]
struct Origin {
    #[prost(bytes = "vec", tag = "2")]
    operator: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    file: Vec<u8>,
    #[prost(int32, tag = "4")]
    line: i32,
    #[prost(int32, tag = "15")]
    frame: i32,
}

/// Source files, functions, locations and frames of a module. Numbers in it start at 1.
#[derive(Clone, PartialEq, Message)]
struct FrameIndex {
    #[prost(bytes = "vec", repeated, tag = "1")]
    files: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    functions: Vec<Vec<u8>>,
    #[prost(message, repeated, tag = "3")]
    places: Vec<PlaceMessage>,
    #[prost(message, repeated, tag = "4")]
    frames: Vec<FrameMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct PlaceMessage {
    #[prost(int32, tag = "1")]
    file: i32,
    #[prost(int32, tag = "2")]
    function: i32,
    #[prost(int32, tag = "3")]
    line: i32,
}

#[derive(Clone, PartialEq, Message)]
struct FrameMessage {
    #[prost(int32, tag = "1")]
    place: i32,
    #[prost(int32, tag = "2")]
    parent: i32,
}

/// Source location of an XLA instruction: function, file and line of the program.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SourceLocation {
    /// Empty if the file does not contain it.
    pub(super) function: String,
    pub(super) file: String,
    pub(super) line: i32,
}

/// Source of an XLA instruction: operator, source lines, and fused operators.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Source {
    /// Path of the operator in the program: `jit(step)/jvp()/add`.
    pub(super) operator: String,
    /// Source lines, innermost first.
    pub(super) places: Vec<SourceLocation>,
    /// Operators that were fused into it, each once.
    pub(super) fused: Vec<String>,
}

/// An instruction: indexes of its computation and of itself.
pub(super) type Position = (usize, usize);

/// An XLA module with indexes of its instructions by name and by kernel.
#[derive(Debug, Default)]
pub(super) struct Module {
    message: ModuleMessage,
    by_name: FxHashMap<String, Position>,
    /// Instructions by the name of their kernel.
    by_kernel: FxHashMap<String, Position>,
    computations: FxHashMap<i64, usize>,
}

/// Limit on the depth of stacks, which also ends cycles.
const DEEPEST: usize = 256;
/// Limit on listed fused operators.
const MOST_FUSED: usize = 32;
/// Limit on examined instructions of a fusion.
const MAX_EXAMINED: usize = 4096;
/// Operations without computation.
const WITHOUT_COMPUTATION: [&str; 4] = ["parameter", "constant", "get-tuple-element", "tuple"];

impl Module {
    /// Parse the module of a serialized `HloProto`.
    ///
    /// # Errors
    /// If the bytes are not such a message.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, prost::DecodeError> {
        let message = Proto::decode(bytes)?.module.unwrap_or_default();
        let mut module = Self { message, ..Self::default() };
        for (at, computation) in module.message.computations.iter().enumerate() {
            module.computations.insert(computation.id, at);
            for (number, instruction) in computation.instructions.iter().enumerate() {
                let name = text(&instruction.name);
                module.by_kernel.entry(kernel_name(&name)).or_insert((at, number));
                module.by_name.insert(name, (at, number));
            }
        }
        Ok(module)
    }

    /// Position of the instruction with this name, else of one that compiles to this kernel; `None` without source
    /// metadata. In a CUDA graph, all kernels run as one instruction.
    pub(super) fn find(&self, instruction: &str, kernel: &str) -> Option<Position> {
        let has_origin = |&position: &Position| self.origin(position).is_some();
        let named = self.by_name.get(instruction).copied().filter(has_origin);
        named.or_else(|| self.by_kernel.get(kernel).copied().filter(has_origin))
    }

    /// Instruction at a position; `None` if the module has no such position.
    fn instruction(&self, (computation, number): Position) -> Option<&Instruction> {
        self.message.computations.get(computation)?.instructions.get(number)
    }

    /// Source metadata of an instruction, or of the last instruction fused into it, which is the fusion's result.
    fn origin(&self, position: Position) -> Option<&Origin> {
        let instruction = self.instruction(position)?;
        let own = instruction.origin.as_ref().filter(|origin| origin.is_informative());
        own.or_else(|| self.fused(instruction).last().copied())
    }

    /// Source metadata of the instructions that a fusion contains; empty for any other instruction.
    fn fused(&self, instruction: &Instruction) -> Vec<&Origin> {
        if instruction.opcode != b"fusion" {
            return Vec::new();
        }
        let mut called = instruction.called.iter().take(MOST_FUSED).copied().collect::<Vec<i64>>();
        called.sort_unstable();
        called.dedup();
        let computations = called.iter().filter_map(|id| self.message.computations.get(*self.computations.get(id)?));
        let instructions = computations.flat_map(|computation| &computation.instructions).take(MAX_EXAMINED);
        let working = instructions.filter(|i| !WITHOUT_COMPUTATION.iter().any(|silent| silent.as_bytes() == i.opcode));
        working.filter_map(|i| i.origin.as_ref()).filter(|origin| origin.is_informative()).collect()
    }

    /// Source operator, source lines and fused operators of an instruction; `None` without source metadata.
    pub(super) fn source(&self, position: Position) -> Option<Source> {
        let origin = self.origin(position)?;
        let all = self.fused(self.instruction(position)?);
        let mut fused: Vec<String> = Vec::new();
        for operator in all.iter().map(|origin| text(&origin.operator)) {
            if fused.len() < MOST_FUSED && !operator.is_empty() && !fused.contains(&operator) {
                fused.push(operator);
            }
        }
        // If the result of a fusion has no line, the line of another fused instruction is used.
        let places = std::iter::once(origin).chain(all.into_iter().rev()).map(|origin| self.places(origin));
        let places = places.into_iter().find(|places| !places.is_empty()).unwrap_or_default();
        Some(Source { operator: text(&origin.operator), places, fused })
    }

    /// Source lines of an instruction, innermost first: those of its stack frames, else its file and line.
    fn places(&self, origin: &Origin) -> Vec<SourceLocation> {
        let no_frames = FrameIndex::default();
        let index = self.message.frames.as_ref().unwrap_or(&no_frames);
        let frame = |number: i32| entry(&index.frames, number);
        // Callers precede their callees: a cycle would lead to a later frame.
        let parent = |inner: &FrameMessage| frame(inner.parent).filter(|outer| !std::ptr::eq(*outer, inner));
        let stack = std::iter::successors(frame(origin.frame), |inner| parent(inner)).take(DEEPEST);
        let place = |frame: &FrameMessage| {
            let place = entry(&index.places, frame.place)?;
            Some(SourceLocation {
                function: entry(&index.functions, place.function).map(|name| text(name)).unwrap_or_default(),
                file: text(entry(&index.files, place.file)?),
                line: place.line,
            })
        };
        let stack: Vec<SourceLocation> = stack.filter_map(place).collect();
        if stack.is_empty() && !origin.file.is_empty() {
            return vec![SourceLocation { function: String::new(), file: text(&origin.file), line: origin.line }];
        }
        stack
    }
}

impl Origin {
    /// Check if the metadata names an operator, a file or a stack frame.
    fn is_informative(&self) -> bool {
        !self.operator.is_empty() || !self.file.is_empty() || self.frame > 0
    }
}

/// Kernel name of an instruction: XLA replaces characters that C does not allow by underscores.
fn kernel_name(instruction: &str) -> String {
    instruction.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Element of a table by its number, which starts at 1.
fn entry<T>(entries: &[T], number: i32) -> Option<&T> {
    entries.get(usize::try_from(number).ok()?.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(name: &str, opcode: &str, origin: Option<Origin>, called: &[i64]) -> Instruction {
        Instruction { name: name.into(), opcode: opcode.into(), origin, called: called.to_vec() }
    }

    fn origin(operator: &str, frame: i32) -> Option<Origin> {
        Some(Origin { operator: operator.into(), frame, ..Origin::default() })
    }

    fn encoded(instructions: Vec<Instruction>, fused: Vec<Instruction>, frames: Option<FrameIndex>) -> Vec<u8> {
        let computations = vec![Computation { instructions: fused, id: 7 }, Computation { instructions, id: 8 }];
        Proto { module: Some(ModuleMessage { computations, frames }) }.encode_to_vec()
    }

    fn index() -> FrameIndex {
        let texts = |texts: &[&str]| texts.iter().map(|t| t.as_bytes().to_vec()).collect();
        FrameIndex {
            files: texts(&["train.py"]),
            functions: texts(&["main", "loss"]),
            places: vec![
                PlaceMessage { file: 1, function: 1, line: 30 },
                PlaceMessage { file: 1, function: 2, line: 12 },
            ],
            frames: vec![FrameMessage { place: 1, parent: 0 }, FrameMessage { place: 2, parent: 1 }],
        }
    }

    fn source(module: &Module, instruction: &str, kernel: &str) -> Option<Source> {
        module.source(module.find(instruction, kernel)?)
    }

    fn lines(places: &[SourceLocation]) -> Vec<(&str, i32)> {
        places.iter().map(|place| (place.function.as_str(), place.line)).collect()
    }

    #[test]
    fn instructions_have_operators_and_lines() {
        let fused = vec![
            instruction("p", "parameter", origin("x", 1), &[]),
            instruction("mul", "multiply", origin("jit(f)/mul", 2), &[]),
            instruction("mul2", "multiply", origin("jit(f)/mul", 2), &[]),
            instruction("tanh", "tanh", origin("jit(f)/tanh", 2), &[]),
        ];
        let plain = vec![
            instruction("loop_fusion.3", "fusion", None, &[7]),
            instruction("dot.1", "dot", origin("jit(f)/dot", 1), &[]),
            instruction("copy.2", "copy", None, &[]),
        ];
        let module = Module::decode(&encoded(plain, fused, Some(index()))).unwrap();
        let fusion = source(&module, "loop_fusion.3", "").unwrap();
        assert_eq!(fusion.operator, "jit(f)/tanh");
        assert_eq!(fusion.fused, ["jit(f)/mul", "jit(f)/tanh"]);
        assert_eq!(lines(&fusion.places), [("loss", 12), ("main", 30)]);
        // A graph of kernels is one instruction, so the kernel's own name identifies the operator.
        let dot = source(&module, "command_buffer_1", "dot_1").unwrap();
        assert_eq!((dot.operator.as_str(), lines(&dot.places)), ("jit(f)/dot", vec![("main", 30)]));
        assert_eq!(module.find("copy.2", "copy_2"), None);
    }

    #[test]
    fn older_files_name_one_line() {
        let old = Origin { operator: "jit(f)/add".into(), file: "a.py".into(), line: 5, frame: 0 };
        let module =
            Module::decode(&encoded(vec![instruction("add", "add", Some(old), &[])], Vec::new(), None)).unwrap();
        assert_eq!(
            source(&module, "add", "").unwrap().places,
            [SourceLocation { function: String::new(), file: "a.py".into(), line: 5 }]
        );
    }

    #[test]
    fn stacks_in_a_circle_end() {
        let circle = vec![FrameMessage { place: 1, parent: 2 }, FrameMessage { place: 2, parent: 1 }];
        let frames = FrameIndex { frames: circle, ..index() };
        let plain = vec![instruction("add", "add", origin("jit(f)/add", 1), &[])];
        let module = Module::decode(&encoded(plain, Vec::new(), Some(frames))).unwrap();
        assert_eq!(source(&module, "add", "").unwrap().places.len(), DEEPEST);
        assert!(Module::decode(b"\x0a\x05ab").is_err());
    }
}
