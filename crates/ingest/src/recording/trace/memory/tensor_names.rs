//! Names of tensors as recorded: parameters, their gradients, and states of optimizers.

use super::super::calls::{Calls, TensorName};
use rustc_hash::FxHashMap;
use stackline_model::{MemoryObjectId, MemoryObjectKind, MemoryTrace};
use stackline_recording::TensorPart;
use std::collections::hash_map::Entry;

/// What a tensor belongs to that is the outermost module's own.
const OUTERMOST: &str = "(outermost module)";

/// Names of objects.
#[derive(Debug, Default)]
pub(super) struct TensorNames {
    /// Numbers of names.
    names: FxHashMap<MemoryObjectId, u32>,
    /// Names of memory that nobody was handed yet and PyTorch's allocator did not make, by address.
    waiting: FxHashMap<u64, u32>,
}

impl TensorNames {
    /// What lies at an address has a name. Of several, as where two modules share a parameter, the first counts.
    pub(super) fn tell(&mut self, object: Option<MemoryObjectId>, address: u64, name: u32) {
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

    /// Other memory lies there now.
    pub(super) fn is_gone(&mut self, address: u64) {
        self.waiting.remove(&address);
    }

    /// An object is seen for the first time that was there before.
    pub(super) fn appears(&mut self, object: MemoryObjectId, address: u64) {
        if let Some(name) = self.waiting.remove(&address) {
            self.names.insert(object, name);
        }
    }

    /// Writes names, modules and kinds to the objects. What is told counts more than what use lets one think.
    pub(super) fn write(&self, trace: &mut MemoryTrace, calls: &Calls) {
        let mut named: Vec<(MemoryObjectId, u32)> = self.names.iter().map(|(object, name)| (*object, *name)).collect();
        // Texts are numbered in this order.
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

/// `layers.0.weight`, `layers.0.weight.grad`, `layers.0.weight.exp_avg`.
fn full_name(of: &TensorName) -> String {
    let TensorName { module, name, part } = of;
    let parameter = if module.is_empty() { name.clone() } else { format!("{module}.{name}") };
    match part {
        TensorPart::Gradient => format!("{parameter}.grad"),
        TensorPart::State(state) => format!("{parameter}.{state}"),
        _ => parameter,
    }
}
