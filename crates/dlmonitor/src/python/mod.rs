//! Python frames, read directly from the interpreter's memory: no GIL, no reference counts, no allocation while
//! walking.
//!
//! In a synchronous callback, the frames of the own thread cannot change, with or without the GIL, and keep their
//! code objects alive. They can therefore be read as plain memory. A signal handler must not do that, because a frame
//! may be partly constructed (see `crate::python::signal_safe_frames`, which reads through the kernel).

pub(crate) mod audit;
mod compare;
mod describe;
pub(crate) mod embedded;
mod freed;
mod interpreter_stack_bound;
mod layout;
mod lines;
mod memory;
mod sampled_code;
mod signal_safe_frames;

use crate::symbols;
use layout::{Instruction, Layout, Newest};
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

pub use compare::{OuterCaller, SeenFrame};
pub use describe::PythonLine;
pub use memory::Memory;
pub use sampled_code::SampledCode;
pub use signal_safe_frames::{FrameSampler, MAX_SAMPLED, SampledFrame, Walk};

/// Copy of a Python frame; valid as long as the frame runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PythonFrame {
    /// Address of the frame itself.
    pub address: usize,
    /// Address of its code object.
    pub code: usize,
    /// Position in the code: the address of its instruction (from 3.11) or a number that is unique within the code
    /// (3.10).
    pub instruction: usize,
}

impl PythonFrame {
    /// True if two copies are of the same call, as far as is known. Another call may have the address of a frame that
    /// returned.
    #[inline]
    pub(crate) fn is_same_call(&self, seen: Self) -> bool {
        self.address == seen.address && self.code == seen.code
    }
}

/// Code object whose calls are calls of a module, 0 if there is none.
static WATCHED_CODE: AtomicUsize = AtomicUsize::new(0);
/// `ob_type` of objects and `tp_name` of classes, the same in all supported versions.
const OBJECT_CLASS: usize = 8;
const CLASS_NAME: usize = 24;
/// `ob_size` of objects of variable length.
const BYTES_LENGTH: usize = 16;
/// The hash of a text object, the same in all supported versions; -1 until it is first needed, for example for
/// interning.
const TEXT_HASH: usize = 24;

/// CPython interpreter of this process, with the layout of its frames.
#[derive(Clone, Copy, Debug)]
pub struct Interpreter {
    layout: Layout,
    frames_like: Option<compare::SharedLayout>,
    version: (u8, u8),
    this_thread: unsafe extern "C" fn() -> *const c_void,
    /// Types for samples, if the interpreter exports them.
    types: Option<signal_safe_frames::Types>,
}

impl Interpreter {
    /// Find the interpreter that is loaded in this process and the layout of its frames, and count its freed code
    /// objects from now on.
    ///
    /// # Errors
    /// A sentence with the reason why its frames cannot be read: no interpreter, or an unsupported version.
    pub fn find() -> Result<Self, String> {
        let version = running_version().ok_or("no Python interpreter in this process")?;
        let this_thread = symbols::global(c"PyGILState_GetThisThreadState")
            .ok_or("the interpreter does not export PyGILState_GetThisThreadState")?;
        let runtime = symbols::global(c"_PyRuntime").filter(|_| version >= (3, 13)).map(|runtime| {
            // SAFETY: `_PyRuntime` is larger than its table of offsets and lives as long as the process; the table is
            // constant and 8-byte aligned.
            unsafe { std::slice::from_raw_parts(runtime.as_ptr().cast::<u64>(), layout::published_words()) }
        });
        let layout = Layout::for_version(version, runtime)?;
        // SAFETY: this is the signature of `PyThreadState *PyGILState_GetThisThreadState(void)`.
        let this_thread = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const c_void>(this_thread.as_ptr())
        };
        freed::watch(version);
        let frames_like = compare::SharedLayout::from_layout(&layout);
        Ok(Self { layout, frames_like, version, this_thread, types: signal_safe_frames::Types::find() })
    }

    /// Major and minor version of the Python interpreter.
    #[must_use]
    pub fn version(&self) -> (u8, u8) {
        self.version
    }

    /// Newest Python frame of the calling thread; `None` if it runs no Python.
    ///
    /// Not signal-safe: call it only from synchronous code.
    #[must_use]
    #[inline]
    pub fn newest(&self) -> Option<PythonFrame> {
        // SAFETY: the function needs neither the GIL nor a thread state; it returns null if the thread has none.
        let thread = unsafe { (self.this_thread)() } as usize;
        if thread == 0 {
            return None;
        }
        let frame = match self.layout.newest {
            Newest::Direct(offset) => word(thread + offset),
            Newest::ThroughCFrame(cframe, frame) => match word(thread + cframe) {
                0 => 0,
                cframe => word(cframe + frame),
            },
        };
        self.layout.skip_shims(frame)
    }

    /// Python frame that called the running frame `frame`; `None` for the outermost.
    #[must_use]
    #[inline]
    pub fn caller(&self, frame: PythonFrame) -> Option<PythonFrame> {
        self.layout.caller(frame)
    }

    /// Fingerprint of a frame's code object, which differs between two code objects at the same address.
    #[must_use]
    #[inline]
    pub fn fingerprint(&self, frame: PythonFrame) -> u64 {
        self.layout.fingerprint(frame)
    }

    /// Address of the `nn.Module` that a frame calls, 0 for other frames. The module is the first argument of the
    /// method that [`Interpreter::watch_calls`] set.
    #[must_use]
    #[inline]
    pub fn called_module(&self, frame: PythonFrame) -> usize {
        self.layout.called_module(frame, WATCHED_CODE.load(Ordering::Relaxed))
    }

    /// Set the code object of the method by which `nn.Module`s are called, with the module as its first argument.
    pub fn watch_calls(code: usize) {
        WATCHED_CODE.store(code, Ordering::Relaxed);
    }

    /// Address of the class of a live Python object.
    #[must_use]
    #[inline]
    pub fn class_of(&self, object: usize) -> usize {
        word(object + OBJECT_CLASS)
    }

    /// Name of a live Python class without its module, from its address.
    #[must_use]
    pub fn class_name(&self, class: usize) -> String {
        let name = word(class + CLASS_NAME) as *const c_char;
        if name.is_null() {
            return String::new();
        }
        // SAFETY: `tp_name` of a live class is a null-terminated text.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        name.rsplit('.').next().unwrap_or_default().to_owned()
    }

    /// Function, file and line of a frame that is running on this thread.
    #[must_use]
    pub fn describe(&self, frame: PythonFrame) -> PythonLine {
        describe::describe(&self.layout, frame)
    }
}

// Always inlined: for a constant layout, the offsets become constants, too.
impl Layout {
    /// Python frame that called `frame`; `None` for the outermost.
    #[inline(always)]
    fn caller(&self, frame: PythonFrame) -> Option<PythonFrame> {
        self.skip_shims(word(frame.address + self.frame_previous))
    }

    /// Fingerprint of a frame's code object, which differs between two code objects at the same address.
    #[inline(always)]
    fn fingerprint(&self, frame: PythonFrame) -> u64 {
        let first_line = half_word(frame.code + self.code_first_line);
        let lines = word(frame.code + self.code_lines);
        match self.code_version {
            Some(offset) => versioned_fingerprint(lines, first_line, half_word(frame.code + offset)),
            None => unversioned_fingerprint(
                [lines, word(frame.code + self.code_name), word(frame.code + self.code_file)],
                first_line,
                // Neither the name nor the line table is ever null, and the smallest bytes object has room for these
                // bytes.
                word(word(frame.code + self.code_short_name) + TEXT_HASH),
                [word(lines + BYTES_LENGTH), word(lines + self.bytes_data)],
            ),
        }
    }

    /// First local variable of a frame that runs the code object `watched`: the called `nn.Module`; 0 for other frames.
    #[inline(always)]
    fn called_module(&self, frame: PythonFrame, watched: usize) -> usize {
        if frame.code != watched || watched == 0 { 0 } else { word(frame.address + self.frame_locals) & !self.code_tag }
    }

    /// First frame of Python code from an address outwards, without the interpreter's own frames; `None` without one.
    #[inline(always)]
    fn skip_shims(&self, mut address: usize) -> Option<PythonFrame> {
        while address != 0 {
            let shim = self.frame_owner.is_some_and(|(offset, least)| byte(address + offset) >= least);
            if !shim {
                return Some(self.frame_at(address));
            }
            address = word(address + self.frame_previous);
        }
        None
    }

    /// Read the frame at an address.
    #[inline(always)]
    fn frame_at(&self, address: usize) -> PythonFrame {
        let code = word(address + self.frame_code) & !self.code_tag;
        let instruction = match self.frame_instruction {
            Instruction::Pointer(offset) => word(address + offset),
            // An index before the first instruction is -1.
            Instruction::Index(offset) => {
                code.wrapping_add_signed(half_word(address + offset).cast_signed() as isize * 2)
            }
        };
        PythonFrame { address, code, instruction }
    }
}

/// Fingerprint of a code object from its line table's address, its first line and its version number.
#[inline(always)]
fn versioned_fingerprint(lines: usize, first_line: u32, version: u32) -> u64 {
    (lines as u64).rotate_left(20) ^ u64::from(first_line) << 32 ^ u64::from(version)
}

/// Fingerprint of a code object without a version number (3.10 and 3.11), from addresses and contents.
///
/// The fingerprint contains the addresses of the line table, the name and the file name. Further parts are the first
/// line, the hash of the short name, and the length and first eight bytes of the line table. Addresses alone are not
/// sufficient: code that is compiled repeatedly gets the same addresses for functions with different names and lines.
#[inline(always)]
fn unversioned_fingerprint(
    [lines, name, file]: [usize; 3],
    first_line: u32,
    name_hash: usize,
    [length, begin]: [usize; 2],
) -> u64 {
    // Each value at its own bits as far as they vary: addresses in their lower half, lengths in few bits.
    let addresses = (lines as u64).rotate_left(20) ^ (name as u64).rotate_left(41) ^ (file as u64).rotate_left(62);
    addresses ^ name_hash as u64 ^ begin as u64 ^ u64::from(first_line) << 32 ^ (length as u64).rotate_left(12)
}

/// Major and minor version of the Python interpreter that is loaded in this process; `None` without one.
fn running_version() -> Option<(u8, u8)> {
    let text = symbols::global(c"Py_GetVersion")?;
    // SAFETY: the signature of `const char *Py_GetVersion(void)`, which may be called at any time.
    let text = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const c_char>(text.as_ptr())() };
    if text.is_null() {
        return None;
    }
    // SAFETY: it returns a static, null-terminated text such as "3.11.7 (main, …)".
    let text = unsafe { CStr::from_ptr(text) }.to_str().ok()?;
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Read eight bytes of the interpreter's memory.
#[inline]
fn word(address: usize) -> usize {
    // SAFETY: callers pass addresses of live objects of the interpreter plus offsets within them (module docs).
    unsafe { (address as *const usize).read() }
}

/// Read four bytes of the interpreter's memory.
#[inline]
fn half_word(address: usize) -> u32 {
    // SAFETY: as in `word`.
    unsafe { (address as *const u32).read() }
}

/// Read one byte of the interpreter's memory.
#[inline]
fn byte(address: usize) -> u8 {
    // SAFETY: as in `word`.
    unsafe { (address as *const u8).read() }
}
