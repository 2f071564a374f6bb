//! Removal of private top-level entries of a trace file from exports.

use stackline_model::{Trace, TraceMeta};

/// Entries that describe devices, the job's shape and the recording's settings, and that analyses need. Everything else
/// may hold environment variables, host and user names, or paths.
const HARMLESS: &[&str] = &[
    "schemaVersion",
    "deviceProperties",
    "distributedInfo",
    "baseTimeNanoseconds",
    "displayTimeUnit",
    "cupti_version",
    "cuda_runtime_version",
    "cuda_driver_version",
    "hip_runtime_version",
    "hip_driver_version",
    "roctracer_version",
    "record_shapes",
    "with_stack",
    "with_modules",
    "with_flops",
    "profile_memory",
    "stackline:unrecorded",
];

/// Top-level entries of a trace file as key and JSON text, in file order: all, or with `redact` only those without
/// private data.
pub(super) fn entries(meta: &TraceMeta, redact: bool) -> impl Iterator<Item = (&str, &str)> {
    meta.entries
        .iter()
        .map(|(key, json)| (key.as_str(), json.as_str()))
        .filter(move |(key, _)| !redact || HARMLESS.contains(key))
}

/// A copy of a trace without the top-level entries that may be private. Names and arguments of events stay: they are
/// the data, and may hold paths of source files.
pub fn redacted(trace: &Trace) -> Trace {
    let kept = entries(&trace.meta, true).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let mut copy = trace.clone();
    copy.meta.entries = kept;
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacting_keeps_devices_and_job_only() {
        let entry = |k: &str| (k.to_owned(), "{}".to_owned());
        let keys = ["env", "distributedInfo", "traceName", "deviceProperties", "hostname"];
        let meta = TraceMeta { entries: keys.map(entry).to_vec(), ..TraceMeta::default() };
        let kept: Vec<_> = entries(&meta, true).map(|(k, _)| k).collect();
        assert_eq!(kept, ["distributedInfo", "deviceProperties"]);
        assert_eq!(entries(&meta, false).count(), 5);
    }
}
