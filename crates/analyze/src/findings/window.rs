//! The window that findings are about: the steps without warm-up, or all of the trace.

use super::startup;
use crate::Scope;
use crate::critical_path::CriticalPathError;
use crate::critical_path::exact::{Exact, WindowChoice};
use crate::steps;
use stackline_model::{Step, Trace};
use std::collections::BTreeSet;

/// The window that findings of a trace are about, how many steps are in it (0 if the trace has none), and what the reader should know.
///
/// # Errors
/// If the trace has no such steps, or nothing with a time.
pub fn window(trace: &Trace, scope: &Scope) -> Result<(WindowChoice, usize, Vec<String>), CriticalPathError> {
    window_of(&Exact::new(trace), scope)
}

/// The same where the graph is there.
pub(super) fn window_of(
    exact: &Exact<'_>,
    scope: &Scope,
) -> Result<(WindowChoice, usize, Vec<String>), CriticalPathError> {
    let (choice, steps, notes) = choose(exact.trace(), scope);
    let choice = match (exact.window(&choice), choice) {
        // Work of the GPU that was launched before may end after all of the steps.
        (Err(CriticalPathError::EmptyWindow), WindowChoice::StepsWithWork(from, to)) => {
            let choice = WindowChoice::Steps(from, to);
            exact.window(&choice)?;
            choice
        }
        (window, choice) => window.map(|_| choice)?,
    };
    Ok((choice, steps, notes))
}

/// All of the trace, or its steps without a first one that warms up.
pub(crate) fn choose(trace: &Trace, scope: &Scope) -> (WindowChoice, usize, Vec<String>) {
    // Several processes may have steps of one number.
    let count = |from: i64, to: i64| {
        let timed = trace.steps.iter().filter(|s| s.end > s.start && (from..=to).contains(&s.number));
        timed.map(|s| s.number).collect::<BTreeSet<i64>>().len()
    };
    if let Some((from, to)) = scope.steps {
        return (WindowChoice::StepsWithWork(from, to), count(from, to), Vec::new());
    }
    let spans = steps::spans(trace, |gpu| trace.events.is_timed(trace.gpu.event[gpu.index()]));
    let timed: Vec<(&Step, i64)> = trace
        .steps
        .iter()
        .zip(spans)
        .filter(|(s, _)| s.end > s.start)
        .map(|(s, (from, to))| (s, to.saturating_sub(from)))
        .collect();
    let [(first, length), rest @ ..] = timed.as_slice() else {
        let (choice, notes) = startup::window(trace);
        return (choice, 0, notes);
    };
    let lengths: Vec<i64> = rest.iter().map(|(_, length)| *length).collect();
    let is_warm_up = rest.len() >= 2 && steps::is_warm_up(*length, &lengths);
    // Other processes have a step of its number, too, while it warms up.
    let numbers = || timed.iter().map(|(s, _)| s.number).filter(|&number| !is_warm_up || number != first.number);
    let (Some(from), Some(to)) = (numbers().min(), numbers().max()) else {
        return (WindowChoice::Whole, 0, Vec::new());
    };
    let note = is_warm_up.then(|| {
        format!(
            "step {} took {} times as long as the middle one of those after it and is left out, as a first one that warms up: --steps says otherwise",
            first.number,
            length / steps::middle(&lengths).unwrap_or(1).max(1)
        )
    });
    (WindowChoice::StepsWithWork(from, to), count(from, to), note.into_iter().collect())
}
