//! Byte offset of each event in its source, so that checks after reading can report the position of a wrong event.

use crate::diagnostics::Code;
use stackline_model::{EventId, MAX_OFFSETS, ReadReport};
use std::collections::BTreeMap;

/// Byte offsets of the events' records, and of the ends of the document's members. Each event takes four bytes: offsets
/// ascend, so the upper half is stored only where it changes.
#[derive(Debug, Default)]
pub(crate) struct ByteOffsets {
    low: Vec<u32>,
    /// Upper half of the offsets from a row on.
    high: Vec<(u32, u32)>,
    members: BTreeMap<String, u64>,
}

impl ByteOffsets {
    /// Append the byte offset of the next event's record.
    pub(crate) fn push(&mut self, offset: u64) {
        let high = (offset >> 32) as u32;
        if self.high.last().map_or(0, |&(_, h)| h) != high {
            self.high.push((self.low.len() as u32, high));
        }
        self.low.push(offset as u32);
    }

    /// Byte offset at which an event's record begins; `None` if the source has no offsets.
    pub(crate) fn offset_of(&self, event: EventId) -> Option<u64> {
        let low = *self.low.get(event.index())?;
        let after = self.high.partition_point(|&(row, _)| row <= event.0);
        let high = after.checked_sub(1).map_or(0, |i| self.high[i].1);
        Some(u64::from(high) << 32 | u64::from(low))
    }

    /// Store the byte offset at which the value of a document member ends. If a key repeats, the last offset is kept.
    pub(crate) fn set_member_end(&mut self, key: &str, offset: u64) {
        self.members.insert(key.to_owned(), offset);
    }

    /// Byte offset at which the value of a document member ends, by the member's key; `None` for an unknown key.
    pub(crate) fn member_end(&self, key: &str) -> Option<u64> {
        self.members.get(key).copied()
    }
}

/// Counter of events with the same problem, with the first of these events and an example.
#[derive(Debug, Default)]
pub(crate) struct ProblemTally {
    count: u64,
    /// First events, in ascending order.
    first: Vec<EventId>,
    example: String,
}

impl ProblemTally {
    /// Count an event. `example` is called only for the first one.
    pub(crate) fn add(&mut self, event: EventId, example: impl FnOnce() -> String) {
        self.count += 1;
        if self.example.is_empty() {
            self.example = example();
        }
        let at = self.first.partition_point(|&e| e < event);
        if at < MAX_OFFSETS {
            self.first.insert(at, event);
            self.first.truncate(MAX_OFFSETS);
        }
    }

    /// Add the counted events to the read report under this code, with the byte offsets of the first ones.
    pub(crate) fn report(&self, code: Code, places: &ByteOffsets, report: &mut ReadReport) {
        self.report_with_example(code, places, report, &self.example);
    }

    /// Add the counted events to the read report, with another example than the stored one.
    pub(crate) fn report_with_example(&self, code: Code, places: &ByteOffsets, report: &mut ReadReport, example: &str) {
        for &event in &self.first {
            code.count(report, places.offset_of(event), example);
        }
        code.count_many(report, self.count - self.first.len() as u64, None, example);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics;

    #[test]
    fn offsets_beyond_four_gigabytes_come_back() {
        let offsets = [0, 5, u64::from(u32::MAX), 1 << 32, (1 << 32) + 7, 9 << 32, (9 << 32) + 1];
        let mut places = ByteOffsets::default();
        offsets.iter().for_each(|&o| places.push(o));
        let back: Vec<u64> = (0..offsets.len()).filter_map(|i| places.offset_of(EventId::new(i))).collect();
        assert_eq!(back, offsets);
        assert_eq!(places.offset_of(EventId::new(offsets.len())), None);
    }

    #[test]
    fn earliest_offsets_are_reported() {
        let mut places = ByteOffsets::default();
        (0..20).for_each(|i| places.push(100 * i));
        let mut tally = ProblemTally::default();
        for row in [9, 3, 17, 1, 5, 2, 12] {
            tally.add(EventId::new(row), || format!("row {row}"));
        }
        let mut report = ReadReport::default();
        tally.report(diagnostics::CROSSING, &places, &mut report);
        let problem = &report.problems[0];
        assert_eq!((problem.count, &problem.offsets[..]), (7, &[100, 200, 300, 500, 900][..]));
        assert_eq!(problem.example, "row 9");
    }
}
