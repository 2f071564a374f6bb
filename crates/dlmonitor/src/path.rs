//! Call paths of the calling thread: Python frames with the operators in between.

use crate::dispatch::interpreter;
use crate::python::{PythonFrame, PythonLine};
use crate::thread::Thread;

/// Which frames a path shall have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Python frames.
    pub python: bool,
    /// Open operators.
    pub operators: bool,
}

/// One frame of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathFrame {
    /// A line of Python.
    Python(PythonLine),
    /// An operator that runs, by its place on the shadow stack.
    Operator(usize),
}

/// The path that leads to this moment, outermost frame first. Call it from within a callback only.
///
/// An operator stands below the Python frames that were running when it began, and above those that it led to (a
/// backward hook, a custom function).
#[must_use]
pub fn call_path(thread: &Thread, sources: Sources) -> Vec<PathFrame> {
    let frames = if sources.python { python_frames() } else { Vec::new() };
    let mut path = Vec::with_capacity(frames.len() + thread.open.len());
    let mut placed = 0;
    for (index, open) in thread.open.iter().enumerate() {
        let entered = open.python.and_then(|entered| frames.iter().rposition(|frame| frame.address == entered.address));
        let upto = entered.map_or(placed, |at| placed.max(at + 1));
        path.extend(frames[placed..upto].iter().map(describe));
        placed = upto;
        if sources.operators {
            path.push(PathFrame::Operator(index));
        }
    }
    path.extend(frames[placed..].iter().map(describe));
    path
}

/// Outermost first.
fn python_frames() -> Vec<PythonFrame> {
    let Some(interpreter) = interpreter() else { return Vec::new() };
    let mut frames: Vec<_> = std::iter::successors(interpreter.newest(), |&frame| interpreter.caller(frame)).collect();
    frames.reverse();
    frames
}

fn describe(frame: &PythonFrame) -> PathFrame {
    PathFrame::Python(interpreter().map(|interpreter| interpreter.describe(*frame)).unwrap_or_default())
}
