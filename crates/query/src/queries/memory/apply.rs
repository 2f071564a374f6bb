//! Query of the memory in use that is predicted with some suggestions applied.

use super::suggestions;
use crate::memory::Memory;
use crate::prefetch::Stage;
use crate::{Answer, Arguments, OpenRun, QueryError};
use serde::Serialize;
use stackline_memory::replay::Replay;
use stackline_memory::suggest::Suggestion;
use stackline_memory::tables::{self, NamedPeak};
use stackline_model::MemoryDeviceId;

/// Predicted peaks with some suggestions applied; the predicted memory in use is in the columns.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct AppliedPage<'a> {
    device: u32,
    /// Numbers of the suggestions, from 1.
    numbers: Vec<usize>,
    peaks: Vec<AtPeak<'a>>,
}

/// Bytes in use at a memory peak, without and with suggestions applied.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(super) struct AtPeak<'a> {
    name: &'a str,
    device: u32,
    before: u64,
    /// Below 0 if more is saved than there was.
    after: i64,
}

impl<'a> AtPeak<'a> {
    pub(super) fn new(NamedPeak { name, device, peak }: &'a NamedPeak, after: i64) -> Self {
        Self { name, device: device.0, before: peak.bytes, after }
    }
}

/// Answer the query for the memory in use with some suggestions applied.
pub(crate) fn answer(opened: &OpenRun, arguments: &Arguments) -> Result<Answer, QueryError> {
    let memory = super::memory(opened, arguments)?;
    let device = super::device(memory, arguments)?;
    let mut numbers: Vec<usize> = Vec::new();
    for number in arguments.numbers("apply")? {
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    let none = |number| {
        let count = memory.ranked.len();
        QueryError::missing(format!("there is no suggestion {number}: the run has {count} suggestions"))
    };
    let table = tables::apply(&memory.trace, &memory.ranked, &numbers).map_err(none)?;
    let selected: Vec<Suggestion> =
        numbers.iter().filter_map(|number| Some(memory.ranked.get(number - 1)?.suggestion.clone())).collect();
    let curve = super::curve::values(&applied(memory, device, &selected).curve());
    let page = AppliedPage { device: device.0, numbers, peaks: at_peaks(memory, &selected) };
    let columns = super::curve::columns(&[&curve], arguments)?;
    Ok(Answer { columns, ..super::printed(memory, &[table], &page)? })
}

/// Replay a device's memory with as many of the suggestions applied as can be combined.
fn applied<'a>(memory: &'a Memory, device: MemoryDeviceId, selected: &'a [Suggestion]) -> Replay<'a> {
    let mut replay = Replay::new(&memory.trace, device, selected);
    for at in 0..selected.len() {
        replay.apply(at);
    }
    replay
}

/// Bytes in use at each recorded peak, without and with suggestions applied. With suggestions, the highest use may be
/// at another time.
fn at_peaks<'a>(memory: &'a Memory, selected: &[Suggestion]) -> Vec<AtPeak<'a>> {
    let mut replays: Vec<(MemoryDeviceId, Replay<'_>)> = Vec::new();
    let mut rows = Vec::new();
    for peak in &memory.peaks {
        let at = replays.iter().position(|(device, _)| *device == peak.device).unwrap_or_else(|| {
            replays.push((peak.device, applied(memory, peak.device, selected)));
            replays.len() - 1
        });
        let after = replays[at].1.at(peak.peak.position.0);
        rows.push(AtPeak::new(peak, i64::try_from(after).unwrap_or(i64::MAX)));
    }
    rows
}

/// Suggestions whose effect alone is at hand.
const ALONE: usize = 12;

/// Prefetched arguments of the query for predicted memory: the suggestions that together lower the peak most, and the
/// first ones one by one.
pub(crate) fn first(opened: &OpenRun, stage: Stage) -> Vec<Arguments> {
    let (Stage::MemoryOf(device), Ok(memory)) = (stage, opened.memory(None)) else { return Vec::new() };
    let Some(whole) = super::whole_of_device(opened, device) else { return Vec::new() };
    let together = suggestions::combination(memory);
    let alone = (1..=suggestions::count(memory).min(ALONE)).map(|one| vec![one]).filter(|one| *one != together);
    let lists = Some(together.clone()).filter(|list| !list.is_empty()).into_iter().chain(alone);
    let text = |list: Vec<usize>| list.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    lists.map(|list| whole.clone().with("apply", &text(list))).collect()
}
