//! Folding of span names: after a program has made many names that differ only in numbers, further ones share one
//! frame.
//!
//! The template of a name has a placeholder for each number and each generated identifier. The first
//! [`MAX_NAMES_OF_TEMPLATE`] names of a template keep separate frames, so that `layer 0` to `layer 47` remain distinct.

use rustc_hash::FxHashMap;
use stackline_recording::{IDENTIFIER, NUMBER};
use std::sync::Arc;

/// Names of one template with separate frames.
pub(crate) const MAX_NAMES_OF_TEMPLATE: usize = 64;
/// Span names with separate frames per process: their number and bytes.
pub(crate) const MAX_SPANS: usize = 1 << 13;
pub(crate) const MAX_SPANS_BYTES: usize = 1 << 20;
/// Longest example in bytes.
const MAX_EXAMPLE: usize = 200;

/// Names with the numbers of compiled code: their count is limited by that code.
const COMPILED: &[u8] = b"Torch-Compiled Region: ";

/// Bit that marks a frame which many span names share. Processes have fewer frames than this.
pub(crate) const FOLDED: u32 = 1 << 31;

/// Write a span name with placeholders for its numbers and identifiers; `false` if nothing was replaced.
pub(crate) fn write_template(name: &[u8], template: &mut Vec<u8>) -> bool {
    template.clear();
    if name.starts_with(COMPILED) {
        template.extend_from_slice(name);
        return false;
    }
    let (mut varies, mut rest) = (false, name);
    while let Some(&first) = rest.first() {
        let mut length = rest.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(rest.len());
        if length == 0 {
            template.push(first);
            length = 1;
        } else if let Some(uuid) = uuid_length(rest) {
            template.extend_from_slice(IDENTIFIER.as_bytes());
            (length, varies) = (uuid, true);
        } else if is_identifier(&rest[..length]) {
            template.extend_from_slice(IDENTIFIER.as_bytes());
            varies = true;
        } else {
            varies |= write_numbers(&rest[..length], template);
        }
        rest = &rest[length..];
    }
    varies
}

/// Write a word with a placeholder for each run of digits; `true` if there was one.
fn write_numbers(word: &[u8], template: &mut Vec<u8>) -> bool {
    let (mut varies, mut in_number) = (false, false);
    for &byte in word {
        let is_digit = byte.is_ascii_digit();
        if !is_digit {
            template.push(byte);
        } else if !in_number {
            template.extend_from_slice(NUMBER.as_bytes());
            varies = true;
        }
        in_number = is_digit;
    }
    varies
}

/// True if a word looks generated: an address, eight or more hexadecimal digits, or a long mix of digits and letters.
fn is_identifier(word: &[u8]) -> bool {
    let is_hex = |word: &[u8]| word.iter().all(u8::is_ascii_hexdigit);
    if let [b'0', b'x' | b'X', digits @ ..] = word {
        return !digits.is_empty() && is_hex(digits);
    }
    let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || digits == word.len() {
        return false;
    }
    word.len() >= 8 && is_hex(word) || word.len() >= 16 && digits >= 3
}

/// Length of the UUID at the start of the text (36); `None` if the text begins with no UUID.
fn uuid_length(text: &[u8]) -> Option<usize> {
    const LENGTH: usize = 36;
    let text = text.get(..=LENGTH).or_else(|| text.get(..LENGTH))?;
    let is_part = |(at, &byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        LENGTH => !byte.is_ascii_alphanumeric(),
        _ => byte.is_ascii_hexdigit(),
    };
    text.iter().enumerate().all(is_part).then_some(LENGTH)
}

/// Choice of the frame for a new span name: a separate one, that of its template, or that of all other names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SpanFrame {
    /// A separate frame.
    Own,
    /// The frame of its template.
    Template,
    /// The frame of all other names.
    Other,
}

/// Span names of a template with frames of their own, and these frames. Unchanged from [`MAX_NAMES_OF_TEMPLATE`] on.
pub(crate) type SeparateFrames = FxHashMap<Box<[u8]>, u32>;

/// Span names of a process, grouped by template.
#[derive(Debug, Default)]
pub(crate) struct SpanNames {
    /// Names by template.
    by_template: FxHashMap<Box<[u8]>, Arc<SeparateFrames>>,
    count: usize,
    bytes: usize,
    examples: Vec<Examples>,
    by_frame: FxHashMap<u32, usize>,
}

/// Examples of span names that share a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Examples {
    pub(crate) frame: u32,
    pub(crate) first: String,
    pub(crate) last: String,
    /// Number of changes.
    pub(crate) version: u32,
}

impl SpanNames {
    /// Choose the kind of frame for a new span name; `template` is `None` for a name without number. Nothing is stored.
    pub(crate) fn choose_frame(&mut self, name: &str, template: Option<&[u8]>) -> SpanFrame {
        if template.is_some_and(|template| self.shared(template).is_some()) {
            return SpanFrame::Template;
        }
        if self.count >= MAX_SPANS || self.bytes + name.len() > MAX_SPANS_BYTES {
            return SpanFrame::Other;
        }
        SpanFrame::Own
    }

    /// Register a span name that has the separate frame `frame`.
    pub(crate) fn add(&mut self, name: &str, template: Option<&[u8]>, frame: u32) {
        self.count += 1;
        self.bytes += name.len();
        let Some(template) = template else { return };
        if let Some(own) = self.by_template.get_mut(template) {
            Arc::make_mut(own).insert(name.as_bytes().into(), frame);
        } else {
            let own = FxHashMap::from_iter([(name.as_bytes().into(), frame)]);
            self.by_template.insert(template.into(), Arc::new(own));
        }
    }

    /// Span names of a template that have frames of their own, if all further names share a frame; `None` otherwise.
    pub(crate) fn shared(&self, template: &[u8]) -> Option<&Arc<SeparateFrames>> {
        self.by_template.get(template).filter(|own| own.len() >= MAX_NAMES_OF_TEMPLATE)
    }

    /// Store a span name as the latest example of the names that share `frame`, and the first time also as the first.
    pub(crate) fn keep_example(&mut self, frame: u32, name: &str) {
        let name: String = name.chars().take(MAX_EXAMPLE).collect();
        let at = *self.by_frame.entry(frame).or_insert_with(|| {
            self.examples.push(Examples { frame, first: name.clone(), ..Examples::default() });
            self.examples.len() - 1
        });
        if let Some(examples) = self.examples.get_mut(at) {
            examples.last = name;
            examples.version += 1;
        }
    }

    /// Examples of the names of all shared frames; the position of each frame is stable.
    pub(crate) fn examples(&self) -> &[Examples] {
        &self.examples
    }
}

#[cfg(test)]
mod tests {
    use super::write_template;

    fn template(name: &str) -> Option<String> {
        let mut template = b"left over".to_vec();
        let varies = write_template(name.as_bytes(), &mut template);
        let template = String::from_utf8(template).unwrap();
        assert!(varies || template == name);
        varies.then_some(template)
    }

    #[test]
    fn templates_have_no_numbers() {
        for (name, expected) in [
            ("iteration 17", "iteration <n>"),
            ("ProfilerStep#3", "ProfilerStep#<n>"),
            ("epoch 3 batch 1200", "epoch <n> batch <n>"),
            ("h.11", "h.<n>"),
            ("conv2d", "conv<n>d"),
            ("lr 1e-05", "lr <n>e-<n>"),
            ("loss 0.25", "loss <n>.<n>"),
            ("17", "<n>"),
            ("request 7f3a09bc", "request <id>"),
            ("at 0x7ffe12", "at <id>"),
            ("r-123e4567-e89b-12d3-a456-426614174000-x", "r-<id>-x"),
            ("01HZX3M8Q4T7V9K2B5N6", "<id>"),
            ("größe 4", "größe <n>"),
        ] {
            assert_eq!(template(name).as_deref(), Some(expected), "{name}");
        }
        for name in ["", "forward", "##", "Torch-Compiled Region: 12/3", "deadbeef", "größe"] {
            assert_eq!(template(name), None, "{name}");
        }
    }
}
