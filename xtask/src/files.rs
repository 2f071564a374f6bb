//! The files of the working tree that are, or would be, committed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Root folder of the repository. The environment of `cargo run` has the present path of the package. A target folder
/// shared by two clones may hold a program that was built in the other one.
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(package).parent().map_or_else(|| PathBuf::from("."), PathBuf::from)
}

/// Cargo's output folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Folder of the built programs that the commands of the README run, in the profile of `./dev`; by default `release`.
pub(crate) fn programs() -> PathBuf {
    let profile = std::env::var("STACKLINE_PROFILE").unwrap_or_else(|_| "release".into());
    target().join(if profile == "dev" { "debug" } else { &profile })
}

/// Sorted paths of all files in the repository, relative to the root: tracked files, and new ones that git does not
/// ignore.
pub(crate) fn listed() -> Result<Vec<String>> {
    let git = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root())
        .output()
        .context("cannot run git")?;
    ensure!(git.status.success(), "git ls-files: {}", String::from_utf8_lossy(&git.stderr).trim());
    let mut paths: Vec<String> = String::from_utf8(git.stdout)?
        .split('\0')
        .filter(|path| !path.is_empty() && root().join(path).is_file())
        .map(str::to_owned)
        .collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Run `cargo metadata` with these arguments; returns its JSON.
pub(crate) fn cargo_metadata(arguments: &[&str]) -> Result<serde_json::Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .args(["metadata", "--format-version", "1"])
        .args(arguments)
        .current_dir(root())
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(out.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(serde_json::from_slice(&out.stdout)?)
}
