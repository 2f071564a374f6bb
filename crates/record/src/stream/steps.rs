//! Records of training steps: their overhead and their ends.

use super::Stream;
use crate::window::{Ends, nanos};
use stackline_recording::{Overhead, Record, StepEnds};
use std::time::Duration;

impl Stream {
    /// Write the measured overhead of the recorder to the stream, if it changed and the file can be written.
    pub(crate) fn write_overhead(&mut self, overhead: Option<Overhead>) {
        if let Some(overhead) = overhead.filter(|overhead| self.overhead.as_ref() != Some(overhead))
            && !self.output.is_blocked()
        {
            self.overhead = Some(overhead);
            self.push(&Record::Overhead(overhead));
            self.send();
        }
    }

    /// Write the ends of steps of a recording that began at this time of `CLOCK_MONOTONIC`. Times count from the
    /// first record, as the end does: a forked child writes its first record long after its begin.
    pub(crate) fn write_step_ends(&mut self, ends: Option<Ends>, begin_ns: i64) {
        let from_ns = self.head.start_monotonic_ns;
        let since_head =
            |at: Duration| begin_ns.saturating_add(nanos(at)).saturating_sub(from_ns).max(0).cast_unsigned();
        let ends = ends.map(|Ends { count, first, last }| StepEnds {
            count,
            first_ns: since_head(first),
            last_ns: since_head(last),
        });
        if let Some(ends) = ends.filter(|ends| self.step_ends.as_ref() != Some(ends))
            && !self.output.is_blocked()
        {
            self.step_ends = Some(ends);
            self.push(&Record::StepEnds(ends));
            self.send();
        }
    }
}
