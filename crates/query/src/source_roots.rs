//! Access control for source files: directories below which source text may be read.
//!
//! A trace may come from a stranger, and name any file of this machine. Text is read only below directories that the
//! user opened or named. A symbolic link counts as the file that it points to. All other files are treated as missing.

use crate::source_names::is_source;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Longest file that is read, in bytes.
const LONGEST: u64 = 4 << 20;

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

    /// Allow reading source text below directories that the user named; paths of other kinds are ignored.
    pub(crate) fn below_named(paths: &[PathBuf]) -> Self {
        Self { named: directories(paths), ..Self::default() }
    }

    /// Forbid reading source text.
    pub(crate) fn off() -> Self {
        Self { is_off: true, ..Self::default() }
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

    /// Read the text of a source file. `None` if the file is outside of the allowed directories, not a plain file, or
    /// larger than 4 MiB.
    pub fn read(&self, name: &str) -> Option<String> {
        let path = self.find(name)?;
        let is_plain = std::fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() <= LONGEST);
        // A link of an innocent name may lead to something else.
        if !is_plain || !is_source(name) || !is_source(&path.to_string_lossy()) {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(&path).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
        self.note(&path);
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Check if a source file was written after a time, in ns since 1970; `None` if time or file is unknown.
    pub(crate) fn is_newer(&self, name: &str, recorded_at: Option<i64>) -> Option<bool> {
        let written = std::fs::metadata(self.find(name)?).ok()?.modified().ok()?;
        let written = written.duration_since(std::time::UNIX_EPOCH).ok()?.as_nanos();
        Some(written > u128::try_from(recorded_at?).ok()?)
    }

    /// Add a source file to the list of read files, which `take_read` returns.
    fn note(&self, path: &Path) {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(path.display().to_string());
    }

    /// Return the source files that were read since the last call, and clear the list.
    pub(crate) fn take_read(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner))
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

    #[test]
    fn only_source_files_of_plausible_length_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let roots = SourceRoots::new([&folder.path().to_owned()]);
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).expect("written");
            roots.read(path.to_str().expect("a name"))
        };
        assert_eq!(write("a.py", b"x = 1\xff").as_deref(), Some("x = 1\u{fffd}"));
        assert_eq!(write("secret", b"x"), None);
        assert_eq!(write("long.py", &vec![b'#'; LONGEST as usize + 1]), None);
        assert_eq!(roots.read("/dev/zero"), None);
        std::fs::create_dir(folder.path().join("folder.py")).expect("made");
        assert_eq!(roots.take_read().len(), 1, "what was read is known");
        assert_eq!(roots.read(folder.path().join("folder.py").to_str().expect("a name")), None);
    }
}
