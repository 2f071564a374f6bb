//! Recordings of `stackline record`, in both modes: folders with one stream per process, which [`crate::recording`]
//! reads. Only the folder as a whole is an input, because notes of the launcher on ended processes belong to it.

use super::{Content, PartReaders, Sniff};
use crate::recording;

/// Readers of the parts of a recording.
pub(super) const READERS: PartReaders = PartReaders {
    traces: recording::read_traces,
    calls: recording::read_recording,
    memory: recording::read_memory,
    traces_and_memory: recording::read_traces_and_memory,
};

/// Detect a folder with streams of recorded processes.
pub(crate) fn sniff(content: &Content<'_>) -> Sniff {
    match content {
        Content::Directory(path) if recording::has_streams(path) => {
            Sniff::Yes("the folder contains streams of recorded processes")
        }
        _ => Sniff::No,
    }
}

#[cfg(test)]
mod tests {
    use super::sniff;
    use crate::sources::{Content, Sniff, detect, part_readers};
    use std::path::Path;

    #[test]
    fn folders_with_streams_are_recordings() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let streams = run.join("streams");
        let name = |path: &Path| detect(&Content::Directory(path)).unwrap().map(|source| source.name);
        std::fs::create_dir_all(&streams).unwrap();
        std::fs::write(streams.join("ended.json"), "{}").unwrap();
        assert_eq!((sniff(&Content::Directory(&run)), name(&run)), (Sniff::No, None));
        assert!(part_readers(&run).is_none());
        let stream = streams.join("7-0.slr");
        std::fs::write(&stream, stackline_recording::HEADER).unwrap();
        let found = sniff(&Content::Directory(&run));
        assert_eq!(found, Sniff::Yes("the folder contains streams of recorded processes"));
        assert_eq!(name(&run), Some("recording"));
        assert!(part_readers(&run).is_some());
        // Neither a folder of recordings, nor the folder of the streams, nor a single stream.
        for other in [folder.path(), streams.as_path(), stream.as_path()] {
            assert!(part_readers(other).is_none(), "{}", other.display());
        }
    }
}
