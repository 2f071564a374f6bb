//! Call paths of the calling thread, merged from Python frames, operators and native frames (`DeepContext`, section
//! 4.1).

use crate::dispatch::interpreter;
use crate::native::{self, Module, NativeStack, Registers, Segment, WalkEnd};
use crate::python::{PythonFrame, PythonLine};
use crate::thread::{OpenOperator, Thread};
use std::ops::Range;
use std::sync::Arc;

/// Choice of the frames that a call path contains: Python frames, operators, native frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Python frames.
    pub python: bool,
    /// Operators and compilations in progress.
    pub operators: bool,
    /// Native frames between the interpreter and the caller, after [`crate::start_native`].
    pub native: bool,
}

/// One frame of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathFrame {
    /// A line of Python.
    Python(PythonLine),
    /// An operator in progress, by its index on the shadow stack.
    Operator(usize),
    /// A function of C, C++, Rust or another compiled language.
    Native(NativeFrame),
}

/// Native function in progress: an address, and the library that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeFrame {
    /// An address within the call instruction. The symbols of the module give the function.
    pub address: usize,
    /// The library or program that contains it; `None` for code that was generated at run time.
    pub module: Option<Arc<Module>>,
}

/// Walker of one thread's native stack.
#[derive(Debug)]
pub(crate) struct Walker {
    stack: NativeStack,
    /// Address range of the thread's stack.
    begin: usize,
    end: usize,
}

/// The current call path, outermost frame first. Call it only from a callback.
///
/// An operator is shown below the Python frames that were running at its begin, and above the frames that it called
/// (a backward hook, a custom function). Native frames are those between the innermost Python frame, or the start of
/// the thread, and the caller. They are merged by their addresses on the stack, where operators are, too: an operator
/// is shown below the native frame that called it. Frames of `DLMonitor` and of the tool are left out.
#[must_use]
pub fn call_path(thread: &Thread, sources: Sources) -> Vec<PathFrame> {
    let newest = interpreter().and_then(crate::Interpreter::newest);
    let frames = if sources.python { python_frames(newest) } else { Vec::new() };
    let native = if sources.native { native_frames(thread, newest) } else { Vec::new() };
    let among = native.first().map_or(thread.open.len(), |first| first.0.start);

    let mut path = Vec::with_capacity(frames.len() + thread.open.len());
    let mut placed = 0;
    for (index, open) in thread.open.iter().enumerate().take(among) {
        let entered = open.python.and_then(|entered| frames.iter().rposition(|frame| frame.is_same_call(entered)));
        let upto = entered.map_or(placed, |at| placed.max(at + 1));
        path.extend(frames[placed..upto].iter().map(describe));
        placed = upto;
        if sources.operators {
            path.push(PathFrame::Operator(index));
        }
    }
    path.extend(frames[placed..].iter().map(describe));
    for (operators, addresses) in native {
        path.extend(addresses.into_iter().rev().map(native_frame));
        path.extend(operators.filter(|_| sources.operators).map(PathFrame::Operator));
    }
    path
}

/// Addresses of the calling thread's native frames in segments between operators, each with the range of `thread.open`
/// that it called. Segments are outermost first, frames of a segment innermost first.
pub(crate) fn native_frames(thread: &Thread, newest: Option<PythonFrame>) -> Vec<(Range<usize>, Vec<usize>)> {
    let at = Registers::here();
    let Ok(mut walker) = thread.walker.try_borrow_mut() else { return Vec::new() };
    let walker = walker.get_or_insert_with(|| {
        let (begin, end) = native::stack_bounds().unwrap_or_default();
        Box::new(Walker { stack: NativeStack::new(), begin, end })
    });
    if at.sp.saturating_sub(walker.begin) < native::LEAST_STACK || !walker.stack.prepare() {
        return Vec::new();
    }
    let mark = interpreter().map_or(0, |interpreter| interpreter.stack_mark(newest));
    let mut segments = walker.segments(&thread.open, at, mark);
    if let Some((_, innermost)) = segments.last_mut() {
        if thread.begins {
            // Frames that run now belong to the begin of the operator.
            innermost.clear();
        } else {
            remove_own_frames(innermost);
        }
    }
    segments
}

impl Walker {
    /// Walk the stack from `at` to the interpreter's frame at `mark`, split at the operators in `open`; outermost part
    /// first, as in [`native_frames`].
    fn segments(&mut self, open: &[OpenOperator], at: Registers, mark: usize) -> Vec<(Range<usize>, Vec<usize>)> {
        let limit = if (at.sp..self.end).contains(&mark) { mark } else { self.end };
        // Operators in this part of the stack, innermost first. For objects on the heap the position is unknown.
        let here = |open: &OpenOperator| (at.sp..limit).contains(&open.handle);
        let places: Vec<usize> = (0..open.len()).rev().filter(|&index| here(&open[index])).collect();
        let mut segments = Vec::with_capacity(places.len() + 1);
        let (mut from, mut below) = (at.sp, open.len()..open.len());
        for bound in places.into_iter().map(Some).chain([None]) {
            let handle = bound.map_or(0, |index| open[index].handle);
            let segment = Segment { at, from, bounds: [handle, mark], end: self.end };
            let ended = self.walk(&segment);
            segments.push((below, self.stack.frames().to_vec()));
            let (Some(index), Some(WalkEnd::AtBound)) = (bound, ended) else { break };
            (from, below) = (handle, index..segments.last().map_or(open.len(), |inner| inner.0.start));
        }
        segments.reverse();
        segments
    }

    /// Walk the native frames of a stack segment. If the walk gets lost, renew the module list and retry, because a
    /// library may have been loaded since.
    fn walk(&mut self, segment: &Segment) -> Option<WalkEnd> {
        let ended = self.stack.walk_segment(segment);
        let unknown = |address: &usize| native::module_at(*address).is_none();
        if ended != Some(WalkEnd::Lost) && !self.stack.frames().iter().any(unknown) {
            return ended;
        }
        native::renew();
        self.stack.walk_segment(segment)
    }
}

/// Remove the frames of the callback: from here to the last frame of this library.
fn remove_own_frames(frames: &mut Vec<usize>) {
    let Some(own) = native::module_at(remove_own_frames as *const () as usize) else { return };
    // At most a tool and the standard library are between the hook and this function.
    const MAX_OWN_FRAMES: usize = 24;
    if let Some(last) = frames.iter().take(MAX_OWN_FRAMES).rposition(|address| own.range.contains(address)) {
        frames.drain(..=last);
    }
}

/// Path frame of a native address, with the library that contains it.
fn native_frame(address: usize) -> PathFrame {
    PathFrame::Native(NativeFrame { address, module: native::module_at(address) })
}

/// Python frames from the outermost to the given innermost frame; empty without it, or if Python frames are off.
fn python_frames(newest: Option<PythonFrame>) -> Vec<PythonFrame> {
    let Some(interpreter) = interpreter() else { return Vec::new() };
    let mut frames: Vec<_> = std::iter::successors(newest, |&frame| interpreter.caller(frame)).collect();
    frames.reverse();
    frames
}

/// Path frame of a running Python frame, with its function, file and line.
fn describe(frame: &PythonFrame) -> PathFrame {
    PathFrame::Python(interpreter().map(|interpreter| interpreter.describe(*frame)).unwrap_or_default())
}
