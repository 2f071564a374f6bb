//! Frames of span names as one thread remembers them. Those that names of a template share are mostly found without a
//! lock.

use crate::folding::{FOLDED, SeparateFrames, SpanFrame, write_template};
use crate::process::Process;
use rustc_hash::FxHashMap;
use std::ffi::CStr;
use std::sync::Arc;

/// Cache of one thread from the templates of span names to the frames that many names share.
#[derive(Debug, Default)]
pub(crate) struct FoldedNames {
    known: FxHashMap<Box<[u8]>, Known>,
    template: Vec<u8>,
}

/// A template whose further names share a frame, as one thread remembers it.
#[derive(Debug)]
struct Known {
    frame: u32,
    own: Arc<SeparateFrames>,
    /// Number of requests of the frame.
    hits: u64,
}

impl FoldedNames {
    /// Frame number of a span name that is new to the thread, with the bit [`FOLDED`] set if many names share the frame.
    #[cold]
    pub(crate) fn frame(&mut self, process: &Process, full: bool, name: &CStr) -> u32 {
        let varies = write_template(name.to_bytes(), &mut self.template);
        if varies && let Some(known) = self.known.get_mut(self.template.as_slice()) {
            if let Some(&own) = known.own.get(name.to_bytes()) {
                return own;
            }
            known.hits += 1;
            if known.hits.is_power_of_two() {
                process.keep_example(known.frame, &name.to_string_lossy());
            }
            return known.frame | FOLDED;
        }
        let (frame, choice) = process.span_frame(full, name, varies.then_some(self.template.as_slice()));
        if choice == SpanFrame::Template
            && let Some(own) = process.frames().span_names().shared(&self.template)
        {
            let known = Known { frame, own: Arc::clone(own), hits: 1 };
            self.known.insert(self.template.as_slice().into(), known);
        }
        if choice == SpanFrame::Own { frame } else { frame | FOLDED }
    }
}

#[cfg(test)]
mod tests {
    use super::{FOLDED, FoldedNames};
    use crate::folding::{MAX_NAMES_OF_TEMPLATE, MAX_SPANS, MAX_SPANS_BYTES};
    use crate::process::{ExtraData, Process};
    use std::collections::HashSet;
    use std::ffi::CString;

    #[test]
    fn names_with_few_numbers_keep_their_frames_and_others_share_one() {
        let process = Process::new(1 << 20, ExtraData::default());
        let (mut thread, mut other) = (FoldedNames::default(), FoldedNames::default());
        let name = |number: u32| CString::new(format!("layer {number}")).unwrap();
        let own: HashSet<u32> =
            (0..MAX_NAMES_OF_TEMPLATE as u32).map(|number| thread.frame(&process, false, &name(number))).collect();
        assert!(own.len() == MAX_NAMES_OF_TEMPLATE && own.iter().all(|frame| frame & FOLDED == 0));
        let folded = thread.frame(&process, false, &name(MAX_NAMES_OF_TEMPLATE as u32));
        assert_ne!(folded & FOLDED, 0);
        for number in MAX_NAMES_OF_TEMPLATE as u32..10_000 {
            assert_eq!(thread.frame(&process, false, &name(number)), folded);
            assert_eq!(other.frame(&process, true, &name(number)), folded, "on another thread, in a full tree");
        }
        assert!(own.contains(&other.frame(&process, false, &name(3))), "early names stay what they were");
        let frames = process.frames();
        let examples = frames.span_names().examples();
        assert_eq!((examples.len(), examples[0].first.as_str()), (1, "layer 64"));
        assert!(examples[0].version < 60 && examples[0].last.len() == "layer 9999".len(), "{examples:?}");
    }

    #[test]
    fn names_of_all_kinds_are_bounded() {
        let process = Process::new(1 << 20, ExtraData::default());
        let mut thread = FoldedNames::default();
        // Words of letters only.
        let word = |number: usize| -> CString {
            let letters: Vec<u8> = (0..5).map(|digit| b'g' + (number / 19_usize.pow(digit) % 19) as u8).collect();
            CString::new(letters).unwrap()
        };
        let frames: HashSet<u32> = (0..3 * MAX_SPANS).map(|at| thread.frame(&process, false, &word(at))).collect();
        assert_eq!(frames.len(), MAX_SPANS + 1);
        assert_eq!(frames.iter().filter(|&frame| frame & FOLDED != 0).count(), 1);
        assert!(process.frames().len() <= MAX_SPANS + 2 && thread.known.is_empty());
        let long = CString::new("x".repeat(MAX_SPANS_BYTES + 1)).unwrap();
        assert!(frames.contains(&thread.frame(&process, false, &long)), "however long they are");
    }
}
