//! Names of tensors' memory: of parameters and buffers, and of gradients and what optimizers keep by the parameter's.
//!
//! The bootstrap tells of them: when a module is given one, after each step of an optimizer, and at the end. Nothing is kept but
//! addresses and names.

use crate::memory::Live;
use crate::modules::Modules;
use dlmonitor::clock;
use rustc_hash::FxHashMap;
use stackline_recording::{Record, TensorPart};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Names at most: a program that makes new modules for ever has ever new ones.
const MAX_NAMES: usize = 1 << 20;
/// What waits for the writer at most.
const MAX_WAITING: usize = 1 << 20;

/// A tensor's name: whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name {
    module: usize,
    /// See [`Modules::id`].
    module_id: u64,
    name: Box<str>,
    part: TensorPart,
}

/// That memory had a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// `CLOCK_MONOTONIC`.
    pub(crate) at: i64,
    pub(crate) address: usize,
    pub(crate) name: u32,
}

/// All names of a process.
#[derive(Debug, Default)]
pub(crate) struct Tensors {
    inner: Mutex<Inner>,
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    numbers: FxHashMap<Name, u32>,
    names: Vec<Name>,
    waiting: Vec<Named>,
    /// Names of memory whose allocation nobody saw, by address.
    older: FxHashMap<usize, u32>,
}

/// What the stream has of names.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Paths of the modules, by the number of the name.
    paths: Vec<Option<String>>,
    /// [`Modules::version`] by then.
    version: u64,
}

impl Tensors {
    /// The memory at `address` is a module's tensor.
    pub(crate) fn name(
        &self,
        (modules, live): (&Modules, &Live),
        module: usize,
        name: &str,
        part: TensorPart,
        address: usize,
    ) {
        let module_id = modules.id(module);
        let key = Name { module, module_id, name: name.into(), part };
        let mut inner = self.lock();
        let inner = &mut *inner;
        let Some(name) = inner.number(key).filter(|_| inner.waiting.len() < MAX_WAITING) else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let is_new = live.name(address, name).unwrap_or_else(|| inner.older.insert(address, name) != Some(name));
        if is_new {
            inner.waiting.push(Named { at: clock::now_ns(), address, name });
        }
    }

    /// How many names found no place.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// What is to be written now: names that are new, or whose module was put somewhere else, and what has them.
    pub(crate) fn take(&self, modules: &Modules, written: &mut Written) -> (Vec<Record>, Vec<Named>) {
        let version = modules.version();
        // Of what was written only modules that moved can make something else.
        let first = if version == written.version { written.paths.len() } else { 0 };
        let (names, waiting) = {
            let mut inner = self.lock();
            (inner.names[first..].to_vec(), std::mem::take(&mut inner.waiting))
        };
        let mut records = Vec::new();
        for (at, name) in names.into_iter().enumerate().map(|(at, name)| (first + at, name)) {
            let path = modules.path_of(name.module, name.module_id);
            if written.paths.len() <= at {
                written.paths.resize(at + 1, None);
            }
            let known = &mut written.paths[at];
            // What a module that is gone was called last stays its name.
            let Some(module) = path.or_else(|| known.is_none().then(String::new)) else { continue };
            if known.as_ref() != Some(&module) {
                *known = Some(module.clone());
                records.push(Record::TensorName { id: at as u32, module, name: name.name.into(), part: name.part });
            }
        }
        written.version = version;
        modules.let_go();
        (records, waiting)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The number of a name; `None` if there are too many.
    fn number(&mut self, name: Name) -> Option<u32> {
        if let Some(number) = self.numbers.get(&name) {
            return Some(*number);
        }
        let number = u32::try_from(self.names.len()).ok().filter(|_| self.names.len() < MAX_NAMES)?;
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::{Tensors, Written};
    use crate::memory::Live;
    use crate::modules::Modules;
    use stackline_recording::{Record, TensorPart};

    fn name(id: u32, module: &str, name: &str, part: TensorPart) -> Record {
        Record::TensorName { id, module: module.into(), name: name.into(), part }
    }

    #[test]
    fn names_are_told_once_and_again_when_their_module_moves() {
        let (tensors, modules, live, mut written) =
            (Tensors::default(), Modules::default(), Live::default(), Written::default());
        live.put(0x1000, 64);
        let tell = |part, address| tensors.name((&modules, &live), 30, "weight", part, address);
        tell(TensorPart::Parameter, 0x1000);
        tell(TensorPart::Parameter, 0x1000);
        tell(TensorPart::Gradient, 0x2000);
        tell(TensorPart::Gradient, 0x2000);
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
        tell(TensorPart::Parameter, 0x1000);
        let (records, named) = tensors.take(&modules, &mut written);
        assert_eq!(records, [name(2, "other", "weight", TensorPart::Parameter)], "another module at the address");
        assert_eq!(named.len(), 1);
    }
}
