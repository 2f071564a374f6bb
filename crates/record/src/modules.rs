//! Names of `nn.Module`s: which module holds which under what name.

use rustc_hash::FxHashMap;
use std::sync::{Mutex, PoisonError};

/// Deepest nesting that is believed; a cycle ends there.
const MAX_DEPTH: usize = 64;

/// Told by `PyTorch` whenever a module is put into another. Objects are known by address; an address that is used again
/// is told again.
#[derive(Debug, Default)]
pub(crate) struct Modules(Mutex<FxHashMap<usize, (usize, Box<str>)>>);

impl Modules {
    /// `child` is now `parent`'s attribute `name`.
    pub(crate) fn put(&self, parent: usize, name: &str, child: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(child, (parent, name.into()));
    }

    /// The dotted path of a module, as `named_modules` gives it; empty for one that no other holds.
    pub(crate) fn path(&self, module: usize) -> String {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let steps = std::iter::successors(known.get(&module), |&(parent, _)| known.get(parent));
        let mut names: Vec<&str> = steps.take(MAX_DEPTH).map(|(_, name)| &**name).collect();
        names.reverse();
        names.join(".")
    }
}

#[cfg(test)]
mod tests {
    use super::Modules;

    #[test]
    fn paths_are_dotted() {
        let modules = Modules::default();
        modules.put(10, "layers", 20);
        modules.put(20, "0", 30);
        assert_eq!(modules.path(30), "layers.0");
        assert_eq!(modules.path(10), "");
        modules.put(30, "again", 10);
        assert!(modules.path(30).starts_with("again.layers.0") || modules.path(30).contains("layers"), "a cycle ends");
    }
}
