//! Atomic writing of a run: a temporary directory next to the target, renamed only when it is complete and on disk.

use crate::{Error, manifest};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Temporary directory, removed on drop without [`Self::publish`].
pub(crate) struct TemporaryDirectory {
    path: PathBuf,
    target: PathBuf,
    overwrite: bool,
    published: bool,
}

impl TemporaryDirectory {
    /// Create `TARGET.partial-PID-N`. Fails if the target exists, unless it is a run that may be replaced.
    pub(crate) fn create(target: &Path, overwrite: bool) -> Result<Self, Error> {
        check_target(target, overwrite)?;
        let path = sibling_path(target, "partial")?;
        // Remains of a killed process with this PID.
        remove(&path)?;
        fs::create_dir_all(&path).map_err(Error::io(&path, "create"))?;
        Ok(Self { path, target: target.to_path_buf(), overwrite, published: false })
    }

    /// Path of the temporary directory, to write files into.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Rename the directory to its final name. An existing run is moved aside first, and removed afterwards.
    pub(crate) fn publish(mut self, sync: bool) -> Result<(), Error> {
        if sync {
            sync_dir(&self.path)?;
        }
        // Another process may have created the target meanwhile.
        check_target(&self.target, self.overwrite)?;
        let old = sibling_path(&self.target, "old")?;
        let replaces = fs::symlink_metadata(&self.target).is_ok();
        if replaces {
            remove(&old)?;
            fs::rename(&self.target, &old).map_err(Error::io(&self.target, "replace"))?;
        }
        if let Err(error) = fs::rename(&self.path, &self.target) {
            if replaces {
                // Best effort: the first error is reported.
                let _ = fs::rename(&old, &self.target);
            }
            return Err(Error::io(&self.target, "create")(error));
        }
        self.published = true;
        if sync {
            sync_dir(parent(&self.target))?;
        }
        if replaces { remove(&old) } else { Ok(()) }
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        if !self.published {
            // Best effort: the name marks the directory as incomplete.
            let _ = remove(&self.path);
        }
    }
}

/// Check that a name is free, or belongs to a run without other content that may be replaced.
fn check_target(target: &Path, overwrite: bool) -> Result<(), Error> {
    if fs::symlink_metadata(target).is_err() {
        return Ok(());
    }
    let path = target.to_path_buf();
    if !overwrite {
        return Err(Error::Exists { path });
    }
    if manifest::is_only_run(target) { Ok(()) } else { Err(Error::Foreign { path }) }
}

/// Parent directory of a path, `.` if the path has none.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Unused path in the target's directory: the target's name with suffix, PID and counter.
fn sibling_path(target: &Path, suffix: &str) -> Result<PathBuf, Error> {
    let name = target.file_name().ok_or_else(|| {
        let detail = "the name of a run cannot end in '..' or '/'".to_owned();
        Error::NotARun { path: target.to_path_buf(), detail }
    })?;
    let mut name = name.to_os_string();
    // Several threads of one process may write to the same target.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    name.push(format!(".{suffix}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    Ok(target.with_file_name(name))
}

/// Delete a file, or a directory with its content; a missing path is no error.
fn remove(path: &Path) -> Result<(), Error> {
    let result = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Ok(meta) if !meta.is_dir() => fs::remove_file(path),
        _ => fs::remove_dir_all(path),
    };
    result.map_err(Error::io(path, "remove"))
}

/// Make the entries of a directory durable. Where directories cannot be opened (Windows), the file system does it.
pub(crate) fn sync_dir(path: &Path) -> Result<(), Error> {
    if cfg!(unix) {
        File::open(path).and_then(|d| d.sync_all()).map_err(Error::io(path, "sync"))?;
    }
    Ok(())
}
