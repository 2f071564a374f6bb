//! Whether a chain of frames is the one that was seen before: mostly it is, but for the innermost frames.
//!
//! This runs at every operator, once per frame. The offsets of the common versions are constants here.

use super::freed::Freed;
use super::layout::{Layout, V311, V312};
use super::{Interpreter, OBJECT_CLASS, PythonFrame, WATCHED_CODE, word};
use std::sync::atomic::Ordering;

/// A frame that was seen, with what tells it from a later one at the same place.
#[derive(Clone, Copy, Debug)]
pub struct SeenFrame {
    /// The frame as it stood in memory.
    pub frame: PythonFrame,
    /// [`Interpreter::fingerprint`]
    pub fingerprint: u64,
    /// When the code object at this address last was the one with this fingerprint.
    seen: Freed,
    /// [`Interpreter::called_module`]
    pub module: usize,
    /// The module's class: another module may lie where one was that is gone.
    pub class: usize,
}

impl SeenFrame {
    /// Whether its code object is the one with this fingerprint, now.
    #[inline]
    fn is_code(&mut self, fingerprint: u64, now: Freed) -> bool {
        let same = self.fingerprint == fingerprint;
        if same {
            self.seen = now;
        }
        same
    }
}

impl PartialEq for SeenFrame {
    /// Whether it is the same frame, whenever it was seen.
    fn eq(&self, other: &Self) -> bool {
        (self.frame, self.fingerprint, self.module, self.class)
            == (other.frame, other.fingerprint, other.module, other.class)
    }
}

impl Eq for SeenFrame {}

/// What called the outermost of the frames that were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Nothing: it is the first of its thread.
    Root,
    /// This frame.
    Frame(PythonFrame),
}

/// A version whose frames and code objects those of others are like, as far as they are read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Common {
    V311,
    /// And 3.13.
    V312,
}

impl Common {
    pub(super) fn of(layout: &Layout) -> Option<Self> {
        let is_like = |common: Layout| {
            // What is not read here may differ, as may what tells apart code objects without numbers where they have numbers.
            let telling = if layout.code_version.is_none() { *layout } else { common };
            let alike = Layout {
                frame_code: layout.frame_code,
                frame_previous: layout.frame_previous,
                frame_instruction: layout.frame_instruction,
                frame_locals: layout.frame_locals,
                frame_owner: layout.frame_owner,
                code_tag: layout.code_tag,
                code_first_line: layout.code_first_line,
                code_lines: layout.code_lines,
                code_version: layout.code_version,
                code_file: telling.code_file,
                code_name: telling.code_name,
                code_short_name: telling.code_short_name,
                bytes_data: telling.bytes_data,
                ..common
            };
            alike == common
        };
        [(V311, Self::V311), (V312, Self::V312)]
            .into_iter()
            .find_map(|(layout, common)| is_like(layout).then_some(common))
    }
}

impl Interpreter {
    /// The frame as it is now, to be compared later.
    #[must_use]
    #[inline]
    pub fn see(&self, frame: PythonFrame) -> SeenFrame {
        let module = self.called_module(frame);
        let class = if module == 0 { 0 } else { self.class_of(module) };
        SeenFrame { frame, fingerprint: self.fingerprint(frame), seen: Freed::now(), module, class }
    }

    /// As [`Self::see`], for a frame that stands where another one was seen: mostly it is that one, some instructions later.
    #[must_use]
    #[inline]
    pub fn see_again(&self, frame: PythonFrame, before: &SeenFrame) -> SeenFrame {
        let is_no_call = before.module == 0 && frame.code != WATCHED_CODE.load(Ordering::Relaxed);
        if is_no_call && before.frame.code == frame.code && before.seen.is(Freed::now()) {
            return SeenFrame { frame, ..*before };
        }
        self.see(frame)
    }

    /// Compares `frame` and its callers with frames that were seen before, outermost first. Those that stand where they
    /// stood, but are others now, go to `changed` with their index, innermost first. `None` if one stands elsewhere.
    #[inline]
    pub fn compare(
        &self,
        frame: PythonFrame,
        seen: &mut [SeenFrame],
        changed: &mut Vec<(usize, PythonFrame)>,
    ) -> Option<Beyond> {
        match self.frames_like {
            Some(Common::V311) => compare(&V311, frame, seen, changed),
            Some(Common::V312) => compare(&V312, frame, seen, changed),
            None => compare(&self.layout, frame, seen, changed),
        }
    }
}

#[inline(always)]
fn compare(
    layout: &Layout,
    mut frame: PythonFrame,
    seen: &mut [SeenFrame],
    changed: &mut Vec<(usize, PythonFrame)>,
) -> Option<Beyond> {
    let (watched, now) = (WATCHED_CODE.load(Ordering::Relaxed), Freed::now());
    for (at, seen) in seen.iter_mut().enumerate().rev() {
        if seen.frame.address != frame.address {
            return None;
        }
        let module = layout.called_module(frame, watched);
        let same = seen.frame.code == frame.code
            && seen.frame.instruction == frame.instruction
            && (seen.seen.is(now) || seen.is_code(layout.fingerprint(frame), now))
            && seen.module == module
            && (module == 0 || seen.class == word(module + OBJECT_CLASS));
        if !same {
            changed.push((at, frame));
        }
        match layout.caller(frame) {
            Some(caller) => frame = caller,
            None if at == 0 => return Some(Beyond::Root),
            None => return None,
        }
    }
    Some(Beyond::Frame(frame))
}

#[cfg(test)]
mod tests {
    use super::{Common, V311, V312};
    use crate::python::layout::Layout;

    #[test]
    fn versions_are_like_those_that_read_the_same() {
        let of = |minor| Layout::of((3, minor), None).ok().and_then(|layout| Common::of(&layout));
        assert_eq!([10, 11, 12, 13].map(of), [None, Some(Common::V311), Some(Common::V312), Some(Common::V312)]);
        assert_eq!(Common::of(&Layout { frame_locals: 88, ..V312 }), None);
        assert_eq!(Common::of(&Layout { code_file: 88, ..V311 }), None, "it tells code objects apart");
        assert_eq!(Common::of(&Layout { code_file: 88, ..V312 }), Some(Common::V312), "they have numbers");
    }
}
