//! Handling of the empty record with which XProf ends its event list.

use super::builder::Builder;
use super::record::{RawEvent, RecordHead};
use crate::diagnostics;

impl Builder {
    /// Check if the record is empty, and remember it: an empty record is an error only if another record follows.
    pub(super) fn is_empty_record(&mut self, offset: u64) -> bool {
        if let Some(before) = self.empty_record.take() {
            diagnostics::UNKNOWN_RECORD.count(&mut self.trace.report, Some(before), "");
        }
        let is_empty = self.raw.is_empty();
        self.empty_record = is_empty.then_some(offset);
        is_empty
    }
}

impl RawEvent {
    /// Check if a record of the event list has no members.
    fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.head == RecordHead::EMPTY
    }
}
