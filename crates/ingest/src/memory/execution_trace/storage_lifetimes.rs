//! Lifetimes of storages: the time range in which a storage number denotes one object, with its accesses.

use super::nodes::{AccessingOperator, Node, Nodes, Tensor};
use rustc_hash::FxHashMap;
use stackline_model::AccessMode;

/// Lifetime of one memory object: a storage from its first operator to its last one.
#[derive(Debug)]
pub(super) struct StorageLifetime {
    /// The tensor of its first use.
    pub(super) tensor: Tensor,
    /// Largest end of any of its tensors, in bytes.
    pub(super) bytes: u64,
    /// The operator that returned the object; `None` if the object existed before the trace.
    pub(super) first: Option<i128>,
    /// Position of the last operator that uses the object.
    pub(super) last: usize,
}

/// Use of a memory object by an operator, with the access mode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub(super) life: usize,
    /// Access mode; `None` if the object is created or viewed without an access.
    pub(super) mode: Option<AccessMode>,
    /// True if the schema states the access.
    pub(super) sure: bool,
    /// True if the operator creates the object.
    pub(super) begins: bool,
}

impl Use {
    /// Check if the operator writes the object.
    pub(super) fn writes(&self) -> bool {
        self.mode.is_some_and(AccessMode::writes)
    }
}

#[derive(Debug, Default)]
pub(super) struct StorageLifetimes {
    pub(super) all: Vec<StorageLifetime>,
    /// Current lifetime by storage.
    now: FxHashMap<i128, usize>,
}

impl StorageLifetimes {
    /// Determine the memory objects that an operator uses, and begin the lifetimes of new ones; at most one use per
    /// object. Operators must be passed in the order of their ends.
    pub(super) fn uses(&mut self, nodes: &Nodes, operator: &AccessingOperator) -> Vec<Use> {
        let node = &nodes.all[operator.at];
        let is_own = |tensor: &&Tensor| !operator.below.contains(&tensor.storage);
        let mutated = mutated_arguments(&node.schema);
        let sure = !node.schema.is_empty();
        let mut uses = Uses::default();
        for (argument, tensors) in node.inputs.iter().enumerate() {
            let written = mutated.contains(&argument);
            for tensor in tensors.iter().filter(is_own) {
                let mode = match written {
                    // Bytes that the output does not cover keep their old content.
                    true if overwrites(&node.name) && self.is_whole(tensor) => AccessMode::Write,
                    true => AccessMode::Both,
                    false => AccessMode::Read,
                };
                let mode = Some(if sure { mode } else { AccessMode::Unknown });
                uses.add(self.input_use(nodes, operator.at, tensor, mode, sure));
            }
        }
        let inputs = uses.list.len();
        let taken = |uses: &Uses, life: Option<&usize>| {
            life.and_then(|life| uses.places.get(life)).is_some_and(|place| *place < inputs)
        };
        let mut returns_new = false;
        for tensor in &node.outputs {
            if !is_own(&tensor) {
                // An inner operator made or filled the object; this operator may have written it afterwards.
                returns_new = true;
                let mode = Some(AccessMode::Unknown);
                uses.add(self.input_use(nodes, operator.at, tensor, mode, false));
                continue;
            }
            if taken(&uses, self.now.get(&tensor.storage)) {
                let life = self.find(tensor);
                uses.add(Use { life, mode: None, sure, begins: false });
                continue;
            }
            returns_new = true;
            let mode = (!only_allocates(&node.name)).then_some(AccessMode::Write);
            uses.add(self.output_use(node, tensor, mode, sure));
        }
        // An operator that returns only old storages and changes none is a view.
        if sure && !returns_new && mutated.is_empty() && !node.outputs.is_empty() {
            uses.list.iter_mut().for_each(|used| used.mode = None);
        }
        uses.list
    }

    /// Use of an output tensor. If an inner operator created the storage, it is the same object; otherwise a new object
    /// begins.
    fn output_use(&mut self, node: &Node, tensor: &Tensor, mode: Option<AccessMode>, sure: bool) -> Use {
        let made = self.now.get(&tensor.storage).filter(|life| self.all[**life].first >= Some(node.id)).is_some();
        let life = if made { self.find(tensor) } else { self.begin(tensor, Some(node.id)) };
        Use { life, mode, sure, begins: !made }
    }

    /// Use of an input tensor. If an enclosing operator returns the storage without taking it, the object was created
    /// within that operator by an unrecorded one. An example is the result that `aten::sum` first fills with zeros.
    fn input_use(&mut self, nodes: &Nodes, at: usize, tensor: &Tensor, mode: Option<AccessMode>, sure: bool) -> Use {
        match nodes.creating_operator(at, tensor.storage) {
            Some(maker) => self.output_use(maker, tensor, mode, sure),
            None => Use { life: self.find(tensor), mode, sure, begins: false },
        }
    }

    /// Store the position of an operator as the last use of the objects that it uses.
    pub(super) fn note_position(&mut self, uses: &[Use], at: usize) {
        uses.iter().for_each(|used| self.all[used.life].last = at);
    }

    /// Check if a tensor covers all known bytes of its storage.
    fn is_whole(&self, tensor: &Tensor) -> bool {
        let life = self.now.get(&tensor.storage).map(|life| &self.all[*life]);
        tensor.is_from_begin && life.is_none_or(|life| tensor.bytes >= life.bytes)
    }

    /// Index of the current lifetime of a tensor's storage, extended to the tensor's bytes; begins one older than the
    /// trace if none.
    fn find(&mut self, tensor: &Tensor) -> usize {
        match self.now.get(&tensor.storage) {
            Some(life) => {
                let life = *life;
                self.all[life].bytes = self.all[life].bytes.max(tensor.bytes);
                life
            }
            None => self.begin(tensor, None),
        }
    }

    /// Begin a new lifetime of a tensor's storage, and return its index. `first` is the operator that returned the
    /// storage.
    fn begin(&mut self, tensor: &Tensor, first: Option<i128>) -> usize {
        self.all.push(StorageLifetime { tensor: tensor.clone(), bytes: tensor.bytes, first, last: 0 });
        self.now.insert(tensor.storage, self.all.len() - 1);
        self.all.len() - 1
    }
}

/// Uses of one operator, indexed because an operator may take very many tensors.
#[derive(Debug, Default)]
struct Uses {
    list: Vec<Use>,
    /// Index in the list by lifetime.
    places: FxHashMap<usize, usize>,
}

impl Uses {
    /// Add a use, or combine it with the existing use of the same object.
    fn add(&mut self, more: Use) {
        let place = *self.places.entry(more.life).or_insert(self.list.len());
        match self.list.get_mut(place) {
            Some(used) => used.mode = merge_modes(used.mode, more.mode),
            None => self.list.push(more),
        }
    }
}

/// Check if an operator accesses memory, by its name, schema and tensors.
pub(super) fn touches(node: &Node) -> bool {
    let has = |storage: i128| node.inputs.iter().flatten().any(|tensor| tensor.storage == storage);
    let is_empty = node.outputs.is_empty() && node.inputs.iter().all(Vec::is_empty);
    let returns_views = !node.outputs.is_empty() && node.outputs.iter().all(|tensor| has(tensor.storage));
    let is_view = !node.schema.is_empty() && returns_views && mutated_arguments(&node.schema).is_empty();
    !is_empty && !is_view && !only_allocates(&node.name)
}

/// Combined access mode of two uses of one object.
fn merge_modes(one: Option<AccessMode>, other: Option<AccessMode>) -> Option<AccessMode> {
    match (one, other) {
        (Some(AccessMode::Unknown), Some(_)) | (Some(_), Some(AccessMode::Unknown)) => Some(AccessMode::Unknown),
        (Some(one), Some(other)) if one != other => Some(AccessMode::Both),
        (Some(one), _) | (None, Some(one)) => Some(one),
        (None, None) => None,
    }
}

/// Check if an operator overwrites its marked arguments without reading them.
fn overwrites(name: &str) -> bool {
    ["aten::zero_", "aten::fill_", "aten::copy_"].contains(&name)
}

/// Check if an operator only allocates or resizes memory without writing it, by its name.
fn only_allocates(name: &str) -> bool {
    ["aten::empty", "aten::new_empty", "aten::resize_"].iter().any(|begin| name.starts_with(begin))
}

/// Positions of arguments that a schema marks as written: `Tensor(a!) self`.
fn mutated_arguments(schema: &str) -> Vec<usize> {
    let arguments = schema.split_once("->").map_or(schema, |(arguments, _)| arguments);
    let Some((_, arguments)) = arguments.split_once('(') else { return Vec::new() };
    let (mut depth, mut number, mut begin) = (0i32, 0, 0);
    let mut mutated = Vec::new();
    let mut take = |text: &str| {
        if text.trim() != "*" {
            mutated.extend(text.contains("!)").then_some(number));
            number += 1;
        }
    };
    for (at, byte) in arguments.bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b',' if depth == 0 => {
                take(&arguments[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    take(&arguments[begin..]);
    mutated
}

#[cfg(test)]
mod tests {
    use super::{merge_modes, mutated_arguments};
    use stackline_model::AccessMode::{Both, Read, Unknown, Write};

    #[test]
    fn merged_modes_are_unknown_if_one_is() {
        for mode in [Read, Write, Both, Unknown] {
            assert_eq!(
                [merge_modes(Some(mode), Some(Unknown)), merge_modes(Some(Unknown), Some(mode))],
                [Some(Unknown); 2]
            );
            assert_eq!(
                [merge_modes(Some(mode), None), merge_modes(None, Some(mode)), merge_modes(Some(mode), Some(mode))],
                [Some(mode); 3]
            );
        }
        assert_eq!([merge_modes(Some(Read), Some(Write)), merge_modes(Some(Write), Some(Both))], [Some(Both); 2]);
        assert_eq!(merge_modes(None, None), None);
    }

    #[test]
    fn mutated_arguments_are_read_from_schemas() {
        let written = |schema: &str| mutated_arguments(schema);
        assert_eq!(written("aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"), [0]);
        assert_eq!(written("aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"), [2]);
        assert_eq!(written("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"), [0usize; 0]);
        assert_eq!(written("aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()"), [0]);
        assert_eq!(written("aten::x(int[2] a=[0, 1], Tensor(b!)? c=None, *, Tensor(d!) e) -> ()"), [1, 2]);
        assert_eq!(written(""), [0usize; 0]);
        assert_eq!(written("no schema"), [0usize; 0]);
    }
}
