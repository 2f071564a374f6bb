//! Comparison of memory peaks and findings with those of an earlier run.

use crate::commands::findings::baseline::{Baseline as Findings, check_schema, read_document};
use anyhow::Result;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Findings and peaks of an earlier `memory --format json`.
#[derive(Debug)]
pub(super) struct Baseline {
    pub(super) findings: Findings,
    /// The highest peak of each device, in bytes.
    pub(super) peaks: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Peak {
    device: String,
    bytes: u64,
}

impl Baseline {
    /// Read the findings and peaks of an earlier `memory --format json` from a file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        read_document(path, Self::of_document)
    }

    fn of_document(document: Value) -> Result<Self, String> {
        let other = "the file has no memory results of an earlier run; write them with `stackline memory INPUT \
                     --format json -o FILE`";
        check_schema(&document, "memory", other)?;
        let peaks = document.get("peaks").cloned().unwrap_or_default();
        let peaks: Vec<Peak> = serde_json::from_value(peaks).map_err(|error| format!("{other} ({error})"))?;
        let peaks = peaks.into_iter().map(|peak| (peak.device, peak.bytes)).collect();
        Ok(Self { findings: Findings::of_document(document, other)?, peaks })
    }
}

#[cfg(test)]
mod tests {
    use super::Baseline;
    use crate::commands::findings::baseline::parse_document;

    #[test]
    fn baselines_without_memory_are_refused() {
        let read = |text: &str| parse_document(text, Baseline::of_document);
        let whole = r#"{"schema": "stackline/memory/1", "peaks": [{"device": "cpu", "bytes": 7, "mended_bytes": null}],
                        "tables": {"findings": {"rows": []}, "memory_peaks": {"rows": [{"peak": "P1"}]}}}"#;
        assert_eq!(read(whole).unwrap().peaks["cpu"], 7);
        assert!(read("{").unwrap_err().contains("not JSON"));
        for bad in ["{}", "[]", r#"{"schema": "stackline/findings/1"}"#, r#"{"schema": "stackline/memory/1"}"#] {
            assert!(read(bad).unwrap_err().contains("stackline memory INPUT --format json"), "{bad}");
        }
        // Written of another view, such as --curve.
        let view = r#"{"schema": "stackline/memory/1", "peaks": [], "tables": {"memory_curve": {"rows": []}}}"#;
        assert!(read(view).is_err());
    }
}
