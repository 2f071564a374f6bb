//! What the tests of critical paths share: the corpus, and tiny traces written by hand.
#![allow(dead_code, reason = "each test binary uses its part")]

use serde_json::{Value, json};
use stackline_model::Trace;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The corpus; `None` (with the reason printed) where it is missing and need not be there.
pub(crate) fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let path = std::env::var_os("STACKLINE_CORPUS").map_or(beside, PathBuf::from);
    if path.join("reference/hta").is_dir() {
        return Some(path);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "the corpus is missing at {}", path.display());
    println!("skipped: no corpus at {} (set STACKLINE_CORPUS)", path.display());
    None
}

/// The bytes of a file, unpacked if it is gzip.
pub(crate) fn unpacked(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut out).unwrap();
    out
}

pub(crate) fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&unpacked(path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub(crate) fn read_trace(path: &Path) -> Trace {
    read_trace_bytes(&unpacked(path))
}

pub(crate) fn read_trace_bytes(bytes: &[u8]) -> Trace {
    stackline_ingest::read_bytes("test.json", bytes, &stackline_ingest::ReadOptions::default()).unwrap()
}

/// A trace of hand-made events in whole µs.
pub(crate) struct Mini {
    events: Vec<Value>,
}

impl Default for Mini {
    /// Starts with a record that is no event: HTA cannot link to the event at index 0.
    fn default() -> Self {
        Self {
            events: vec![
                json!({ "ph": "M", "name": "process_name", "pid": 10, "tid": 0, "ts": 0, "args": { "name": "python" } }),
            ],
        }
    }
}

impl Mini {
    /// Adds an event; returns its index. `args` are merged in.
    pub(crate) fn push(&mut self, cat: &str, name: &str, place: (i64, i64), time: (i64, i64), args: Value) -> u32 {
        self.events.push(json!({
            "ph": "X", "cat": cat, "name": name, "pid": place.0, "tid": place.1, "ts": time.0, "dur": time.1, "args": args
        }));
        self.events.len() as u32 - 1
    }

    /// An operator on thread `tid` of process 10.
    pub(crate) fn op(&mut self, name: &str, tid: i64, start: i64, dur: i64) -> u32 {
        self.push("cpu_op", name, (10, tid), (start, dur), json!({}))
    }

    /// A runtime call with a correlation.
    pub(crate) fn call(&mut self, name: &str, tid: i64, start: i64, dur: i64, correlation: i64) -> u32 {
        self.push("cuda_runtime", name, (10, tid), (start, dur), json!({ "correlation": correlation }))
    }

    /// A kernel on a stream of device 0.
    pub(crate) fn kernel(&mut self, name: &str, stream: i64, start: i64, dur: i64, correlation: i64) -> u32 {
        let args = json!({ "stream": stream, "correlation": correlation, "device": 0 });
        self.push("kernel", name, (0, stream), (start, dur), args)
    }

    /// A synchronisation record of device 0; `record` is the correlation and stream of the event record it is about.
    pub(crate) fn sync(
        &mut self,
        name: &str,
        stream: i64,
        start: i64,
        dur: i64,
        correlation: i64,
        record: Option<(i64, i64)>,
    ) -> u32 {
        let mut args = json!({ "stream": stream, "correlation": correlation, "device": 0 });
        if let Some((record, on)) = record {
            args["wait_on_cuda_event_record_corr_id"] = record.into();
            args["wait_on_stream"] = on.into();
        }
        self.push("cuda_sync", name, (0, stream), (start, dur), args)
    }

    pub(crate) fn json(&self) -> Vec<u8> {
        serde_json::to_vec(&json!({ "schemaVersion": 1, "traceEvents": self.events })).unwrap()
    }

    pub(crate) fn trace(&self) -> Trace {
        read_trace_bytes(&self.json())
    }
}
