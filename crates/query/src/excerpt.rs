//! Source lines around one line of a file.

use crate::OpenRun;
use serde::Serialize;

/// Lines around the one that matters.
const AROUND: u32 = 6;

/// Source lines around one line of a file; without lines if the file cannot be read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Excerpt<'a> {
    file: &'a str,
    line: u32,
    /// Number of the first of the lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    first: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    lines: Option<Vec<String>>,
    missing: bool,
    /// The file was written after the recording; null if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    changed: Option<Option<bool>>,
}

/// Read the lines around one line of a source file that the run names, if the file is on this machine.
pub(crate) fn excerpt<'a>(opened: &'a OpenRun, file: &'a str, line: u32) -> Excerpt<'a> {
    let file = opened.resolved(file);
    let Some(text) = opened.source_roots.read(file) else {
        return Excerpt { file, line, first: None, lines: None, missing: true, changed: None };
    };
    let first = line.saturating_sub(AROUND).max(1);
    let around = 2 * AROUND as usize + 1;
    let lines: Vec<String> = text.lines().skip(first as usize - 1).take(around).map(str::to_owned).collect();
    let missing = lines.len() + first as usize <= line as usize;
    let changed = opened.source_roots.is_newer(file, opened.recorded_at());
    Excerpt { file, line, first: Some(first), lines: Some(lines), missing, changed: Some(changed) }
}
