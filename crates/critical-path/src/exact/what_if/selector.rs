//! Selectors of the events that an edit changes, as text of the form `KIND:PATTERN`.

use super::super::category::Category;
use super::functions::Function;
use super::listed::{self, Chosen, Listed};
use crate::CriticalPathError;
use stackline_model::Trace;
use stackline_timeline::name_pattern::{Pattern, escaped};
use std::sync::Arc;

/// Kind of names that the pattern of a selector is matched against, such as kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// Names of kernels, copies and fills.
    Kernel,
    /// Names of operators.
    Operator,
    /// Names of modules, with or without the prefix `nn.Module: ` and the number at the end.
    Module,
    /// Names of annotations.
    Annotation,
    /// Names of Python frames.
    Frame,
    /// Names of communicating GPU work.
    Collective,
    /// Names of calls that wait for the GPU, or of operators and frames around them.
    Sync,
    /// Same names as [`Self::Sync`], but only for calls that waited.
    Wait,
}

/// Selector of the parts of a trace that an edit changes.
#[derive(Clone, Debug)]
pub struct Selector {
    /// Text as typed.
    pub text: String,
    pub(super) target: Target,
}

/// Parts of a trace that a selector matches: names of a kind, a stream, causes, or individual events.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Names(NameKind, Pattern),
    /// Number, such as `7`, or device and number, such as `0/7`.
    Stream(Pattern),
    /// Categories in the order of [`Category::ALL`].
    Categories(Vec<Category>),
    /// Exactly these events.
    Events(Arc<Chosen>),
    /// Events by number, for any trace.
    Listed(Arc<Listed>),
}

const KINDS: &[(&str, NameKind)] = &[
    ("kernel", NameKind::Kernel),
    ("operator", NameKind::Operator),
    ("module", NameKind::Module),
    ("annotation", NameKind::Annotation),
    ("frame", NameKind::Frame),
    ("collective", NameKind::Collective),
    ("sync", NameKind::Sync),
    ("wait", NameKind::Wait),
];

impl NameKind {
    /// Word before the colon of a selector, such as `kernel`.
    pub(super) fn name(self) -> &'static str {
        KINDS.iter().find(|(_, what)| *what == self).map_or("", |(name, _)| name)
    }
}

/// Selectors with the same text are equal, except for those of events.
impl PartialEq for Selector {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
            && match (&self.target, &other.target) {
                (Target::Events(these), Target::Events(those)) => these == those,
                (Target::Events(_), _) | (_, Target::Events(_)) => false,
                _ => true,
            }
    }
}

impl Selector {
    /// Parse a selector: `kernel:GLOB` or `kernel:~REGEX`; likewise `operator:`, `module:`, `annotation:`, `frame:`,
    /// `collective:`, `sync:`, `wait:`; `stream:` (`7`, or `0/7` with its device), `category:` (`gpu_compute`) and
    /// `events:` (`12,15..18`, by position in the source).
    ///
    /// # Errors
    /// Returns an error if the text has none of these forms.
    pub fn parse(text: &str) -> Result<Self, CriticalPathError> {
        let fail = |reason: String| CriticalPathError::InvalidEdit { text: text.to_owned(), reason };
        let (kind, rest) = text.split_once(':').ok_or_else(|| fail(grammar()))?;
        let target = match kind {
            "stream" => Target::Stream(stream(rest).map_err(fail)?),
            "category" => category(rest).map_err(fail)?,
            "events" => Target::Listed(Arc::new(Listed::parse(rest).map_err(fail)?)),
            _ => {
                let &(_, what) = KINDS.iter().find(|(name, _)| *name == kind).ok_or_else(|| fail(grammar()))?;
                Target::Names(what, pattern(what, rest).map_err(fail)?)
            }
        };
        Ok(Self { text: text.to_owned(), target })
    }

    /// Create a selector of individually chosen events and time ranges. Its text is for readers and cannot be parsed;
    /// `listed` returns one that can.
    pub fn new(text: impl Into<String>, mut chosen: Chosen) -> Self {
        // Each event counts once, independent of the order and repetitions.
        chosen.events.sort_unstable();
        chosen.events.dedup();
        for pairs in [&mut chosen.ranges, &mut chosen.between] {
            pairs.sort_unstable();
            pairs.dedup();
        }
        Self { text: text.into(), target: Target::Events(Arc::new(chosen)) }
    }

    /// Text from which [`Self::parse`] creates a selector of the same parts of this trace.
    pub(super) fn listed(&self, trace: &Trace) -> String {
        match &self.target {
            Target::Events(chosen) => listed::text_of(trace, chosen),
            _ => self.text.clone(),
        }
    }

    /// Name without wildcards that a selector matches, and its pattern. `None` for regular expressions, and for
    /// modules, which can also be selected by class.
    pub(super) fn whole_name(&self) -> Option<(Pattern, &str)> {
        match &self.target {
            Target::Names(NameKind::Module, _) | Target::Names(_, Pattern::Regex(_)) => None,
            Target::Names(..) => {
                let (_, name) = self.text.split_once(':')?;
                Some((Pattern::Glob(escaped(name)), name))
            }
            _ => None,
        }
    }

    /// Function that a frame selector names; `None` for patterns.
    pub(super) fn function(&self) -> Option<Function<'_>> {
        match &self.target {
            Target::Names(NameKind::Frame, Pattern::Glob(text)) if !text.contains(['*', '?']) => {
                Some(Function::parse(text))
            }
            _ => None,
        }
    }

    /// Create a selector of the events with exactly this name, without wildcards.
    pub(super) fn exactly(kind: &str, what: NameKind, name: &str) -> Self {
        Self { text: format!("{kind}:{name}"), target: Target::Names(what, Pattern::exactly(name)) }
    }
}

/// Message with the valid forms of a selector.
fn grammar() -> String {
    let kinds: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
    let kinds = kinds.join(", ");
    format!(
        "write WHAT:NAME, where WHAT is {kinds}, stream, category or events, and NAME is a name, a name with * for \
             any text, or ~REGEX"
    )
}

/// Parse the pattern of a `stream:` selector: `7`, `0/7` (device and stream) or `~REGEX`.
fn stream(text: &str) -> Result<Pattern, String> {
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit() || matches!(c, '*' | '-'));
    if text.starts_with('~') || text.split('/').count() <= 2 && text.split('/').all(is_number) {
        return Pattern::parse(text);
    }
    Err("write a stream as 7, as 0/7 (device 0, stream 7; * matches any number), or as ~REGEX".to_owned())
}

/// Parse the pattern of a `category:` selector to the matching causes; an error if none matches.
fn category(text: &str) -> Result<Target, String> {
    let known: Vec<Category> = Category::ALL.into_iter().filter(|&c| c != Category::Unknown).collect();
    let pattern = Pattern::parse(text)?;
    let found: Vec<Category> = known.iter().copied().filter(|c| pattern.matches(c.name())).collect();
    if found.is_empty() {
        let names: Vec<&str> = known.into_iter().map(Category::name).collect();
        return Err(format!("unknown category of critical-path time; the categories are {}", names.join(", ")));
    }
    Ok(Target::Categories(found))
}

/// Parse the name pattern of a selector: a glob or `~REGEX`.
///
/// Without wildcards, waits match by words and collectives by a part of the name.
fn pattern(what: NameKind, text: &str) -> Result<Pattern, String> {
    if text.starts_with('~') {
        return Pattern::parse(text);
    }
    if text.is_empty() {
        return Err("the name after the colon is missing; write * for all names".to_owned());
    }
    let has_star = text.contains(['*', '?']);
    Ok(match what {
        NameKind::Sync | NameKind::Wait if !has_star => Pattern::Words(text.trim_end_matches("()").to_owned()),
        NameKind::Collective if !has_star => Pattern::Glob(format!("*{text}*")),
        _ => Pattern::Glob(text.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors() {
        for text in ["stream:0/7", "stream:7", "stream:*", "stream:0/*", "stream:~^2", "stream:-1"] {
            assert!(matches!(Selector::parse(text).unwrap().target, Target::Stream(_)), "{text}");
        }
        let categories = |text: &str| match Selector::parse(text).unwrap().target {
            Target::Categories(found) => found,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(categories("category:gpu_copy"), [Category::GpuCopy]);
        assert_eq!(categories("category:gpu_*").len(), 4);
        assert_eq!(categories("category:~^host_(python|runtime)$"), [Category::HostRuntime, Category::HostPython]);
        assert!(matches!(
            Selector::parse("kernel:~a|b").unwrap().target,
            Target::Names(NameKind::Kernel, Pattern::Regex(_))
        ));
        for bad in ["", "kernel", "kernel:", "kernel:~(", "stream:x", "category:unknown", "disk:a"] {
            let error = Selector::parse(bad).unwrap_err().to_string();
            assert!(error.contains(bad), "{error}");
        }
    }
}
