//! Nodes of a PyTorch execution trace, in PyTorch's and in Chakra's layout.

use super::Tensors;
use crate::diagnostics;
use crate::memory::MOST_BYTES;
use crate::memory::values::{NodeId, Value, Values};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::ReadReport;

/// An input or output tensor of an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tensor {
    /// Storage number.
    pub(super) storage: i128,
    /// Bytes of the storage up to the tensor's last element.
    pub(super) bytes: u64,
    /// True if the tensor is contiguous from the first byte of its storage, as its number of elements indicates.
    pub(super) is_from_begin: bool,
    pub(super) device: String,
    pub(super) dtype: String,
    pub(super) shape: String,
}

/// An operator, or a span around operators.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: i128,
    pub(super) parent: i128,
    pub(super) name: String,
    /// Input tensors by argument.
    pub(super) inputs: Vec<Tensors>,
    pub(super) outputs: Tensors,
    pub(super) schema: String,
}

impl Node {
    /// Storage numbers of all tensors of an execution-trace node.
    fn storages(&self) -> impl Iterator<Item = i128> {
        self.inputs.iter().flatten().chain(&self.outputs).map(|tensor| tensor.storage)
    }
}

/// All nodes of an execution trace, sorted by ID, with their indexes by ID.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    pub(super) all: Vec<Node>,
    pub(super) by_id: FxHashMap<i128, usize>,
}

impl Nodes {
    /// Nodes without inner memory access, and accessing nodes with a tensor that no inner node mentions, in order of
    /// their ends. For example, `aten::mul` has the copy of its number below it, but not the product.
    pub(super) fn accessing_operators(&self, touches: impl Fn(&Node) -> bool) -> Vec<AccessingOperator> {
        let mut works_below = vec![false; self.all.len()];
        let mut end: Vec<usize> = (0..self.all.len()).collect();
        let mut below: Vec<FxHashSet<i128>> = vec![FxHashSet::default(); self.all.len()];
        let mut operators = Vec::new();
        // Parents have lower numbers than their children, so all children are visited first.
        for at in (0..self.all.len()).rev() {
            let node = &self.all[at];
            let mut mentioned = std::mem::take(&mut below[at]);
            let touches = touches(node);
            if !works_below[at] {
                operators.push(AccessingOperator { at, below: FxHashSet::default() });
            } else if touches && node.storages().any(|storage| !mentioned.contains(&storage)) {
                let below = node.storages().filter(|storage| mentioned.contains(storage)).collect();
                operators.push(AccessingOperator { at, below });
            }
            if let Some(parent) = self.parent(at) {
                works_below[parent] |= works_below[at] || touches;
                end[parent] = end[parent].max(end[at]);
                mentioned.extend(node.storages());
                merge_storages(&mut below[parent], mentioned);
            }
        }
        operators.sort_by_key(|operator| (end[operator.at], std::cmp::Reverse(operator.at)));
        operators
    }

    /// Index of a node's parent; `None` for a root. A parent has a lower index, so the ascent ends.
    pub(super) fn parent(&self, at: usize) -> Option<usize> {
        self.by_id.get(&self.all[at].parent).copied().filter(|parent| *parent < at)
    }

    /// Outermost operator around a node that returns a storage without taking it: the operator that created it.
    pub(super) fn creating_operator(&self, at: usize, storage: i128) -> Option<&Node> {
        let has = |tensors: &[Tensor]| tensors.iter().any(|tensor| tensor.storage == storage);
        let makes = |node: &&Node| has(&node.outputs) && !node.inputs.iter().any(|tensors| has(tensors));
        // PyTorch does not nest operators deeper than this.
        let around = std::iter::successors(self.parent(at), |at| self.parent(*at)).take(MAX_ENCLOSING);
        around.map(|at| &self.all[at]).filter(makes).last()
    }
}

/// Limit on enclosing operators that are examined.
const MAX_ENCLOSING: usize = 64;

/// An operator that accesses memory itself.
#[derive(Debug)]
pub(super) struct AccessingOperator {
    pub(super) at: usize,
    /// Storages of its tensors that inner operators mention, and therefore access.
    pub(super) below: FxHashSet<i128>,
}

/// Add a set of storage numbers to another one. The smaller set moves into the larger, so a storage moves only as often
/// as its set doubles.
fn merge_storages(into: &mut FxHashSet<i128>, mut more: FxHashSet<i128>) {
    if into.len() < more.len() {
        std::mem::swap(into, &mut more);
    }
    into.extend(more);
}

/// Read the nodes of an execution trace from parsed JSON. Damaged nodes and tensors are counted.
pub(super) fn read(values: &Values, root: Value, report: &mut ReadReport) -> Nodes {
    let list = values.as_dict(root).and_then(|dict| values.find(dict, "nodes")).and_then(|list| values.as_list(list));
    let mut nodes = Nodes::default();
    let mut seen = FxHashSet::default();
    let mut budget = SearchBudget { left: values.item_count(), damaged: 0 };
    for value in list.map_or(&[][..], |list| values.items(list)) {
        report.records += 1;
        match values.as_dict(*value).filter(|dict| seen.insert(*dict)).and_then(|dict| node(values, dict, &mut budget))
        {
            Some(node) => {
                let damaged = std::mem::take(&mut budget.damaged);
                diagnostics::MEMORY_BAD_TENSOR.count_many(report, damaged, None, &format!("of {}", node.name));
                nodes.all.push(node);
            }
            None => diagnostics::MEMORY_BAD_EVENT.count(
                report,
                None,
                "a node of the execution trace that has no ID or name, or occurs twice",
            ),
        }
    }
    if budget.left == 0 {
        diagnostics::MEMORY_BAD_EVENT.count(
            report,
            None,
            "the nodes of the execution trace list too many tensors; some tensors were skipped",
        );
    }
    nodes.all.sort_by_key(|node| node.id);
    nodes.by_id = nodes.all.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
    nodes
}

/// Number of values that a search for tensors may still examine, and count of damaged tensors.
struct SearchBudget {
    /// Number of values that may still be examined, over all nodes. A file without shared lists needs at most its own
    /// number of values; shared lists could unfold to any size.
    left: usize,
    /// Tensors of the node with an impossible number.
    damaged: u64,
}

/// Parse one node, and count its damaged tensors in `budget`; `None` without an ID or a name.
fn node(values: &Values, dict: NodeId, budget: &mut SearchBudget) -> Option<Node> {
    let int = |key: &str| values.find(dict, key).and_then(|value| values.as_int(value));
    let text = |value: Value| values.as_text(value).map(|id| values.strings.get(id).to_owned());
    let name = values.find(dict, "name").and_then(text)?;
    let schema = values.find(dict, "op_schema").or_else(|| attribute(values, dict, "op_schema")).and_then(text);
    Some(Node {
        id: int("id")?,
        parent: int("parent").or_else(|| int("ctrl_deps")).unwrap_or(0),
        name,
        inputs: tensors(values, dict, "input", budget),
        outputs: tensors(values, dict, "output", budget).into_iter().flatten().collect(),
        schema: schema.unwrap_or_default(),
    })
}

/// Value of a node's attribute by its name, in Chakra's layout.
fn attribute(values: &Values, dict: NodeId, attribute_name: &str) -> Option<Value> {
    let attribute_name = values.strings.find(attribute_name)?;
    let list = values.as_list(values.find(dict, "attrs")?)?;
    let attributes = values.items(list).iter().filter_map(|attribute| values.as_dict(*attribute));
    attributes
        .filter(|attribute| {
            values.find(*attribute, "name").and_then(|name| values.as_text(name)) == Some(attribute_name)
        })
        .find_map(|attribute| values.find(attribute, "value"))
}

/// Tensors of a node by argument, for `what` = `input` or `output`, in PyTorch's or in Chakra's layout.
fn tensors(values: &Values, dict: NodeId, what: &str, budget: &mut SearchBudget) -> Vec<Tensors> {
    let list = |dict: NodeId, key: &str| values.find(dict, key).and_then(|value| values.as_list(value));
    let both = values.find(dict, &format!("{what}s"));
    let (arguments, types, shapes) = match both.and_then(|value| values.as_dict(value)) {
        Some(inner) => (list(inner, "values"), list(inner, "types"), list(inner, "shapes")),
        None => {
            let part = |part: &str| list(dict, &format!("{what}_{part}"));
            (both.and_then(|value| values.as_list(value)), part("types"), part("shapes"))
        }
    };
    let items = |list: Option<NodeId>| list.map_or(&[][..], |list| values.items(list));
    let (types, shapes) = (items(types), items(shapes));
    let count = items(arguments).len().min(budget.left);
    let argument = |(at, value): (usize, &Value)| {
        budget.left = budget.left.saturating_sub(1);
        let kind = types.get(at).and_then(|kind| values.as_text(*kind)).map_or("", |id| values.strings.get(id));
        let mut found = Vec::new();
        if kind.contains("Tensor") && budget.left > 0 {
            let mut search = TensorSearch { values, kind, budget, found: &mut found };
            search.collect(*value, shapes.get(at).copied(), 0);
        }
        found
    };
    items(arguments)[..count].iter().enumerate().map(argument).collect()
}

/// Search for the tensors of an argument.
struct TensorSearch<'a> {
    values: &'a Values,
    kind: &'a str,
    budget: &'a mut SearchBudget,
    found: &'a mut Tensors,
}

impl TensorSearch<'_> {
    /// Collect the tensors of one argument from its nested lists, with the shapes of the same nesting.
    fn collect(&mut self, value: Value, shape: Option<Value>, depth: u32) {
        let Some(list) = self.values.as_list(value) else { return };
        if let Some(tensor) = tensor(self.values, list, shape, self.kind) {
            self.budget.left = self.budget.left.saturating_sub(6);
            // Storage 0 means that the tensor has no memory.
            self.found.extend(tensor.storage.gt(&0).then_some(tensor));
        } else if is_one_tensor(self.values, list) {
            self.budget.left = self.budget.left.saturating_sub(6);
            self.budget.damaged += 1;
        } else if depth < 4 {
            let shapes = shape.and_then(|shape| self.values.as_list(shape));
            let shapes = shapes.map_or(&[][..], |list| self.values.items(list));
            for (at, item) in self.values.items(list).iter().enumerate() {
                if self.budget.left == 0 {
                    return;
                }
                self.budget.left -= 1;
                self.collect(*item, shapes.get(at).copied(), depth + 1);
            }
        }
    }
}

/// Check if a list is one tensor: six plain values, of which the last is the name of a device.
fn is_one_tensor(values: &Values, list: NodeId) -> bool {
    let items = values.items(list);
    let is_plain = |item: &Value| values.as_list(*item).is_none() && values.as_dict(*item).is_none();
    items.len() == 6 && items.iter().all(is_plain) && values.as_text(items[5]).is_some()
}

/// Parse a tensor `[tensor, storage, offset, elements, bytes per element, device]`; `None` if a number is impossible.
fn tensor(values: &Values, list: NodeId, shape: Option<Value>, kind: &str) -> Option<Tensor> {
    let [_, storage, offset, elements, size, device] = values.items(list) else { return None };
    let number = |value: Value| values.as_int(value).and_then(|value| u64::try_from(value).ok());
    let device = values.strings.get(values.as_text(*device)?).to_owned();
    let is_from_begin = number(*offset)? == 0;
    let elements = number(*offset)?.checked_add(number(*elements)?)?;
    let dtype = kind.split_once("Tensor(").and_then(|(_, rest)| rest.split_once(')')).map_or("", |(dtype, _)| dtype);
    let sizes = shape.and_then(|shape| values.as_list(shape)).map_or(&[][..], |list| values.items(list));
    let sizes: Vec<String> =
        sizes.iter().filter_map(|size| values.as_int(*size)).map(|size| size.to_string()).collect();
    Some(Tensor {
        storage: values.as_int(*storage).filter(|storage| *storage >= 0)?,
        bytes: elements.checked_mul(number(*size)?).filter(|bytes| *bytes <= MOST_BYTES)?,
        is_from_begin,
        device,
        dtype: dtype.to_owned(),
        shape: format!("[{}]", sizes.join(", ")),
    })
}
