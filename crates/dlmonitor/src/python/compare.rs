//! Comparison of a Python call path with the previous one; usually only the innermost frames differ.
//!
//! The comparison runs at every operator, once per frame. Therefore the offsets of common CPython versions are
//! constants.

use super::freed::FreedCount;
use super::layout::{Layout, V311, V312};
use super::{Interpreter, OBJECT_CLASS, PythonFrame, WATCHED_CODE, word};
use std::sync::atomic::Ordering;

/// Copy of a Python frame, with data that distinguish it from a later frame at the same address.
#[derive(Clone, Copy, Debug)]
pub struct SeenFrame {
    /// The contents of the frame.
    pub frame: PythonFrame,
    /// [`Interpreter::fingerprint`]
    pub fingerprint: u64,
    /// Counter of freed code objects when the code object at this address last had this fingerprint.
    seen: FreedCount,
    /// [`Interpreter::called_module`]
    pub module: usize,
    /// The module's class. Another module can be allocated at the address of a freed one.
    pub class: usize,
}

impl SeenFrame {
    /// True if the remembered frame's code object has this fingerprint; the frame then counts as seen at `now`.
    #[inline]
    fn matches_fingerprint(&mut self, fingerprint: u64, now: FreedCount) -> bool {
        let same = self.fingerprint == fingerprint;
        if same {
            self.seen = now;
        }
        same
    }
}

impl PartialEq for SeenFrame {
    /// Compare two frames without the times at which they were seen.
    fn eq(&self, other: &Self) -> bool {
        (self.frame, self.fingerprint, self.module, self.class)
            == (other.frame, other.fingerprint, other.module, other.class)
    }
}

impl Eq for SeenFrame {}

/// Frame that called the outermost compared frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OuterCaller {
    /// No caller: it is the first frame of its thread.
    Root,
    /// The calling frame.
    Frame(PythonFrame),
}

/// CPython version whose memory layout this module has as a constant; other versions can share the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SharedLayout {
    V311,
    /// Also 3.13.
    V312,
}

impl SharedLayout {
    /// Version whose constant layout equals `layout` in all fields that this module reads; `None` if there is none.
    pub(super) fn from_layout(layout: &Layout) -> Option<Self> {
        let is_like = |common: Layout| {
            // Fields that this module does not read may differ. So may the fingerprint fields of code objects without
            // version numbers, in versions that have numbers.
            let identifying = if layout.code_version.is_none() { *layout } else { common };
            let expected = Layout {
                frame_code: layout.frame_code,
                frame_previous: layout.frame_previous,
                frame_instruction: layout.frame_instruction,
                frame_locals: layout.frame_locals,
                frame_owner: layout.frame_owner,
                code_tag: layout.code_tag,
                code_first_line: layout.code_first_line,
                code_lines: layout.code_lines,
                code_version: layout.code_version,
                code_file: identifying.code_file,
                code_name: identifying.code_name,
                code_short_name: identifying.code_short_name,
                bytes_data: identifying.bytes_data,
                ..common
            };
            expected == common
        };
        [(V311, Self::V311), (V312, Self::V312)]
            .into_iter()
            .find_map(|(layout, common)| is_like(layout).then_some(common))
    }
}

impl Interpreter {
    /// Copy the current contents of a frame for later comparison.
    #[must_use]
    #[inline]
    pub fn copy_frame(&self, frame: PythonFrame) -> SeenFrame {
        let module = self.called_module(frame);
        let class = if module == 0 { 0 } else { self.class_of(module) };
        SeenFrame { frame, fingerprint: self.fingerprint(frame), seen: FreedCount::current(), module, class }
    }

    /// Copy the current contents of a frame at the address of an earlier copy, whose fingerprint is reused if the code
    /// object is unchanged. The frame is usually the same, some instructions later.
    #[must_use]
    #[inline]
    pub fn update_frame(&self, frame: PythonFrame, before: &SeenFrame) -> SeenFrame {
        let is_no_call = before.module == 0 && frame.code != WATCHED_CODE.load(Ordering::Relaxed);
        if is_no_call && before.frame.code == frame.code && before.seen.is_unchanged_until(FreedCount::current()) {
            return SeenFrame { frame, ..*before };
        }
        self.copy_frame(frame)
    }

    /// Compare `frame` and its callers with the earlier path `seen`, which is outermost first. Frames at the same
    /// address that have changed are added to `changed` with their index, innermost first. `None` if the address of a
    /// frame differs.
    #[inline]
    pub fn compare(
        &self,
        frame: PythonFrame,
        seen: &mut [SeenFrame],
        changed: &mut Vec<(usize, PythonFrame)>,
    ) -> Option<OuterCaller> {
        match self.frames_like {
            Some(SharedLayout::V311) => compare(&V311, frame, seen, changed),
            Some(SharedLayout::V312) => compare(&V312, frame, seen, changed),
            None => compare(&self.layout, frame, seen, changed),
        }
    }
}

/// Compare a frame and its callers with the path `seen`, with the offsets of `layout`; see [`Interpreter::compare`].
#[inline(always)]
fn compare(
    layout: &Layout,
    mut frame: PythonFrame,
    seen: &mut [SeenFrame],
    changed: &mut Vec<(usize, PythonFrame)>,
) -> Option<OuterCaller> {
    let (watched, now) = (WATCHED_CODE.load(Ordering::Relaxed), FreedCount::current());
    for (at, seen) in seen.iter_mut().enumerate().rev() {
        if seen.frame.address != frame.address {
            return None;
        }
        let module = layout.called_module(frame, watched);
        let same = seen.frame.code == frame.code
            && seen.frame.instruction == frame.instruction
            && (seen.seen.is_unchanged_until(now) || seen.matches_fingerprint(layout.fingerprint(frame), now))
            && seen.module == module
            && (module == 0 || seen.class == word(module + OBJECT_CLASS));
        if !same {
            changed.push((at, frame));
        }
        match layout.caller(frame) {
            Some(caller) => frame = caller,
            None if at == 0 => return Some(OuterCaller::Root),
            None => return None,
        }
    }
    Some(OuterCaller::Frame(frame))
}

#[cfg(test)]
mod tests {
    use super::{SharedLayout, V311, V312};
    use crate::python::layout::Layout;

    #[test]
    fn versions_share_layouts_with_equal_reads() {
        let common =
            |minor| Layout::for_version((3, minor), None).ok().and_then(|layout| SharedLayout::from_layout(&layout));
        assert_eq!(
            [10, 11, 12, 13].map(common),
            [None, Some(SharedLayout::V311), Some(SharedLayout::V312), Some(SharedLayout::V312)]
        );
        assert_eq!(SharedLayout::from_layout(&Layout { frame_locals: 88, ..V312 }), None);
        assert_eq!(SharedLayout::from_layout(&Layout { code_file: 88, ..V311 }), None, "it tells code objects apart");
        assert_eq!(
            SharedLayout::from_layout(&Layout { code_file: 88, ..V312 }),
            Some(SharedLayout::V312),
            "they have numbers"
        );
    }
}
