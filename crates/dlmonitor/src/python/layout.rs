//! Layout of CPython's frames and code objects by version: offsets of the fields that a walk of frames needs.
//!
//! Offsets in bytes. Those of 3.10 to 3.12 come from the headers, and the tests check each against CPython itself.
//! Versions from 3.13 on publish theirs in `_PyRuntime` (`_Py_DebugOffsets`), which is preferred.

/// Way in which a CPython version stores the current instruction of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// The frame holds a pointer into the code.
    Pointer(usize),
    /// The frame holds an index of two-byte instructions (3.10).
    Index(usize),
}

/// Way in which a CPython version stores the newest frame of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newest {
    /// The thread state contains the pointer.
    Direct(usize),
    /// The thread state points to a record on the C stack, which contains the pointer (3.11 and 3.12).
    ThroughCFrame(usize, usize),
}

/// Encoding of the line table in a CPython version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineTable {
    /// PEP 626: pairs of byte and line deltas (3.10).
    Deltas,
    /// PEP 657: location entries (3.11 and later).
    Locations,
}

/// Offsets of fields in frames and code objects for one version of CPython.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) newest: Newest,
    pub(crate) frame_code: usize,
    pub(crate) frame_previous: usize,
    pub(crate) frame_instruction: Instruction,
    /// First local variable.
    pub(crate) frame_locals: usize,
    /// Byte with the owner of the frame, and the smallest value for frames that are not Python's; `None` before 3.12.
    pub(crate) frame_owner: Option<(usize, u8)>,
    /// Tag bits in the pointer to the code (3.14).
    pub(crate) code_tag: usize,
    pub(crate) code_first_line: usize,
    pub(crate) code_file: usize,
    /// Displayed name: the qualified name from 3.11 on.
    pub(crate) code_name: usize,
    /// `co_name`. Unlike the qualified name it is interned, so that its hash is set. Read if there is no
    /// `co_version`.
    pub(crate) code_short_name: usize,
    pub(crate) code_lines: usize,
    /// `co_version`, unique per code object, if there is one.
    pub(crate) code_version: Option<usize>,
    /// First instruction, relative to the code object; 0 where instructions are indices.
    pub(crate) code_instructions: usize,
    pub(crate) line_table: LineTable,
    /// `ob_sval` of bytes objects.
    pub(crate) bytes_data: usize,
    /// State word of text objects, and the position of the kind in it.
    pub(crate) text_state: usize,
    pub(crate) text_kind: u32,
    /// Start of the characters of ASCII and of other compact texts.
    pub(crate) text_ascii: usize,
    pub(crate) text_compact: usize,
}

const V310: Layout = Layout {
    newest: Newest::Direct(24),
    frame_code: 32,
    frame_previous: 24,
    frame_instruction: Instruction::Index(96),
    frame_locals: 352,
    frame_owner: None,
    code_tag: 0,
    code_first_line: 40,
    code_file: 104,
    code_name: 112,
    code_short_name: 112,
    code_lines: 120,
    code_version: None,
    code_instructions: 0,
    line_table: LineTable::Deltas,
    bytes_data: 32,
    text_state: 32,
    text_kind: 2,
    text_ascii: 48,
    text_compact: 72,
};

pub(super) const V311: Layout = Layout {
    newest: Newest::ThroughCFrame(56, 8),
    frame_code: 32,
    frame_previous: 48,
    frame_instruction: Instruction::Pointer(56),
    frame_locals: 72,
    code_first_line: 72,
    code_file: 112,
    code_name: 128,
    code_short_name: 120,
    code_lines: 136,
    code_instructions: 184,
    line_table: LineTable::Locations,
    ..V310
};

pub(super) const V312: Layout = Layout {
    newest: Newest::ThroughCFrame(56, 0),
    frame_code: 0,
    frame_previous: 8,
    frame_owner: Some((70, 3)),
    code_first_line: 68,
    code_version: Some(92),
    code_instructions: 192,
    text_ascii: 40,
    text_compact: 56,
    ..V311
};

const V313: Layout = Layout { newest: Newest::Direct(72), code_instructions: 200, ..V312 };

/// Positions of the published offsets in 3.13 and 3.14, in 64-bit words from the start of `_PyRuntime`.
struct Published {
    free_threaded: usize,
    newest: usize,
    /// previous, executable, instr_ptr, localsplus and owner.
    frame: usize,
    /// filename, name, qualname, linetable, firstlineno.
    code_file: usize,
    code_instructions: usize,
    bytes_data: usize,
    text_state: usize,
    text_ascii: usize,
}

/// Positions by the headers of 3.13. The tests compare the published values with the table.
const PUBLISHED_313: Published = Published {
    free_threaded: 2,
    newest: 23,
    frame: 29,
    code_file: 35,
    code_instructions: 43,
    bytes_data: 66,
    text_state: 68,
    text_ascii: 70,
};

/// Positions by the headers of 3.14, untested because no such interpreter was available. A self-test at start
/// compares the frames with those of the interpreter.
const PUBLISHED_314: Published = Published {
    free_threaded: 2,
    newest: 26,
    frame: 32,
    code_file: 40,
    code_instructions: 48,
    bytes_data: 76,
    text_state: 78,
    text_ascii: 80,
};

/// Number of words of `_PyRuntime` to read.
const PUBLISHED_WORDS: usize = 81;

impl Layout {
    /// Offsets for a CPython version, or the reason why the version is unsupported.
    ///
    /// `runtime` is the start of `_PyRuntime`, if known.
    pub(crate) fn for_version(version: (u8, u8), runtime: Option<&[u64]>) -> Result<Self, String> {
        match version {
            (3, 10) => Ok(V310),
            (3, 11) => Ok(V311),
            (3, 12) => Ok(V312),
            (3, 13) => match runtime {
                Some(words) => published(words, &PUBLISHED_313),
                None => Ok(V313),
            },
            (3, 14) => {
                let words =
                    runtime.ok_or("the interpreter does not export _PyRuntime, so its frame layout is unknown")?;
                // Frames hold tagged references to their code, and `interned` takes 16 bits of a text's state.
                Ok(Self { code_tag: 3, text_kind: 16, ..published(words, &PUBLISHED_314)? })
            }
            (3, minor) if minor > 14 => Err(format!(
                "this version of the recorder does not support the frame and code objects of CPython 3.{minor}"
            )),
            (major, minor) => Err(format!("CPython {major}.{minor} is too old: 3.10 is the oldest supported version")),
        }
    }
}

/// Decode the frame layout that a CPython interpreter publishes in `_PyRuntime`.
fn published(words: &[u64], at: &Published) -> Result<Layout, String> {
    let word = |index: usize| words.get(index).map_or(0, |&word| word as usize);
    if words.len() < PUBLISHED_WORDS || words.first() != Some(&u64::from_le_bytes(*b"xdebugpy")) {
        return Err("_PyRuntime of this interpreter has no debug offsets, so its frame layout is unknown".into());
    }
    if word(at.free_threaded) != 0 {
        return Err("free-threaded builds of CPython are not supported yet".into());
    }
    let layout = Layout {
        newest: Newest::Direct(word(at.newest)),
        frame_previous: word(at.frame),
        frame_code: word(at.frame + 1),
        frame_instruction: Instruction::Pointer(word(at.frame + 2)),
        frame_locals: word(at.frame + 3),
        frame_owner: Some((word(at.frame + 4), 3)),
        code_file: word(at.code_file),
        code_name: word(at.code_file + 2),
        code_lines: word(at.code_file + 3),
        code_first_line: word(at.code_file + 4),
        code_instructions: word(at.code_instructions),
        bytes_data: word(at.bytes_data),
        text_state: word(at.text_state),
        text_ascii: word(at.text_ascii),
        ..V313
    };
    // A misread table must not lead a walk through unknown memory.
    let plausible = [layout.frame_previous, layout.frame_code, layout.code_file, layout.code_lines, layout.bytes_data];
    if plausible.iter().all(|&offset| offset < 512 && offset % 4 == 0) {
        Ok(layout)
    } else {
        Err("the debug offsets in _PyRuntime of this interpreter are not valid for this version of the recorder".into())
    }
}

/// Number of words of `_PyRuntime` that [`Layout::for_version`] reads.
pub(crate) const fn published_words() -> usize {
    PUBLISHED_WORDS
}
