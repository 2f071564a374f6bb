//! What the stream says of training steps as a whole: overhead of recording them, and when they ended.

use super::Stream;
use stackline_recording::{Overhead, Record, StepEnds};

impl Stream {
    /// Says what overhead was measured.
    pub(crate) fn overhead(&mut self, overhead: Option<Overhead>) {
        if let Some(overhead) = overhead.filter(|overhead| self.overhead.as_ref() != Some(overhead))
            && !self.output.is_blocked()
        {
            self.overhead = Some(overhead);
            self.push(&Record::Overhead(overhead));
            self.send();
        }
    }

    /// Says when steps ended.
    pub(crate) fn step_ends(&mut self, ends: Option<StepEnds>) {
        if let Some(ends) = ends.filter(|ends| self.step_ends.as_ref() != Some(ends))
            && !self.output.is_blocked()
        {
            self.step_ends = Some(ends);
            self.push(&Record::StepEnds(ends));
            self.send();
        }
    }
}
