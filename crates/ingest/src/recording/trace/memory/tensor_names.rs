//! Names that the recorder gave to tensors (parameters, gradients, optimizer states), assigned to memory objects.

use super::super::calls::{Calls, TensorName};
use rustc_hash::FxHashMap;
use stackline_model::{MemoryObjectId, MemoryObjectKind, MemoryTrace};
use stackline_recording::TensorPart;
use std::collections::hash_map::Entry;

/// Module name for tensors of the outermost module itself.
const OUTERMOST: &str = "(outermost module)";

/// Recorded tensor names, by memory object or by address.
#[derive(Debug, Default)]
pub(super) struct TensorNames {
    /// Name number by object.
    names: FxHashMap<MemoryObjectId, u32>,
    /// Names by address for memory that no operator has taken yet and PyTorch's allocator did not allocate.
    waiting: FxHashMap<u64, u32>,
}

impl TensorNames {
    /// Name a memory object, or keep the name for the first object at the address. The first of several names is kept,
    /// for example if two modules share a parameter.
    pub(super) fn set_name(&mut self, object: Option<MemoryObjectId>, address: u64, name: u32) {
        match object {
            Some(object) => {
                self.names.entry(object).or_insert(name);
            }
            None => {
                if let Entry::Vacant(entry) = self.waiting.entry(address) {
                    entry.insert(name);
                }
            }
        }
    }

    /// Remove the tensor name that waits at an address, because the memory was allocated again.
    pub(super) fn forget(&mut self, address: u64) {
        self.waiting.remove(&address);
    }

    /// Assign the tensor name that waits at an address to an older memory object, at its first use.
    pub(super) fn assign_waiting(&mut self, object: MemoryObjectId, address: u64) {
        if let Some(name) = self.waiting.remove(&address) {
            self.names.insert(object, name);
        }
    }

    /// Write the tensor names, modules and kinds to the objects of a memory trace. Recorded names take precedence over
    /// the kind inferred from uses.
    pub(super) fn write(&self, trace: &mut MemoryTrace, calls: &Calls) {
        let mut named: Vec<(MemoryObjectId, u32)> = self.names.iter().map(|(object, name)| (*object, *name)).collect();
        // Strings are numbered in this order.
        named.sort_unstable();
        for (object, name) in named {
            let Some(name) = calls.tensor_names.get(name as usize) else { continue };
            let row = object.index();
            trace.objects.name[row] = trace.strings.intern(&full_name(name));
            let module = if name.module.is_empty() { OUTERMOST } else { &name.module };
            trace.objects.module[row] = trace.strings.intern(module);
            match name.part {
                TensorPart::Parameter => trace.objects.kind[row] = MemoryObjectKind::Parameter,
                TensorPart::Gradient => trace.objects.kind[row] = MemoryObjectKind::Gradient,
                TensorPart::State(_) => trace.objects.kind[row] = MemoryObjectKind::OptimizerState,
                _ => {}
            }
        }
    }
}

/// Full name of a tensor, such as `layers.0.weight`, `layers.0.weight.grad` or `layers.0.weight.exp_avg`.
fn full_name(tensor: &TensorName) -> String {
    let TensorName { module, name, part } = tensor;
    let parameter = if module.is_empty() { name.clone() } else { format!("{module}.{name}") };
    match part {
        TensorPart::Gradient => format!("{parameter}.grad"),
        TensorPart::State(state) => format!("{parameter}.{state}"),
        _ => parameter,
    }
}
