//! Writer of a stream in the form of the recorder: definitions before their uses, absolute values.

use stackline_recording::{ChunkWriter, FrameKey, HEADER, Metric, Process, Record, Source, Stats, Thread};
use std::collections::BTreeMap;

/// Call tree of one thread: node ids by parent and frame, and statistics by node and metric.
#[derive(Default)]
struct Tree {
    nodes: BTreeMap<(u32, u32), u32>,
    stats: BTreeMap<(u32, Metric), Stats>,
}

/// Recorder stream that is being written: its bytes, known definitions and call trees.
pub(super) struct StreamWriter {
    file: Vec<u8>,
    chunk: ChunkWriter,
    texts: BTreeMap<String, u32>,
    frames: BTreeMap<String, u32>,
    libraries: BTreeMap<String, u32>,
    trees: Vec<Tree>,
}

impl StreamWriter {
    pub(super) fn new(process: Process) -> Self {
        let mut stream = Self {
            file: HEADER.to_vec(),
            chunk: ChunkWriter::new(),
            texts: BTreeMap::new(),
            frames: BTreeMap::new(),
            libraries: BTreeMap::new(),
            trees: Vec::new(),
        };
        stream.push(&Record::Process(Box::new(process)));
        stream
    }

    fn push(&mut self, record: &Record) {
        // Encoding never fails for the records of the crate.
        let _ = self.chunk.push(record);
        if self.chunk.len() > 2_048 {
            self.send();
        }
    }

    /// Append the current chunk to the bytes of the stream.
    fn send(&mut self) {
        if !self.chunk.is_empty() {
            self.file.extend_from_slice(self.chunk.finish());
            self.chunk.clear();
        }
    }

    /// Write the record of a data source, such as Python or PyTorch: its name, state and a detail.
    pub(super) fn source(&mut self, name: &str, on: bool, detail: &str) {
        self.push(&Record::Source(Source { name: name.to_owned(), on, detail: detail.to_owned() }));
    }

    /// Write the record of a thread; returns its index, counted from 0.
    pub(super) fn thread(&mut self, tid: u32, torch_id: u64, name: &str) -> u32 {
        let id = self.trees.len() as u32;
        self.trees.push(Tree::default());
        self.push(&Record::Thread(Thread { id, tid, torch_id, name: name.to_owned() }));
        id
    }

    /// Id of a text, written to the stream if new.
    fn text(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.texts.get(text) {
            return id;
        }
        let id = self.texts.len() as u32;
        self.texts.insert(text.to_owned(), id);
        self.push(&Record::Text { id, text: text.to_owned() });
        id
    }

    /// Id of a native library, written to the stream if new.
    fn library(&mut self, path: &str) -> u32 {
        if let Some(&id) = self.libraries.get(path) {
            return id;
        }
        let id = self.libraries.len() as u32;
        let text = self.text(path);
        self.libraries.insert(path.to_owned(), id);
        self.push(&Record::Library { id, path: text, build_id: vec![0xab, id as u8] });
        id
    }

    /// Id of a frame, written to the stream if new.
    fn frame(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.frames.get(text) {
            return id;
        }
        let key = self.key(text);
        let id = self.frames.len() as u32;
        self.frames.insert(text.to_owned(), id);
        self.push(&Record::Frame { id, key });
        id
    }

    /// Parse the text form of a frame, such as `FUNCTION@FILE:LINE`.
    fn key(&mut self, text: &str) -> FrameKey {
        if let Some(name) = text.strip_prefix("backward:") {
            return match name.split_once('#') {
                Some((name, inputs)) => FrameKey::ShapedBackward { name: self.text(name), inputs: self.text(inputs) },
                None => FrameKey::Backward { name: self.text(name) },
            };
        }
        if let Some(name) = text.strip_prefix("span:") {
            return FrameKey::Span { name: self.text(name) };
        }
        if let Some((path, class)) = text.strip_prefix("module:").and_then(|text| text.split_once('/')) {
            return FrameKey::Module { path: self.text(path), class: self.text(class) };
        }
        if let Some((library, offset)) = text.strip_prefix("native:").and_then(|text| text.split_once("+0x")) {
            let offset = u64::from_str_radix(offset, 16).unwrap_or(0);
            return FrameKey::Native { library: self.library(library), offset };
        }
        if let Some((function, (file, line))) =
            text.split_once('@').and_then(|(f, place)| Some((f, place.split_once(':')?)))
        {
            let line: u32 = line.parse().unwrap_or(0);
            let (function, file) = (self.text(function), self.text(file));
            return FrameKey::Python { function, file, line, first_line: line.saturating_sub(3) };
        }
        match text.split_once('#') {
            Some((name, inputs)) => FrameKey::ShapedOperator { name: self.text(name), inputs: self.text(inputs) },
            None => FrameKey::Operator { name: self.text(text) },
        }
    }

    /// Node of the call tree at the end of a path, whose frames are separated by `|`; new nodes are written to the
    /// stream.
    pub(super) fn path(&mut self, thread: u32, path: &str) -> u32 {
        path.split('|').fold(0, |parent, part| self.child(thread, parent, part))
    }

    /// Node of the call tree for frame `part` below `parent` (0: the root), written if new. Nodes are numbered from 1
    /// in the order of their creation.
    pub(super) fn child(&mut self, thread: u32, parent: u32, part: &str) -> u32 {
        let frame = self.frame(part);
        let tree = &mut self.trees[thread as usize];
        let next = tree.nodes.len() as u32 + 1;
        let node = *tree.nodes.entry((parent, frame)).or_insert(next);
        if node == next {
            self.push(&Record::Node { thread, id: node, parent, frame });
        }
        node
    }

    /// Add a value to the statistics of a metric at a call-tree node.
    pub(super) fn add(&mut self, thread: u32, node: u32, metric: Metric, value: u64) {
        self.trees[thread as usize].stats.entry((node, metric)).or_default().add(value);
    }

    /// Finish the recorder stream and return its bytes; without a time, the stream of a killed process.
    pub(super) fn end(mut self, at_ns: Option<u64>) -> Vec<u8> {
        for (thread, tree) in std::mem::take(&mut self.trees).into_iter().enumerate() {
            for ((node, metric), stats) in tree.stats {
                self.push(&Record::Stats { thread: thread as u32, node, metric, stats });
            }
        }
        self.send();
        if let Some(at_ns) = at_ns {
            self.push(&Record::End { at_ns });
        }
        self.send();
        self.file
    }
}
