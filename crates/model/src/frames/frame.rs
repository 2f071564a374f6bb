//! The frame of a call path.

use crate::{CallProcessId, StrId, StringTable};

/// Before the hash that a library without build id is known by.
pub const CONTENT: &str = "content:";

/// Name of [`Frame::Overflow`].
pub(super) const OVERFLOW: &str = "(no place left in the tree)";

/// A frame; equal ones are the same frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// A line of a Python function.
    Python {
        /// Qualified name of the function.
        function: StrId,
        /// File of its code.
        file: StrId,
        /// Line that was running, 0 if unknown.
        line: u32,
        /// First line of the function.
        first_line: u32,
    },
    /// A framework operator.
    Operator {
        /// Its name.
        name: StrId,
        /// Shapes and types of its inputs, in the order of the call: `f32[4,32], (f32[8]), scalar, -`; [`StrId::NONE`]
        /// if they were not recorded.
        inputs: StrId,
    },
    /// A backward node of autograd; it stands below the operator that it differentiates.
    Backward {
        /// Its name.
        name: StrId,
        /// As of an operator.
        inputs: StrId,
    },
    /// A span that the user or a library named.
    Span {
        /// Its name.
        name: StrId,
    },
    /// An instance of a module.
    Module {
        /// Its dotted path.
        path: StrId,
        /// Its class.
        class: StrId,
    },
    /// An address in a library.
    Native {
        /// Path of the library.
        library: StrId,
        /// What it is known by: its GNU build id in hexadecimal digits or, without one, [`CONTENT`] and a hash of parts
        /// of it; [`StrId::NONE`] if neither is known.
        build_id: StrId,
        /// Address relative to its first byte in memory.
        offset: u64,
        /// The function there, [`StrId::NONE`] if it is not known.
        function: StrId,
        /// The source file that was running, [`StrId::NONE`] if it is not known.
        file: StrId,
        /// Line in it, 0 if it is not known.
        line: u32,
        /// How many functions at this address this one is inlined into. These are its callers in the tree.
        inlined: u32,
    },
    /// An address in code that was made at run time: another thing in each process.
    Unmapped {
        /// The process.
        process: CallProcessId,
        /// The address.
        address: u64,
    },
    /// A call of a GPU's runtime or driver.
    Runtime {
        /// Its name.
        name: StrId,
    },
    /// An operation of a GPU: a kernel, a copy or a fill. It stands below the call that launched it.
    Kernel {
        /// Its name.
        name: StrId,
    },
    /// A function of device code, inlined or called within a kernel.
    DeviceFunction {
        /// Its name.
        function: StrId,
        /// Source file, [`StrId::NONE`] if it is not known.
        file: StrId,
        /// Line that was running, 0 if it is not known.
        line: u32,
    },
    /// An instruction of device code.
    Instruction {
        /// Name or path of the binary.
        binary: StrId,
        /// Program counter relative to the start of the binary's code.
        pc: u64,
        /// Source file, [`StrId::NONE`] if it is not known.
        file: StrId,
        /// Line in it, 0 if it is not known.
        line: u32,
    },
    /// An operation of an HLO program.
    HloOp {
        /// Name of the operation, such as `fusion.3`.
        name: StrId,
        /// Name of its program, [`StrId::NONE`] if it is not known.
        program: StrId,
    },
    /// What found no place in a full tree.
    Overflow,
}

impl Frame {
    /// A native frame whose function is not known (yet).
    pub fn native(library: StrId, build_id: StrId, offset: u64) -> Self {
        let none = StrId::NONE;
        Self::Native { library, build_id, offset, function: none, file: none, line: 0, inlined: 0 }
    }

    /// An operator, of whose inputs nothing is known.
    pub fn operator(name: StrId) -> Self {
        Self::Operator { name, inputs: StrId::NONE }
    }

    /// A backward node, of whose inputs nothing is known.
    pub fn backward(name: StrId) -> Self {
        Self::Backward { name, inputs: StrId::NONE }
    }

    /// What it is called, without where it is and what with: function, operator, `libc.so.6+0x1234`.
    pub fn name(&self, strings: &StringTable) -> String {
        match *self {
            Self::Python { function: name, .. }
            | Self::Operator { name, .. }
            | Self::Backward { name, .. }
            | Self::Span { name }
            | Self::Runtime { name }
            | Self::Kernel { name }
            | Self::DeviceFunction { function: name, .. }
            | Self::HloOp { name, .. } => strings.get(name).to_owned(),
            Self::Module { path, class } => match (strings.get(path), strings.get(class)) {
                (path, "") => path.to_owned(),
                ("", class) => class.to_owned(),
                (path, class) => format!("{path} ({class})"),
            },
            Self::Native { function, .. } if function.is_some() => strings.get(function).to_owned(),
            Self::Native { library: code, offset, .. } | Self::Instruction { binary: code, pc: offset, .. } => {
                let path = strings.get(code);
                format!("{}+{offset:#x}", path.rsplit('/').next().unwrap_or(path))
            }
            Self::Unmapped { address, .. } => format!("{address:#x}"),
            Self::Overflow => OVERFLOW.to_owned(),
        }
    }

    /// Shapes and types of the tensors among an operator's inputs, as text; empty if there are none, or if they are not
    /// known. Numbers and what has no shape are left out: `f32[4,32], f32[32]`.
    pub fn tensors(&self, strings: &StringTable) -> String {
        match *self {
            Self::Operator { inputs, .. } | Self::Backward { inputs, .. } => tensors(strings.get(inputs)),
            _ => String::new(),
        }
    }

    /// What it is called and, of an operator, with what: `aten::mm f32[4,32], f32[32,8]`.
    pub fn title(&self, strings: &StringTable) -> String {
        let (mut title, tensors) = (self.name(strings), self.tensors(strings));
        if !tensors.is_empty() {
            title.push(' ');
            title.push_str(&tensors);
        }
        title
    }

    /// File of the source or else the library or binary, `None` for frames that have none.
    pub fn file(&self) -> Option<StrId> {
        match *self {
            Self::Python { file, .. } | Self::DeviceFunction { file, .. } => file.some(),
            Self::Native { library: code, file, .. } | Self::Instruction { binary: code, file, .. } => {
                file.some().or_else(|| code.some())
            }
            _ => None,
        }
    }

    /// Line that was running, if it is known.
    pub fn line(&self) -> Option<u32> {
        match *self {
            Self::Python { line, .. }
            | Self::Native { line, .. }
            | Self::DeviceFunction { line, .. }
            | Self::Instruction { line, .. } => Some(line).filter(|&line| line > 0),
            _ => None,
        }
    }

    /// The texts that it refers to.
    pub(crate) fn texts(&self) -> [StrId; 4] {
        let none = StrId::NONE;
        match *self {
            Self::Python { function, file, .. } | Self::DeviceFunction { function, file, .. } => {
                [function, file, none, none]
            }
            Self::Instruction { binary, file, .. } => [binary, file, none, none],
            Self::HloOp { name, program } => [name, program, none, none],
            Self::Operator { name, inputs } | Self::Backward { name, inputs } => [name, inputs, none, none],
            Self::Span { name } | Self::Runtime { name } | Self::Kernel { name } => [name, none, none, none],
            Self::Module { path, class } => [path, class, none, none],
            Self::Native { library, build_id, function, file, .. } => [library, build_id, function, file],
            Self::Unmapped { .. } | Self::Overflow => [none; 4],
        }
    }
}

/// The tensors and lists of tensors in a text about inputs; `…` stands for what was not told apart any more.
fn tensors(inputs: &str) -> String {
    let mut kept = String::new();
    let mut depth = 0_usize;
    for part in inputs.split(", ") {
        // A list has the separator in it, too.
        let inside = depth > 0;
        depth += part.matches('(').count();
        depth = depth.saturating_sub(part.matches(')').count());
        if inside || part.contains(['[', '(', '…']) {
            if !kept.is_empty() {
                kept.push_str(", ");
            }
            kept.push_str(part);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::tensors;

    #[test]
    fn tensors_are_kept_and_the_rest_is_left_out() {
        for (inputs, kept) in [
            ("", ""),
            ("scalar, -, scalars", ""),
            ("f32[], scalar, f32[4,32], -", "f32[], f32[4,32]"),
            ("scalar, (f32[8], -, f32[?], +3), -", "(f32[8], -, f32[?], +3)"),
            ("(), (-), scalar", "(), (-)"),
            ("…", "…"),
        ] {
            assert_eq!(tensors(inputs), kept, "{inputs}");
        }
    }
}
