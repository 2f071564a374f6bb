//! What a node of a view is called: the same text in every run, so that runs can be compared.

use stackline_model::{CallFrame, CallTree};

/// A label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallLabel {
    /// Kind of the frame (`stackline_model::CallFrameKind`), or `group`.
    pub kind: &'static str,
    /// Function, operator, group.
    pub name: String,
    /// File of the source, or the library; empty if there is none.
    pub file: String,
    /// Line, 0 if there is none.
    pub line: u32,
}

impl CallLabel {
    /// The label of a frame.
    pub fn of(tree: &CallTree, frame: &CallFrame, by_line: bool) -> Self {
        Self {
            kind: frame.kind().name(),
            name: frame.name(&tree.strings),
            file: frame.file().map_or_else(String::new, |file| tree.strings.get(file).to_owned()),
            line: frame.line().filter(|_| by_line).unwrap_or(0),
        }
    }

    /// A group of values.
    pub(super) fn group(name: String) -> Self {
        Self { kind: "group", name, ..Self::default() }
    }

    /// What patterns are matched with: name, and file and line in full.
    pub fn whole(&self) -> String {
        self.text(&self.file)
    }

    /// For people: with the file's name only, and without a library's, which its name holds.
    pub fn short(&self) -> String {
        let file = if self.kind == "native" { "" } else { self.file.as_str() };
        self.text(file.rsplit(['/', '\\']).next().unwrap_or(file))
    }

    fn text(&self, file: &str) -> String {
        match (file, self.line) {
            ("", _) => self.name.clone(),
            (file, 0) => format!("{} {file}", self.name),
            (file, line) => format!("{} {file}:{line}", self.name),
        }
    }
}
