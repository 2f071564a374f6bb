//! Search for the launches to which CUDA event records and stream waits refer (section 2.5 D), in all rows of the view.

use super::build::Builder;
use super::names::{EVENT_RECORD, LAUNCH, WAIT_CALL};
use crate::WarningCode;
use rustc_hash::FxHashMap;
use stackline_model::{AttrColumn, Key, TrackId};
use stackline_timeline::hta_view::number;
use std::hash::Hash;

/// Launch call before each CUDA event record and after each stream wait, as rows of HTA's view.
#[derive(Default)]
pub(super) struct Waits {
    /// Last launch at or before a `cudaEventRecord` on its stream, by the record's correlation ID.
    before_record: FxHashMap<i64, u32>,
    /// Next launch of the thread at or after a `cudaStreamWaitEvent` on the waiting stream, by the row of the wait.
    after_wait: FxHashMap<u32, u32>,
    /// Correlation ID of the awaited event record, by the row of a synchronization record.
    recorded_by: FxHashMap<u32, i64>,
}

impl Waits {
    /// Row of the launch call of the kernel that a synchronization record waits for; `None` if unknown.
    pub(super) fn waited_launch(&self, sync_row: usize) -> Option<usize> {
        let record = self.recorded_by.get(&(sync_row as u32))?;
        self.before_record.get(record).map(|&r| r as usize)
    }

    /// Row of the launch call that the wait of a stream delays: the next one on this stream; `None` without one.
    pub(super) fn next_launch(&self, wait_call: usize) -> Option<usize> {
        self.after_wait.get(&(wait_call as u32)).map(|&r| r as usize)
    }
}

/// Times and rows of launches, ascending, by target.
type Launches<K> = FxHashMap<K, Vec<(i64, u32)>>;

impl Builder<'_> {
    /// Find the launch call of each CUDA event record and of each stream wait.
    pub(super) fn find_waits(&mut self) -> Waits {
        let mut waits = Waits::default();
        let stream = self.trace.attr("wait_on_stream");
        let record = self.trace.attr("wait_on_cuda_event_record_corr_id");
        if !record.exists() {
            return waits;
        }
        let places = self.event_record_streams(&stream, &record, &mut waits);
        if !places.is_empty() {
            let launches = self.launches(|b, _, gpu| (b.pid(gpu), b.view.stream[gpu]));
            for row in self.rows_named(EVENT_RECORD) {
                let correlation = self.view.correlation[row as usize];
                let Some(place) = places.get(&correlation) else { continue };
                let list = launches.get(place).map_or(&[][..], Vec::as_slice);
                let after = list.partition_point(|&(start, _)| start <= self.view.start[row as usize]);
                if let Some(&(_, launch)) = after.checked_sub(1).and_then(|i| list.get(i)) {
                    waits.before_record.insert(correlation, launch);
                }
            }
        }
        self.find_next_launches(&mut waits);
        waits
    }

    /// Process (the device in GPU rows) and stream of each CUDA event record, by its correlation ID, from
    /// synchronization records.
    fn event_record_streams(
        &mut self,
        stream: &AttrColumn<'_>,
        record: &AttrColumn<'_>,
        waits: &mut Waits,
    ) -> FxHashMap<i64, (Key, i64)> {
        let mut places: FxHashMap<i64, (Key, i64)> = FxHashMap::default();
        let mut conflicts = 0;
        for row in 0..self.view.len() {
            let event = self.view.event[row];
            let correlation = number(record, event, self.trace);
            if correlation == -1 {
                continue;
            }
            waits.recorded_by.insert(row as u32, correlation);
            let stream = number(stream, event, self.trace);
            if stream <= -1 {
                continue;
            }
            let place = (self.pid(row), stream);
            conflicts += usize::from(*places.entry(correlation).or_insert(place) != place);
        }
        self.warn(WarningCode::AmbiguousRecord, conflicts);
        places
    }

    /// Find the next launch on the waiting stream for each stream wait call, and add it to `waits`.
    fn find_next_launches(&mut self, waits: &mut Waits) {
        let calls = self.rows_named(WAIT_CALL);
        if calls.is_empty() {
            return;
        }
        let launches = self.launches(|b, launch, gpu| (b.track(launch), b.view.stream[gpu]));
        for call in calls {
            let Some(sync) = self.view.partner_of(call as usize) else { continue };
            if self.view.stream[sync] == -1 || self.view.partner_of(sync).is_none() {
                continue;
            }
            let Some(list) = launches.get(&(self.track(call as usize), self.view.stream[sync])) else { continue };
            let next = list.partition_point(|&(start, _)| start < self.view.start[call as usize]);
            if let Some(&(_, launch)) = list.get(next) {
                waits.after_wait.insert(call, launch);
            }
        }
    }

    /// Launches with linked GPU work, by a key from the rows of launch and GPU work, each list sorted by (start, row).
    fn launches<K: Hash + Eq>(&mut self, key: impl Fn(&Self, usize, usize) -> K) -> Launches<K> {
        let mut launches: Launches<K> = FxHashMap::default();
        for row in self.rows_named(LAUNCH) {
            let Some(gpu) = self.view.partner_of(row as usize) else { continue };
            if self.view.stream[gpu] == -1 || self.view.partner_of(gpu).is_none() {
                continue;
            }
            launches.entry(key(self, row as usize, gpu)).or_default().push((self.view.start[row as usize], row));
        }
        #[expect(clippy::iter_over_hash_type, reason = "each list is sorted on its own")]
        for list in launches.values_mut() {
            list.sort_unstable();
        }
        launches
    }

    /// Rows of the whole view whose names have a classification bit.
    fn rows_named(&mut self, bit: u16) -> Vec<u32> {
        (0..self.view.len() as u32).filter(|&row| self.bits(row as usize) & bit != 0).collect()
    }

    /// Track of the event in a row of the view.
    fn track(&self, row: usize) -> TrackId {
        self.trace.events.track[self.view.event[row].index()]
    }

    /// Process of the event in a row of the view.
    fn pid(&self, row: usize) -> Key {
        self.trace.tracks.pid(self.track(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hta::names::Names;
    use crate::hta::{HtaOptions, roi};
    use stackline_timeline::hta_view::HtaView;

    /// Check C8: three event records are resolved, the third one to the launch of correlation 27.
    #[test]
    fn records_of_a_real_trace() {
        let file = "kineto/nvidia-a100-event-sync-multi-stream.json.gz";
        let Some(path) = stackline_testkit::corpus::file(file) else { return };
        let bytes = std::fs::read(path).unwrap();
        let trace = stackline_ingest::read_bytes("t.json.gz", &bytes, &Default::default()).unwrap();
        let (view, options) = (HtaView::load(&trace, false), HtaOptions::default());
        let mut names = Names::new(&trace, &options);
        let roi = roi::select(&trace, &view, &mut names, &options).unwrap();
        let waits = Builder::new(&trace, &view, names, &roi.kept, &options).find_waits();
        let mut records: Vec<(i64, i64)> =
            waits.before_record.iter().map(|(&record, &launch)| (record, view.correlation[launch as usize])).collect();
        records.sort_unstable();
        assert_eq!((records.len(), records[2]), (3, (1385, 27)));
    }
}
