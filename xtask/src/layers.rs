//! Dependencies between our crates point downwards only.

use anyhow::Result;

use crate::files;

/// Allowed dependencies of each crate at run time. Tests (dev-dependencies) may use anything.
const MAY_USE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("recording", &[]),
    ("dlmonitor", &[]),
    ("record", &["dlmonitor", "recording"]),
    ("sqlite", &[]),
    ("ingest", &["recording", "sqlite", "model"]),
    ("store", &["model"]),
    ("timeline", &["model"]),
    ("critical-path", &["timeline", "model"]),
    ("calls", &["timeline", "model"]),
    ("analyze", &["timeline", "model"]),
    ("findings", &["calls", "critical-path", "timeline", "model"]),
    ("diff", &["calls", "timeline", "model"]),
    ("memory", &["model"]),
    ("symbols", &[]),
    (
        "engine",
        &[
            "symbols",
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
    (
        "present",
        &[
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
            "store",
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

/// One line per crate that depends on a crate above it or at its level.
pub(crate) fn check(faults: &mut Vec<String>) -> Result<()> {
    let metadata = files::cargo_metadata(&["--no-deps", "--offline"])?;
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(short) = name.strip_prefix("stackline-") else { continue };
        let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| *known == short) else {
            faults.push(format!("crates/{short}: not in the table of layers; add it to xtask/src/layers.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let target = dependency["name"].as_str().unwrap_or_default();
            let Some(target) = target.strip_prefix("stackline-") else { continue };
            if dependency["kind"].is_null() && target != HACK && !allowed.contains(&target) {
                faults.push(format!("crates/{short}/Cargo.toml: {short} must not depend on {target}"));
            }
        }
        if package["license"].as_str() != Some("Apache-2.0") {
            faults.push(format!("crates/{short}/Cargo.toml: no `license.workspace = true`"));
        }
    }
    Ok(())
}
