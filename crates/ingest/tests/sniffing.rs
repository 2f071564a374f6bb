//! Every source looks at every file of the corpus: one at most is sure, and it is the right one.

use crate::common::{corpus, text};
use stackline_ingest::sources::{self, Content, Sniff};
use stackline_sqlite::{Database, MAGIC};
use std::path::{Path, PathBuf};

/// Folders of the corpus, and the source of the files in them; files that hold other things stand apart.
const FOLDERS: &[(&str, &str)] = &[
    ("kineto", "chrome"),
    ("nsys", "nsys"),
    ("rocprof", "rocprofv3"),
    ("rpd", "rpd"),
    ("tensorflow", "chrome"),
    ("xplane", "xplane"),
];

/// Which source an input is of, after each has said what it thinks.
fn source(path: &Path, content: &Content<'_>) -> Option<&'static str> {
    let sure: Vec<_> = sources::ALL.iter().filter(|source| matches!((source.sniff)(content), Sniff::Yes(_))).collect();
    assert!(sure.len() <= 1, "{}: {:?}", path.display(), sure.iter().map(|source| source.name).collect::<Vec<_>>());
    sources::of(content).unwrap().map(|source| source.name)
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
            assert_eq!(source_of_file(&file), Some(expected), "{}", file.display());
            looked_at += 1;
        }
    }
    assert!(looked_at > 50, "{looked_at} files");
    // Memory has readers of its own; its files are nobody's, or look like any JSON.
    for entry in std::fs::read_dir(corpus.join("memory")).unwrap() {
        let path = entry.unwrap().path();
        assert!(matches!(source_of_file(&path), None | Some("chrome")), "{}", path.display());
    }
}
