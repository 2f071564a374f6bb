//! Detection of every file of the corpus by all sources: at most one is certain, and it is the right one.

use crate::common::{corpus, text};
use stackline_ingest::sources::{self, Content, Sniff};
use stackline_sqlite::{Database, MAGIC};
use std::path::{Path, PathBuf};

/// Folders of the corpus with the source of their files; other files are listed separately.
const FOLDERS: &[(&str, &str)] = &[
    ("execution-trace", "execution-trace"),
    ("kineto", "chrome"),
    ("memory", "snapshot"),
    ("nsys", "nsys"),
    ("rocprof", "rocprofv3"),
    ("rpd", "rpd"),
    ("tensorflow", "chrome"),
    ("xplane", "xplane"),
];

/// Source of an input, from the answers of all sources.
fn source(path: &Path, content: &Content<'_>) -> Option<&'static str> {
    let sure: Vec<_> = sources::ALL.iter().filter(|source| matches!((source.sniff)(content), Sniff::Yes(_))).collect();
    assert!(sure.len() <= 1, "{}: {:?}", path.display(), sure.iter().map(|source| source.name).collect::<Vec<_>>());
    sources::detect(content).unwrap().map(|source| source.name)
}

fn source_of_file(path: &Path) -> Option<&'static str> {
    let bytes = text(path);
    if !bytes.starts_with(MAGIC) {
        let head = &bytes[..bytes.len().min(64 << 10)];
        return source(path, &Content::Bytes { head, stream: &mut std::io::empty() });
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let database = Database::open(file.path()).unwrap();
    source(path, &Content::Tables(&database))
}

#[test]
fn each_file_has_one_source() {
    let Some(corpus) = corpus() else { return };
    let mut looked_at = 0;
    for (folder, expected) in FOLDERS {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(corpus.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            // Chrome traces that were made of the other files.
            let expected = if file.to_string_lossy().contains(".chrome.") { "chrome" } else { expected };
            let expected = if file.to_string_lossy().contains(".raw.") { "memory-timeline" } else { expected };
            assert_eq!(source_of_file(&file), Some(expected), "{}", file.display());
            looked_at += 1;
        }
    }
    assert!(looked_at > 50, "{looked_at} files");
}

/// Formats of memory, each with a file that the test writes.
#[test]
fn formats_of_memory_files_are_detected() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("memory_liveness.txt"), "[1]: 1(0)\n").unwrap();
    let of_text = |text: &[u8]| {
        source(Path::new("text"), &Content::Bytes { head: text, stream: &mut std::io::empty() }).unwrap_or("none")
    };
    let sources = [
        ("a folder of DrGPUM's", source(folder.path(), &Content::Directory(folder.path())).unwrap()),
        ("one of its files", of_text(b"[12]: 12(0), 13(4)\n")),
        ("nodes and a schema", of_text(b"{\"schema\": \"1.1\", \"nodes\": []}")),
        ("statements", of_text(b"a x 10; f x\n")),
        ("statements that end in numbers", of_text(b"a x 256; a y 512\n")),
        ("stacks whose first line could be one", of_text(b"a 10\na;b 3\n")),
        ("stacks of frames with such names", of_text(b"f;c 10\n")),
        ("stacks, not statements", of_text(b"a;b 10\n")),
        ("rows", of_text(b"[[0, 1, 512, 3]]")),
        ("a pickle", of_text(b"\x80\x04}\x94.")),
        ("a page", of_text(b"<!DOCTYPE html> MemoryViz")),
        ("segments", of_text(b"{\"segments\": []}")),
        ("events with an argument of that name", of_text(b"{\"traceEvents\": [{\"args\": {\"segments\": 3}}]}")),
        ("a profile with a function of that name", of_text(b"{\"$schema\": \"https://www.speedscope.app/file-format-schema.json\", \"shared\": {\"frames\": [{\"name\": \"blocks\"}]}}")),
        ("a recording with one", of_text(b"{\"rocprofiler-sdk-tool\": [{\"name\": \"segments\"}]}")),
        ("a name that is no key", of_text(b"{\"a\": \"blocks\"}")),
        ("a folder", source(Path::new("."), &Content::Directory(Path::new("."))).unwrap_or("none")),
    ];
    insta::assert_debug_snapshot!(sources);
}

/// The detected format of a file agrees with its reader.
#[test]
fn detected_files_are_read_by_their_source() {
    let folder = tempfile::tempdir().unwrap();
    let of_text = |text: &str| {
        let path = folder.path().join("file");
        std::fs::write(&path, text).unwrap();
        (stackline_ingest::is_profile(&path), stackline_ingest::memory::is_memory_file(&path).unwrap())
    };
    assert_eq!(of_text("a 10\na;b 3\n"), (true, false));
    assert_eq!(of_text("a x 256; a y 512\n"), (false, true));
    assert_eq!(of_text("{\"traceEvents\": []}"), (false, false));
}
