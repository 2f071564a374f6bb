//! Names of tensor memory: parameters, buffers, gradients, and states of optimizers by their parameter's name.
//!
//! The bootstrap reports them: at the assignment to a module, after each step of an optimizer, and at the end. Only
//! addresses and names are kept.

use crate::memory::{LiveAllocations, Naming};
use crate::modules::Modules;
use dlmonitor::clock;
use rustc_hash::FxHashMap;
use stackline_recording::{Record, TensorPart};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Limit of names, for programs that create new modules continuously.
const MAX_NAMES: usize = 1 << 16;
/// Limit of data that wait for the writer.
const MAX_WAITING: usize = 1 << 20;

/// A tensor's name in its module, and its role.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name {
    module: usize,
    /// See [`Modules::id`].
    module_id: u64,
    name: Box<str>,
    part: TensorPart,
}

/// Name of memory: the allocation at an address has this tensor name from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedTensor {
    /// Time, `CLOCK_MONOTONIC`.
    pub(crate) at: i64,
    pub(crate) address: usize,
    pub(crate) name: u32,
}

/// Names of tensors of a process, and the named memory that waits for the writer.
#[derive(Debug, Default)]
pub(crate) struct Tensors {
    inner: Mutex<Inner>,
    lost: AtomicU64,
}

/// Table of tensor names and their numbers, and named memory that waits for the writer, guarded by one lock.
#[derive(Debug, Default)]
struct Inner {
    numbers: FxHashMap<Name, u32>,
    names: Vec<Name>,
    waiting: Vec<NamedTensor>,
    /// Names of memory whose allocation was not recorded, by address; at most [`MAX_NAMES`].
    older: FxHashMap<usize, u32>,
}

/// Tensor names that the stream already has.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Paths of the modules, by the number of the name.
    paths: Vec<Option<String>>,
    /// Names of live modules at that time: the paths of others can't change any more.
    alive: Vec<u32>,
    /// [`Modules::version`] at that time.
    version: u64,
}

impl Tensors {
    /// Name the memory at `address`, of a tensor with this size in bytes, after a module's tensor, unless the memory
    /// has a name; names beyond the limit are counted as lost.
    pub(crate) fn name(
        &self,
        (modules, live): (&Modules, &LiveAllocations),
        module: usize,
        name: &str,
        part: TensorPart,
        (address, bytes): (usize, u64),
    ) {
        let module_id = modules.id(module);
        let key = Name { module, module_id, name: name.into(), part };
        let mut inner = self.lock();
        let inner = &mut *inner;
        let mut naming = live.name(address, bytes, || inner.number(&key));
        if naming == Naming::NotRecorded {
            naming = inner.name_unknown_allocation(address, &key);
        }
        match naming {
            Naming::New(name) => inner.waiting.push(NamedTensor { at: clock::now_ns(), address, name }),
            Naming::Lost => _ = self.lost.fetch_add(1, Ordering::Relaxed),
            Naming::Known | Naming::NotRecorded => {}
        }
    }

    /// Number of namings of tensor memory that were dropped at the limit.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Take the names that are new or whose module path changed since `written`, as records, and the memory that was
    /// named since the last call.
    pub(crate) fn take(&self, modules: &Modules, written: &mut Written) -> (Vec<Record>, Vec<NamedTensor>) {
        // First: a module that is freed from now on may have been moved, or have names, that this call does not read.
        let gone = modules.freed_ids();
        let version = modules.version();
        // Of the written names, only those of moved modules can change.
        let again = if version == written.version { Vec::new() } else { std::mem::take(&mut written.alive) };
        let (names, waiting): (Vec<(u32, Name)>, _) = {
            let mut inner = self.lock();
            let new = written.paths.len() as u32..inner.names.len() as u32;
            let names = again.into_iter().chain(new).map(|at| (at, inner.names[at as usize].clone()));
            (names.collect(), std::mem::take(&mut inner.waiting))
        };
        let mut records = Vec::new();
        for (id, name) in names {
            let path = modules.path_of(name.module, name.module_id);
            if !gone.contains(&name.module_id) {
                written.alive.push(id);
            }
            let at = id as usize;
            if written.paths.len() <= at {
                written.paths.resize(at + 1, None);
            }
            let known = &mut written.paths[at];
            // A freed module keeps its last path.
            let Some(module) = path.or_else(|| known.is_none().then(String::new)) else { continue };
            if known.as_ref() != Some(&module) {
                *known = Some(module.clone());
                records.push(Record::TensorName { id, module, name: name.name.into(), part: name.part });
            }
        }
        written.version = version;
        modules.forget_freed(&gone);
        (records, waiting)
    }

    /// Lock the table.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Number of a tensor name, which is added if it is new; `None` beyond the limits.
    fn number(&mut self, name: &Name) -> Option<u32> {
        if self.waiting.len() >= MAX_WAITING {
            return None;
        }
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        let number = u32::try_from(self.names.len()).ok().filter(|_| self.names.len() < MAX_NAMES)?;
        self.names.push(name.clone());
        self.numbers.insert(name.clone(), number);
        Some(number)
    }

    /// Name memory whose allocation was not recorded after a tensor, once per address.
    fn name_unknown_allocation(&mut self, address: usize, name: &Name) -> Naming {
        if self.older.contains_key(&address) {
            return Naming::Known;
        }
        let Some(number) = self.number(name).filter(|_| self.older.len() < MAX_NAMES) else { return Naming::Lost };
        self.older.insert(address, number);
        Naming::New(number)
    }
}

#[cfg(test)]
mod tests {
    use super::{Tensors, Written};
    use crate::memory::LiveAllocations;
    use crate::modules::Modules;
    use stackline_recording::{Record, TensorPart};

    fn name(id: u32, module: &str, name: &str, part: TensorPart) -> Record {
        Record::TensorName { id, module: module.into(), name: name.into(), part }
    }

    /// A module that is freed while names are taken (here: before its path is read) keeps its parent until the next
    /// time.
    #[test]
    fn modules_freed_while_names_are_taken_are_kept() {
        let modules = Modules::default();
        modules.put(20, "linear", 30);
        let id = modules.id(30);
        let gone = modules.freed_ids();
        modules.forget(30);
        modules.forget_freed(&gone);
        assert_eq!(modules.path_of(30, id).as_deref(), Some("linear"));
        modules.forget_freed(&modules.freed_ids());
        assert_eq!(modules.path_of(30, id), None);
    }

    #[test]
    fn names_of_freed_modules_are_not_looked_up_again() {
        let (tensors, modules, live, mut written) =
            (Tensors::default(), Modules::default(), LiveAllocations::default(), Written::default());
        for module in 0..10_usize {
            let address = 0x1000 * (module + 1);
            live.put(address, 64);
            tensors.name((&modules, &live), module, "weight", TensorPart::Parameter, (address, 64));
        }
        (0..8).for_each(|module| modules.forget(module));
        assert_eq!(tensors.take(&modules, &mut written).0.len(), 10);
        assert_eq!(written.alive, [8, 9]);
        modules.put(20, "late", 9);
        assert_eq!(tensors.take(&modules, &mut written).0, [name(9, "late", "weight", TensorPart::Parameter)]);
        modules.forget(8);
        assert_eq!(tensors.take(&modules, &mut written).0, []);
        assert_eq!(written.alive, [9]);
    }

    #[test]
    fn names_beyond_the_limit_are_counted() {
        let (tensors, modules, live) = (Tensors::default(), Modules::default(), LiveAllocations::default());
        for module in 0..super::MAX_NAMES + 3 {
            live.put(0x40 * module, 64);
            tensors.name((&modules, &live), module, "weight", TensorPart::Parameter, (0x40 * module, 64));
        }
        assert_eq!(tensors.lost(), 3);
        let named = tensors.take(&modules, &mut Written::default()).1;
        assert_eq!(named.len(), super::MAX_NAMES);
    }

    #[test]
    fn names_are_sent_once_and_again_when_their_module_moves() {
        let (tensors, modules, live, mut written) =
            (Tensors::default(), Modules::default(), LiveAllocations::default(), Written::default());
        live.put(0x1000, 64);
        let name_tensor = |part, address| tensors.name((&modules, &live), 30, "weight", part, (address, 64));
        name_tensor(TensorPart::Parameter, 0x1000);
        name_tensor(TensorPart::Parameter, 0x1000);
        name_tensor(TensorPart::Gradient, 0x2000);
        name_tensor(TensorPart::Gradient, 0x2000);
        let (records, named) = tensors.take(&modules, &mut written);
        let both = |path: &str| {
            [name(0, path, "weight", TensorPart::Parameter), name(1, path, "weight", TensorPart::Gradient)]
        };
        assert_eq!(records, both(""));
        assert_eq!(named.iter().map(|one| (one.address, one.name)).collect::<Vec<_>>(), [(0x1000, 0), (0x2000, 1)]);
        modules.put(20, "linear", 30);
        assert_eq!(tensors.take(&modules, &mut written).0, both("linear"));
        assert_eq!(tensors.take(&modules, &mut written), (Vec::new(), Vec::new()));
        modules.put(10, "layer", 20);
        for module in [10, 20, 30] {
            modules.forget(module);
        }
        assert_eq!(tensors.take(&modules, &mut written).0, both("layer.linear"), "also of what is gone by now");
        modules.put(40, "other", 30);
        assert_eq!(tensors.take(&modules, &mut written).0, [], "and it stays");
        name_tensor(TensorPart::Parameter, 0x1000);
        assert_eq!(
            tensors.take(&modules, &mut written),
            (Vec::new(), Vec::new()),
            "of the same memory the first counts"
        );
        live.put(0x1000, 64);
        name_tensor(TensorPart::Parameter, 0x1000);
        let (records, named) = tensors.take(&modules, &mut written);
        assert_eq!(records, [name(2, "other", "weight", TensorPart::Parameter)], "another module at the address");
        assert_eq!(named.len(), 1);
    }
}
