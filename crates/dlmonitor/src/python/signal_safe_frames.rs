//! Signal-safe Python frame unwinding: the kernel checks every address, and the type of every code object is checked.
//!
//! A signal may arrive while the interpreter links a new frame into its chain (in 3.11 and 3.12 a partly constructed
//! frame is visible for some instructions), or while a thread state is being freed. Plain reads crashed under stress.
//! Here all reads go through [`Memory`], and a chain is accepted only if each frame's code object has the code type.
//!
//! Frames of one thread are usually adjacent, and several code objects can be read in one call. A path of 20 frames
//! takes three or four system calls.

use super::Interpreter;
use super::layout::{Instruction, Layout, Newest};
use super::memory::{MAX_RANGES, Memory};
use crate::symbols;
use std::ffi::CStr;
use std::sync::atomic::Ordering;

/// Largest number of frames of a sample, counted from the newest.
pub const MAX_SAMPLED: usize = 256;

const PAGE: usize = 4096;
/// End of user addresses: larger values are not pointers.
const ADDRESSES: usize = 1 << 56;
/// Bytes of a frame that are read.
const FRAME: usize = 112;
/// Bytes of a code object that are read.
const HEAD: usize = 160;
/// Bytes of a text or bytes object that are read to find its contents.
const OBJECT: usize = 80;
/// Bytes of a line table and of a short name that enter the fingerprint of a code object.
const TABLE: usize = 40;
const NAME: usize = super::TEXT_HASH + 8;
/// Largest number of copied bytes of a name or a line table.
const MAX_TEXT: usize = 2048;
const MAX_LINES: usize = 32 << 10;
/// Words before the texts of a [`super::SampledCode`] in its packed form.
const PACKED_HEAD: usize = 4;

/// Python frame of a sampled call path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampledFrame {
    /// Address of the frame itself.
    pub address: usize,
    /// Address of its code object.
    pub code: usize,
    /// Number that distinguishes the code from other code objects at this address.
    pub fingerprint: u64,
    /// Position of the instruction in bytes of the code; `u32::MAX` if the frame has not begun to run.
    pub offset: u32,
    /// The module that it calls ([`Interpreter::called_module`]) and the module's class, 0 for other frames.
    pub module: usize,
    /// See `module`.
    pub class: usize,
}

/// Result of a walk of Python frames in a signal handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// The thread runs no Python, or only the frame at which the walk stops.
    Nothing,
    /// [`FrameSampler::frames`] has all frames, up to the root or the frame at which the walk stops.
    Whole,
    /// Same as [`Self::Whole`], but only the newest [`MAX_SAMPLED`].
    Cut,
    /// The frame at which the walk was to stop has returned: all frames up to the root are present.
    NotReached,
    /// The chain was partly constructed or invalid: discard the sample.
    Broken,
}

impl Interpreter {
    /// Name, without module, of a Python class that may have been freed; `None` if it cannot be read.
    #[must_use]
    pub fn sampled_class_name(&self, memory: &Memory, class: usize) -> Option<String> {
        let mut name = [0; 128];
        let length = memory.read(memory.word(class.wrapping_add(super::CLASS_NAME))?, &mut name);
        let name = std::str::from_utf8(name.get(..length)?.split(|&byte| byte == 0).next()?).ok()?;
        name.rsplit('.').next().map(str::to_owned)
    }
}

/// Reader of one thread's Python frames for signal handlers, with preallocated memory.
#[derive(Debug)]
pub struct FrameSampler {
    memory: Memory,
    types: Types,
    /// Memory around the newest frame: callers usually precede their callees in memory.
    window: Box<[u8]>,
    window_start: usize,
    window_end: usize,
    heads: Box<[u8]>,
    /// Beginnings of the line tables and of the short names of code objects without version numbers.
    tables: Box<[u8]>,
    names: Box<[u8]>,
    frames: Box<[SampledFrame]>,
    count: usize,
    mark: usize,
    packed: Box<[u64]>,
}

/// Addresses of the Python types `code`, `str` and `bytes`, by which live objects are recognized.
#[derive(Clone, Copy, Debug)]
pub(super) struct Types {
    code: usize,
    text: usize,
    bytes: usize,
}

impl Types {
    /// Find the addresses of the Python types; `None` if one is not exported. The lookup takes the lock of the dynamic
    /// linker, whose holder may wait for the GIL. Don't call it while other threads may wait.
    pub(super) fn find() -> Option<Self> {
        let address = |name: &CStr| symbols::global(name).map(|address| address.as_ptr() as usize);
        Some(Self {
            code: address(c"PyCode_Type")?,
            text: address(c"PyUnicode_Type")?,
            bytes: address(c"PyBytes_Type")?,
        })
    }
}

impl FrameSampler {
    /// Allocate memory for reading the frames of one thread.
    ///
    /// # Errors
    /// A sentence with the reason why frames cannot be read in signal handlers.
    pub fn new(interpreter: &Interpreter) -> Result<Self, String> {
        let types = interpreter
            .types
            .ok_or("the interpreter does not export PyCode_Type and other type objects, so frames cannot be sampled")?;
        let memory = Memory::of_this_thread();
        if !memory.works() {
            return Err("the kernel does not allow this process to read its own memory through a system call".into());
        }
        if !is_within_head(&interpreter.layout) {
            return Err(
                "this Python's code or frame objects have an unsupported layout, so frames cannot be sampled".into()
            );
        }
        Ok(Self {
            memory,
            types,
            window: vec![0; 2 * PAGE + FRAME].into(),
            window_start: 0,
            window_end: 0,
            heads: vec![0; HEAD * MAX_RANGES].into(),
            tables: vec![0; TABLE * MAX_RANGES].into(),
            names: vec![0; NAME * MAX_RANGES].into(),
            frames: vec![SampledFrame::default(); MAX_SAMPLED].into(),
            count: 0,
            mark: 0,
            packed: vec![0; PACKED_HEAD + (2 * MAX_TEXT + MAX_LINES) / 8 + 3].into(),
        })
    }

    /// Set another thread whose frames the next walks read. The thread must live as long as these walks run.
    pub fn set_thread(&mut self, thread: u32) {
        self.memory = Memory::of_thread(thread);
    }

    /// Python frames that the last walk found, newest first.
    #[must_use]
    pub fn frames(&self) -> &[SampledFrame] {
        self.frames.get(..self.count).unwrap_or(&[])
    }

    /// An address within the innermost frame of the interpreter on the C stack, 0 if the last walk found none.
    #[must_use]
    pub fn stack_mark(&self) -> usize {
        self.mark
    }

    /// Read the Python frames of the calling thread, from the newest to the frame with the address and code in `until`.
    /// That frame is included; without `until`, the walk goes to the root. Signal-safe.
    #[must_use]
    pub fn walk(&mut self, interpreter: &Interpreter, until: Option<(usize, usize)>) -> Walk {
        self.count = 0;
        self.mark = 0;
        self.window_end = 0;
        // SAFETY: the function reads a thread-specific value, which needs neither a lock nor memory.
        let thread = unsafe { (interpreter.this_thread)() } as usize;
        if thread == 0 {
            return Walk::Nothing;
        }
        let found = match self.walk_frames(&interpreter.layout, thread, until) {
            None => Walk::Broken,
            Some(_) if self.count == 0 => Walk::Nothing,
            Some(walk) => self.identify(&interpreter.layout).map_or(Walk::Broken, |()| walk),
        };
        if found == Walk::Broken {
            self.count = 0;
        }
        found
    }

    /// Collect the Python frames of the thread state at `thread`, from the innermost outwards; `None` if a read fails.
    fn walk_frames(&mut self, layout: &Layout, thread: usize, until: Option<(usize, usize)>) -> Option<Walk> {
        if let Some(offset) = layout.stack_mark_offset() {
            self.mark = self.memory.word(thread.wrapping_add(offset))?;
        }
        let mut address = match layout.newest {
            Newest::Direct(offset) => self.memory.word(thread.wrapping_add(offset))?,
            Newest::ThroughCFrame(..) if self.mark == 0 => 0,
            Newest::ThroughCFrame(_, frame) => self.memory.word(self.mark.wrapping_add(frame))?,
        };
        let calls = super::WATCHED_CODE.load(Ordering::Relaxed);
        // Shim frames count, too, so that the walk of a cyclic chain ends.
        for _ in 0..2 * MAX_SAMPLED {
            if address == 0 {
                return Some(if until.is_none() { Walk::Whole } else { Walk::NotReached });
            }
            let bytes = self.frame_bytes(layout, address)?;
            let previous = word(bytes, layout.frame_previous)?;
            if let Some(mut frame) = frame(layout, address, bytes)? {
                if frame.code == calls {
                    // An unreadable module is left out, so that the sample is not lost.
                    self.set_called_module(layout, &mut frame);
                }
                let Some(room) = self.frames.get_mut(self.count) else { return Some(Walk::Cut) };
                *room = frame;
                self.count += 1;
                if until == Some((address, frame.code)) {
                    return Some(Walk::Whole);
                }
            } else if self.mark == 0 {
                self.mark = address;
            }
            address = previous;
        }
        Some(Walk::Cut)
    }

    /// Set the address and class of the `nn.Module` that a frame calls, if they are readable.
    fn set_called_module(&self, layout: &Layout, frame: &mut SampledFrame) {
        let module =
            self.memory.word(frame.address.wrapping_add(layout.frame_locals)).map(|word| word & !layout.code_tag);
        let class = module.and_then(|module| self.memory.word(module.wrapping_add(super::OBJECT_CLASS)));
        if let (Some(module), Some(class)) = (module, class) {
            (frame.module, frame.class) = (module, class);
        }
    }

    /// Bytes of the frame at an address, from the window, which is read again if needed; `None` if they are unreadable.
    fn frame_bytes(&mut self, layout: &Layout, address: usize) -> Option<&[u8]> {
        if !(PAGE..ADDRESSES).contains(&address) {
            return None;
        }
        if address < self.window_start || address + FRAME > self.window_end {
            self.window_end = 0;
            if matches!(layout.frame_instruction, Instruction::Index(_)) {
                // 3.10 allocates its frames on the heap.
                self.fill(&[(address, FRAME)])?;
                self.window_start = address;
                self.window_end = address + FRAME;
            } else {
                self.fill_around(address)?;
            }
        }
        self.window.get(address - self.window_start..)?.get(..FRAME)
    }

    /// Read into the window: the frame at `address`, the preceding part of its page, and the previous page if it is
    /// mapped.
    fn fill_around(&mut self, address: usize) -> Option<()> {
        let page = address & !(PAGE - 1);
        let needed = address + FRAME - page;
        let (before, after) = self.window.split_at_mut(PAGE);
        if self.memory.gather(&[(page, needed)], after.get_mut(..needed)?) != needed {
            // The start of the page may be unmapped: read only the frame.
            self.fill(&[(address, FRAME)])?;
            self.window_start = address;
            self.window_end = address + FRAME;
            return Some(());
        }
        let whole = self.memory.read(page.wrapping_sub(PAGE), before) == PAGE;
        if !whole {
            self.window.copy_within(PAGE..PAGE + needed, 0);
        }
        self.window_start = if whole { page - PAGE } else { page };
        self.window_end = page + needed;
        Some(())
    }

    /// Read ranges (address, length) one after the other to the begin of the window; `None` if one is unreadable.
    fn fill(&mut self, ranges: &[(usize, usize)]) -> Option<()> {
        let length = ranges.iter().map(|range| range.1).sum();
        let into = self.window.get_mut(..length)?;
        (self.memory.gather(ranges, into) == length).then_some(())
    }

    /// Check the type of each code object of the last walk, and set the fingerprint of its frame; `None` if one is
    /// invalid.
    fn identify(&mut self, layout: &Layout) -> Option<()> {
        let frames = self.frames.get_mut(..self.count)?;
        for batch in frames.chunks_mut(MAX_RANGES) {
            let mut ranges = [(0, 0); MAX_RANGES];
            for (range, frame) in ranges.iter_mut().zip(batch.iter()) {
                *range = (frame.code, HEAD);
            }
            let length = batch.len() * HEAD;
            if self.memory.gather(ranges.get(..batch.len())?, self.heads.get_mut(..length)?) != length {
                return None;
            }
            let mut heads = self.heads.chunks_exact(HEAD).take(batch.len());
            if !heads.all(|head| word(head, 8) == Some(self.types.code)) {
                return None;
            }
            let (tables, names) =
                (self.tables.get_mut(..batch.len() * TABLE)?, self.names.get_mut(..batch.len() * NAME)?);
            if layout.code_version.is_none() {
                let parts = [(layout.code_lines, TABLE, &mut *tables), (layout.code_short_name, NAME, &mut *names)];
                for (offset, length, into) in parts {
                    for (range, head) in ranges.iter_mut().zip(self.heads.chunks_exact(HEAD)).take(batch.len()) {
                        *range = (word(head, offset)?, length);
                    }
                    if self.memory.gather(ranges.get(..batch.len())?, into) != into.len() {
                        return None;
                    }
                }
            }
            let parts = tables.chunks_exact(TABLE).zip(names.chunks_exact(NAME));
            for (frame, (head, (table, name))) in batch.iter_mut().zip(self.heads.chunks_exact(HEAD).zip(parts)) {
                frame.fingerprint = fingerprint(layout, head, table, name)?;
            }
        }
        Some(())
    }

    /// Copy the names and the line table of a frame's code object, as words for [`super::SampledCode::unpack`]; `None`
    /// if they are unreadable or another code object has the address now.
    #[must_use]
    pub fn copy_code(&mut self, interpreter: &Interpreter, frame: &SampledFrame) -> Option<&[u64]> {
        let layout = &interpreter.layout;
        let mut head = [0; HEAD];
        if self.memory.read(frame.code, &mut head) != HEAD {
            return None;
        }
        let objects = [layout.code_name, layout.code_file, layout.code_lines].map(|offset| word(&head, offset));
        let [Some(name), Some(file), Some(lines)] = objects else { return None };
        let short_name = if layout.code_version.is_none() { word(&head, layout.code_short_name)? } else { name };
        let objects = [name, file, lines, short_name].map(|address| (address, OBJECT));
        let mut bytes = [0; 4 * OBJECT];
        if self.memory.gather(&objects, &mut bytes) != bytes.len() {
            return None;
        }
        let object_bytes = |index: usize| bytes.get(index * OBJECT..(index + 1) * OBJECT);
        let (name_head, file_head, lines_head, short_head) =
            (object_bytes(0)?, object_bytes(1)?, object_bytes(2)?, object_bytes(3)?);
        if fingerprint(layout, &head, lines_head, short_head)? != frame.fingerprint {
            return None;
        }
        let name = text(layout, self.types.text, name, name_head)?;
        let file = text(layout, self.types.text, file, file_head)?;
        let lines = table(layout, self.types.bytes, lines, lines_head)?;
        self.pack(frame, half_word(&head, layout.code_first_line)?, [name, file, lines])
    }

    /// Pack function name, file and line table into words, after a head with their lengths; `None` if unreadable.
    fn pack(&mut self, frame: &SampledFrame, first_line: u32, parts: [Part; 3]) -> Option<&[u64]> {
        let lengths = parts.map(|part| part.length);
        let total: usize = lengths.iter().sum();
        let words = PACKED_HEAD + total.div_ceil(8);
        let (head, body) = self.packed.get_mut(..words)?.split_at_mut(PACKED_HEAD);
        head.copy_from_slice(&[
            frame.fingerprint,
            u64::from(first_line) | u64::from(parts[0].unit) << 32 | u64::from(parts[1].unit) << 40,
            lengths[0] as u64 | (lengths[1] as u64) << 32,
            lengths[2] as u64,
        ]);
        // SAFETY: words are bytes, and any bytes are words.
        let bytes = unsafe { std::slice::from_raw_parts_mut(body.as_mut_ptr().cast::<u8>(), body.len() * 8) };
        let ranges = parts.map(|part| (part.address, part.length));
        if self.memory.gather(&ranges, bytes.get_mut(..total)?) != total {
            return None;
        }
        self.packed.get(..words)
    }
}

/// Address and length of the contents of a Python text or bytes object.
#[derive(Clone, Copy)]
struct Part {
    address: usize,
    length: usize,
    /// Bytes per character.
    unit: u8,
}

/// Locate the characters of the text object at `address`, whose first bytes are `head`; `None` if its type is not
/// `kind`.
fn text(layout: &Layout, kind: usize, address: usize, head: &[u8]) -> Option<Part> {
    let state = half_word(head, layout.text_state)? >> layout.text_kind;
    let (unit, compact, ascii) = ((state & 7) as u8, state & 1 << 3 != 0, state & 1 << 4 != 0);
    if word(head, 8)? != kind || !compact || !matches!(unit, 1 | 2 | 4) {
        return None;
    }
    let length = word(head, 16)?.min(MAX_TEXT / usize::from(unit));
    let data = if ascii { layout.text_ascii } else { layout.text_compact };
    Some(Part { address: address.wrapping_add(data), length: length * usize::from(unit), unit })
}

/// Locate the contents of the bytes object at `address`, whose first bytes are `head`; `None` if its type is not
/// `kind`.
fn table(layout: &Layout, kind: usize, address: usize, head: &[u8]) -> Option<Part> {
    (word(head, 8)? == kind).then_some(())?;
    Some(Part { address: address.wrapping_add(layout.bytes_data), length: word(head, 16)?.min(MAX_LINES), unit: 1 })
}

/// Decode a Python frame from `bytes`; `None` if they are too few, and `Some(None)` for the interpreter's own frame.
#[expect(clippy::option_option, reason = "outer None: unreadable; inner None: not a Python frame")]
fn frame(layout: &Layout, address: usize, bytes: &[u8]) -> Option<Option<SampledFrame>> {
    if let Some((offset, least)) = layout.frame_owner
        && *bytes.get(offset)? >= least
    {
        return Some(None);
    }
    let code = word(bytes, layout.frame_code)? & !layout.code_tag;
    let offset = match layout.frame_instruction {
        Instruction::Pointer(offset) => word(bytes, offset)?.wrapping_sub(code.wrapping_add(layout.code_instructions)),
        Instruction::Index(offset) => (half_word(bytes, offset)?.cast_signed() as isize * 2).cast_unsigned(),
    };
    let offset = u32::try_from(offset).unwrap_or(u32::MAX);
    Some(Some(SampledFrame { address, code, offset, ..SampledFrame::default() }))
}

/// Compute the value of [`Interpreter::fingerprint`] from copies of the beginnings of a code object, of its line table
/// and of its name.
fn fingerprint(layout: &Layout, head: &[u8], table: &[u8], name: &[u8]) -> Option<u64> {
    let (lines, first_line) = (word(head, layout.code_lines)?, half_word(head, layout.code_first_line)?);
    Some(match layout.code_version {
        Some(offset) => super::versioned_fingerprint(lines, first_line, half_word(head, offset)?),
        None => super::unversioned_fingerprint(
            [lines, word(head, layout.code_name)?, word(head, layout.code_file)?],
            first_line,
            word(name, super::TEXT_HASH)?,
            [word(table, super::BYTES_LENGTH)?, word(table, layout.bytes_data)?],
        ),
    })
}

/// True if all fields that the sampler reads are within the bytes that it copies of an object.
fn is_within_head(layout: &Layout) -> bool {
    let code = [
        layout.code_first_line,
        layout.code_file,
        layout.code_name,
        layout.code_lines,
        layout.code_version.unwrap_or(0),
    ];
    let instruction = match layout.frame_instruction {
        Instruction::Pointer(offset) | Instruction::Index(offset) => offset,
    };
    let frame = [layout.frame_code, layout.frame_previous, instruction, layout.frame_owner.map_or(0, |owner| owner.0)];
    let table = layout.bytes_data + 8 <= TABLE;
    table && code.iter().all(|&offset| offset + 8 <= HEAD) && frame.iter().all(|&offset| offset + 8 <= FRAME)
}

/// Eight-byte word at an offset of copied bytes; `None` beyond their end.
fn word(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|bytes| usize::from_le_bytes(*bytes))
}

/// Four-byte word at an offset of copied bytes; `None` beyond their end.
fn half_word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}
