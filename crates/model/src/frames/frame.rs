//! Frames of call paths: Python and native functions, operators, modules, kernels and others.

use crate::{CallProcessId, StrId, StringTable};

/// Prefix of the hash that identifies a library without build ID.
pub const CONTENT: &str = "content:";

/// Name of [`Frame::Overflow`].
pub(super) const OVERFLOW: &str = "(calls merged: the call tree was full)";

/// Frame of a call path; equal values are the same frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// Line of a Python function.
    Python {
        /// Qualified name of the function.
        function: StrId,
        /// File of its code.
        file: StrId,
        /// Executed line, 0 if unknown.
        line: u32,
        /// First line of the function.
        first_line: u32,
    },
    /// Framework operator.
    Operator {
        /// Name.
        name: StrId,
        /// Shapes and types of its inputs, in the order of the call: `f32[4,32], (f32[8]), scalar, -`; [`StrId::NONE`]
        /// if they were not recorded.
        inputs: StrId,
    },
    /// Backward node of autograd, a child of its forward operator.
    Backward {
        /// Name.
        name: StrId,
        /// Inputs, as of an operator.
        inputs: StrId,
    },
    /// Span named by the user or a library.
    Span {
        /// Name.
        name: StrId,
    },
    /// Instance of a module.
    Module {
        /// Dotted path.
        path: StrId,
        /// Class.
        class: StrId,
    },
    /// Address in a library.
    Native {
        /// Path of the library.
        library: StrId,
        /// Identity: GNU build ID in hexadecimal digits or, without one, [`CONTENT`] and a hash of parts of the
        /// library; [`StrId::NONE`] if both are unknown.
        build_id: StrId,
        /// Address relative to the first byte of the library in memory.
        offset: u64,
        /// Function, [`StrId::NONE`] if unknown.
        function: StrId,
        /// Source file, [`StrId::NONE`] if unknown.
        file: StrId,
        /// Line in the source file, 0 if unknown.
        line: u32,
        /// Number of functions at this address into which this one is inlined. These are its callers in the tree.
        inlined: u32,
    },
    /// Address in code generated at run time, which differs in each process.
    Unmapped {
        /// Process.
        process: CallProcessId,
        /// Address.
        address: u64,
    },
    /// Call of a GPU's runtime or driver.
    Runtime {
        /// Name.
        name: StrId,
    },
    /// GPU operation (kernel, copy or fill), a child of its launch call.
    Kernel {
        /// Name.
        name: StrId,
    },
    /// Function, source line or instruction of device code, called or inlined within a kernel.
    DeviceFunction {
        /// Name.
        function: StrId,
        /// Source file, [`StrId::NONE`] if unknown.
        file: StrId,
        /// Executed line, 0 if unknown.
        line: u32,
    },
    /// Instruction of device code.
    Instruction {
        /// Name or path of the binary.
        binary: StrId,
        /// Program counter relative to the start of the binary's code.
        pc: u64,
        /// Source file, [`StrId::NONE`] if unknown.
        file: StrId,
        /// Line in the source file, 0 if unknown.
        line: u32,
    },
    /// Operation of an HLO program.
    HloOp {
        /// Name of the operation, such as `fusion.3`.
        name: StrId,
        /// Name of the program, [`StrId::NONE`] if unknown.
        program: StrId,
    },
    /// Values without a node in a full tree.
    Overflow,
}

impl Frame {
    /// Native frame without a known function (yet).
    pub fn native(library: StrId, build_id: StrId, offset: u64) -> Self {
        let none = StrId::NONE;
        Self::Native { library, build_id, offset, function: none, file: none, line: 0, inlined: 0 }
    }

    /// Frame of an operator without known inputs.
    pub fn operator(name: StrId) -> Self {
        Self::Operator { name, inputs: StrId::NONE }
    }

    /// Frame of a backward node without known inputs.
    pub fn backward(name: StrId) -> Self {
        Self::Backward { name, inputs: StrId::NONE }
    }

    /// Name without location and inputs: function, operator, `libc.so.6+0x1234`.
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

    /// Shapes and types of an operator's tensor inputs as text, without numbers and other inputs: `f32[4,32], f32[32]`.
    /// Empty if there are none, or if unknown.
    pub fn tensors(&self, strings: &StringTable) -> String {
        match *self {
            Self::Operator { inputs, .. } | Self::Backward { inputs, .. } => tensors(strings.get(inputs)),
            _ => String::new(),
        }
    }

    /// Name and, for an operator, its inputs: `aten::mm f32[4,32], f32[32,8]`.
    pub fn title(&self, strings: &StringTable) -> String {
        let (mut title, tensors) = (self.name(strings), self.tensors(strings));
        if !tensors.is_empty() {
            title.push(' ');
            title.push_str(&tensors);
        }
        title
    }

    /// Source file, else library or binary; `None` for frames without one.
    pub fn file(&self) -> Option<StrId> {
        match *self {
            Self::Python { file, .. } | Self::DeviceFunction { file, .. } => file.some(),
            Self::Native { library: code, file, .. } | Self::Instruction { binary: code, file, .. } => {
                file.some().or_else(|| code.some())
            }
            _ => None,
        }
    }

    /// Source line that the frame was executing, if known.
    pub fn line(&self) -> Option<u32> {
        match *self {
            Self::Python { line, .. }
            | Self::Native { line, .. }
            | Self::DeviceFunction { line, .. }
            | Self::Instruction { line, .. } => Some(line).filter(|&line| line > 0),
            _ => None,
        }
    }

    /// Handles of all texts of a frame: name, file, inputs and similar ones.
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

/// Keep only the tensors and lists of tensors in a text of inputs. Also kept is `…`, which represents inputs that are
/// no longer distinguished.
fn tensors(inputs: &str) -> String {
    let mut kept = String::new();
    let mut depth = 0_usize;
    for part in inputs.split(", ") {
        // A list also contains the separator.
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
    fn only_tensors_remain_of_inputs() {
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
