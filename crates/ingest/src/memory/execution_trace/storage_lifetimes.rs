//! Lifetimes of storages: the time range in which a storage id names one object, with its accesses.

use super::nodes::{Node, Nodes, Tensor, Worker};
use rustc_hash::FxHashMap;
use stackline_model::AccessMode;

/// One object: a storage from its first operator to its last.
#[derive(Debug)]
pub(super) struct Life {
    /// The tensor that it was first seen as.
    pub(super) tensor: Tensor,
    /// The most that any tensor in it reached.
    pub(super) bytes: u64,
    /// The operator that gave it; none if it was there before.
    pub(super) first: Option<i128>,
    /// The position of the last operator that it occurs in.
    pub(super) last: usize,
}

/// How an operator uses an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub(super) life: usize,
    /// None: it is made or looked at, but not touched.
    pub(super) mode: Option<AccessMode>,
    /// Whether the schema says so.
    pub(super) sure: bool,
    /// Whether the operator makes it.
    pub(super) begins: bool,
}

impl Use {
    pub(super) fn writes(&self) -> bool {
        self.mode.is_some_and(AccessMode::writes)
    }
}

#[derive(Debug, Default)]
pub(super) struct Lives {
    pub(super) all: Vec<Life>,
    /// By storage.
    now: FxHashMap<i128, usize>,
}

impl Lives {
    /// What the next operator uses, each object once.
    pub(super) fn uses(&mut self, nodes: &Nodes, worker: &Worker) -> Vec<Use> {
        let node = &nodes.all[worker.at];
        let is_own = |tensor: &&Tensor| !worker.below.contains(&tensor.storage);
        let mutated = mutated_arguments(&node.schema);
        let sure = !node.schema.is_empty();
        let mut uses = Uses::default();
        for (argument, tensors) in node.inputs.iter().enumerate() {
            let written = mutated.contains(&argument);
            for tensor in tensors.iter().filter(is_own) {
                let mode = match written {
                    // Of what it does not cover, what was there stays.
                    true if overwrites(&node.name) && self.is_whole(tensor) => AccessMode::Write,
                    true => AccessMode::Both,
                    false => AccessMode::Read,
                };
                let mode = Some(if sure { mode } else { AccessMode::Unknown });
                uses.add(self.taken(nodes, worker.at, tensor, mode, sure));
            }
        }
        let inputs = uses.list.len();
        let taken = |uses: &Uses, life: Option<&usize>| {
            life.and_then(|life| uses.places.get(life)).is_some_and(|place| *place < inputs)
        };
        let mut gives_new = false;
        for tensor in &node.outputs {
            if !is_own(&tensor) {
                // Something below made or filled it; this one may have written it after that.
                gives_new = true;
                let mode = Some(AccessMode::Unknown);
                uses.add(self.taken(nodes, worker.at, tensor, mode, false));
                continue;
            }
            if taken(&uses, self.now.get(&tensor.storage)) {
                let life = self.find(tensor);
                uses.add(Use { life, mode: None, sure, begins: false });
                continue;
            }
            gives_new = true;
            let mode = (!only_allocates(&node.name)).then_some(AccessMode::Write);
            uses.add(self.given(node, tensor, mode, sure));
        }
        // What gives nothing new and changes nothing, but gives something back, is a view.
        if sure && !gives_new && mutated.is_empty() && !node.outputs.is_empty() {
            uses.list.iter_mut().for_each(|used| used.mode = None);
        }
        uses.list
    }

    /// What an operator gives. What an operator below it gave was made for it.
    fn given(&mut self, node: &Node, tensor: &Tensor, mode: Option<AccessMode>, sure: bool) -> Use {
        let made = self.now.get(&tensor.storage).filter(|life| self.all[**life].first >= Some(node.id)).is_some();
        let life = if made { self.find(tensor) } else { self.begin(tensor, Some(node.id)) };
        Use { life, mode, sure, begins: !made }
    }

    /// What an operator takes. What an operator around it gives, but did not take, was made within that one, though
    /// nothing says by whom (the result that `aten::sum` fills with zeros first).
    fn taken(&mut self, nodes: &Nodes, at: usize, tensor: &Tensor, mode: Option<AccessMode>, sure: bool) -> Use {
        match nodes.maker(at, tensor.storage) {
            Some(maker) => self.given(maker, tensor, mode, sure),
            None => Use { life: self.find(tensor), mode, sure, begins: false },
        }
    }

    /// Says at which position the operator just looked at stands.
    pub(super) fn seen_at(&mut self, uses: &[Use], at: usize) {
        uses.iter().for_each(|used| self.all[used.life].last = at);
    }

    /// Whether a tensor covers all that is known of its storage.
    fn is_whole(&self, tensor: &Tensor) -> bool {
        let life = self.now.get(&tensor.storage).map(|life| &self.all[*life]);
        tensor.is_from_begin && life.is_none_or(|life| tensor.bytes >= life.bytes)
    }

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

    fn begin(&mut self, tensor: &Tensor, first: Option<i128>) -> usize {
        self.all.push(Life { tensor: tensor.clone(), bytes: tensor.bytes, first, last: 0 });
        self.now.insert(tensor.storage, self.all.len() - 1);
        self.all.len() - 1
    }
}

/// The uses of one operator: one operator may take very many tensors.
#[derive(Debug, Default)]
struct Uses {
    list: Vec<Use>,
    /// By life: where in the list.
    places: FxHashMap<usize, usize>,
}

impl Uses {
    /// Adds a use, or makes the one that is there stronger.
    fn add(&mut self, more: Use) {
        let place = *self.places.entry(more.life).or_insert(self.list.len());
        match self.list.get_mut(place) {
            Some(used) => used.mode = both(used.mode, more.mode),
            None => self.list.push(more),
        }
    }
}

/// Whether an operator touches memory, by what it says of itself.
pub(super) fn touches(node: &Node) -> bool {
    let has = |storage: i128| node.inputs.iter().flatten().any(|tensor| tensor.storage == storage);
    let is_empty = node.outputs.is_empty() && node.inputs.iter().all(Vec::is_empty);
    let gives_views = !node.outputs.is_empty() && node.outputs.iter().all(|tensor| has(tensor.storage));
    let is_view = !node.schema.is_empty() && gives_views && mutated_arguments(&node.schema).is_empty();
    !is_empty && !is_view && !only_allocates(&node.name)
}

/// Two uses of one object as one.
fn both(one: Option<AccessMode>, other: Option<AccessMode>) -> Option<AccessMode> {
    match (one, other) {
        (Some(AccessMode::Unknown), Some(_)) | (Some(_), Some(AccessMode::Unknown)) => Some(AccessMode::Unknown),
        (Some(one), Some(other)) if one != other => Some(AccessMode::Both),
        (Some(one), _) | (None, Some(one)) => Some(one),
        (None, None) => None,
    }
}

/// Whether an operator writes what the schema marks without reading it.
fn overwrites(name: &str) -> bool {
    ["aten::zero_", "aten::fill_", "aten::copy_"].contains(&name)
}

fn only_allocates(name: &str) -> bool {
    ["aten::empty", "aten::new_empty", "aten::resize_"].iter().any(|begin| name.starts_with(begin))
}

/// Positions of the arguments that a schema marks as written: `Tensor(a!) self`.
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
    use super::{both, mutated_arguments};
    use stackline_model::AccessMode::{Both, Read, Unknown, Write};

    #[test]
    fn what_is_not_known_of_one_use_is_not_known_of_both() {
        for mode in [Read, Write, Both, Unknown] {
            assert_eq!([both(Some(mode), Some(Unknown)), both(Some(Unknown), Some(mode))], [Some(Unknown); 2]);
            assert_eq!([both(Some(mode), None), both(None, Some(mode)), both(Some(mode), Some(mode))], [Some(mode); 3]);
        }
        assert_eq!([both(Some(Read), Some(Write)), both(Some(Write), Some(Both))], [Some(Both); 2]);
        assert_eq!(both(None, None), None);
    }

    #[test]
    fn schemas_say_what_is_written() {
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
