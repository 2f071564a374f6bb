//! Map from frames of call paths to their functions. In recordings, a call path names the running line of a function
//! (`train.py(11): load`), spans and samples its first line (`train.py(9): load`).

use stackline_model::names::python_frame;
use stackline_model::{EventId, EventKind, StrId, Trace};
use std::collections::BTreeMap;

/// Map from the frame names of a trace, which contain any line of a function, to the name of the function's spans.
pub struct FrameFunctions(Vec<StrId>);

impl FrameFunctions {
    /// Build the map from the names of all Python spans and samples of a trace. Of several functions with the same name
    /// in a file, a line belongs to the last one that begins at or before it.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        let mut known = vec![false; trace.strings.len()];
        let names_function =
            |event: &EventId| matches!(trace.kind(*event), EventKind::PythonFunction | EventKind::Sample);
        for event in trace.events.ids().filter(names_function) {
            if let Some(known) = known.get_mut(trace.events.name[event.index()].index()) {
                *known = true;
            }
        }
        let mut first_lines: BTreeMap<(&str, &str), BTreeMap<u32, StrId>> = BTreeMap::new();
        for (at, name) in trace.strings.iter().enumerate().filter(|(at, _)| known[*at]) {
            if let Some((file, line, function)) = python_frame(name) {
                first_lines.entry((file, function)).or_default().insert(line, StrId::new(at));
            }
        }
        let function = |(at, name): (usize, &str)| {
            let frame = python_frame(name).filter(|_| !known[at]);
            let around = frame.and_then(|(file, line, function)| {
                first_lines.get(&(file, function))?.range(..=line).next_back().map(|(_, &first)| first)
            });
            around.unwrap_or_else(|| StrId::new(at))
        };
        Self(trace.strings.iter().enumerate().map(function).collect())
    }

    /// Name of the spans of a frame's function; the frame's own name if the function has no spans.
    #[must_use]
    pub fn function_of(&self, name: StrId) -> StrId {
        self.0.get(name.index()).copied().unwrap_or(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::{Key, NewEvent, Phase, TrackKind, flags};

    #[test]
    fn running_lines_belong_to_the_function_that_begins_before_them() {
        let mut trace = Trace::default();
        let track = trace.tracks.track(Key::Int(1), Key::Int(1), TrackKind::Thread);
        for (source_index, name) in (0u32..).zip(["a.py(9): load", "a.py(30): load", "b.py(1): load"]) {
            let name = trace.strings.intern(name);
            trace.events.push(NewEvent {
                start: 0,
                dur: 1,
                track,
                name,
                category: StrId::NONE,
                kind: EventKind::PythonFunction,
                phase: Phase::Complete,
                flags: flags::HAS_DURATION,
                source_index,
            });
        }
        let frames = ["a.py(11): load", "a.py(30): load", "a.py(99): load", "a.py(8): load", "a.py(11): other"];
        let frames = frames.map(|name| trace.strings.intern(name));
        let functions = FrameFunctions::new(&trace);
        let found = frames.map(|frame| trace.strings.get(functions.function_of(frame)));
        // No known function begins at or before line 8, and `other` has no span.
        assert_eq!(found, ["a.py(9): load", "a.py(30): load", "a.py(30): load", "a.py(8): load", "a.py(11): other"]);
    }
}
