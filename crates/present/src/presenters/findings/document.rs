//! Additional keys of JSON documents of findings.

use serde_json::{Value, json};
use stackline_critical_path::exact::what_if::Gain;
use stackline_findings::{DevicePeak, Findings, RankTimes};

/// Keys and values that documents of findings add, in their order.
pub fn keys(found: &Findings) -> Vec<(&'static str, Value)> {
    let gain = |gain: &Gain| json!({"ns": gain.likely_ns, "low_ns": gain.low_ns, "high_ns": gain.high_ns});
    let rank = |times: &RankTimes| {
        let exposed_ns = times.exposed_collectives_ns;
        json!({"rank": times.rank, "step_ns": times.step_ns, "steps": times.steps, "collectives_alone_ns": exposed_ns})
    };
    let peak = |device_peak: &DevicePeak| json!({"device": device_peak.device, "bytes": device_peak.bytes, "mended_bytes": device_peak.mended_bytes});
    vec![
        ("step_ns", json!(found.step_ns)),
        ("steps", json!(found.steps)),
        ("between_ns", json!(found.between_ns)),
        ("window", json!(found.window)),
        ("combined", json!(found.combined.as_ref().map(gain))),
        ("ranks", json!(found.ranks.iter().map(rank).collect::<Vec<_>>())),
        ("peaks", json!(found.peaks.iter().map(peak).collect::<Vec<_>>())),
        ("uncovered", super::uncovered::document(found)),
        ("left_out", json!(found.small.len())),
        ("notes", json!(found.notes)),
    ]
}
