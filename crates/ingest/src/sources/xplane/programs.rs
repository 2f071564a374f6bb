//! Compiled programs of a file, decoded when the first of their operators is read.

use super::hlo::{Module, Position, Source};
use super::plane::{Kind, Plane, StatValue};
use rustc_hash::FxHashMap;
use stackline_model::{EventId, StackId, Trace};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

/// Plane with the programs.
const PLANE: &str = "/host:metadata";
/// Argument of a program's entry with the serialized program.
const SERIALIZED: &str = "Hlo Proto";

struct Program<'p> {
    serialized: &'p [u8],
    /// The module; `None` if it cannot be read.
    module: OnceCell<Option<Module>>,
    sources: RefCell<FxHashMap<Position, Option<Rc<Source>>>>,
}

/// Compiled XLA programs of a file, by number and by name.
pub(super) struct Programs<'p> {
    programs: Vec<Program<'p>>,
    by_number: FxHashMap<i64, usize>,
    /// Programs with unique names.
    by_name: FxHashMap<&'p str, Option<Named>>,
}

/// Index of the only program with a name.
#[derive(Clone, Copy)]
struct Named {
    at: usize,
    has_number: bool,
}

impl<'p> Programs<'p> {
    /// Index the serialized programs of the planes by number and by name, without decoding them.
    pub(super) fn new(planes: &'p [Plane<'_>]) -> Self {
        let mut found = Self { programs: Vec::new(), by_number: FxHashMap::default(), by_name: FxHashMap::default() };
        for plane in planes.iter().filter(|plane| plane.name == PLANE) {
            let mut kinds: Vec<(&i64, &Kind)> = plane.kinds.iter().collect();
            kinds.sort_by_key(|(number, _)| **number);
            for (&number, kind) in kinds {
                let bytes = kind.stats.iter().find_map(|stat| match &stat.value {
                    Some(StatValue::Bytes(bytes)) if plane.name_of(stat.name) == SERIALIZED => Some(bytes),
                    _ => None,
                });
                let Some(serialized) = bytes else { continue };
                let at = found.programs.len();
                found.programs.push(Program { serialized, module: OnceCell::new(), sources: RefCell::default() });
                // `jit_step(5973)` is the program 5973 of `jit_step`.
                let (name, own) = split_number(&kind.name).map_or((&*kind.name, None), |(name, own)| (name, Some(own)));
                found.by_number.insert(own.unwrap_or(number), at);
                let named = Named { at, has_number: own.is_some() };
                found.by_name.entry(name).and_modify(|only| *only = None).or_insert(Some(named));
            }
        }
        found
    }

    /// Decode the program with this number, else the only one with this name; its index and module, or `None` if
    /// unreadable.
    fn module(&self, program: Option<i64>, name: Option<&str>) -> Option<(usize, &Module)> {
        // A different number is another program of that name.
        let is_it = |named: &Named| program.is_none() || !named.has_number;
        let by_name = || self.by_name.get(name?).copied().flatten().filter(is_it).map(|named| named.at);
        let at = program.and_then(|number| self.by_number.get(&number).copied()).or_else(by_name)?;
        let program = &self.programs[at];
        let module = program.module.get_or_init(|| Module::decode(program.serialized).ok()).as_ref()?;
        Some((at, module))
    }

    /// Number of programs that were looked up but could not be decoded.
    pub(super) fn damaged(&self) -> u64 {
        self.programs.iter().filter(|program| matches!(program.module.get(), Some(None))).count() as u64
    }

    /// Source of an instruction, from the program with this number, else from the one with this name.
    pub(super) fn source(
        &self,
        (program, module): (Option<i64>, Option<&str>),
        instruction: &str,
        kernel: &str,
    ) -> Option<Found> {
        let (at, module) = self.module(program, module)?;
        let position = module.find(instruction, kernel)?;
        let mut sources = self.programs[at].sources.borrow_mut();
        let source = sources.entry(position).or_insert_with(|| module.source(position).map(Rc::new)).clone()?;
        Some(Found { program: at, position, source })
    }
}

/// Source of an instruction, with its program and position.
pub(super) struct Found {
    program: usize,
    position: Position,
    pub(super) source: Rc<Source>,
}

/// Split a name such as `jit_step(5973)` into program name and number; `None` without a number.
fn split_number(name: &str) -> Option<(&str, i64)> {
    let (name, number) = name.strip_suffix(')')?.rsplit_once('(')?;
    // Program IDs of TPUs use all 64 bits.
    let number = number.parse().or_else(|_| number.parse().map(u64::cast_signed));
    Some((name, number.ok()?))
}

/// Source lines as stacks of the trace, each stored once.
#[derive(Default)]
pub(super) struct Stacks {
    of_instruction: FxHashMap<(usize, Position), StackId>,
    frames: FxHashMap<(StackId, String), StackId>,
}

impl Stacks {
    /// Set the stack of an event to the source lines of its HLO instruction.
    pub(super) fn attach(&mut self, trace: &mut Trace, event: EventId, found: &Found) {
        if found.source.places.is_empty() {
            return;
        }
        let key = (found.program, found.position);
        let stack = match self.of_instruction.get(&key) {
            Some(stack) => *stack,
            None => {
                let stack = self.intern(trace, &found.source);
                self.of_instruction.insert(key, stack);
                stack
            }
        };
        trace.stacks.event.push(event);
        trace.stacks.stack.push(stack);
    }

    /// Add the source lines of an instruction to the trace as a stack. Frame names are those of Kineto's Python frames:
    /// `train.py(12): loss`.
    fn intern(&mut self, trace: &mut Trace, source: &Source) -> StackId {
        let mut stack = StackId::NONE;
        for place in source.places.iter().rev() {
            // Without a function name, the compiled function around the line is used.
            let compiled = || source.operator.split('/').next().filter(|outer| outer.starts_with("jit("));
            let function = Some(place.function.as_str()).filter(|name| !name.is_empty()).or_else(compiled);
            let name = format!("{}({}): {}", place.file, place.line, function.unwrap_or("<unknown>"));
            stack = *self.frames.entry((stack, name.clone())).or_insert_with(|| {
                let texts = (trace.strings.intern(&name), trace.strings.intern("Python"));
                trace.stacks.push(stack, texts, &trace.strings)
            });
        }
        stack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_numbers_follow_names() {
        assert_eq!(split_number("jit_step(5973)"), Some(("jit_step", 5973)));
        assert_eq!(split_number("jit__unstack(-7)"), Some(("jit__unstack", -7)));
        assert_eq!(split_number("f(x)(3)"), Some(("f(x)", 3)));
        assert_eq!(split_number("jit_step"), None);
        assert_eq!(split_number("jit_f(18446744073709551615)"), Some(("jit_f", -1)));
    }
}
