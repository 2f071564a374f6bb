//! Call paths of the C interface, from a cache of each thread (`DeepContext`, section 4.1: call path caching).
//!
//! Two paths in a row mostly share all but their newest Python frames. The thread keeps the last path with its frames as
//! they are handed out. The next path is walked from its newest frame to the first one that is at an address of the last
//! path; from there on both are compared, frame by frame. All of them: a frame that looks unchanged may have returned and
//! been entered anew, by a caller that has moved on. A frame that changed is looked up by its instruction and the
//! fingerprint of its code; only what the thread never saw is described from the interpreter's memory. No lock is taken
//! but for strings that are new to the thread.

use crate::capi::{COMPILATION_FRAME, Frame, NATIVE_FRAME, NO_FRAME, OPERATOR_FRAME, PYTHON_FRAME};
use crate::capi_names::{kept, name_of};
use crate::dispatch::interpreter;
use crate::native;
use crate::path::{Sources, native_frames};
use crate::python::{Beyond, Interpreter, PythonFrame, SeenFrame};
use crate::thread::{OpenOperator, Thread};
use rustc_hash::FxHashMap;
use std::ffi::{CString, c_char};

/// New frames above the last path; with more of them it is walked as if there had been none.
const MAX_NEW: usize = 32;
/// Places for addresses of frames; power of two.
const PLACES: usize = 256;
/// Lines of Python and native addresses that a thread knows; with more it forgets all.
const MAX_KNOWN: usize = 1 << 14;

/// The frames of one thread.
#[derive(Debug)]
pub(crate) struct PathCache {
    /// The last path of Python frames, outermost first, and the same as the tool gets it.
    seen: Vec<SeenFrame>,
    frames: Vec<Frame>,
    /// Index of the frame at an address; only a hint.
    places: Box<[u16; PLACES]>,
    /// Scratch: frames above the last path, newest first.
    new: Vec<PythonFrame>,
    /// Scratch: frames that changed, with their index, innermost first.
    changed: Vec<(usize, PythonFrame)>,
    /// Python frames by instruction and fingerprint of their code.
    lines: FxHashMap<(usize, u64), Frame>,
    /// Native frames by address, and the list of libraries that they are of.
    natives: FxHashMap<usize, Frame>,
    generation: u32,
    /// Strings that the table of kept strings had no room for; they live until the callback returns.
    short_lived: Vec<CString>,
}

impl Default for PathCache {
    fn default() -> Self {
        Self {
            seen: Vec::new(),
            frames: Vec::new(),
            places: Box::new([0; PLACES]),
            new: Vec::with_capacity(MAX_NEW),
            changed: Vec::with_capacity(MAX_NEW),
            lines: FxHashMap::default(),
            natives: FxHashMap::default(),
            generation: 0,
            short_lived: Vec::new(),
        }
    }
}

/// The tool's array.
pub(crate) struct Output {
    pub(crate) frames: *mut Frame,
    pub(crate) capacity: usize,
    /// Frames up to now, those without room included.
    pub(crate) length: usize,
}

impl Output {
    #[inline]
    fn put(&mut self, frames: &[Frame]) {
        let count = frames.len().min(self.capacity.saturating_sub(self.length));
        if count > 0 {
            // SAFETY: the tool's array has room for `capacity` frames, and is none of ours.
            unsafe { self.frames.add(self.length).copy_from_nonoverlapping(frames.as_ptr(), count) };
        }
        self.length += frames.len();
    }
}

impl PathCache {
    /// Write the path that leads to this moment, as [`crate::call_path`] has it.
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

    /// The callback returned: strings that live no longer go, and all frames with them.
    #[inline]
    pub(crate) fn callback_returned(&mut self) {
        if !self.short_lived.is_empty() {
            self.truncate(0);
            self.lines.clear();
            self.natives.clear();
            self.short_lived.clear();
        }
    }

    fn truncate(&mut self, length: usize) {
        self.seen.truncate(length);
        self.frames.truncate(length);
    }

    /// Index of this frame among the first so many of the path.
    #[inline]
    fn index(&self, entered: PythonFrame, count: usize) -> Option<usize> {
        let seen = self.seen.get(..count)?;
        let at = usize::from(self.places[(entered.address >> 4) % PLACES]);
        if seen.get(at).is_some_and(|seen| seen.frame.is_call(entered)) {
            return Some(at);
        }
        seen.iter().rposition(|seen| seen.frame.is_call(entered))
    }

    /// Make the first frames of the cache those of the path that ends with `newest`, and return how many they are.
    fn refresh(&mut self, interpreter: &Interpreter, newest: PythonFrame) -> usize {
        let Some(top) = self.compare(interpreter, newest) else { return self.anew(interpreter, newest) };
        while let Some((at, frame)) = self.changed.pop() {
            let seen = interpreter.see_again(frame, &self.seen[at]);
            self.frames[at] = self.line(interpreter, &seen);
            self.seen[at] = seen;
        }
        if self.new.is_empty() {
            // A longer old path stays: the next operator may come from deeper frames again.
            return top + 1;
        }
        self.truncate(top + 1);
        self.push_new(interpreter, 0);
        self.seen.len()
    }

    /// Gather the differences to the last path, and return the index of its innermost frame that is at an address of the
    /// new one. `None` if the paths do not run in parallel from there on.
    #[inline]
    fn compare(&mut self, interpreter: &Interpreter, newest: PythonFrame) -> Option<usize> {
        self.new.clear();
        self.changed.clear();
        let mut frame = newest;
        let top = loop {
            let at = usize::from(self.places[(frame.address >> 4) % PLACES]);
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
        (beyond == Beyond::Root).then_some(top)
    }

    /// Add the new frames, but for the outermost so many.
    fn push_new(&mut self, interpreter: &Interpreter, skip: usize) {
        let new = std::mem::take(&mut self.new);
        for &frame in new.iter().rev().skip(skip) {
            let seen = interpreter.see(frame);
            let line = self.line(interpreter, &seen);
            self.places[(frame.address >> 4) % PLACES] = self.seen.len() as u16;
            self.seen.push(seen);
            self.frames.push(line);
        }
        self.new = new;
    }

    /// Walk the whole path, and keep of the last one the outer frames that are the same.
    #[cold]
    fn anew(&mut self, interpreter: &Interpreter, newest: PythonFrame) -> usize {
        self.new.clear();
        self.new.extend(std::iter::successors(Some(newest), |&frame| interpreter.caller(frame)));
        let pairs = self.seen.iter().zip(self.new.iter().rev());
        let shared = pairs.take_while(|(seen, frame)| **seen == interpreter.see(**frame)).count();
        self.truncate(shared);
        self.push_new(interpreter, shared);
        self.seen.len()
    }

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

    /// A kept string, or one that lives until the callback returns.
    fn string(&mut self, text: &str) -> *const c_char {
        let Ok(text) = CString::new(text) else { return c"".as_ptr() };
        match kept(&text) {
            Some(kept) => kept.as_ptr(),
            None => {
                let pointer = text.as_ptr();
                self.short_lived.push(text);
                pointer
            }
        }
    }
}

fn operator(open: &OpenOperator) -> Frame {
    let kind = if open.is_compilation() { COMPILATION_FRAME } else { OPERATOR_FRAME };
    Frame { kind, name: name_of(open), ..NO_FRAME }
}
