//! Runs of every written format version open, with their content.

use crate::common;

use common::{assert_same, sample};
use stackline_ingest::memory::text;
use stackline_model::{Frame, FrameKind, MemoryTrace, TraceSet};
use stackline_store::{FORMAT_VERSION, ReadSelection, WriteOptions, read_memory, read_run, write_run};
use std::path::{Path, PathBuf};

fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/store/v{version}"))
}

fn memory() -> MemoryTrace {
    text::read("memory", "o old 64 at=a.py:1:main\na x 128; h x; k f x[0:8],old>x via=operator-level; f x; end")
        .unwrap()
}

/// With `STACKLINE_BLESS=1`, the fixture of the current version is written first.
#[test]
fn every_version_opens() {
    if std::env::var_os("STACKLINE_BLESS").is_some() {
        let options = WriteOptions { overwrite: true, sync: false, ..WriteOptions::default() };
        let set = TraceSet { traces: vec![sample()] };
        write_run(&set, &[memory()], &fixture(FORMAT_VERSION), &options).unwrap();
    }
    for version in 1..=FORMAT_VERSION {
        let path = fixture(version);
        let text = std::fs::read_to_string(path.join("manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(manifest["version"], version, "the fixture of version {version} was overwritten");
        let set = read_run(&path, &ReadSelection::all()).unwrap();
        assert_eq!(set.traces.len(), 1);
        assert_same(&set.traces[0], &sample());
        let read = read_memory(&path).unwrap();
        let expected = if version >= 5 { vec![text::write(&memory())] } else { Vec::new() };
        assert_eq!(read.iter().map(text::write).collect::<Vec<_>>(), expected);
        // Tables without kinds of frames: file names determine them.
        let kinds = read.iter().flat_map(|trace| trace.stacks.frames.iter()).map(Frame::kind);
        assert!(kinds.eq(expected.iter().map(|_| FrameKind::Python)));
    }
}
