//! A trace with something to find, and what `findings` says of it.
#![allow(dead_code, reason = "not every test file uses everything")]

use crate::common::stackline;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Three steps, each of which computes for `kernel_us`, waits for it on line 10 of train.py, and works on the host.
pub(crate) fn trace(folder: &Path, name: &str, (waits, kernel_us): (bool, i64)) -> PathBuf {
    let mut events = Vec::new();
    let mut span = |cat: &str, name: &str, (ts, dur): (i64, i64), args: Value| {
        let (pid, tid) = if cat == "kernel" { (0, 7) } else { (1, 1) };
        events.push(
            json!({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}),
        );
    };
    let mut at = 1000;
    for step in 0..3_i64 {
        let length = if waits { kernel_us + 320 } else { kernel_us.max(340) };
        span("user_annotation", &format!("ProfilerStep#{step}"), (at, length), json!({}));
        span("python_function", "train.py(10): step", (at + 1, length - 2), json!({}));
        let correlation = json!({"correlation": 2 * step + 1, "stream": 7, "device": 0});
        span("cpu_op", "aten::mm", (at + 2, 10), json!({}));
        span("cuda_runtime", "cudaLaunchKernel", (at + 4, 5), json!({"correlation": 2 * step + 1}));
        span("kernel", "gemm", (at + 12, kernel_us), correlation);
        if waits {
            span("cpu_op", "aten::item", (at + 14, kernel_us + 4), json!({}));
            span(
                "cuda_runtime",
                "cudaStreamSynchronize",
                (at + 15, kernel_us + 2),
                json!({"correlation": 2 * step + 2}),
            );
        }
        at += length + 10;
    }
    let path = folder.join(name);
    fs::write(&path, json!({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events}).to_string())
        .unwrap();
    path
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    stackline(&[&["findings"], arguments].concat()).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) struct Case {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) waits: String,
    pub(crate) repaired: String,
}

impl Case {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |path: PathBuf| path.to_str().unwrap().to_owned();
        let waits = path(trace(folder.path(), "waits.json", (true, 300)));
        let repaired = path(trace(folder.path(), "repaired.json", (false, 300)));
        Self { folder, waits, repaired }
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}
