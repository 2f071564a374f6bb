//! Call paths of the C interface, from a per-thread cache (`DeepContext`, section 4.1: call path caching).
//!
//! Two consecutive paths usually differ only in their newest Python frames. The thread keeps the last path, in the
//! form that the tool receives. The next path is walked from its newest frame to the first frame at an address of the
//! last path. From there both paths are compared, frame by frame. All frames are compared, because an unchanged frame
//! can be a new call, made by a caller that has moved on. A changed frame is looked up by its instruction and the
//! fingerprint of its code. Only frames that the thread has never seen are described from the interpreter's memory.
//! Only strings that are new to the thread need a lock.

use crate::capi::{COMPILATION_FRAME, Frame, NATIVE_FRAME, NO_FRAME, OPERATOR_FRAME, PYTHON_FRAME};
use crate::capi_names::{intern, name_of};
use crate::dispatch::interpreter;
use crate::native;
use crate::path::{Sources, native_frames};
use crate::python::{Interpreter, OuterCaller, PythonFrame, SeenFrame};
use crate::thread::{OpenOperator, Thread};
use rustc_hash::FxHashMap;
use std::ffi::{CString, c_char};

/// Largest number of new frames above the last path. With more, the path is walked without the last one.
const MAX_NEW: usize = 32;
/// Slots for addresses of frames; a power of two.
const CACHE_SLOTS: usize = 256;
/// Limit of cached Python lines and native addresses per thread. The cache is cleared when it is full.
const MAX_KNOWN: usize = 1 << 14;

/// Cache of one thread's last call path, in the form that the C interface passes to tools.
#[derive(Debug)]
pub(crate) struct PathCache {
    /// The last path of Python frames, outermost first, and the same frames in the form of the tool.
    seen: Vec<SeenFrame>,
    frames: Vec<Frame>,
    /// Index of the frame at an address, which is only a hint.
    places: Box<[u16; CACHE_SLOTS]>,
    /// Scratch: frames above the last path, newest first.
    new: Vec<PythonFrame>,
    /// Scratch: frames that changed, with their index, innermost first.
    changed: Vec<(usize, PythonFrame)>,
    /// Python frames by instruction and fingerprint of their code.
    lines: FxHashMap<(usize, u64), Frame>,
    /// Native frames by address, and the generation of the module list that they belong to.
    natives: FxHashMap<usize, Frame>,
    generation: u32,
    /// Strings that did not fit into the table of kept strings. They live until the callback returns.
    short_lived: Vec<CString>,
}

impl Default for PathCache {
    fn default() -> Self {
        Self {
            seen: Vec::new(),
            frames: Vec::new(),
            places: Box::new([0; CACHE_SLOTS]),
            new: Vec::with_capacity(MAX_NEW),
            changed: Vec::with_capacity(MAX_NEW),
            lines: FxHashMap::default(),
            natives: FxHashMap::default(),
            generation: 0,
            short_lived: Vec::new(),
        }
    }
}

/// The tool's array of frames, to which a call path is written.
pub(crate) struct Output {
    pub(crate) frames: *mut Frame,
    pub(crate) capacity: usize,
    /// Number of frames so far, including those that did not fit.
    pub(crate) length: usize,
}

impl Output {
    /// Append frames to the tool's array; those that do not fit are only counted.
    #[inline]
    fn put(&mut self, frames: &[Frame]) {
        let count = frames.len().min(self.capacity.saturating_sub(self.length));
        if count > 0 {
            // SAFETY: the tool's array has room for `capacity` frames, and does not overlap with ours.
            unsafe { self.frames.add(self.length).copy_from_nonoverlapping(frames.as_ptr(), count) };
        }
        self.length += frames.len();
    }
}

impl PathCache {
    /// Write the thread's current call path (Python, operators, native frames) to the tool's array, outermost first.
    pub(crate) fn write(&mut self, thread: &Thread, sources: Sources, output: &mut Output) {
        let newest = interpreter().and_then(Interpreter::newest);
        let count = match (interpreter(), newest) {
            (Some(interpreter), Some(newest)) if sources.python => self.refresh(interpreter, newest),
            _ => 0,
        };
        let native = if sources.native { native_frames(thread, newest) } else { Vec::new() };
        let among = native.first().map_or(thread.open.len(), |first| first.0.start);
        let mut placed = 0;
        for open in thread.open.iter().take(among) {
            let entered = open.python.and_then(|entered| self.index(entered, count));
            let upto = entered.map_or(placed, |at| placed.max(at + 1));
            output.put(self.frames.get(placed..upto).unwrap_or_default());
            placed = upto;
            if sources.operators {
                output.put(&[operator(open)]);
            }
        }
        output.put(self.frames.get(placed..count).unwrap_or_default());
        for (operators, addresses) in native {
            for address in addresses.into_iter().rev() {
                let frame = self.native(address);
                output.put(&[frame]);
            }
            for open in thread.open.get(operators).unwrap_or_default().iter().filter(|_| sources.operators) {
                output.put(&[operator(open)]);
            }
        }
    }

    /// Free the strings that live only during a callback, and clear the caches of frames that may use them.
    #[inline]
    pub(crate) fn callback_returned(&mut self) {
        if !self.short_lived.is_empty() {
            self.truncate(0);
            self.lines.clear();
            self.natives.clear();
            self.short_lived.clear();
        }
    }

    /// Keep only the outermost `length` frames of the cached path.
    fn truncate(&mut self, length: usize) {
        self.seen.truncate(length);
        self.frames.truncate(length);
    }

    /// Index of a Python call among the first `count` frames of the cached path.
    #[inline]
    fn index(&self, entered: PythonFrame, count: usize) -> Option<usize> {
        let seen = self.seen.get(..count)?;
        let at = usize::from(self.places[(entered.address >> 4) % CACHE_SLOTS]);
        if seen.get(at).is_some_and(|seen| seen.frame.is_same_call(entered)) {
            return Some(at);
        }
        seen.iter().rposition(|seen| seen.frame.is_same_call(entered))
    }

    /// Update the cached path to the Python frames up to `newest`, and return their number.
    fn refresh(&mut self, interpreter: &Interpreter, newest: PythonFrame) -> usize {
        let Some(top) = self.compare(interpreter, newest) else { return self.rebuild(interpreter, newest) };
        while let Some((at, frame)) = self.changed.pop() {
            let seen = interpreter.update_frame(frame, &self.seen[at]);
            self.frames[at] = self.line(interpreter, &seen);
            self.seen[at] = seen;
        }
        if self.new.is_empty() {
            // A longer old path is kept, because the next operator may come from deeper frames again.
            return top + 1;
        }
        self.truncate(top + 1);
        self.push_new(interpreter, 0);
        self.seen.len()
    }

    /// Compare the Python frames from `newest` outwards with the cached path. Collect new and changed frames, and
    /// return the index of the innermost cached frame whose address is unchanged. `None` if the frames outside of it
    /// differ in their addresses.
    #[inline]
    fn compare(&mut self, interpreter: &Interpreter, newest: PythonFrame) -> Option<usize> {
        self.new.clear();
        self.changed.clear();
        let mut frame = newest;
        let top = loop {
            let at = usize::from(self.places[(frame.address >> 4) % CACHE_SLOTS]);
            if self.seen.get(at).is_some_and(|seen| seen.frame.address == frame.address) {
                break at;
            }
            if self.new.len() == MAX_NEW {
                return None;
            }
            self.new.push(frame);
            frame = interpreter.caller(frame)?;
        };
        let beyond = interpreter.compare(frame, self.seen.get_mut(..=top)?, &mut self.changed)?;
        (beyond == OuterCaller::Root).then_some(top)
    }

    /// Append the frames in `self.new` to the cached path, except the `skip` outermost ones.
    fn push_new(&mut self, interpreter: &Interpreter, skip: usize) {
        let new = std::mem::take(&mut self.new);
        for &frame in new.iter().rev().skip(skip) {
            let seen = interpreter.copy_frame(frame);
            let line = self.line(interpreter, &seen);
            self.places[(frame.address >> 4) % CACHE_SLOTS] = self.seen.len() as u16;
            self.seen.push(seen);
            self.frames.push(line);
        }
        self.new = new;
    }

    /// Walk all Python frames, replace those of the cached path that differ, and return the number of frames.
    #[cold]
    fn rebuild(&mut self, interpreter: &Interpreter, newest: PythonFrame) -> usize {
        self.new.clear();
        self.new.extend(std::iter::successors(Some(newest), |&frame| interpreter.caller(frame)));
        let pairs = self.seen.iter().zip(self.new.iter().rev());
        let shared = pairs.take_while(|(seen, frame)| **seen == interpreter.copy_frame(**frame)).count();
        self.truncate(shared);
        self.push_new(interpreter, shared);
        self.seen.len()
    }

    /// C frame of a Python frame, from the cache or described from the interpreter's memory.
    fn line(&mut self, interpreter: &Interpreter, seen: &SeenFrame) -> Frame {
        let key = (seen.frame.instruction, seen.fingerprint);
        if let Some(&known) = self.lines.get(&key) {
            return known;
        }
        let line = interpreter.describe(seen.frame);
        let (name, file) = (self.string(&line.function), self.string(&line.file));
        let frame = Frame { kind: PYTHON_FRAME, name, file, line: line.line, ..NO_FRAME };
        if self.lines.len() == MAX_KNOWN {
            self.lines.clear();
        }
        self.lines.insert(key, frame);
        frame
    }

    /// C frame of a native address: library file and offset, without function name.
    fn native(&mut self, address: usize) -> Frame {
        let generation = native::generation();
        if self.generation != generation || self.natives.len() == MAX_KNOWN {
            self.natives.clear();
            self.generation = generation;
        }
        if let Some(&known) = self.natives.get(&address) {
            return known;
        }
        let module = native::module_at(address);
        let (file, offset) = module.map_or((NO_FRAME.file, 0), |module| {
            (self.string(&module.path.to_string_lossy()), (address - module.range.start) as u64)
        });
        let frame = Frame { kind: NATIVE_FRAME, file, address: address as u64, offset, ..NO_FRAME };
        self.natives.insert(address, frame);
        frame
    }

    /// C string with this text: an interned one, or if the table is full one that lives until the callback returns.
    fn string(&mut self, text: &str) -> *const c_char {
        let Ok(text) = CString::new(text) else { return c"".as_ptr() };
        match intern(&text) {
            Some(copy) => copy.as_ptr(),
            None => {
                let pointer = text.as_ptr();
                self.short_lived.push(text);
                pointer
            }
        }
    }
}

/// C frame of an operator or compilation in progress.
fn operator(open: &OpenOperator) -> Frame {
    let kind = if open.is_compilation() { COMPILATION_FRAME } else { OPERATOR_FRAME };
    Frame { kind, name: name_of(open), ..NO_FRAME }
}
