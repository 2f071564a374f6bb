//! Access control for source files: directories below which source text may be read.
//!
//! A trace may come from a stranger, and name any file of this machine. Text is read only below directories that the
//! user opened or named. A symbolic link counts as the file that it points to. All other files are treated as missing.

use crate::OpenRun;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Directories below which source text may be read, and the files that were read.
#[derive(Debug, Default)]
pub struct SourceRoots {
    /// Directories that were opened, as paths without symbolic links.
    opened: Vec<PathBuf>,
    /// Directories that the user named, in addition to the inputs.
    named: Vec<PathBuf>,
    /// Do not read any text, independent of inputs and named directories.
    is_off: bool,
    read: Mutex<BTreeSet<String>>,
}

/// Select the directories among these paths, and resolve their symbolic links.
fn directories<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Vec<PathBuf> {
    let resolved = paths.into_iter().filter_map(|path| path.canonicalize().ok());
    resolved.filter(|path| path.is_dir()).collect()
}

impl SourceRoots {
    /// Allow reading source text below the given directories; paths of other kinds are ignored.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Self {
        Self { opened: directories(paths), ..Self::default() }
    }

    /// Copy the user's settings to the source roots of another run: named directories, and if source text may be read
    /// at all.
    pub(crate) fn apply_to(&self, other: &mut Self) {
        other.is_off |= self.is_off;
        other.named.extend(self.named.iter().cloned());
    }

    /// Find a source file by name. The file that its symbolic links point to must be below one of the directories.
    /// Relative names count from each of them.
    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        if self.is_off {
            return None;
        }
        let roots = || self.opened.iter().chain(&self.named);
        let is_below = |path: &PathBuf| path.is_file() && roots().any(|root| path.starts_with(root));
        let name = Path::new(name);
        roots().filter_map(|root| root.join(name).canonicalize().ok()).find(is_below)
    }

    /// Read the text of a source file, if it is below one of the directories and at most 4 MiB large.
    pub fn read(&self, name: &str) -> Option<String> {
        crate::source::read(self, name)
    }

    /// Add a source file to the list of read files, which `take_read` returns.
    pub(crate) fn note(&self, path: &Path) {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(path.display().to_string());
    }

    /// Return the source files that were read since the last call, and clear the list.
    pub(crate) fn take_read(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl OpenRun {
    /// Allow reading source text below additional directories, also for the baseline run. Without them, only inputs
    /// that are directories are readable, because a trace may name any file.
    #[must_use]
    pub fn with_source_roots(self, roots: &[PathBuf]) -> Self {
        self.with_sources(&SourceRoots { named: directories(roots), ..SourceRoots::default() })
    }

    /// Forbid reading source text, for this run and for the baseline run.
    #[must_use]
    pub fn without_source(self) -> Self {
        self.with_sources(&SourceRoots { is_off: true, ..SourceRoots::default() })
    }

    /// Apply the settings for source text to this run and to its baseline run.
    fn with_sources(mut self, allowed: &SourceRoots) -> Self {
        allowed.apply_to(&mut self.source_roots);
        if let Some(baseline) = &mut self.baseline {
            allowed.apply_to(&mut baseline.source_roots);
        }
        self
    }

    /// Return the source files that were read for answers since the last call, also for the baseline run, and clear the
    /// list.
    pub fn take_source_files(&self) -> BTreeSet<String> {
        let of_baseline = self.baseline.iter().flat_map(|baseline| baseline.source_roots.take_read());
        self.source_roots.take_read().into_iter().chain(of_baseline).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_below_a_root_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("resolved");
        let write = |name: &str| {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(&path, "x = 1\n").expect("written");
            path
        };
        let (own, secret) = (write("code/model/net.py"), write("secret/keys.py"));
        let root = folder.join("code");
        let roots = SourceRoots::new([&root, &own, &folder.join("nowhere")]);
        let text = |path: &Path| path.display().to_string();
        assert_eq!(roots.find(&text(&own)), Some(own.clone()));
        assert_eq!(roots.find("model/net.py"), Some(own));
        for outside in [text(&secret), "../secret/keys.py".to_owned(), format!("{}/../secret/keys.py", text(&root))] {
            assert_eq!(roots.find(&outside), None, "{outside}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&secret, root.join("link.py")).expect("linked");
            assert_eq!(roots.find("link.py"), None, "a link leads out");
            std::os::unix::fs::symlink(&root, folder.join("other")).expect("linked");
            assert!(SourceRoots::new([&folder.join("other")]).find("model/net.py").is_some(), "a root may be a link");
        }
        assert_eq!(SourceRoots::default().find(&text(&secret)), None);
    }
}
