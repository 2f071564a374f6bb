//! Suppression of findings, by a file or by comments in source code.

use crate::args::CommentArgs;
use crate::failure::{did_you_mean, unreadable, wrong_use};
use crate::output::print_message;
use anyhow::Result;
use stackline_critical_path as critical_path;
use stackline_findings::{Finding, RuleInfo, rules};
use stackline_present::findings::IgnoreLocation;
use stackline_query::SourceRoots;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Findings to ignore, from the ignore file and from comments in source code.
#[derive(Debug, Default)]
pub(crate) struct Suppressions {
    lines: Vec<Line>,
    /// Numbers of those that a finding fitted.
    used: RefCell<BTreeSet<usize>>,
    /// Name of the file that they are from.
    file: String,
    sources: SourceRoots,
    /// Lines of the program's files, those that could be read.
    files: RefCell<BTreeMap<String, Option<Vec<String>>>>,
    rules: Rules,
    /// Files that the run names.
    named: RefCell<BTreeSet<String>>,
    /// Files and lines of comments that a finding fitted.
    used_comments: RefCell<BTreeSet<(String, usize)>>,
}

/// All known rules: the built-in ones and the loaded Python rules.
#[derive(Debug, Default)]
struct Rules {
    /// Those of the user's own.
    own: Vec<Arc<RuleInfo>>,
}

impl Rules {
    /// Code of the rule that has this code or name; `None` for unknown rules.
    fn find(&self, code: &str) -> Option<&str> {
        let own = self.own.iter().find(|rule| rule.code.eq_ignore_ascii_case(code) || rule.name == code);
        rules::find(code).map(|rule| rule.code).or_else(|| own.map(|rule| rule.code.as_str()))
    }

    /// Check if a code may belong to a Python rule while none is loaded.
    fn is_of_users(&self, code: &str) -> bool {
        self.own.is_empty() && !code.starts_with("SL")
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let own = self.own.iter().flat_map(|rule| [rule.code.as_str(), rule.name.as_str()]);
        rules::ALL.iter().flat_map(|rule| [rule.code, rule.name]).chain(own)
    }
}

#[derive(Debug, PartialEq)]
struct Line {
    number: usize,
    code: String,
    /// Path pattern; `None` matches all.
    path: Option<String>,
}

impl Suppressions {
    /// Read the ignore file, with lines of the form `CODE [PATH]`.
    ///
    /// # Errors
    /// If it cannot be read, or names a code that no rule has: such a line would never do anything.
    pub(crate) fn read(file: Option<&Path>, sources: SourceRoots, own: Vec<Arc<RuleInfo>>) -> Result<Self> {
        let rules = Rules { own };
        let Some(file) = file else { return Ok(Self { sources, rules, ..Self::default() }) };
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file)
            .map_err(|error| unreadable(format!("{name}: cannot read the list of findings to ignore: {error}")))?;
        let lines = parse(&text, &rules).map_err(|reason| wrong_use(format!("{name}: {reason}")))?;
        Ok(Self { lines, file: name, sources, rules, ..Self::default() })
    }

    /// Line of the ignore file or source comment that ignores a finding; `None` if it is not ignored.
    pub(crate) fn suppression_of(&self, finding: &Finding) -> Option<IgnoreLocation> {
        let code = &finding.rule.code;
        let file = finding.place.file.as_deref().unwrap_or_default();
        let fits = |line: &&Line| line.code == *code && line.path.as_deref().is_none_or(|path| matches(path, file));
        let fitting: Vec<&Line> = self.lines.iter().filter(fits).collect();
        self.used.borrow_mut().extend(fitting.iter().map(|line| line.number));
        if let Some(line) = fitting.first() {
            return Some(IgnoreLocation::File(format!("{}:{}", self.file, line.number)));
        }
        let line = finding.place.line? as usize;
        let mut files = self.files.borrow_mut();
        let lines = || Some(self.sources.read(file)?.lines().map(str::to_owned).collect());
        let text = files.entry(file.to_owned()).or_insert_with(lines).as_ref()?;
        self.named.borrow_mut().insert(file.to_owned());
        // The line itself, or a line above it that is nothing but the comment.
        let at = |line: usize| text.get(line.checked_sub(1)?).map(|text| (line, text));
        let above = at(line.wrapping_sub(1)).filter(|(_, text)| text.trim_start().starts_with('#'));
        let mut codes_here =
            at(line).into_iter().chain(above).filter_map(|(line, text)| Some((line, codes(text, &self.rules)?)));
        let (line, _) = codes_here.find(|(_, codes)| codes.is_empty() || codes.iter().any(|c| c == code))?;
        self.used_comments.borrow_mut().insert((file.to_owned(), line));
        Some(IgnoreLocation::Comment(format!("{file}:{line}")))
    }

    /// Add source files that a trace names to those in which `warnings` searches for ignore comments without effect.
    pub(crate) fn note_files(&self, files: BTreeSet<&str>) {
        self.named.borrow_mut().extend(files.into_iter().map(str::to_owned));
    }

    /// Warnings after all rules ran: unknown codes, and comments and ignore lines that matched no finding.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let (mut unknown, mut idle) = (Vec::new(), Vec::new());
        let mut room = MOST_BYTES;
        for file in self.named.borrow().iter() {
            let Some(text) = self.sources.read(file).filter(|text| text.len() <= room) else { continue };
            room -= text.len();
            if text.contains(MARK) {
                self.comments(file, &text, (&mut unknown, &mut idle));
            }
        }
        [unknown, idle, self.idle()].concat()
    }

    /// Collect warnings about the ignore comments of a source file: unknown codes, and comments that match no finding.
    fn comments(&self, file: &str, text: &str, (unknown, idle): (&mut Vec<String>, &mut Vec<String>)) {
        let used = self.used_comments.borrow();
        for (number, line) in (1..).zip(text.lines()) {
            if has_empty_list(line) {
                unknown.push(format!(
                    "{file}:{number}: the comment # {MARK} ignore[] names no finding code, so it ignores no finding"
                ));
            }
            let Some(codes) = codes(line, &self.rules) else { continue };
            let is_unknown = |code: &&String| self.rules.find(code).is_none();
            let quoted_code = |code: &String| {
                let hint = if self.rules.is_of_users(code) { " (load Python rules with --rules)" } else { "" };
                format!("{file}:{number}: the comment ignores an unknown finding code: {code:?}{hint}")
            };
            unknown.extend(codes.iter().filter(is_unknown).map(quoted_code));
            if !used.contains(&(file.to_owned(), number)) {
                let list = if codes.is_empty() { String::new() } else { format!("[{}]", codes.join(", ")) };
                idle.push(format!("{file}:{number}: the comment # {MARK} ignore{list} matches no finding"));
            }
        }
    }

    /// Warnings about lines of the ignore file that matched no finding.
    fn idle(&self) -> Vec<String> {
        let used = self.used.borrow();
        let idle = self.lines.iter().filter(|line| !used.contains(&line.number));
        let text = |line: &Line| {
            let path = line.path.as_ref().map_or_else(String::new, |path| format!(" {path}"));
            let Line { number, code, .. } = line;
            format!("{}:{number}: the entry {code}{path} of this ignore file matches no finding", self.file)
        };
        idle.map(text).collect()
    }
}

/// Directories to search for comments that ignore findings; by default the current directory and input directories.
/// Reading the current directory is safe, since it is the user's checkout and none of its text is shown.
///
/// # Errors
/// If a named directory is none.
pub(crate) fn comment_sources(args: &CommentArgs, inputs: &[PathBuf]) -> Result<SourceRoots> {
    let mut named: Vec<PathBuf> = args.source_root.iter().chain(&args.source).cloned().collect();
    if let Some(missing) = named.iter().find(|root| !root.is_dir()) {
        return Err(wrong_use(format!("--source-root {}: no such directory", missing.display())));
    }
    if args.source.is_some() {
        print_message("--source is now called --source-root; the old name will be removed")?;
    }
    if args.no_source {
        return Ok(SourceRoots::default());
    }
    if named.is_empty() {
        named.push(PathBuf::from("."));
    }
    Ok(SourceRoots::new(named.iter().chain(inputs)))
}

/// Comments are looked for in so many bytes of files.
const MOST_BYTES: usize = 1 << 26;
/// Prefix of comments about findings.
const MARK: &str = "stackline:";

/// Check if a finding's code has the form of a Python rule's code, such as `MY001`, rather than of a misspelled name.
pub(super) fn is_python_rule_code(code: &str) -> bool {
    !code.starts_with("SL") && code.ends_with(|c: char| c.is_ascii_digit())
}

/// Parse the lines of an ignore file; empty lines and comments are skipped. Error for an unknown code.
fn parse(text: &str, rules: &Rules) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some(code) = line.split_whitespace().next() else { continue };
        let Some(known) = rules.find(code) else {
            let near = did_you_mean(code, rules.names());
            let hint = if rules.is_of_users(code) && is_python_rule_code(code) {
                " (load Python rules with --rules)"
            } else {
                ""
            };
            return Err(format!("line {number}: unknown finding code {code:?}{hint}{near}"));
        };
        let path = line[code.len()..].trim();
        lines.push(Line { number, code: known.to_owned(), path: (!path.is_empty()).then(|| path.to_owned()) });
    }
    Ok(lines)
}

/// Parse the codes of a comment `# stackline: ignore[SL004, SL012]`; an empty list if the comment ignores all rules.
/// `None` if the line has no such comment.
fn codes(line: &str, rules: &Rules) -> Option<Vec<String>> {
    let (_, comment) = line.split_once('#')?;
    let rest = comment.split_once(MARK)?.1.trim_start().strip_prefix("ignore")?;
    let Some(list) = rest.strip_prefix('[') else {
        return (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(Vec::new);
    };
    let known = |code: &str| rules.find(code.trim()).unwrap_or(code.trim()).to_owned();
    let codes: Vec<String> = list.split_once(']')?.0.split(',').map(known).filter(|code| !code.is_empty()).collect();
    (!codes.is_empty()).then_some(codes)
}

/// Check if a line has the comment `# stackline: ignore[]`, whose empty list ignores nothing.
fn has_empty_list(line: &str) -> bool {
    let list = || line.split_once('#')?.1.split_once(MARK)?.1.trim_start().strip_prefix("ignore[")?.split_once(']');
    list().is_some_and(|(list, _)| list.chars().all(|c| c == ',' || c.is_whitespace()))
}

/// Match a path, or its end after a `/`, with a pattern in which `*` matches any text.
fn matches(pattern: &str, path: &str) -> bool {
    let folders = path.match_indices('/').map(|(at, _)| at + 1);
    std::iter::once(0).chain(folders).any(|from| critical_path::matches(pattern, &path[from..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_name_codes() {
        let codes = |line: &str| codes(line, &Rules::default());
        assert_eq!(codes("x = y.item()  # stackline: ignore[SL004]"), Some(vec!["SL004".to_owned()]));
        assert_eq!(codes("# stackline: ignore[host-sync, SL001] why"), Some(vec!["SL004".into(), "SL001".into()]));
        assert_eq!(codes("x  # stackline: ignore"), Some(Vec::new()));
        for none in
            ["stackline: ignore[SL004]", "# stackline: ignore[SL004", "# stackline: ignored", "# stackline: ignore[]"]
        {
            assert_eq!(codes(none), None, "{none}");
        }
        assert_eq!(codes("x  # noqa"), None);
        assert!(has_empty_list("x  # stackline: ignore[ , ]") && !has_empty_list("x  # stackline: ignore[SL004]"));
        assert!(!has_empty_list("x  # stackline: ignore") && !has_empty_list("x = ignore[]"));
    }

    #[test]
    fn files_name_codes_and_paths() {
        let parse = |text: &str| parse(text, &Rules::default());
        let lines = parse("# all\nSL004\nhost-sync  src/*.py  # theirs\n\n").unwrap();
        assert_eq!(lines[0], Line { number: 2, code: "SL004".to_owned(), path: None });
        assert_eq!(lines[1], Line { number: 3, code: "SL004".to_owned(), path: Some("src/*.py".to_owned()) });
        assert!(parse("SL999").unwrap_err().contains("line 1"));
        assert!(parse("ZZTOP001").unwrap_err().contains("--rules") && !parse("SL999").unwrap_err().contains("--rules"));
    }

    #[test]
    fn comments_are_searched_only_in_source_files_below_directories() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["train.py", "notes", "outside.py", "code/train.py"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x = 1\n").unwrap();
        }
        let path = |name: &str| folder.path().join(name);
        let args = |roots: &[&str], source: Option<&str>, no_source| CommentArgs {
            source_root: roots.iter().map(|root| path(root)).collect(),
            source: source.map(path),
            no_source,
        };
        let read = |args: &CommentArgs, inputs: &[PathBuf]| {
            let sources = comment_sources(args, inputs).unwrap();
            ["train.py", "notes", "../outside.py"].map(|name| sources.read(name).is_some())
        };
        assert_eq!(read(&args(&[""], None, false), &[]), [true, false, false]);
        assert_eq!(read(&args(&["code"], None, false), &[]), [true, false, false]);
        assert_eq!(read(&args(&[], Some("code"), false), &[]), [true, false, false]);
        assert_eq!(read(&args(&[], None, false), &[folder.path().to_owned()]), [true, false, false]);
        assert_eq!(read(&args(&[], None, true), &[folder.path().to_owned()]), [false; 3]);
        let error = comment_sources(&args(&["nope"], None, false), &[]).unwrap_err().to_string();
        assert!(error.ends_with("nope: no such directory"), "{error}");
    }

    #[test]
    fn path_patterns_match_from_any_folder() {
        assert!(matches("train.py", "src/train.py") && matches("src/*.py", "a/src/b/c.py") && matches("*", "x"));
        assert!(!matches("train.py", "src/retrain.py") && !matches("src/*.py", "src/a.pyx"));
    }
}
