//! Names of `nn.Module`s: which module holds which under what name, now.

use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Told by the bootstrap whenever a module is put into another, and when one that it told of is gone: objects are known
/// by address, and an address may be used again.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    known: Mutex<Tree>,
    /// Changes whenever a path may have.
    version: AtomicU64,
    next_id: AtomicU64,
}

#[derive(Debug, Default)]
struct Tree {
    by_address: FxHashMap<usize, Known>,
    /// What held modules that are gone, by their ids: tensors of theirs were named, and wait to be written.
    gone: FxHashMap<u64, Option<Held>>,
    /// Whether anybody asks for them.
    keeps_gone: bool,
}

/// Modules that nobody told of, but that were called: beyond, their frames are looked for each time.
const MAX_UNTOLD: usize = 1 << 16;

#[derive(Clone, Debug)]
struct Known {
    /// Not used again.
    id: u64,
    held: Option<Held>,
    named: Option<Named>,
}

/// That a module is another's attribute.
#[derive(Clone, Debug)]
struct Held {
    parent: usize,
    /// The other one's id: if another module has its address now, the attribute is gone.
    parent_id: u64,
    name: Box<str>,
}

/// The frame of a module's calls.
#[derive(Clone, Copy, Debug)]
struct Named {
    version: u64,
    class: usize,
    frame: u32,
}

impl Modules {
    /// `child` is now `parent`'s attribute `name`.
    pub(crate) fn put(&self, parent: usize, name: &str, child: usize) {
        let mut known = self.lock();
        self.version.fetch_add(1, Ordering::Relaxed);
        let parent_id = known.by_address.entry(parent).or_insert_with(|| self.unnamed()).id;
        let held = Some(Held { parent, parent_id, name: name.into() });
        known.by_address.entry(child).or_insert_with(|| self.unnamed()).held = held;
    }

    /// What tells the module at this address from those that have it later.
    pub(crate) fn id(&self, module: usize) -> u64 {
        let mut known = self.lock();
        known.keeps_gone = true;
        known.by_address.entry(module).or_insert_with(|| self.unnamed()).id
    }

    fn unnamed(&self) -> Known {
        Known { id: self.next_id.fetch_add(1, Ordering::Relaxed), held: None, named: None }
    }

    /// The module at this address is gone.
    pub(crate) fn forget(&self, address: usize) {
        let mut known = self.lock();
        self.version.fetch_add(1, Ordering::Relaxed);
        let forgotten = known.by_address.remove(&address);
        if let Some(forgotten) = forgotten.filter(|_| known.keeps_gone) {
            known.gone.insert(forgotten.id, forgotten.held);
        }
    }

    /// The dotted path of a module, also of one that is gone, until [`Self::let_go`]; `None` if it, or one that held it, is gone
    /// for longer: its path was known then.
    pub(crate) fn path_of(&self, module: usize, id: u64) -> Option<String> {
        let known = self.lock();
        let (mut names, mut visited) = (Vec::new(), FxHashSet::from_iter([id]));
        let mut at = known.held(module, id)?;
        while let Some(held) = at.filter(|held| visited.insert(held.parent_id)) {
            names.push(&*held.name);
            at = known.held(held.parent, held.parent_id)?;
        }
        names.reverse();
        Some(names.join("."))
    }

    /// The ids of modules that are gone, and that somebody may ask for.
    pub(crate) fn gone(&self) -> FxHashSet<u64> {
        self.lock().gone.keys().copied().collect()
    }

    /// Nobody will ask for these modules that are gone.
    pub(crate) fn let_go(&self, gone: &FxHashSet<u64>) {
        self.lock().gone.retain(|id, _| !gone.contains(id));
    }

    /// What was known in the process that this one was forked from, unless a thread of that was about to change it.
    pub(crate) fn inherit(&self, parent: &Self) {
        if let Ok(known) = parent.known.try_lock() {
            // Frames are numbered anew.
            let anew = known.by_address.iter().map(|(&module, known)| (module, Known { named: None, ..known.clone() }));
            self.lock().by_address = anew.collect();
            self.next_id.store(parent.next_id.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Changes whenever a path may have.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// The frame of the calls of a module; if it is not known, it is what `intern` makes of the module's path, if it
    /// makes something.
    pub(crate) fn frame(&self, module: usize, class: usize, intern: impl FnOnce(&str) -> Option<u32>) -> Option<u32> {
        let mut known = self.lock();
        let version = self.version();
        if let Some(named) = known.by_address.get(&module).and_then(|known| known.named)
            && named.version == version
            && named.class == class
        {
            return Some(named.frame);
        }
        let frame = intern(&path(&known.by_address, module))?;
        if known.by_address.len() < MAX_UNTOLD || known.by_address.contains_key(&module) {
            known.by_address.entry(module).or_insert_with(|| self.unnamed()).named =
                Some(Named { version, class, frame });
        }
        Some(frame)
    }

    fn lock(&self) -> MutexGuard<'_, Tree> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tree {
    /// What holds a module, if anything does; `None` if it is not known any more.
    fn held(&self, module: usize, id: u64) -> Option<Option<&Held>> {
        match self.by_address.get(&module).filter(|known| known.id == id) {
            Some(known) => Some(known.held.as_ref()),
            None => self.gone.get(&id).map(Option::as_ref),
        }
    }
}

/// The dotted path of a module, as `named_modules` gives it; empty for one that no other holds. It ends where it would
/// come to a module for the second time.
fn path(known: &FxHashMap<usize, Known>, module: usize) -> String {
    let (mut names, mut visited) = (Vec::new(), FxHashSet::from_iter([module]));
    let mut at = known.get(&module);
    while let Some(held) = at.and_then(|known| known.held.as_ref()) {
        at = known.get(&held.parent).filter(|parent| parent.id == held.parent_id);
        if at.is_none() || !visited.insert(held.parent) {
            break;
        }
        names.push(&*held.name);
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
    fn an_address_that_is_used_again_is_another_module() {
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
    fn paths_of_what_is_gone_are_known_until_they_were_asked_for() {
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
        modules.let_go(&modules.gone());
        assert_eq!(modules.path_of(30, linear), None);
        modules.put(50, "itself", 50);
        assert_eq!(modules.path_of(50, modules.id(50)).as_deref(), Some(""));
        modules.put(60, "child", 70);
        modules.forget(60);
        modules.let_go(&modules.gone());
        assert_eq!(modules.path_of(70, modules.id(70)), None, "what held it is not known any more");
    }

    #[test]
    fn a_frame_is_remembered_until_something_changes() {
        let modules = Modules::default();
        modules.put(10, "a", 20);
        let frame = |class, id: u32, wanted: Option<&str>| {
            let mut asked = None;
            let frame = modules.frame(20, class, |path| {
                asked = Some(path.to_owned());
                Some(id)
            });
            assert_eq!(asked.as_deref(), wanted);
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
