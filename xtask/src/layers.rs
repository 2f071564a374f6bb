//! Check that crates depend only on crates of lower layers.

use anyhow::Result;

use crate::files;

/// Dependencies of each crate at run time, exactly. Tests (dev-dependencies) may use anything.
const MAY_USE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("recording", &[]),
    ("dlmonitor", &[]),
    ("record", &["dlmonitor", "recording"]),
    ("sqlite", &[]),
    ("ingest", &["sqlite", "recording", "model"]),
    ("store", &["model"]),
    ("timeline", &["model"]),
    ("critical-path", &["timeline", "model"]),
    ("calls", &["timeline", "model"]),
    ("analyze", &["timeline", "model"]),
    ("findings", &["calls", "critical-path", "timeline", "model"]),
    ("diff", &["calls", "timeline", "model"]),
    ("memory", &["model"]),
    ("symbols", &[]),
    ("engine", &["diff", "findings", "analyze", "calls", "timeline", "ingest", "store", "memory", "symbols", "model"]),
    ("present", &["diff", "findings", "calls", "critical-path", "timeline", "model"]),
    (
        "query",
        &["present", "engine", "diff", "findings", "analyze", "calls", "critical-path", "timeline", "memory", "model"],
    ),
    ("serve", &["query"]),
    (
        "cli",
        &[
            "serve",
            "query",
            "present",
            "engine",
            "diff",
            "findings",
            "analyze",
            "calls",
            "critical-path",
            "timeline",
            "ingest",
            "memory",
            "model",
        ],
    ),
    (
        "python",
        &[
            "serve",
            "query",
            "present",
            "engine",
            "diff",
            "findings",
            "analyze",
            "calls",
            "critical-path",
            "timeline",
            "ingest",
            "store",
            "memory",
            "model",
        ],
    ),
    ("testkit", &["recording", "model"]),
    (HACK, &[]),
];
/// Holds no code, only features of dependencies.
const HACK: &str = "workspace-hack";

/// Report each crate that depends on another one which the table of layers does not allow, and each unused entry of the
/// table.
pub(crate) fn check(faults: &mut Vec<String>) -> Result<()> {
    let metadata = files::cargo_metadata(&["--no-deps", "--offline"])?;
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(short) = name.strip_prefix("stackline-") else { continue };
        let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| *known == short) else {
            faults.push(format!("crates/{short}: not in the table of layers; add it to xtask/src/layers.rs"));
            continue;
        };
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let used: Vec<&str> = dependencies
            .filter(|dependency| dependency["kind"].is_null())
            .filter_map(|dependency| dependency["name"].as_str()?.strip_prefix("stackline-"))
            .filter(|target| *target != HACK)
            .collect();
        for target in used.iter().filter(|target| !allowed.contains(target)) {
            faults.push(format!("crates/{short}/Cargo.toml: {short} must not depend on {target}"));
        }
        for target in allowed.iter().filter(|target| !used.contains(target)) {
            faults.push(format!("xtask/src/layers.rs: {short} does not depend on {target}; remove it from the table"));
        }
        if package["license"].as_str() != Some("Apache-2.0") {
            faults.push(format!("crates/{short}/Cargo.toml: no `license.workspace = true`"));
        }
    }
    Ok(())
}
