//! Rank, world size and base time from the file's metadata.

use crate::byte_offsets::ByteOffsets;
use crate::diagnostics;
use serde_json::Value;
use stackline_model::{RankInName, Trace};

/// Fill the format, base time, rank and world size of a trace from its metadata entries, or the rank from its name.
pub(super) fn fill_metadata(trace: &mut Trace, places: &ByteOffsets) {
    let meta = &mut trace.meta;
    if meta.format.is_empty() {
        meta.format = if is_kineto(meta) { "kineto" } else { "chrome" }.to_owned();
    }
    let base = meta.entry("baseTimeNanoseconds").map(|t| t.trim_matches('"'));
    let parsed = base.map(|text| text.parse::<i64>());
    let odd_base = matches!(parsed, Some(Err(_)));
    if let Some(parsed) = parsed {
        meta.base_ns = parsed.unwrap_or(0);
    }
    let info = meta.entry("distributedInfo").and_then(|text| serde_json::from_str::<Value>(text).ok());
    let number = |key: &str| info.as_ref().and_then(|v| v.get(key)).and_then(Value::as_i64);
    meta.rank = number("rank").or(meta.rank);
    meta.world_size = number("world_size").or(meta.world_size);
    if odd_base {
        diagnostics::BAD_BASE.count(&mut trace.report, places.member_end("baseTimeNanoseconds"), "baseTimeNanoseconds");
    }
    let meta = &mut trace.meta;
    if meta.rank.is_none()
        && let Some(rank) = rank_in_name(&meta.name)
    {
        meta.rank = Some(rank);
        let name = meta.name.clone();
        diagnostics::RANK_FROM_NAME.count(&mut trace.report, None, &name);
    }
}

/// Check if the metadata has a key that Kineto writes.
fn is_kineto(meta: &stackline_model::TraceMeta) -> bool {
    ["schemaVersion", "deviceProperties", "distributedInfo", "traceName"].iter().any(|k| meta.entry(k).is_some())
}

/// Rank in the last component of a trace's name; `None` without one.
fn rank_in_name(name: &str) -> Option<i64> {
    let file = name.rsplit(['/', '\\', ':']).next()?;
    RankInName::of_rank(file).map(|rank| rank.number)
}

/// Worker in the name of a file of `torch.profiler.tensorboard_trace_handler`: `host_7` of
/// `host_7.1700000000.pt.trace.json`; `None` for other names.
#[must_use]
pub fn worker_in_name(name: &str) -> Option<&str> {
    let (before, _) = name.rsplit_once(".pt.trace.json")?;
    let (worker, time) = before.rsplit_once('.')?;
    let is_time = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
    is_time.then_some(worker)
}

#[cfg(test)]
mod tests {
    use super::{rank_in_name, worker_in_name};

    #[test]
    fn workers_in_names() {
        assert_eq!(worker_in_name("a/host_7.1700000000.pt.trace.json.gz"), Some("a/host_7"));
        assert_eq!(worker_in_name("rank-34.Jul_15.pt.trace.json"), None);
        assert_eq!(worker_in_name("trace.json"), None);
    }

    #[test]
    fn ranks_in_names() {
        assert_eq!(rank_in_name("a/rank-34.Jul_15.pt.trace.json.gz"), Some(34));
        assert_eq!(rank_in_name("trace_rank_0.json"), Some(0));
        assert_eq!(rank_in_name("rank7.json"), Some(7));
        assert_eq!(rank_in_name("rank1/host.json"), None);
        assert_eq!(rank_in_name("frank2.json"), None, "another word");
        assert_eq!(rank_in_name("rank=5.json"), Some(5));
    }
}
