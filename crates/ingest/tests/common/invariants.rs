//! Invariants of every sealed trace, independent of its source. Shared by the tests and the fuzz targets.

use stackline_model::{AttrType, EventId, EventKind, Level, LinkKind, MAX_OFFSETS, StrId, Trace, flags};

/// Check all invariants; `Err` names the first violated one.
pub(crate) fn check(trace: &Trace) -> Result<(), String> {
    trace.events.check()?;
    trace.gpu.check()?;
    events(trace)?;
    parents(trace)?;
    order(trace)?;
    gpu(trace)?;
    links(trace)?;
    report(trace)
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn is_string(trace: &Trace, id: StrId) -> bool {
    id.is_none() || id.index() < trace.strings.len()
}

fn events(trace: &Trace) -> Result<(), String> {
    let table = &trace.events;
    ensure(trace.attrs.len() == table.len(), || format!("{} rows of arguments", trace.attrs.len()))?;
    for event in table.ids() {
        let row = event.index();
        ensure(table.dur[row] >= 0, || format!("{event:?} has a negative duration"))?;
        ensure(table.start[row].checked_add(table.dur[row]).is_some(), || format!("{event:?} ends beyond i64"))?;
        let is_timed = table.has(event, flags::HAS_DURATION);
        ensure(is_timed || table.dur[row] == 0, || format!("{event:?} has a duration and no flag for it"))?;
        ensure(table.track[row].index() < trace.tracks.len(), || format!("{event:?} lies on no track"))?;
        let (kind, level) = (table.kind[row], table.level[row]);
        let is_module = kind == EventKind::PythonFunction && level == Level::Layer;
        ensure(level == kind.level() || is_module, || format!("{event:?} of kind {kind:?} has level {level:?}"))?;
        ensure(is_string(trace, table.name[row]), || format!("{event:?} has no such name"))?;
        ensure(is_string(trace, table.category[row]), || format!("{event:?} has no such category"))?;
        ensure(row == 0 || table.source_index[row - 1] < table.source_index[row], || {
            format!("{event:?} stands before an earlier record")
        })?;
        for (key, value) in trace.attrs.of_event(event) {
            let (kind, raw) = value.to_raw();
            let is_text = matches!(kind, AttrType::Str | AttrType::Json);
            let text = StrId(raw as u32);
            ensure(!is_text || text.is_some() && is_string(trace, text), || format!("{event:?}: {value:?}"))?;
            ensure(key.is_some() && is_string(trace, key), || format!("{event:?}: {key:?}"))?;
        }
    }
    Ok(())
}

fn parents(trace: &Trace) -> Result<(), String> {
    let table = &trace.events;
    // Parents come first in this total order, so there are no cycles.
    let place = |e: EventId| (table.start[e.index()], std::cmp::Reverse(table.dur[e.index()]), e);
    for event in table.ids() {
        let Some(parent) = table.parent[event.index()].some() else { continue };
        let wrong = || format!("parent of {event:?} is {parent:?}");
        ensure(parent.index() < table.len() && place(parent) < place(event), wrong)?;
        ensure(table.track[parent.index()] == table.track[event.index()], wrong)?;
        ensure(table.is_plausible(parent) && table.is_plausible(event), wrong)?;
        ensure(table.end(parent) > table.start[event.index()], wrong)?;
        let sticks_out = table.end(event) > table.end(parent);
        ensure(!sticks_out || table.has(event, flags::CROSSING), || format!("{event:?} crosses {parent:?} unmarked"))?;
    }
    Ok(())
}

fn order(trace: &Trace) -> Result<(), String> {
    let mut met = vec![false; trace.events.len()];
    for track in trace.tracks.ids() {
        let mut last = None;
        for &event in trace.track_events(track) {
            ensure(trace.events.track[event.index()] == track, || format!("{event:?} is not of {track:?}"))?;
            ensure(!std::mem::replace(&mut met[event.index()], true), || format!("{event:?} is there twice"))?;
            let start = trace.events.start[event.index()];
            ensure(last.is_none_or(|l| l <= start), || format!("{event:?} is out of order"))?;
            last = Some(start);
        }
    }
    ensure(met.iter().all(|&m| m), || "a track lacks an event".to_owned())
}

fn gpu(trace: &Trace) -> Result<(), String> {
    let work: Vec<EventId> = trace.events.ids().filter(|&e| trace.kind(e).is_gpu_work()).collect();
    ensure(work == trace.gpu.event, || "the GPU table has not the rows that it should".to_owned())?;
    for row in 0..trace.gpu.len() {
        let table = &trace.gpu;
        let is = |id: EventId, test: &dyn Fn(EventKind) -> bool| id.some().is_none_or(|e| test(trace.kind(e)));
        let fine = is(table.launch[row], &EventKind::is_api_call)
            && is(table.operator[row], &|k| k == EventKind::Operator)
            && is(table.python[row], &|k| k == EventKind::PythonFunction)
            && is(table.module[row], &|k| k == EventKind::PythonFunction)
            && is(table.annotation[row], &|k| k == EventKind::Annotation)
            && (table.step[row] == u32::MAX || (table.step[row] as usize) < trace.steps.len());
        ensure(fine, || format!("GPU row {row} has an owner of the wrong kind"))?;
    }
    Ok(())
}

fn links(trace: &Trace) -> Result<(), String> {
    trace.links.check()?;
    for (from, to, category) in LinkKind::ALL.iter().flat_map(|kind| trace.links.of_kind(*kind)) {
        let fine = from.index() < trace.events.len() && to.index() < trace.events.len() && is_string(trace, category);
        ensure(fine, || format!("link from {from:?} to {to:?}"))?;
    }
    let stacks = &trace.stacks;
    stacks.check()?;
    ensure(stacks.event.is_sorted(), || "stacks are not in the order of events".to_owned())?;
    ensure(trace.steps.is_sorted_by_key(|s| s.start), || "steps are out of order".to_owned())
}

fn report(trace: &Trace) -> Result<(), String> {
    let report = &trace.report;
    ensure(report.events == trace.events.len() as u64, || format!("{} events reported", report.events))?;
    let last = trace.events.source_index.last().map_or(0, |&i| u64::from(i) + 1);
    ensure(report.records >= last, || format!("{} records reported, {last} met", report.records))?;
    for problem in &report.problems {
        let fine = problem.count > 0
            && problem.offsets.len() <= MAX_OFFSETS
            && problem.offsets.iter().all(|&o| o <= report.bytes)
            && problem.example.chars().count() <= if problem.each_matters() { 400 } else { 120 };
        ensure(fine, || format!("{problem:?} in {} bytes", report.bytes))?;
    }
    let sorted = report.problems.is_sorted_by(|a, b| (b.severity, &a.code) < (a.severity, &b.code));
    ensure(sorted, || "problems are out of order".to_owned())
}
