//! Results kept in a run directory, so that what was worked out once is only read again.
//!
//! An entry is valid for the very program that wrote it and for the manifest that stood beside it (the manifest holds
//! the checksums of all tables). Anything else, damage included, is treated as absent: a cache never changes a result.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::path::{Path, PathBuf};

#[derive(Serialize, Deserialize)]
struct Entry<T> {
    key: String,
    value: T,
}

fn file(run: &Path, name: &str) -> PathBuf {
    run.join("cache").join(format!("{name}.json"))
}

/// What an entry depends on: the program (by size and time of its file) and the run.
fn key(run: &Path) -> Option<String> {
    let program = fs::metadata(std::env::current_exe().ok()?).ok()?;
    let built = program.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    let manifest = fs::read(run.join("manifest.json")).ok()?;
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&manifest);
    Some(format!("{} {} {} {hash:016x}", env!("CARGO_PKG_VERSION"), program.len(), built.as_nanos()))
}

/// The value kept under a name, if it is there and still valid.
pub fn load<T: DeserializeOwned>(run: &Path, name: &str) -> Option<T> {
    let bytes = fs::read(file(run, name)).ok()?;
    let entry: Entry<T> = serde_json::from_slice(&bytes).ok()?;
    (Some(entry.key) == key(run)).then_some(entry.value)
}

/// Keeps a value under a name, if it comes back equal from its text and the run can be written to. Tells whether it
/// was kept.
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
        // Nothing to clean up is fine too.
        let _ = fs::remove_file(&partial);
    }
    kept.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_valid_comes_back() {
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
