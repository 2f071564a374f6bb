//! Integrity checks that make unchecked indexing safe: every handle of a trace refers to an existing row, columns are
//! equally long, and parents have no cycle. They run before writing and after reading, because files are not trusted.

use stackline_model::{EventId, Key, StrId, Trace};

/// Check all handles of a trace before it is written: texts, arguments, tracks and rows.
pub(crate) fn trace(trace: &Trace) -> Result<(), String> {
    texts(trace, &trace.events.name, "events.name")?;
    texts(trace, &trace.events.category, "events.category")?;
    attributes(trace)?;
    tracks(trace)?;
    texts(trace, &trace.links.category, "links.category")?;
    texts(trace, &trace.stacks.name, "frames.frame")?;
    texts(trace, &trace.stacks.category, "frames.category")?;
    rows(trace)
}

/// Check the row references of events, GPU operations, links, stacks and steps of a trace, because files may contain
/// wrong ones. Text handles come from the reader.
pub(crate) fn rows(trace: &Trace) -> Result<(), String> {
    let events = trace.events.len();
    trace.events.check()?;
    trace.gpu.check()?;
    let tracks = trace.events.track.iter().fold(0, |most, t| t.0.max(most)) as usize;
    if events > 0 && tracks >= trace.tracks.len() {
        return Err(format!("events.track refers to track {tracks}, but there are only {} tracks", trace.tracks.len()));
    }
    refs(&trace.events.parent, events, "events.parent")?;
    parents_end(trace)?;
    gpu(trace)?;
    links(trace)?;
    stacks(trace)?;
    check_all(&trace.steps, |s| s.event.is_none() || s.event.index() < events, "steps.event")
}

/// Check that `holds` is true for all values of a column; the error names the first wrong row.
fn check_all<T>(values: &[T], holds: impl Fn(&T) -> bool, column: &str) -> Result<(), String> {
    match values.iter().position(|v| !holds(v)) {
        None => Ok(()),
        Some(row) => Err(format!("row {row} of {column} refers to an entry that does not exist")),
    }
}

/// Check that all event handles of a column refer to existing events.
fn refs(values: &[EventId], events: usize, column: &str) -> Result<(), String> {
    // "None" wraps to 0, so that one maximum (which the compiler vectorizes) covers both cases.
    let most = values.iter().fold(0, |most, e| e.0.wrapping_add(1).max(most)) as usize;
    let wrong = || format!("{column} refers to event {}, but there are only {events} events", most - 1);
    if most <= events { Ok(()) } else { Err(wrong()) }
}

/// Check that all text handles of a column refer to existing strings.
fn texts(trace: &Trace, values: &[StrId], column: &str) -> Result<(), String> {
    let strings = trace.strings.len();
    check_all(values, |s| s.is_none() || s.index() < strings, column)
}

/// Check that the parents of events form no cycle. Parents usually come first in time order, which excludes cycles; if
/// a source violates that, the chains are followed.
fn parents_end(trace: &Trace) -> Result<(), String> {
    let (start, dur, parent) = (&trace.events.start, &trace.events.dur, &trace.events.parent);
    let rank = |i: usize| (start[i], std::cmp::Reverse(dur[i]), i);
    let ordered = parent.iter().enumerate().all(|(i, p)| {
        // In nearly all cases the start times decide.
        p.is_none() || start[p.index()] < start[i] || rank(p.index()) < rank(i)
    });
    if ordered { Ok(()) } else { check_parents(parent) }
}

/// Check by following each chain of parents that none is a cycle.
fn check_parents(parent: &[EventId]) -> Result<(), String> {
    // 0: not visited, otherwise the number of the walk that visited it.
    let mut met = vec![0u32; parent.len()];
    for first in 0..parent.len() {
        let walk = first as u32 + 1;
        let mut at = first;
        while met[at] == 0 {
            met[at] = walk;
            match parent[at].some() {
                Some(next) => at = next.index(),
                None => break,
            }
        }
        if met[at] == walk && parent[at].is_some() {
            return Err(format!("the parents of events form a cycle, which contains event {at}"));
        }
    }
    Ok(())
}

/// Check that each event has an argument layout, and that argument keys and text values exist.
fn attributes(trace: &Trace) -> Result<(), String> {
    let (shapes, shape, values) = trace.attrs.columns();
    if shape.len() != trace.events.len() {
        return Err(format!("the trace has {} events, but arguments for {} events", trace.events.len(), shape.len()));
    }
    let strings = trace.strings.len();
    let known = |s: u64| s == u64::from(u32::MAX) || s < strings as u64;
    for (id, shape) in shapes.iter().enumerate() {
        check_all(&shape.fields, |(key, _)| key.index() < strings, &format!("the argument names of shape {id}"))?;
    }
    // Only layouts with text need their values checked.
    let has_text: Vec<bool> = shapes.iter().map(|s| s.fields.iter().any(|f| is_text(f.1))).collect();
    let mut from = 0;
    for id in shape {
        let fields = &shapes[id.index()].fields;
        let run = &values[from..from + fields.len()];
        from += fields.len();
        if has_text[id.index()] && !fields.iter().zip(run).all(|(f, &raw)| !is_text(f.1) || known(raw)) {
            return Err("an event argument refers to a text that does not exist".to_owned());
        }
    }
    Ok(())
}

/// True if values of this type are handles of texts.
fn is_text(kind: stackline_model::AttrType) -> bool {
    matches!(kind, stackline_model::AttrType::Str | stackline_model::AttrType::Json)
}

/// Check the text handles of processes and tracks, and the processes of tracks.
fn tracks(trace: &Trace) -> Result<(), String> {
    let strings = trace.strings.len();
    let text = |s: StrId| s.is_none() || s.index() < strings;
    let key = |k: Key| !matches!(k, Key::Str(s) if s.index() >= strings);
    let t = &trace.tracks;
    check_all(&t.processes, |p| key(p.pid) && text(p.name) && text(p.labels), "processes")?;
    let known = |i: stackline_model::ProcessId| i.index() < t.processes.len();
    check_all(&t.tracks, |t| known(t.process) && key(t.tid) && text(t.name), "tracks")
}

/// Check that the events, launches, operators and steps of GPU operations exist, and that the operations are in the
/// order of events.
fn gpu(trace: &Trace) -> Result<(), String> {
    let (g, events) = (&trace.gpu, trace.events.len());
    check_all(&g.event, |e| e.index() < events, "gpu.event")?;
    if !g.event.is_sorted() {
        return Err("the event numbers in gpu.event are not in ascending order".to_owned());
    }
    refs(&g.launch, events, "gpu.launch")?;
    refs(&g.operator, events, "gpu.operator")?;
    refs(&g.python, events, "gpu.python")?;
    refs(&g.module, events, "gpu.module")?;
    refs(&g.annotation, events, "gpu.annotation")?;
    check_all(&g.step, |s| *s == u32::MAX || (*s as usize) < trace.steps.len(), "gpu.step")
}

/// Check that links are sorted, and that their events exist.
fn links(trace: &Trace) -> Result<(), String> {
    let (links, events) = (&trace.links, trace.events.len());
    links.check()?;
    check_all(&links.from, |e| e.index() < events, "links.from")?;
    check_all(&links.to, |e| e.index() < events, "links.to")
}

/// Check the prefix tree of stacks, and that the events with stacks exist.
fn stacks(trace: &Trace) -> Result<(), String> {
    trace.stacks.check()?;
    check_all(&trace.stacks.event, |e| e.index() < trace.events.len(), "event_stacks.event")
}
