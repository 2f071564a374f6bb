//! Address on the C stack of the interpreter's innermost loop: C frames below it were called from that loop.

use super::layout::{Layout, LineTable, Newest};
use super::{Interpreter, PythonFrame, byte, word};

/// Offset of `cframe` in the thread state of 3.10. Frames of 3.10 have no link to it.
const CFRAME_310: usize = 48;

impl Layout {
    /// Offset, in a thread state, of the pointer to a record of the interpreter's loop on the C stack. `None` from 3.13
    /// on, where the loop has a frame on the C stack instead.
    pub(super) fn stack_mark_offset(&self) -> Option<usize> {
        match self.newest {
            Newest::ThroughCFrame(cframe, _) => Some(cframe),
            Newest::Direct(_) if self.line_table == LineTable::Deltas => Some(CFRAME_310),
            Newest::Direct(_) => None,
        }
    }
}

impl Interpreter {
    /// Address within the innermost frame of the interpreter's loop on the calling thread's C stack, 0 if unknown.
    /// `newest` is the thread's newest Python frame. Not signal-safe.
    #[must_use]
    #[inline]
    pub fn stack_mark(&self, newest: Option<PythonFrame>) -> usize {
        let Some(newest) = newest else { return 0 };
        if let Some(offset) = self.layout.stack_mark_offset() {
            // SAFETY: as in `newest`.
            let thread = unsafe { (self.this_thread)() } as usize;
            return if thread == 0 { 0 } else { word(thread + offset) };
        }
        let Some((owner, least)) = self.layout.frame_owner else { return 0 };
        let mut address = newest.address;
        while address != 0 && byte(address + owner) < least {
            address = word(address + self.layout.frame_previous);
        }
        address
    }
}
