//! Upgrades of old run directories. Each step turns the manifest of one version into that of the next; what changed in
//! the tables is told to the readers by the manifest, so an old run is read in place and never written to.

use crate::{Error, FORMAT_VERSION};
use serde_json::Value;
use std::path::Path;

type Step = fn(&mut Value) -> Result<(), String>;

/// Step `i` upgrades version `i + 1`.
const STEPS: [Step; FORMAT_VERSION as usize - 1] = [];

/// Brings a manifest to the current version.
pub(crate) fn upgrade(path: &Path, mut manifest: Value) -> Result<Value, Error> {
    let found = manifest
        .get("version")
        .and_then(Value::as_u64)
        .filter(|v| *v > 0)
        .ok_or_else(|| Error::damaged(path, "it has no version"))?;
    if found > u64::from(FORMAT_VERSION) {
        return Err(Error::Newer { path: path.to_path_buf(), found, supported: FORMAT_VERSION });
    }
    for step in &STEPS[found as usize - 1..] {
        step(&mut manifest).map_err(|e| Error::damaged(path, e))?;
    }
    manifest["version"] = FORMAT_VERSION.into();
    Ok(manifest)
}
