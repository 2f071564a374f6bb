//! Reader of PyTorch execution traces (`ExecutionTraceObserver`, also in Chakra's layout, JSON): operators with input
//! and output tensors and storage numbers.
//!
//! Operators without inner operators that access memory represent kernels. An operator with tensors that no inner
//! operator mentions represents a kernel on these tensors. Inputs are read, outputs in new storages are written, and
//! arguments that the schema marks (`Tensor(a!)`) are both. Views access no memory.
//!
//! Allocations and frees are not recorded: a storage is alive from the operator that returns it first to the last one
//! that takes it, so the memory curve is a lower bound. Storages that are taken before any operator returned them are
//! older than the trace. Times are not recorded either: calls are numbered.

mod nodes;
mod storage_lifetimes;

use super::values::{Value, Values};
use crate::diagnostics;
use nodes::{Node, Nodes, Tensor};
use rustc_hash::FxHashMap;
use stackline_model::{
    AccessEvidence, AccessExtent, Frame, MemoryCallKind, MemoryObjectId, MemoryStackId, MemoryTrace, NewCall,
    NewObject, StrId, call_flags,
};
use storage_lifetimes::{StorageLifetimes, Use};

/// Check if a document is an execution trace: a dict with a schema and nodes.
pub(super) fn is_execution_trace(values: &Values, root: Value) -> bool {
    let Some(dict) = values.as_dict(root) else { return false };
    let nodes = values.find(dict, "nodes").and_then(|nodes| values.as_list(nodes));
    nodes.is_some() && values.find(dict, "schema").is_some()
}

/// Read a PyTorch execution trace from parsed JSON into a memory trace.
pub(super) fn read(label: &str, values: &Values, root: Value) -> MemoryTrace {
    let mut trace = MemoryTrace { label: label.to_owned(), has_accesses: true, ..MemoryTrace::default() };
    let nodes = nodes::read(values, root, &mut trace.report);
    let mut lives = StorageLifetimes::default();
    let mut leaves: Vec<(usize, Vec<Use>)> = Vec::new();
    for operator in nodes.accessing_operators(storage_lifetimes::touches) {
        let uses = lives.uses(&nodes, &operator);
        lives.note_position(&uses, operator.at);
        leaves.push((operator.at, uses));
    }
    let (objects, paths) = (Vec::new(), FxHashMap::default());
    let mut writer = Writer { nodes: &nodes, lives: &lives, objects, paths, trace };
    writer.allocate_preexisting();
    for (at, uses) in &leaves {
        writer.leaf(*at, uses);
    }
    let mut trace = writer.trace;
    let older = trace.objects.allocated_by.iter().filter(|call| call.is_none()).count();
    diagnostics::MEMORY_OLDER.count_many(&mut trace.report, older as u64, None, "");
    diagnostics::MEMORY_NO_FREES.count(&mut trace.report, None, "");
    trace.report.events = trace.calls.len() as u64;
    trace.report.sort();
    trace
}

/// Conversion of operators and storage lifetimes to the objects, calls and accesses of a memory trace.
struct Writer<'a> {
    nodes: &'a Nodes,
    lives: &'a StorageLifetimes,
    /// Objects by lifetime.
    objects: Vec<MemoryObjectId>,
    paths: FxHashMap<usize, MemoryStackId>,
    trace: MemoryTrace,
}

impl Writer<'_> {
    /// Add an object to the trace for each lifetime that began before the trace.
    fn allocate_preexisting(&mut self) {
        self.objects = vec![MemoryObjectId::NONE; self.lives.all.len()];
        for life in 0..self.lives.all.len() {
            if self.lives.all[life].first.is_none() {
                let object = self.object(life, StrId::NONE);
                self.objects[life] = self.trace.add_older(object);
            }
        }
    }

    /// Description of a lifetime's memory object, not yet added to the trace: size, device, type, shape and name.
    fn object(&mut self, life: usize, operator: StrId) -> NewObject {
        let life = &self.lives.all[life];
        let device = self.trace.device(&life.tensor.device);
        let stream = self.trace.stream(device, 0);
        let mut text = |text: &str| if text.is_empty() { StrId::NONE } else { self.trace.strings.intern(text) };
        let (dtype, shape) = (text(&life.tensor.dtype), text(&life.tensor.shape));
        let name = text(&format!("storage {}", life.tensor.storage));
        NewObject { bytes: life.bytes, device, stream, dtype, shape, name, operator, ..NewObject::default() }
    }

    /// Add one operator: allocations of new objects, one call with all accesses, and inferred frees of objects used
    /// last here.
    fn leaf(&mut self, at: usize, uses: &[Use]) {
        let node = &self.nodes.all[at];
        let name = self.trace.strings.intern(&node.name);
        let stack = self.path(at);
        for used in uses.iter().filter(|used| used.begins) {
            let object = self.object(used.life, name);
            let flags = if self.is_within_operator(at, used.life) { call_flags::WITHIN_OPERATOR } else { 0 };
            let call = NewCall { flags, ..self.call(object.stream, name, stack) };
            self.objects[used.life] = self.trace.allocate(object, call);
        }
        let touched = || uses.iter().filter(|used| used.mode.is_some());
        if let Some(first) = touched().max_by_key(|used| self.lives.all[used.life].tensor.device != "cpu") {
            let device = self.trace.objects.device[self.objects[first.life].index()];
            let stream = self.trace.stream(device, 0);
            let call = self.call(stream, name, stack);
            self.trace.calls.push(kind(node, uses, self.lives), call);
            for used in touched() {
                let mode = used.mode.unwrap_or(stackline_model::AccessMode::Unknown);
                let evidence = if used.sure { AccessEvidence::OperatorLevel } else { AccessEvidence::MayAccess };
                self.trace.accesses.push(self.objects[used.life], mode, evidence, AccessExtent::Unknown);
            }
            self.trace.seal_call();
        }
        for used in uses.iter().filter(|used| self.lives.all[used.life].last == at) {
            let object = self.objects[used.life];
            if self.lives.all[used.life].first.is_some() && self.trace.objects.freed_by[object.index()].is_none() {
                let call = self.call(self.trace.objects.stream[object.index()], StrId::NONE, MemoryStackId::NONE);
                self.trace.release(object, NewCall { flags: call_flags::INFERRED, ..call });
            }
        }
    }

    /// Check if a lifetime that begins in node `at` ends within the operator around this node: an undeclared workspace.
    fn is_within_operator(&self, at: usize, life: usize) -> bool {
        let caller = self.nodes.parent(at).filter(|caller| self.nodes.all[*caller].name.contains("::"));
        let last = self.lives.all[life].last;
        caller.is_some_and(|caller| {
            std::iter::successors(Some(last), |node| self.nodes.parent(*node)).any(|node| node == caller)
        })
    }

    /// Memory call with the number of calls so far as its time, because execution traces record no times.
    fn call(&self, stream: stackline_model::MemoryStreamId, name: StrId, stack: MemoryStackId) -> NewCall {
        let start_ns = i64::try_from(self.trace.calls.len()).unwrap_or(i64::MAX);
        NewCall { start_ns, stream, name, stack, ..NewCall::default() }
    }

    /// Call path of a node: the enclosing nodes, outermost first, and the node itself.
    fn path(&mut self, leaf: usize) -> MemoryStackId {
        let mut open = Vec::new();
        let mut at = Some(leaf);
        let mut stack = MemoryStackId::NONE;
        while let Some(node) = at {
            if let Some(known) = self.paths.get(&node) {
                stack = *known;
                break;
            }
            open.push(node);
            at = self.nodes.parent(node);
        }
        for node in open.into_iter().rev() {
            let function = self.trace.strings.intern(&self.nodes.all[node].name);
            stack = self.trace.stacks.intern(stack, Frame::operator(function));
            self.paths.insert(node, stack);
        }
        stack
    }
}

/// Kind of an operator's memory operation: fill, copy between host and device, or kernel for everything else.
fn kind(node: &Node, uses: &[Use], lives: &StorageLifetimes) -> MemoryCallKind {
    let device = |used: &Use| lives.all[used.life].tensor.device.as_str();
    let on_host = |used: &&Use| device(used) == "cpu";
    match node.name.as_str() {
        "aten::zero_" | "aten::fill_" => MemoryCallKind::Set,
        "aten::_local_scalar_dense" if !uses.iter().any(|used| on_host(&used)) => MemoryCallKind::CopyToHost,
        "aten::copy_" => {
            let target = uses.iter().find(|used| used.writes());
            let source = uses.iter().find(|used| !used.writes());
            match (target.filter(on_host).is_some(), source.filter(on_host).is_some(), source.is_some()) {
                (false, true, _) => MemoryCallKind::CopyToDevice,
                (true, false, true) => MemoryCallKind::CopyToHost,
                _ => MemoryCallKind::Kernel,
            }
        }
        _ => MemoryCallKind::Kernel,
    }
}

type Tensors = Vec<Tensor>;
