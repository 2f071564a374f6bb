//! Selectors of the events of an edit, as text: `WHAT:PATTERN`.

use super::super::category::Category;
use super::functions::Function;
use super::listed::{self, Listed};
use crate::critical_path::CriticalPathError;
use regex_lite::Regex;
use stackline_model::{EventId, Trace};
use std::sync::Arc;

/// Names that the pattern of a selector is matched against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
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

/// Pattern for names.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Glob for the whole name; `*` matches any text, `?` one character.
    Glob(String),
    /// Regular expression, matched anywhere in the name.
    Regex(Regex),
    /// Whole words of this text, anywhere in the name, case-insensitive.
    Words(String),
}

/// Selector of parts of a trace.
#[derive(Clone, Debug)]
pub struct Selector {
    /// Text as typed.
    pub text: String,
    pub(super) target: Target,
}

#[derive(Clone, Debug)]
pub(super) enum Target {
    Names(What, Pattern),
    /// Number, such as `7`, or device and number, such as `0/7`.
    Stream(Pattern),
    /// Categories in the order of [`Category::ALL`].
    Categories(Vec<Category>),
    /// Exactly these events.
    Events(Arc<Chosen>),
    /// Events by number, for any trace.
    Listed(Arc<Listed>),
}

/// Individually selected events, and time of threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    /// GPU operations, waiting calls, spans of threads.
    pub events: Vec<EventId>,
    /// Time of a thread from the start of one event to the end of another one on the same thread.
    pub stretches: Vec<(EventId, EventId)>,
    /// Time of a thread from the end of one event to the start of another one.
    pub between: Vec<(EventId, EventId)>,
}

const KINDS: &[(&str, What)] = &[
    ("kernel", What::Kernel),
    ("operator", What::Operator),
    ("module", What::Module),
    ("annotation", What::Annotation),
    ("frame", What::Frame),
    ("collective", What::Collective),
    ("sync", What::Sync),
    ("wait", What::Wait),
];

impl What {
    /// Word before the colon.
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

    /// Selector of these events and time ranges. Its text is for readers and cannot be parsed; `listed` returns one
    /// that can.
    pub fn new(text: impl Into<String>, mut chosen: Chosen) -> Self {
        // Each event counts once, independent of the order and repetitions.
        chosen.events.sort_unstable();
        chosen.events.dedup();
        for pairs in [&mut chosen.stretches, &mut chosen.between] {
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

    /// Pattern that only matches the name as typed, and the name. `None` for regular expressions, and for modules,
    /// which can also be selected by class.
    pub(super) fn whole_name(&self) -> Option<(Pattern, &str)> {
        match &self.target {
            Target::Names(What::Module, _) | Target::Names(_, Pattern::Regex(_)) => None,
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
            Target::Names(What::Frame, Pattern::Glob(text)) if !text.contains(['*', '?']) => {
                Some(Function::parse(text))
            }
            _ => None,
        }
    }

    /// Selector of exactly this name.
    pub(super) fn exactly(kind: &str, what: What, name: &str) -> Self {
        Self { text: format!("{kind}:{name}"), target: Target::Names(what, Pattern::exactly(name)) }
    }
}

fn grammar() -> String {
    let kinds: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
    let kinds = kinds.join(", ");
    format!("write WHAT:NAME, where WHAT is {kinds}, stream, category or events, and NAME may contain * or be ~REGEX")
}

fn stream(text: &str) -> Result<Pattern, String> {
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit() || matches!(c, '*' | '-'));
    if text.starts_with('~') || text.split('/').count() <= 2 && text.split('/').all(is_number) {
        return glob_or_regex(text);
    }
    Err("write a stream as 7, as 0/7 with its device (* matches any digits), or as ~REGEX".to_owned())
}

fn category(text: &str) -> Result<Target, String> {
    let known: Vec<Category> = Category::ALL.into_iter().filter(|&c| c != Category::Unknown).collect();
    let pattern = glob_or_regex(text)?;
    let found: Vec<Category> = known.iter().copied().filter(|c| pattern.matches(c.name())).collect();
    if found.is_empty() {
        let names: Vec<&str> = known.into_iter().map(Category::name).collect();
        return Err(format!("unknown category; the categories are {}", names.join(", ")));
    }
    Ok(Target::Categories(found))
}

fn glob_or_regex(text: &str) -> Result<Pattern, String> {
    match text.strip_prefix('~') {
        Some(regex) => Regex::new(regex).map(Pattern::Regex).map_err(|e| format!("not a regular expression: {e}")),
        None => Ok(Pattern::Glob(text.to_owned())),
    }
}

fn pattern(what: What, text: &str) -> Result<Pattern, String> {
    if text.starts_with('~') {
        return glob_or_regex(text);
    }
    if text.is_empty() {
        return Err("the name is missing; write * for all".to_owned());
    }
    let has_star = text.contains(['*', '?']);
    Ok(match what {
        What::Sync | What::Wait if !has_star => Pattern::Words(text.trim_end_matches("()").to_owned()),
        What::Collective if !has_star => Pattern::Glob(format!("*{text}*")),
        _ => Pattern::Glob(text.to_owned()),
    })
}

/// Glob that matches only this text.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('*', "\\*").replace('?', "\\?")
}

impl Pattern {
    /// Pattern of exactly this name.
    pub(super) fn exactly(name: &str) -> Self {
        Self::Glob(escaped(name))
    }

    /// Parse a glob, or a regular expression after `~`.
    ///
    /// # Errors
    /// Returns an error if the regular expression is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        glob_or_regex(text)
    }

    /// True if a name matches.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Glob(glob) => glob_matches(glob.as_bytes(), name.as_bytes()),
            Self::Regex(regex) => regex.is_match(name),
            Self::Words(words) => has_words(name, words),
        }
    }

    /// Pattern as typed after the colon.
    pub(super) fn typed(&self) -> String {
        match self {
            Self::Glob(text) | Self::Words(text) => text.clone(),
            Self::Regex(regex) => format!("~{}", regex.as_str()),
        }
    }

    /// Pattern as text, for the search for similar names.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Glob(text) | Self::Words(text) => text,
            Self::Regex(regex) => regex.as_str(),
        }
    }
}

/// Match the whole `name` against a glob, in linear time except for backtracking to the last `*`.
fn glob_matches(glob: &[u8], name: &[u8]) -> bool {
    let (mut g, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match glob.get(g) {
            Some(b'*') => {
                back = Some((g + 1, n));
                g += 1;
                continue;
            }
            Some(b'?') => Some(1),
            Some(b'\\') if glob.get(g + 1) == Some(&name[n]) => Some(2),
            Some(c) if *c != b'\\' && *c == name[n] => Some(1),
            // A backslash that escapes nothing matches itself.
            Some(b'\\') if name[n] == b'\\' && !matches!(glob.get(g + 1), Some(b'*' | b'?' | b'\\')) => Some(1),
            _ => None,
        };
        match (step, back) {
            (Some(step), _) => {
                g += step;
                n += 1;
            }
            (None, Some((after, from))) => {
                g = after;
                n = from + 1;
                back = Some((after, n));
            }
            (None, None) => return false,
        }
    }
    glob[g..].iter().all(|&c| c == b'*')
}

fn has_words(name: &str, words: &str) -> bool {
    let (name, words) = (name.to_ascii_lowercase(), words.to_ascii_lowercase());
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    name.match_indices(&words)
        .any(|(at, _)| !is_word(name[..at].chars().next_back()) && !is_word(name[at + words.len()..].chars().next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        let fits = |glob: &str, name: &str| glob_matches(glob.as_bytes(), name.as_bytes());
        assert!(fits("*gemm*", "ampere_sgemm_32"));
        assert!(fits("a*b*c", "a_b_b_c"));
        assert!(fits("a?c", "abc"));
        assert!(!fits("a*bc*c", "a_bc"));
        assert!(!fits("gemm", "sgemm"));
        assert!(fits("**", ""));
        for name in ["Foo<a*>(b?)\\c", "plain", "*", "\\*"] {
            assert!(fits(&escaped(name), name), "{name}");
            assert!(!fits(&escaped(name), &format!("{name}x")), "{name}");
        }
    }

    #[test]
    fn words() {
        assert!(has_words("<built-in method item of Tensor object at 0x7f>", "item"));
        assert!(has_words("aten::item", "item"));
        assert!(!has_words("aten::items", "item"));
        assert!(has_words("cudaStreamSynchronize", "cudastreamsynchronize"));
    }

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
            Target::Names(What::Kernel, Pattern::Regex(_))
        ));
        for bad in ["", "kernel", "kernel:", "kernel:~(", "stream:x", "category:unknown", "disk:a"] {
            let error = Selector::parse(bad).unwrap_err().to_string();
            assert!(error.contains(bad), "{error}");
        }
    }
}
