//! Sampled instructions: text, source comment, and code object.

use rustc_hash::FxHashMap;
use stackline_model::{StrId, StringTable};
use std::borrow::Cow;

/// Sampled instruction of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Code {
    /// Row of [`Instructions`]; `None` if the instruction was not decoded.
    pub(super) instruction: Option<u32>,
    /// Number of the code object; 0 if it is unknown.
    pub(super) object: Option<i64>,
    /// Offset in the code object; the address if the code object is unknown.
    pub(super) offset: Option<i64>,
}

/// Instructions and code objects, each once.
#[derive(Debug, Default)]
pub(super) struct Instructions {
    /// Texts of instructions, comments, stall reasons and instruction types.
    texts: StringTable,
    /// Text and comment of each instruction.
    list: Vec<(StrId, StrId)>,
    rows: FxHashMap<(StrId, StrId), u32>,
    /// Paths of the code objects by number.
    modules: FxHashMap<i64, Box<str>>,
}

impl Instructions {
    /// Find or add an instruction by its text and comment.
    pub(super) fn code(&mut self, text: &str, comment: &str) -> Code {
        let instruction = (self.texts.intern(text), self.texts.intern(comment));
        let next = self.list.len() as u32;
        let row = *self.rows.entry(instruction).or_insert(next);
        if row == next {
            self.list.push(instruction);
        }
        Code { instruction: Some(row), ..Code::default() }
    }

    /// Add the instructions of a list, to which samples refer by position.
    pub(super) fn list(&mut self, texts: &[String], comments: &[String]) {
        for (at, text) in texts.iter().enumerate() {
            let comment = comments.get(at).map_or("", String::as_str);
            let instruction = (self.texts.intern(text), self.texts.intern(comment));
            self.list.push(instruction);
        }
    }

    /// Add the path of a code object's URI. Code that was compiled in memory has no path.
    pub(super) fn add_module(&mut self, object: i64, uri: &str) {
        let path = uri.strip_prefix("file://").and_then(|path| path.split(['#', '?']).next());
        if let Some(path) = path.filter(|path| !path.is_empty()) {
            self.modules.insert(object, path.into());
        }
    }

    /// Intern a name of an enumeration without its prefix, in lower case; [`StrId::NONE`] for an empty name.
    pub(super) fn short_name(&mut self, name: &str, prefix: &str) -> StrId {
        match name.strip_prefix(prefix).unwrap_or(name) {
            "" => StrId::NONE,
            short => self.texts.intern(&short.to_ascii_lowercase()),
        }
    }

    /// Text with this handle.
    pub(super) fn text(&self, id: StrId) -> &str {
        self.texts.get(id)
    }

    /// True if a sample refers to an instruction that the list lacks.
    pub(super) fn lacks(&self, code: Code) -> bool {
        code.instruction.is_some_and(|row| row as usize >= self.list.len())
    }

    /// Name of an instruction, its source comment, and the path of its code object. Code without a text is named by its
    /// code object and offset, or its address.
    pub(super) fn describe(&self, code: Code) -> (Cow<'_, str>, &str, &str) {
        let object = code.object.filter(|&object| object > 0);
        let module = object.and_then(|object| self.modules.get(&object)).map_or("", |path| path);
        let listed = code.instruction.and_then(|row| self.list.get(row as usize));
        let (text, comment) = listed.map_or(("", ""), |&(text, comment)| (self.text(text), self.text(comment)));
        if !text.is_empty() {
            return (Cow::Borrowed(text), comment, module);
        }
        let name = match (object, code.offset) {
            (_, None) => "unknown instruction".to_owned(),
            (None, Some(address)) => format!("instruction at {address:#x}"),
            (Some(object), Some(offset)) if module.is_empty() => format!("code object {object}+{offset:#x}"),
            (Some(_), Some(offset)) => format!("{}+{offset:#x}", module.rsplit('/').next().unwrap_or(module)),
        };
        (Cow::Owned(name), comment, module)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_named_by_text_else_by_offset_or_address() {
        let mut instructions = Instructions::default();
        instructions.add_module(2, "file:///opt/lib/ops.so#offset=4096&size=512");
        instructions.add_module(3, "memory://908#offset=0x7f00&size=512");
        let decoded = instructions.code("s_endpgm", "/src/ops.hip:9");
        assert_eq!(instructions.code("s_endpgm", "/src/ops.hip:9"), decoded);
        let at = |object, offset| Code { instruction: None, object: Some(object), offset };
        for (code, expected) in [
            (Code { object: Some(2), ..decoded }, ("s_endpgm", "/src/ops.hip:9", "/opt/lib/ops.so")),
            (at(2, Some(20)), ("ops.so+0x14", "", "/opt/lib/ops.so")),
            (at(3, Some(20)), ("code object 3+0x14", "", "")),
            (at(0, Some(4096)), ("instruction at 0x1000", "", "")),
            (at(0, None), ("unknown instruction", "", "")),
        ] {
            let (name, comment, module) = instructions.describe(code);
            assert_eq!((&*name, comment, module), expected);
        }
        assert!(instructions.lacks(Code { instruction: Some(7), ..Code::default() }) && !instructions.lacks(decoded));
        let reason = instructions.short_name("PREFIX_WAITCNT", "PREFIX_");
        assert_eq!(instructions.text(reason), "waitcnt");
        assert!(instructions.short_name("", "PREFIX_").is_none());
    }
}
