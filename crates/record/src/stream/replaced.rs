//! The end of a stream whose process may be replaced by another program: nobody can write after that, and where it fails, the stream
//! goes on as if nothing had been written.

use super::Stream;
use stackline_recording::Record;
use std::io;

impl Stream {
    /// Says that another program takes the place of this one, at this time of `CLOCK_MONOTONIC`, until [`Self::take_back_end`].
    ///
    /// # Errors
    /// If the file is not up to date. What it lacks stands in it, if there is room for that.
    pub(crate) fn end_provisionally(&mut self, monotonic_ns: i64) -> io::Result<()> {
        self.send();
        let written = self.output.flush();
        if !self.output.has_first_chunk() {
            // The first chunk found no room: an end without it could not be read.
            return written;
        }
        let mark = self.output.mark();
        if let Some(outage) = mark.outage() {
            // As at any other end: a few bytes mostly fit where a chunk does not.
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

    /// No other program took the place of this one: the stream goes on where it was.
    pub(crate) fn take_back_end(&mut self) {
        if let Some(mark) = self.provisional.take() {
            self.output.take_back(mark);
        }
    }
}
