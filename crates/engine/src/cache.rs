//! Cache of results in a run directory.
//!
//! An entry is valid for the program that wrote it and for the manifest at that time (the manifest has the checksums of
//! all tables). Any other entry, also a damaged one, counts as absent, so the cache never changes a result.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::path::{Path, PathBuf};

/// Content of a cache file: the key of program and run, and the cached value.
#[derive(Serialize, Deserialize)]
struct Entry<T> {
    key: String,
    value: T,
}

/// Path of the cache file for a value with this name.
fn file(run: &Path, name: &str) -> PathBuf {
    run.join("cache").join(format!("{name}.json"))
}

/// Key of a cache entry: version, size and build time of the program, and a hash of the run's manifest. `None` if a
/// file cannot be read.
fn key(run: &Path) -> Option<String> {
    let program = fs::metadata(std::env::current_exe().ok()?).ok()?;
    let built = program.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    let manifest = fs::read(run.join("manifest.json")).ok()?;
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&manifest);
    Some(format!("{} {} {} {hash:016x}", env!("CARGO_PKG_VERSION"), program.len(), built.as_nanos()))
}

/// Load the cached value with a name; `None` if there is none, or if the program or the run has changed.
pub fn load<T: DeserializeOwned>(run: &Path, name: &str) -> Option<T> {
    let bytes = fs::read(file(run, name)).ok()?;
    let entry: Entry<T> = serde_json::from_slice(&bytes).ok()?;
    (Some(entry.key) == key(run)).then_some(entry.value)
}

/// Store a value in the cache under a name. Returns true if it was stored: JSON preserves the value, and the run is
/// writable.
pub fn keep<T: Serialize + DeserializeOwned + PartialEq>(run: &Path, name: &str, value: &T) -> bool {
    let path = file(run, name);
    let partial = path.with_extension(format!("partial-{}", std::process::id()));
    let kept = (|| {
        let text = serde_json::to_string(&Entry { key: key(run)?, value }).ok()?;
        let again: Entry<T> = serde_json::from_str(&text).ok()?;
        if again.value != *value {
            return None;
        }
        fs::create_dir_all(path.parent()?).ok()?;
        fs::write(&partial, text).ok()?;
        fs::rename(&partial, &path).ok()
    })();
    if kept.is_none() {
        // A missing file needs no cleanup.
        let _ = fs::remove_file(&partial);
    }
    kept.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_cache_entries_are_loaded() {
        let run = tempfile::tempdir().unwrap();
        let run = run.path();
        assert!(!keep(run, "x", &1.5), "no manifest, no key");
        fs::write(run.join("manifest.json"), "{}").unwrap();
        assert!(keep(run, "x", &vec![Some(1.5), None]));
        assert_eq!(load::<Vec<Option<f64>>>(run, "x"), Some(vec![Some(1.5), None]));
        assert_eq!(load::<String>(run, "x"), None);
        assert!(!keep(run, "nan", &vec![Some(f64::NAN)]), "text has no NaN");
        fs::write(run.join("manifest.json"), "{ }").unwrap();
        assert_eq!(load::<Vec<Option<f64>>>(run, "x"), None, "another run");
        fs::write(file(run, "x"), "{\"key\": \"").unwrap();
        assert_eq!(load::<Vec<Option<f64>>>(run, "x"), None, "damaged");
    }
}
