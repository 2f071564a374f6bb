//! What a node of a view is called: the same text in every run, so that runs can be compared.

use super::shorten_symbols::{fold, fold_inputs};
use regex_lite::Regex;
use stackline_model::{CallingContextTree, Frame};

/// A label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallLabel {
    /// Kind of the frame (`stackline_model::FrameKind`), or `group`.
    pub kind: &'static str,
    /// Function, operator, group.
    pub name: String,
    /// Shapes and types of the tensors that an operator is called with; empty if they are not known, or not asked for.
    pub inputs: String,
    /// File of the source, or the library; empty if there is none.
    pub file: String,
    /// Line, 0 if there is none.
    pub line: u32,
}

impl CallLabel {
    /// The label of a frame.
    pub fn new(tree: &CallingContextTree, frame: &Frame, by_line: bool, by_inputs: bool) -> Self {
        Self {
            kind: frame.kind().name(),
            name: frame.name(&tree.strings),
            inputs: if by_inputs { frame.tensors(&tree.strings) } else { String::new() },
            file: frame.file().map_or_else(String::new, |file| tree.strings.get(file).to_owned()),
            line: frame.line().filter(|_| by_line).unwrap_or(0),
        }
    }

    /// A group of values.
    pub(super) fn group(name: String) -> Self {
        Self { kind: "group", name, ..Self::default() }
    }

    /// The label of a frame with all that is known of it, which is what patterns see.
    pub fn whole(tree: &CallingContextTree, frame: &Frame) -> Self {
        Self::new(tree, frame, true, true)
    }

    /// Whether a pattern matches: the name with file and line in full, or an operator's name with its inputs or without.
    pub fn matches(&self, pattern: &Regex) -> bool {
        let whole = self.text(&self.name, &self.file);
        pattern.is_match(&whole) || !self.inputs.is_empty() && pattern.is_match(&format!("{whole} {}", self.inputs))
    }

    /// For people: with the file's name only, and without a library's where the name holds it; long names of C++ with
    /// their arguments folded, and long lists of tensors, too.
    pub fn short(&self) -> String {
        let file = self.file.rsplit(['/', '\\']).next().unwrap_or(&self.file);
        if !self.inputs.is_empty() {
            return format!("{}  {}", self.name, fold_inputs(&self.inputs));
        }
        if self.kind != "native" {
            return self.text(&self.name, file);
        }
        let in_name = self.name.strip_prefix(file).is_some_and(|rest| rest.starts_with("+0x"));
        self.text(&fold(&self.name), if in_name { "" } else { file })
    }

    fn text(&self, name: &str, file: &str) -> String {
        match (file, self.line) {
            ("", _) => name.to_owned(),
            (file, 0) => format!("{name} {file}"),
            (file, line) => format!("{name} {file}:{line}"),
        }
    }
}
