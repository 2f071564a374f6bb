//! Region of interest: the analyzed time window and its rows of HTA's view (section 2.2 of the specification).

use super::HtaOptions;
use super::names::{ANNOTATION, Names, STREAM_WAIT};
use crate::nearest::nearest_annotations;
use crate::{CriticalPathError, Instances};
use stackline_model::{EventId, Trace};
use stackline_timeline::hta_view::HtaView;

/// Analyzed time window, and the rows of HTA's view in it.
pub(super) struct Roi {
    /// Rows of the view in the analysis, ascending.
    pub(super) kept: Vec<u32>,
    /// Window in ns, both ends included.
    pub(super) window: (i64, i64),
    /// Number of requested instances that do not exist.
    pub(super) missing_instances: usize,
}

/// Select the analyzed window and the rows of HTA's view in it.
pub(super) fn select(
    trace: &Trace,
    view: &HtaView,
    names: &mut Names<'_>,
    options: &HtaOptions,
) -> Result<Roi, CriticalPathError> {
    let (window, missing_instances) = if options.annotation.is_empty() {
        let start = view.start.iter().copied().min().unwrap_or(0);
        let end = view.end.iter().copied().max().unwrap_or(0);
        ((start, end), 0)
    } else {
        annotated_window(trace, view, names, options)?
    };
    Ok(Roi { kept: rows_in_window(trace, view, names, window), window, missing_instances })
}

/// Window of the selected instances of an annotation: first start, last end, and number of missing instances. Instances
/// are counted in HTA's row order, not in time order.
fn annotated_window(
    trace: &Trace,
    view: &HtaView,
    names: &mut Names<'_>,
    options: &HtaOptions,
) -> Result<((i64, i64), usize), CriticalPathError> {
    let (from, to) = match options.instance {
        None => (0, 0),
        Some(Instances::One(n)) => (n, n),
        Some(Instances::Range(from, to)) if from <= to => (from, to),
        Some(Instances::Range(from, to)) => return Err(CriticalPathError::EmptyRange { from, to }),
    };
    let mut window: Option<(i64, i64)> = None;
    let mut count = 0;
    for row in view.rows_in_hta_order() {
        if names.flags(trace.events.name[view.event[row].index()]) & ANNOTATION == 0 {
            continue;
        }
        if (from..=to).contains(&count) {
            let (start, end) = (view.start[row], view.end[row]);
            window = Some(window.map_or((start, end), |(s, e)| (s.min(start), e.max(end))));
        }
        count += 1;
    }
    match window {
        Some(window) => Ok((window, (to + 1).saturating_sub(count))),
        None if is_left_out(trace, names, options, from) => {
            Err(CriticalPathError::LastStepLeftOut { annotation: options.annotation.clone(), instance: from })
        }
        None => Err(out_of_range(trace, options, from, count)),
    }
}

/// True if an instance exists only in the last profiler step, which the rules exclude.
fn is_left_out(trace: &Trace, names: &mut Names<'_>, options: &HtaOptions, instance: usize) -> bool {
    if options.include_last_profiler_step || !trace.strings.iter().any(|s| s.contains(&options.annotation)) {
        return false;
    }
    let view = HtaView::load(trace, true);
    let mut is_meant = |e: EventId| names.flags(trace.events.name[e.index()]) & ANNOTATION != 0;
    view.event.iter().filter(|&&e| is_meant(e)).count() > instance
}

/// Error for an instance number of an annotation that does not exist. If no row matches at all, similar names help more
/// than a count of 0.
fn out_of_range(trace: &Trace, options: &HtaOptions, instance: usize, count: usize) -> CriticalPathError {
    let annotation = options.annotation.clone();
    if count > 0 {
        return CriticalPathError::InstanceOutOfRange { annotation, instance, count };
    }
    CriticalPathError::AnnotationNotFound { nearest: nearest_annotations(trace, &annotation), annotation }
}

/// Rows to analyze: host rows that start inside the window, GPU rows linked from them at any time, and stream waits.
fn rows_in_window(trace: &Trace, view: &HtaView, names: &mut Names<'_>, window: (i64, i64)) -> Vec<u32> {
    let mut mark = vec![false; view.len()];
    let mut unlinked_call = false;
    for row in 0..view.len() {
        if view.stream[row] != -1 {
            // Stream waits are always kept.
            mark[row] |= names.flags(trace.events.name[view.event[row].index()]) & STREAM_WAIT != 0;
            continue;
        }
        if view.start[row] < window.0 || view.start[row] > window.1 || view.dur(row) <= 0 {
            continue;
        }
        mark[row] = true;
        match view.partner_of(row) {
            Some(partner) => mark[partner] |= view.stream[partner] != -1,
            None => unlinked_call |= view.correlation[row] >= 0,
        }
    }
    // HTA's number 0 for "correlation without partner" is also the index of the first event, so HTA keeps that event.
    if view.event.first().is_some_and(|e| trace.events.source_index[e.index()] == 0) {
        mark[0] |= unlinked_call && view.stream[0] != -1;
    }
    (0..view.len() as u32).filter(|&row| mark[row as usize]).collect()
}
