//! Interner of texts and frames of the whole process.

use crate::folding::{SpanFrame, SpanNames};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_recording::{FrameKey, OTHER_NAMES, Record};

/// Largest number of distinct inputs of operators; further ones share one text. The shapes of some programs differ
/// from call to call.
const MAX_INPUTS: usize = 1 << 16;
/// Size limit of these texts in bytes: a batch of tensors of varying lengths has another long text at each step.
const MAX_INPUTS_BYTES: usize = 8 << 20;
const OTHER_INPUTS: &str = "…";

/// Interned records in the order of their ids.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    texts: FxHashMap<Box<str>, u32>,
    frames: FxHashMap<FrameKey, u32>,
    /// Libraries by path, build id and content, so that a reloaded library has the same id.
    libraries: FxHashMap<(u32, Vec<u8>, Option<u64>), u32>,
    /// Texts of operator inputs.
    inputs: FxHashSet<u32>,
    inputs_bytes: usize,
    span_names: SpanNames,
    /// All records; a writer remembers how many it has written.
    records: Vec<Record>,
    /// True while new texts are not interned.
    closed: bool,
}

/// Id of an unknown text, which is not interned.
const UNKNOWN: u32 = u32::MAX;

impl Frames {
    /// Id of a text, which is interned if it is new. During [`Self::known`], a new text gets [`UNKNOWN`] instead.
    pub(crate) fn text(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.texts.get(text) {
            return id;
        }
        if self.closed {
            return UNKNOWN;
        }
        let id = self.texts.len() as u32;
        self.texts.insert(text.into(), id);
        self.records.push(Record::Text { id, text: text.into() });
        id
    }

    /// Id of a text of operator inputs, or of the text that replaces further ones once the limit is reached.
    pub(crate) fn inputs(&mut self, text: &str) -> u32 {
        let known = self.texts.get(text).is_some_and(|id| self.inputs.contains(id));
        let has_room = self.inputs.len() < MAX_INPUTS && self.inputs_bytes + text.len() <= MAX_INPUTS_BYTES;
        let is_full = !known && !has_room;
        let id = self.text(if is_full { OTHER_INPUTS } else { text });
        if !is_full && !self.closed && self.inputs.insert(id) {
            self.inputs_bytes += text.len();
        }
        id
    }

    /// Id of a native library, which is interned if it is new.
    pub(crate) fn library(&mut self, module: &dlmonitor::native::Module) -> u32 {
        let path = self.text(&module.path.to_string_lossy());
        let key = (path, module.build_id.clone(), module.content);
        if let Some(&id) = self.libraries.get(&key) {
            return id;
        }
        if self.closed {
            return UNKNOWN;
        }
        let id = self.libraries.len() as u32;
        self.libraries.insert(key, id);
        self.records.push(Record::Library { id, path, build_id: module.build_id.clone() });
        self.records.extend(module.content.map(|hash| Record::LibraryContent { library: id, hash }));
        id
    }

    /// Id of an interned frame of call paths, which is added if it is new.
    pub(crate) fn frame(&mut self, key: FrameKey) -> u32 {
        if let Some(&id) = self.frames.get(&key) {
            return id;
        }
        let id = self.frames.len() as u32;
        self.frames.insert(key.clone(), id);
        self.records.push(Record::Frame { id, key });
        id
    }

    /// Intern the frame of a span: a separate one, or one that it shares with other names. Returns its id and that
    /// choice.
    pub(crate) fn span(&mut self, name: &str, template: Option<&[u8]>) -> (u32, SpanFrame) {
        if let Some(frame) = self.known(|frames| FrameKey::Span { name: frames.text(name) }) {
            return (frame, SpanFrame::Own);
        }
        let choice = self.span_names.choose_frame(name, template);
        let frame = match choice {
            SpanFrame::Own => {
                let text = self.text(name);
                let frame = self.frame(FrameKey::Span { name: text });
                self.span_names.add(name, template, frame);
                return (frame, choice);
            }
            SpanFrame::Template => self.folded(&String::from_utf8_lossy(template.unwrap_or_default())),
            SpanFrame::Other => self.folded(OTHER_NAMES),
        };
        self.span_names.keep_example(frame, name);
        (frame, choice)
    }

    /// Id of a span's frame, if it is interned already: its separate frame, or the one that names of its template
    /// share.
    pub(crate) fn known_span(&mut self, name: &str, template: Option<&[u8]>) -> Option<(u32, SpanFrame)> {
        if let Some(frame) = self.known(|frames| FrameKey::Span { name: frames.text(name) }) {
            return Some((frame, SpanFrame::Own));
        }
        let template = template.filter(|template| self.span_names.shared(template).is_some())?;
        let template = String::from_utf8_lossy(template);
        let frame = self.known(|frames| FrameKey::FoldedSpan { name: frames.text(&template) })?;
        Some((frame, SpanFrame::Template))
    }

    /// Id of the frame that spans with numbers in their names share. `name`: the template of their names, or
    /// [`OTHER_NAMES`].
    fn folded(&mut self, name: &str) -> u32 {
        let name = self.text(name);
        self.frame(FrameKey::FoldedSpan { name })
    }

    /// Span names so far by template, which decide the frames of further ones.
    pub(crate) fn span_names(&self) -> &SpanNames {
        &self.span_names
    }

    /// Store a span name as an example of the names that share `frame`.
    pub(crate) fn keep_example(&mut self, frame: u32, name: &str) {
        self.span_names.keep_example(frame, name);
    }

    /// Id of a frame, if it is interned already; otherwise `None`, and neither the frame nor its texts are interned.
    pub(crate) fn known(&mut self, key: impl FnOnce(&mut Self) -> FrameKey) -> Option<u32> {
        self.closed = true;
        let key = key(self);
        self.closed = false;
        // A known frame refers only to known texts.
        self.frames.get(&key).copied()
    }

    /// Number of interned frames.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Interned records (texts, frames, libraries) from index `from` on; a writer has written the earlier ones.
    pub(crate) fn records(&self, from: usize) -> &[Record] {
        self.records.get(from..).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::{Frames, MAX_INPUTS};
    use stackline_recording::FrameKey;

    #[test]
    fn inputs_beyond_the_limit_share_a_text() {
        let mut frames = Frames::default();
        let mut frame_with_inputs = |size: usize| frames.inputs(&format!("f32[{size}]"));
        let first = frame_with_inputs(0);
        assert_eq!((1..MAX_INPUTS).map(&mut frame_with_inputs).filter(|&id| id == first).count(), 0);
        let (other, another) = (frame_with_inputs(MAX_INPUTS), frame_with_inputs(MAX_INPUTS + 1));
        assert_eq!((other, frame_with_inputs(0)), (another, first), "and known ones stay what they are");
        assert_eq!(frames.text("…"), other);
    }

    #[test]
    fn looked_up_texts_are_not_interned() {
        let mut frames = Frames::default();
        let name = frames.text("known");
        let known = frames.frame(FrameKey::Span { name });
        let before = frames.records(0).len();
        for number in 0..1000 {
            let name = format!("new {number}");
            assert_eq!(frames.known(|frames| FrameKey::Span { name: frames.text(&name) }), None);
        }
        assert_eq!(frames.known(|frames| FrameKey::Operator { name: frames.text("known") }), None);
        assert_eq!(frames.known(|frames| FrameKey::Span { name: frames.text("known") }), Some(known));
        assert_eq!((frames.len(), frames.records(0).len()), (1, before));
        assert_eq!(frames.text("kept again"), 1);
    }
}
