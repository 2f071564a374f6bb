//! Names of `nn.Module`s: the tree of modules and their attributes.

use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Table of the `nn.Module`s by address. The bootstrap updates it when a module is assigned to another one, and when a
/// module is freed, because its address may be reused.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    known: Mutex<Tree>,
    /// Version number, which changes whenever a path may have changed.
    version: AtomicU64,
    next_id: AtomicU64,
}

/// Known modules by address, and freed modules that still need a path.
#[derive(Debug, Default)]
struct Tree {
    by_address: FxHashMap<usize, Known>,
    /// Parents of freed modules by module id: their tensors were named and wait to be written.
    freed: FxHashMap<u64, Option<Assignment>>,
    /// True if freed modules are kept.
    keeps_gone: bool,
}

/// Largest number of modules that were called but never assigned; further ones are looked up at each call.
const MAX_UNASSIGNED: usize = 1 << 16;

/// A known `nn.Module`: its id, its parent and the frame of its calls.
#[derive(Clone, Debug)]
struct Known {
    /// Id, never reused.
    id: u64,
    assignment: Option<Assignment>,
    call_frame: Option<NamedFrame>,
}

/// Assignment of a module to an attribute of another one.
#[derive(Clone, Debug)]
struct Assignment {
    parent: usize,
    /// The other module's id: if another module has its address now, the attribute is gone.
    parent_id: u64,
    name: Box<str>,
}

/// Call-tree frame of a module's calls, with the class and the version of [`Modules`] for which it is valid.
#[derive(Clone, Copy, Debug)]
struct NamedFrame {
    version: u64,
    class: usize,
    frame: u32,
}

impl Modules {
    /// Register the `nn.Module` `child` as attribute `name` of `parent`.
    pub(crate) fn put(&self, parent: usize, name: &str, child: usize) {
        let mut known = self.lock();
        self.version.fetch_add(1, Ordering::Relaxed);
        let parent_id = known.by_address.entry(parent).or_insert_with(|| self.new_module()).id;
        let assignment = Some(Assignment { parent, parent_id, name: name.into() });
        known.by_address.entry(child).or_insert_with(|| self.new_module()).assignment = assignment;
    }

    /// Id of the `nn.Module` at this address, which is registered if it is unknown. Later modules at the address get
    /// other ids. From the first call on, freed modules are kept until [`Self::forget_freed`].
    pub(crate) fn id(&self, module: usize) -> u64 {
        let mut known = self.lock();
        known.keeps_gone = true;
        known.by_address.entry(module).or_insert_with(|| self.new_module()).id
    }

    /// Create a module with a new id, without parent.
    fn new_module(&self) -> Known {
        Known { id: self.next_id.fetch_add(1, Ordering::Relaxed), assignment: None, call_frame: None }
    }

    /// Remove the freed `nn.Module` at this address; its parent stays known by its id if freed modules are kept.
    pub(crate) fn forget(&self, address: usize) {
        let mut known = self.lock();
        self.version.fetch_add(1, Ordering::Relaxed);
        let forgotten = known.by_address.remove(&address);
        if let Some(forgotten) = forgotten.filter(|_| known.keeps_gone) {
            known.freed.insert(forgotten.id, forgotten.assignment);
        }
    }

    /// Dotted path of a module, also of a freed one until [`Self::forget_freed`]. `None` if it or one of its parents
    /// was freed earlier; the path was known then.
    pub(crate) fn path_of(&self, module: usize, id: u64) -> Option<String> {
        let known = self.lock();
        let (mut names, mut visited) = (Vec::new(), FxHashSet::from_iter([id]));
        let mut at = known.assignment_of(module, id)?;
        while let Some(assignment) = at.filter(|assignment| visited.insert(assignment.parent_id)) {
            names.push(&*assignment.name);
            at = known.assignment_of(assignment.parent, assignment.parent_id)?;
        }
        names.reverse();
        Some(names.join("."))
    }

    /// Ids of freed `nn.Module`s whose names are kept.
    pub(crate) fn freed_ids(&self) -> FxHashSet<u64> {
        self.lock().freed.keys().copied().collect()
    }

    /// Forget the names of these freed `nn.Module`s.
    pub(crate) fn forget_freed(&self, freed: &FxHashSet<u64>) {
        self.lock().freed.retain(|id, _| !freed.contains(id));
    }

    /// Copy the state of the parent process after a fork, unless another thread was changing it during the fork.
    pub(crate) fn inherit(&self, parent: &Self) {
        if let Ok(known) = parent.known.try_lock() {
            // Frames get new numbers.
            let kept =
                known.by_address.iter().map(|(&module, known)| (module, Known { call_frame: None, ..known.clone() }));
            self.lock().by_address = kept.collect();
            self.next_id.store(parent.next_id.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Version number, which changes whenever a path may have changed.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Call-tree frame of the calls of a module, cached by its address and class until a path changes. Without a cached
    /// frame, `intern` makes one from the module's dotted path; `None` if it makes none.
    pub(crate) fn frame(&self, module: usize, class: usize, intern: impl FnOnce(&str) -> Option<u32>) -> Option<u32> {
        let mut known = self.lock();
        let version = self.version();
        if let Some(named) = known.by_address.get(&module).and_then(|known| known.call_frame)
            && named.version == version
            && named.class == class
        {
            return Some(named.frame);
        }
        let frame = intern(&path(&known.by_address, module))?;
        if known.by_address.len() < MAX_UNASSIGNED || known.by_address.contains_key(&module) {
            known.by_address.entry(module).or_insert_with(|| self.new_module()).call_frame =
                Some(NamedFrame { version, class, frame });
        }
        Some(frame)
    }

    /// Lock the table.
    fn lock(&self) -> MutexGuard<'_, Tree> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tree {
    /// Assignment of a module to its parent; the inner `None` without parent, the outer `None` for an unknown module.
    fn assignment_of(&self, module: usize, id: u64) -> Option<Option<&Assignment>> {
        match self.by_address.get(&module).filter(|known| known.id == id) {
            Some(known) => Some(known.assignment.as_ref()),
            None => self.freed.get(&id).map(Option::as_ref),
        }
    }
}

/// Dotted path of a module, as in `named_modules`; empty for a module without parent. A cyclic path ends before it
/// repeats a module.
fn path(known: &FxHashMap<usize, Known>, module: usize) -> String {
    let (mut names, mut visited) = (Vec::new(), FxHashSet::from_iter([module]));
    let mut at = known.get(&module);
    while let Some(assignment) = at.and_then(|known| known.assignment.as_ref()) {
        at = known.get(&assignment.parent).filter(|parent| parent.id == assignment.parent_id);
        if at.is_none() || !visited.insert(assignment.parent) {
            break;
        }
        names.push(&*assignment.name);
    }
    names.reverse();
    names.join(".")
}

#[cfg(test)]
mod tests {
    use super::{Modules, path};

    fn path_of(modules: &Modules, module: usize) -> String {
        path(&modules.lock().by_address, module)
    }

    #[test]
    fn paths_are_dotted() {
        let modules = Modules::default();
        modules.put(10, "layers", 20);
        modules.put(20, "0", 30);
        assert_eq!(path_of(&modules, 30), "layers.0");
        assert_eq!(path_of(&modules, 10), "");
        assert_eq!(path_of(&modules, 99), "");
        modules.put(10, "blocks", 20);
        assert_eq!(path_of(&modules, 30), "blocks.0", "the last name counts");
    }

    #[test]
    fn a_cycle_ends_where_it_began() {
        let modules = Modules::default();
        modules.put(10, "first", 20);
        modules.put(20, "second", 10);
        assert_eq!([10, 20].map(|module| path_of(&modules, module)), ["second", "first"]);
        modules.put(30, "itself", 30);
        assert_eq!(path_of(&modules, 30), "");
    }

    #[test]
    fn reused_addresses_are_other_modules() {
        let modules = Modules::default();
        modules.put(10, "old", 20);
        modules.put(20, "child", 30);
        modules.forget(20);
        assert_eq!(path_of(&modules, 20), "", "nobody holds the new one");
        assert_eq!(path_of(&modules, 30), "", "and it does not hold what the old one held");
        modules.put(40, "new", 20);
        assert_eq!([20, 30].map(|module| path_of(&modules, module)), ["new", ""]);
        modules.put(20, "again", 30);
        assert_eq!(path_of(&modules, 30), "new.again");
    }

    #[test]
    fn paths_of_freed_modules_are_known_until_requested() {
        let modules = Modules::default();
        modules.put(20, "linear", 30);
        let (linear, layer) = (modules.id(30), modules.id(20));
        assert_eq!(modules.path_of(30, linear).as_deref(), Some("linear"));
        modules.put(10, "layer", 20);
        for address in [10, 20, 30] {
            modules.forget(address);
        }
        modules.put(40, "another", 30);
        assert_eq!(modules.path_of(30, linear).as_deref(), Some("layer.linear"));
        assert_eq!(modules.path_of(20, layer).as_deref(), Some("layer"));
        modules.forget_freed(&modules.freed_ids());
        assert_eq!(modules.path_of(30, linear), None);
        modules.put(50, "itself", 50);
        assert_eq!(modules.path_of(50, modules.id(50)).as_deref(), Some(""));
        modules.put(60, "child", 70);
        modules.forget(60);
        modules.forget_freed(&modules.freed_ids());
        assert_eq!(modules.path_of(70, modules.id(70)), None, "what held it is not known any more");
    }

    #[test]
    fn frames_are_cached_until_modules_change() {
        let modules = Modules::default();
        modules.put(10, "a", 20);
        let frame = |class, id: u32, expected_path: Option<&str>| {
            let mut interned_path = None;
            let frame = modules.frame(20, class, |path| {
                interned_path = Some(path.to_owned());
                Some(id)
            });
            assert_eq!(interned_path.as_deref(), expected_path);
            frame.unwrap()
        };
        assert_eq!(modules.frame(20, 5, |_| None), None, "and nothing is remembered");
        assert_eq!(frame(5, 1, Some("a")), 1);
        assert_eq!(frame(5, 2, None), 1);
        assert_eq!(frame(6, 3, Some("a")), 3, "another class");
        modules.put(10, "b", 20);
        assert_eq!(frame(6, 4, Some("b")), 4);
        let child = Modules::default();
        child.inherit(&modules);
        assert_eq!(path_of(&child, 20), "b");
    }
}
