//! Single calls of format 1: three kinds of records that are one today.

use crate::{CallDetail, Record};
use std::collections::BTreeMap;

/// What was said of the next call of each thread.
#[derive(Debug, Default)]
pub(crate) struct V1Calls {
    next: BTreeMap<u32, CallDetail>,
}

impl V1Calls {
    /// The record as today's format has it; `None` if it is a part of one that follows.
    #[inline]
    pub(crate) fn complete(&mut self, record: Record) -> Option<Record> {
        match record {
            Record::Sequence { .. } | Record::EventName { .. } | Record::Event { .. } => self.complete_call(record),
            record => Some(record),
        }
    }

    fn complete_call(&mut self, record: Record) -> Option<Record> {
        match record {
            Record::Sequence { thread, delta, forward_thread } => {
                self.next.insert(thread, CallDetail::Autograd { delta, forward_thread });
                None
            }
            // Never of a call with a number; the number of the next call is a difference from each before.
            Record::EventName { thread, name } => {
                self.next.entry(thread).or_insert(CallDetail::Name(name));
                None
            }
            Record::Event { thread, node, start_delta_ns, duration_ns } => {
                let detail = self.next.remove(&thread).unwrap_or_default();
                Some(Record::Call { thread, node, start_delta_ns, duration_ns, detail })
            }
            record => Some(record),
        }
    }

    /// What was said of next calls is of none that follow: all that is said of a call stands in one chunk.
    pub(crate) fn forget(&mut self) {
        self.next.clear();
    }
}
