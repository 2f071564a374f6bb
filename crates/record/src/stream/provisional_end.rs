//! Provisional end of a stream whose process may be replaced by another program. No data can be written after the
//! replacement. If it fails, the end is removed and the stream continues.

use super::Stream;
use stackline_recording::Record;
use std::io;

impl Stream {
    /// Write a provisional end, by the replacement of the program at this time of `CLOCK_MONOTONIC`, valid until
    /// [`Self::retract_end`].
    ///
    /// # Errors
    /// If the file is not up to date. Counts of the missing records are written if they fit.
    pub(crate) fn end_provisionally(&mut self, monotonic_ns: i64) -> io::Result<()> {
        self.send();
        let written = self.output.flush();
        if !self.output.has_first_chunk() {
            // The first chunk did not fit: an end without it could not be read.
            return written;
        }
        let mark = self.output.mark();
        if let Some(outage) = mark.outage() {
            // As at any other end: a few bytes usually fit even if a chunk does not.
            for (what, count) in self.lost.clone() {
                self.push(&Record::Lost { what: what.into(), count });
            }
            self.push(&outage.into());
        }
        self.push(&Record::Replaced);
        self.push_end(monotonic_ns, None);
        self.send();
        self.provisional = Some(mark);
        written
    }

    /// Remove the provisional end, if there is one, because no other program replaced this one.
    pub(crate) fn retract_end(&mut self) {
        if let Some(mark) = self.provisional.take() {
            self.output.undo_since(mark);
        }
    }
}
