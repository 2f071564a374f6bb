//! Label of a row in a call tree view; labels of the same frame are equal in all runs, so that runs can be compared.

use super::shorten_symbols::{shorten, shorten_inputs};
use regex_lite::Regex;
use stackline_model::{CallingContextTree, Frame};

/// Label of a row in a call tree view: kind, name, inputs, file and line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallLabel {
    /// Kind of the frame (`stackline_model::FrameKind`), or `group`.
    pub kind: &'static str,
    /// Name of the function, operator or group.
    pub name: String,
    /// Shapes and types of an operator's input tensors; empty if unknown or not requested.
    pub inputs: String,
    /// Source file or library; empty if there is none.
    pub file: String,
    /// Line, 0 if there is none.
    pub line: u32,
}

impl CallLabel {
    /// Create the label of a frame, with line and input tensors on request.
    pub fn new(tree: &CallingContextTree, frame: &Frame, by_line: bool, by_inputs: bool) -> Self {
        Self {
            kind: frame.kind().name(),
            name: frame.name(&tree.strings),
            inputs: if by_inputs { frame.tensors(&tree.strings) } else { String::new() },
            file: frame.file().map_or_else(String::new, |file| tree.strings.get(file).to_owned()),
            line: frame.line().filter(|_| by_line).unwrap_or(0),
        }
    }

    /// Create the label of a row that stands for a group of values.
    pub(super) fn group(name: String) -> Self {
        Self { kind: "group", name, ..Self::default() }
    }

    /// Label of a frame with line and input tensors, for pattern matching.
    pub fn whole(tree: &CallingContextTree, frame: &Frame) -> Self {
        Self::new(tree, frame, true, true)
    }

    /// True if a pattern matches the name with file and line, or an operator's name with or without inputs.
    pub fn matches(&self, pattern: &Regex) -> bool {
        let whole = self.text(&self.name, &self.file);
        pattern.is_match(&whole) || !self.inputs.is_empty() && pattern.is_match(&format!("{whole} {}", self.inputs))
    }

    /// Short text for display, without folders, library names that repeat, C++ arguments and long tensor lists.
    pub fn short(&self) -> String {
        let file = self.file.rsplit(['/', '\\']).next().unwrap_or(&self.file);
        if !self.inputs.is_empty() {
            return format!("{}  {}", self.name, shorten_inputs(&self.inputs));
        }
        if self.kind == "device_function" && self.name.strip_prefix(file).is_some_and(|rest| rest.starts_with(':')) {
            return self.name.clone();
        }
        if self.kind != "native" {
            return self.text(&self.name, file);
        }
        let in_name = self.name.strip_prefix(file).is_some_and(|rest| rest.starts_with("+0x"));
        self.text(&shorten(&self.name), if in_name { "" } else { file })
    }

    /// Name, file and line in one text; without file or line if there is none.
    fn text(&self, name: &str, file: &str) -> String {
        match (file, self.line) {
            ("", _) => name.to_owned(),
            (file, 0) => format!("{name} {file}"),
            (file, line) => format!("{name} {file}:{line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CallLabel;

    #[test]
    fn lines_of_device_code_name_their_file_once() {
        let short = |kind: &'static str, name: &str| {
            let (name, file) = (name.to_owned(), "/src/gemm.hip".to_owned());
            CallLabel { kind, name, file, line: 12, ..CallLabel::default() }.short()
        };
        assert_eq!(short("device_function", "gemm.hip:12"), "gemm.hip:12");
        assert_eq!(short("device_function", "gemm"), "gemm gemm.hip:12");
        assert_eq!(short("python", "gemm.hip:12"), "gemm.hip:12 gemm.hip:12");
    }
}
