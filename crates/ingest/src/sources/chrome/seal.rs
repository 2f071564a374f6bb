//! End of a document: closing of open spans, track names and stacks, then resolution and sealing of the trace.

use super::ReaderState;
use super::builder::Builder;
use crate::diagnostics;
use crate::sources::{device_rows, xprof};
use crate::{Error, ReadOptions, resolve};
use rustc_hash::FxHashSet;
use stackline_model::format::duration;
use stackline_model::{AttrTable, EventId, EventKind, StrId, Trace, TrackKind, flags};
use std::collections::BTreeMap;

impl Builder {
    /// Set the name and sort index of each track from the metadata of its process and thread ID.
    fn name_tracks(&mut self) {
        let tracks = &mut self.trace.tracks;
        for track in &mut tracks.tracks {
            let key = (tracks.processes[track.process.index()].pid, track.tid);
            if let Some(&(name, sort_index)) = self.threads.get(&key) {
                track.name = name;
                track.sort_index = sort_index;
            }
        }
    }

    /// Count that the text ended before the document did.
    pub(super) fn note_end(&mut self, place: ReaderState, offset: u64) {
        let report = &mut self.trace.report;
        match place {
            ReaderState::Events { member: false } => diagnostics::UNCLOSED.count(report, Some(offset), ""),
            ReaderState::Lost { .. } | ReaderState::Events { .. } | ReaderState::Members if !self.truncated => {
                diagnostics::TRUNCATED.count(report, Some(offset), "");
            }
            _ => {}
        }
    }

    /// Run the passes over the complete trace, and seal it; a document without any records is an error.
    pub(super) fn finish(mut self, name: &str, options: &ReadOptions) -> Result<Trace, Error> {
        if !self.saw_events && self.trace.report.records == 0 && !self.trace.meta.entries.is_empty() {
            return Err(super::header::no_events(name, &self.trace));
        }
        let is_void = self.trace.events.is_empty() && self.trace.tracks.processes.is_empty() && self.flows.is_empty();
        let ends = self.trace.report.count_of(diagnostics::UNMATCHED_END.code);
        if !self.saw_events && is_void && ends == 0 && !self.trace.report.is_clean() {
            return Err(super::header::no_records(name, &self.trace));
        }
        if self.trace.strings.is_full(1 << 20) {
            diagnostics::TABLE_FULL.count(&mut self.trace.report, None, "text");
        }
        self.name_tracks();
        device_rows::convert_rows(&mut self.trace);
        xprof::interpret(&mut self.trace);
        resolve::unset::mark(&mut self.trace, &self.places);
        if self.trace.report.count_of(diagnostics::DAMAGED_STREAM.code) > 0 {
            resolve::garbled::mark(&mut self.trace, &self.places, self.garbled);
        }
        resolve::host::mark(&mut self.trace, &self.places);
        self.close_open();
        self.merge_late_arguments();
        for (event, frame) in std::mem::take(&mut self.stack_of) {
            if let Some(&stack) = self.frame_ids.get(&self.trace.key_text(frame)) {
                self.trace.stacks.event.push(event);
                self.trace.stacks.stack.push(stack);
            }
        }
        self.count_unknown_categories();
        let Self { mut trace, flows, places, .. } = self;
        super::header::count_lost_data(&mut trace);
        resolve::resolve(&mut trace, flows, &places, options);
        note_last_record(&mut trace);
        Ok(trace)
    }

    /// Count the events of unknown categories that no rule of names gave a kind.
    fn count_unknown_categories(&mut self) {
        let mut found: BTreeMap<StrId, (u64, EventId)> =
            self.unknown_categories.iter().map(|&category| (category, (0, EventId::NONE))).collect();
        if found.is_empty() {
            return;
        }
        for event in self.trace.events.ids().filter(|&e| self.trace.kind(e) == EventKind::Other) {
            if let Some((count, first)) = found.get_mut(&self.trace.events.category[event.index()]) {
                *count += 1;
                if first.is_none() {
                    *first = event;
                }
            }
        }
        for (category, (count, first)) in found {
            let (text, offset) = (self.trace.strings.get(category).to_owned(), self.places.offset_of(first));
            diagnostics::UNKNOWN_CATEGORY.count_many(&mut self.trace.report, count, offset, &text);
        }
    }

    /// Extend unfinished spans to the last plausible time of a host event, and count them.
    fn close_open(&mut self) {
        // GPU records are not used, because their times may be absurd and would extend host spans.
        let events = &self.trace.events;
        let ended = |e: &EventId| {
            !events.has(*e, flags::UNFINISHED | flags::NO_TIME | flags::IMPLAUSIBLE)
                && self.trace.tracks.get(events.track[e.index()]).kind != TrackKind::Stream
        };
        let starts = events.ids().filter(|e| events.has(*e, flags::UNFINISHED) && events.is_plausible(*e));
        let starts = starts.map(|e| events.start[e.index()]);
        let end = events.ids().filter(ended).map(|e| events.end(e)).chain(starts).max().unwrap_or(0);
        let unfinished = |e: &EventId| self.trace.events.has(*e, flags::UNFINISHED);
        let open: Vec<EventId> = self.trace.events.ids().filter(unfinished).collect();
        for event in open {
            let row = event.index();
            self.trace.events.dur[row] = end.saturating_sub(self.trace.events.start[row]).max(0);
            self.trace.events.flags[row] |= flags::HAS_DURATION;
            let name = self.trace.strings.get(self.trace.events.name[row]);
            diagnostics::UNFINISHED.count(&mut self.trace.report, self.places.offset_of(event), name);
        }
    }

    /// Add the arguments of end records to those of their begin records.
    fn merge_late_arguments(&mut self) {
        if self.late.is_empty() {
            return;
        }
        self.late.sort_by_key(|(event, ..)| *event);
        let mut late = std::mem::take(&mut self.late).into_iter().peekable();
        let mut merged = AttrTable::new();
        for event in self.trace.events.ids() {
            let (mut fields, mut values) = (Vec::new(), Vec::new());
            let mut seen = FxHashSet::default();
            for (key, value) in self.trace.attrs.of_event(event) {
                let (kind, raw) = value.to_raw();
                fields.push((key, kind));
                values.push(raw);
                seen.insert((key, kind, raw));
            }
            while let Some((_, more, raw)) = late.next_if(|(e, ..)| *e == event) {
                for (field, raw) in more.into_iter().zip(raw) {
                    // Equal values of both records are kept once; if they differ, the end's value comes last and is
                    // valid.
                    if seen.insert((field.0, field.1, raw)) {
                        fields.push(field);
                        values.push(raw);
                    }
                }
            }
            merged.push(&fields, &values);
        }
        self.trace.attrs = merged;
    }
}

/// Report the last record of a truncated or damaged file with its time from the trace's start; other files stay as they
/// are.
fn note_last_record(trace: &mut Trace) {
    let breaks =
        [diagnostics::TRUNCATED, diagnostics::DAMAGED_STREAM, diagnostics::TOO_DAMAGED, diagnostics::TOO_LARGE_ENTRY];
    if breaks.iter().all(|code| trace.report.count_of(code.code) == 0) {
        return;
    }
    let (Some((start, _)), Some(last)) = (trace.span(), trace.events.ids().rfind(|&e| trace.events.is_plausible(e)))
    else {
        return;
    };
    let name = trace.strings.get(trace.events.name[last.index()]);
    let at = trace.events.start[last.index()].saturating_sub(start);
    let example = format!("{} at {}", name.chars().take(80).collect::<String>(), duration(at));
    diagnostics::LAST_RECORD.count(&mut trace.report, None, &example);
    trace.report.sort();
}
