//! Individual calls of format 1: three kinds of records that later formats combine into one.

use crate::{CallDetail, Record};
use std::collections::BTreeMap;

/// Converter of calls of format 1: keeps the details of a thread's next call until the record of the call.
#[derive(Debug, Default)]
pub(crate) struct V1Calls {
    next: BTreeMap<u32, CallDetail>,
}

impl V1Calls {
    /// Convert a record to the current format; `None` for details that become a part of a later record.
    #[inline]
    pub(crate) fn convert(&mut self, record: Record) -> Option<Record> {
        match record {
            Record::Sequence { .. } | Record::EventName { .. } | Record::Event { .. } => self.complete_call(record),
            record => Some(record),
        }
    }

    /// Keep a detail for the thread's next call and return `None`, or convert an event to a call with its details.
    fn complete_call(&mut self, record: Record) -> Option<Record> {
        match record {
            Record::Sequence { thread, delta, forward_thread } => {
                self.next.insert(thread, CallDetail::Autograd { delta, forward_thread });
                None
            }
            // A call with a name has no number. The number of the next call is a difference from each earlier one.
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

    /// Drop details that wait for their call, at the end of a chunk: all details of a call are in one chunk.
    pub(crate) fn drop_details(&mut self) {
        self.next.clear();
    }
}
