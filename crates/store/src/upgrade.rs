//! Upgrades of old run directories. Each step converts the manifest of one version to the next. Flags in the manifest
//! inform the readers of old tables, so an old run is read in place and never modified.

use crate::{Error, FORMAT_VERSION};
use serde_json::Value;
use std::path::Path;

type Step = fn(&mut Value) -> Result<(), String>;

/// Step `i` upgrades version `i + 1`.
const STEPS: [Step; FORMAT_VERSION as usize - 1] = [one_to_two, two_to_three, three_to_four, four_to_five, five_to_six];

/// Upgrade the manifest of a run directory to the current version.
pub(crate) fn upgrade(path: &Path, mut manifest: Value) -> Result<Value, Error> {
    let found = manifest
        .get("version")
        .and_then(Value::as_u64)
        .filter(|v| *v > 0)
        .ok_or_else(|| Error::damaged(path, "the manifest has no version number"))?;
    if found > u64::from(FORMAT_VERSION) {
        return Err(Error::Newer { path: path.to_path_buf(), found, supported: FORMAT_VERSION });
    }
    for step in &STEPS[found as usize - 1..] {
        step(&mut manifest).map_err(|e| Error::damaged(path, e))?;
    }
    manifest["version"] = FORMAT_VERSION.into();
    Ok(manifest)
}

/// Upgrade a manifest from version 1 to 2: mark traces with all arguments in the long table. Version 2 gave frequent
/// arguments a column in the event table, files a checksum, and tracks a stored order. The order of a run of version 1
/// is computed when it is opened.
fn one_to_two(manifest: &mut Value) -> Result<(), String> {
    mark_traces(manifest, "long_arguments")
}

/// Set a flag for the readers of old tables in all traces of a manifest.
fn mark_traces(manifest: &mut Value, mark: &str) -> Result<(), String> {
    let traces =
        manifest.get_mut("traces").and_then(Value::as_array_mut).ok_or("the manifest has no list of traces")?;
    for trace in traces {
        let trace = trace.as_object_mut().ok_or("a trace in the manifest is not a JSON object")?;
        trace.insert(mark.to_owned(), true.into());
    }
    Ok(())
}

/// Upgrade a manifest from version 2 to 3, without a change: version 3 added `calls`, which only recordings have.
fn two_to_three(_manifest: &mut Value) -> Result<(), String> {
    Ok(())
}

/// Upgrade a manifest from version 3 to 4: mark a call tree without two columns of `call_frames`. Version 4 added them
/// for symbolized native frames.
fn three_to_four(manifest: &mut Value) -> Result<(), String> {
    if let Some(calls) = manifest.get_mut("calls").and_then(Value::as_object_mut) {
        calls.insert("unnamed".to_owned(), true.into());
    }
    Ok(())
}

/// Upgrade a manifest from version 4 to 5, without a change: version 5 added `memory`. For older runs it is computed
/// from their traces on request.
fn four_to_five(_manifest: &mut Value) -> Result<(), String> {
    Ok(())
}

/// Upgrade a manifest from version 5 to 6: mark traces without levels of events. Version 6 added levels, and moved
/// `flows` and `backward` into the table `links`.
fn five_to_six(manifest: &mut Value) -> Result<(), String> {
    mark_traces(manifest, "no_levels")
}
