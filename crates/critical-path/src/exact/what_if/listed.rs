//! Selectors that list events by number, as text: for events that a rule or a program selected individually.
//!
//! Example `events:12,15..18,[30-34],(40-44)`: event 12; events 15 to 18; the time of a thread from the start of event
//! 30 to the end of event 34; the time from the end of event 40 to the start of event 44. Numbers are positions in the
//! source's list of events, as in all documents.

use stackline_model::{EventId, Trace};
use std::fmt::Write;

/// Individually selected events, and time ranges of threads between events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    /// GPU operations, waiting calls, spans of threads.
    pub events: Vec<EventId>,
    /// Time of a thread from the start of one event to the end of another one on the same thread.
    pub ranges: Vec<(EventId, EventId)>,
    /// Time of a thread from the end of one event to the start of another one.
    pub between: Vec<(EventId, EventId)>,
}

/// Events and time ranges by position in the source's list of events, ascending.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Listed {
    /// First and last number of each run of events.
    events: Vec<(u32, u32)>,
    ranges: Vec<(u32, u32)>,
    between: Vec<(u32, u32)>,
}

pub(super) const GRAMMAR: &str = "write event numbers, separated by commas: 5, 3..7 (events 3 to 7), [3-7] (time from \
                                  the start of event 3 to the end of event 7) or (3-7) (time between events 3 and 7)";

impl Listed {
    /// Parse the list of event positions and time ranges that follows `events:` in a selector.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut listed = Self::default();
        for item in text.split(',').map(str::trim) {
            let pair = |text: &str, between: &str| {
                let (first, last) = text.split_once(between)?;
                Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
            };
            let inside = |open: char, close: char| item.strip_prefix(open)?.strip_suffix(close);
            let (to, found) = if let Some(inner) = inside('[', ']') {
                (&mut listed.ranges, pair(inner, "-"))
            } else if let Some(inner) = inside('(', ')') {
                (&mut listed.between, pair(inner, "-"))
            } else {
                let one = item.parse().ok().map(|number: u32| (number, number));
                (&mut listed.events, one.or_else(|| pair(item, "..")).filter(|(first, last)| first <= last))
            };
            to.push(found.ok_or_else(|| format!("{item:?} is not an event: {GRAMMAR}"))?);
        }
        Ok(listed)
    }

    /// Listed event numbers that the trace lacks, as text: ends of time ranges, and runs of which no event exists.
    pub(super) fn missing(&self, trace: &Trace) -> Vec<String> {
        let numbers = &trace.events.source_index;
        let has = |number: &u32| numbers.binary_search(number).is_ok();
        let is_empty = |&&(first, last): &&(u32, u32)| {
            numbers.partition_point(|&n| n < first) == numbers.partition_point(|&n| n <= last)
        };
        let run =
            |&(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}..{last}") };
        let ends = self.ranges.iter().chain(&self.between).flat_map(|&(first, last)| [first, last]);
        let mut ends: Vec<u32> = ends.filter(|number| !has(number)).collect();
        ends.sort_unstable();
        ends.dedup();
        self.events.iter().filter(is_empty).map(run).chain(ends.iter().map(u32::to_string)).collect()
    }

    /// Find the listed events in a trace.
    ///
    /// Numbers without event are ignored. The rest of a list is still replayed, and each event counts once.
    pub(super) fn resolve(&self, trace: &Trace) -> Chosen {
        let numbers = &trace.events.source_index;
        let event = |number: u32| numbers.binary_search(&number).ok().map(EventId::new);
        let pair = |&(first, last): &(u32, u32)| Some((event(first)?, event(last)?));
        let run = |&(first, last): &(u32, u32)| {
            numbers.partition_point(|&n| n < first)..numbers.partition_point(|&n| n <= last)
        };
        Chosen {
            events: sorted_unique(self.events.iter().flat_map(run).map(EventId::new)),
            ranges: sorted_unique(self.ranges.iter().filter_map(pair)),
            between: sorted_unique(self.between.iter().filter_map(pair)),
        }
    }
}

/// Sort a list and remove duplicates.
fn sorted_unique<T: Ord>(listed: impl Iterator<Item = T>) -> Vec<T> {
    let mut listed: Vec<T> = listed.collect();
    listed.sort_unstable();
    listed.dedup();
    listed
}

/// Text of a selector that lists exactly the chosen events.
pub(super) fn text_of(trace: &Trace, chosen: &Chosen) -> String {
    let number = |event: EventId| trace.events.source_index[event.index()];
    let mut text = "events:".to_owned();
    let mut add = |open: &str, first: u32, between: &str, last: u32, close: &str| {
        let comma = if text.ends_with(':') { "" } else { "," };
        let _ = write!(text, "{comma}{open}{first}");
        if !between.is_empty() {
            let _ = write!(text, "{between}{last}{close}");
        }
    };
    // Rows are adjacent if no event of the source lies between them.
    for run in chosen.events.chunk_by(|a, b| a.index() + 1 == b.index()) {
        let (first, last) = (number(run[0]), number(run[run.len() - 1]));
        add("", first, if first == last { "" } else { ".." }, last, "");
    }
    for (open, pairs, close) in [("[", &chosen.ranges, "]"), ("(", &chosen.between, ")")] {
        for &(first, last) in pairs {
            add(open, number(first), "-", number(last), close);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::{EventKind, NewEvent, Phase, StrId, TrackId};

    fn trace(numbers: &[u32]) -> Trace {
        let mut trace = Trace::default();
        for &source_index in numbers {
            trace.events.push(NewEvent {
                start: 0,
                dur: 1,
                track: TrackId::new(0),
                name: StrId::new(0),
                category: StrId::new(0),
                kind: EventKind::Operator,
                phase: Phase::Complete,
                flags: 0,
                source_index,
            });
        }
        trace
    }

    #[test]
    fn missing_positions_are_reported() {
        let trace = trace(&[0, 2, 3, 7]);
        let missing = |text: &str| Listed::parse(text).unwrap().missing(&trace);
        assert!(missing("0,2..3,[2-7],(0-3)").is_empty());
        // Other numbers of a run that contains an event are arbitrary.
        assert_eq!(missing("5,2..6,4..6,[2-9],(1-9)"), ["5", "4..6", "1", "9"]);
    }

    #[test]
    fn listed_events_round_trip() {
        let trace = trace(&[0, 2, 3, 7, 8, 9, 20]);
        let ids = |rows: &[usize]| rows.iter().map(|&row| EventId::new(row)).collect::<Vec<_>>();
        let pair = |a: usize, b: usize| (EventId::new(a), EventId::new(b));
        let chosen = Chosen { events: ids(&[0, 3, 4, 6]), ranges: vec![pair(1, 2)], between: vec![pair(2, 6)] };
        let text = text_of(&trace, &chosen);
        assert_eq!(text, "events:0,7..8,20,[2-3],(3-20)");
        assert_eq!(Listed::parse(text.strip_prefix("events:").unwrap()).unwrap().resolve(&trace), chosen);
        // Runs of rows whose numbers have gaps: a number without event is skipped.
        let chosen = Chosen { events: ids(&[1, 2, 3]), ..Chosen::default() };
        let text = text_of(&trace, &chosen);
        assert_eq!(text, "events:2..7");
        assert_eq!(Listed::parse("2..7").unwrap().resolve(&trace), chosen);
        assert_eq!(Listed::parse("4,[1-2]").unwrap().resolve(&trace), Chosen::default());
        // Events that are listed twice, or in overlapping runs, count once.
        let once = Listed::parse("3,7..9,[2-7],(3-9)").unwrap().resolve(&trace);
        for more in ["9,3,3,7..9,[2-7],(3-9)", "8..9,7..8,3..6,(3-9),[2-7],(3-9),[2-7]"] {
            assert_eq!(Listed::parse(more).unwrap().resolve(&trace), once, "{more}");
        }
        for bad in ["", "x", "3..", "4..3", "[3]", "[3..4]", "(3-4", "1;2", "-1"] {
            assert!(Listed::parse(bad).is_err(), "{bad}");
        }
    }
}
