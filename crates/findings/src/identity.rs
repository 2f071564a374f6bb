//! Matching of findings between runs, program versions and ranks.

use super::finding::Finding;
use stackline_critical_path::exact::what_if::module_class;
use stackline_timeline::source_location::SourceLocation;
use std::collections::BTreeMap;
use std::fmt;

/// Identity of a finding across runs: rule code, source location and edits. Excludes lines and numbers of modules
/// (`Linear_12`), which shift when code is inserted before them: [`pair`] distinguishes findings that differ only in
/// these.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    code: String,
    /// File, function, module and operator; empty if unknown.
    place: [String; 4],
    edits: String,
}

impl Identity {
    /// Create the identity (rule, source location, edits) that matches a finding between runs.
    pub fn from_finding(finding: &Finding) -> Self {
        Self::new(&finding.rule.code, &finding.place, &finding.edit_labels.join("; "))
    }

    /// Identity from its parts; edits as text, separated by `; `.
    pub fn new(code: &str, place: &SourceLocation, edits: &str) -> Self {
        let module = place.module.as_deref().map(|module| module_class(module).to_owned());
        let place = [place.file.clone(), place.function.clone(), module, place.operator.clone()];
        Self { code: code.to_owned(), place: place.map(Option::unwrap_or_default), edits: stable_edits(edits) }
    }

    /// Code of the finding's rule, such as `SL001`.
    pub fn code(&self) -> &str {
        &self.code
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.code, self.place.join(":"), self.edits)
    }
}

/// Edits as text without measured values (factors and times), which differ between runs, and without lines and
/// numbers of modules, which shift.
fn stable_edits(edits: &str) -> String {
    let one = |edit: &str| {
        let measured = ["scale ", "set "].iter().any(|action| edit.starts_with(action));
        let kept = if measured { edit.rsplit_once(' ').map_or(edit, |(kept, _)| kept) } else { edit };
        let kept = if kept.contains(" module:") { module_class(kept) } else { kept };
        let mut parts = kept.split(':');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| match part.trim_start_matches(|c: char| c.is_ascii_digit()) {
            rest if rest.len() < part.len() => text + rest,
            _ => text + ":" + part,
        })
    };
    edits.split("; ").map(one).collect::<Vec<_>>().join("; ")
}

/// Line, module and title words of a finding, which distinguish findings with the same identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    line: Option<u32>,
    module: Option<String>,
    words: String,
}

impl Mark {
    /// Create the mark (source location and title) that distinguishes findings of the same identity.
    pub fn from_finding(finding: &Finding) -> Self {
        Self::new(&finding.place, &finding.title)
    }

    /// Mark of a finding with this source location and title.
    pub fn new(place: &SourceLocation, title: &str) -> Self {
        Self { line: place.line, module: place.module.clone(), words: title_words(title) }
    }

    /// Sort key: line, then number of the module, then words of the title.
    fn order(&self) -> (Option<u32>, u64, &str) {
        let number = self.module.as_deref().and_then(|module| module.rsplit_once('_')?.1.parse().ok());
        (self.line, number.unwrap_or(0), &self.words)
    }
}

/// Title without numbers and units of time: 980 µs may be 1.02 ms in the next run.
fn title_words(title: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut is_number = false;
    for word in title.split(' ') {
        let is_unit = is_number && UNITS.contains(&word.trim_end_matches([',', ':', ';', ')']));
        is_number = word.trim_start_matches('(').starts_with(|c: char| c.is_ascii_digit());
        if !is_unit {
            words.push(word.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect());
        }
    }
    words.join(" ")
}

/// Units of times in titles.
const UNITS: [&str; 5] = ["ns", "us", "µs", "ms", "s"];

/// Match each current finding with an earlier finding of the same identity: first by line, then the rest in the order
/// of lines. Returns indexes into `before`, `None` for new findings.
///
/// Gains are not compared: a remaining finding would take the place of a repaired one.
pub fn pair(before: &[Mark], now: &[Mark]) -> Vec<Option<usize>> {
    let mut pairs = Pairs { before, now, taken: vec![false; before.len()], of: vec![None; now.len()] };
    // Equal counts: code that was inserted elsewhere shifted the numbers of all modules.
    pairs.pair_equal(|mark| (mark.line, &mark.words), true);
    pairs.pair_equal(|mark| (mark.line, &mark.words, &mark.module), false);
    pairs.pair_equal(|mark| (mark.line, &mark.words), false);
    pairs.pair_equal(|mark| mark.line, false);
    pairs.pair_equal(|_| (), false);
    pairs.of
}

/// Earlier and current findings, with the pairs found so far.
struct Pairs<'m> {
    before: &'m [Mark],
    now: &'m [Mark],
    taken: Vec<bool>,
    of: Vec<Option<usize>>,
}

impl<'m> Pairs<'m> {
    /// Pair unpaired findings with equal keys in their order; with `as_many` only if both sides have equally many.
    fn pair_equal<K: Ord>(&mut self, key: impl Fn(&'m Mark) -> K, as_many: bool) {
        let groups = |marks: &'m [Mark], is_left: &dyn Fn(usize) -> bool| {
            let mut order: Vec<usize> = (0..marks.len()).filter(|&at| is_left(at)).collect();
            order.sort_by_key(|&at| marks[at].order());
            let mut groups: BTreeMap<K, Vec<usize>> = BTreeMap::new();
            for at in order {
                groups.entry(key(&marks[at])).or_default().push(at);
            }
            groups
        };
        let before = groups(self.before, &|at| !self.taken[at]);
        let now = groups(self.now, &|at| self.of[at].is_none());
        for (key, now) in now {
            let Some(before) = before.get(&key).filter(|before| !as_many || before.len() == now.len()) else {
                continue;
            };
            for (&then, at) in before.iter().zip(now) {
                self.taken[then] = true;
                self.of[at] = Some(then);
            }
        }
    }
}

/// Identities of findings as text, unique by suffix. The second finding with an identity, in the order of lines, ends
/// with `:2`, and so on.
pub fn fingerprints(findings: &[&Finding]) -> Vec<String> {
    let marks: Vec<Mark> = findings.iter().map(|finding| Mark::from_finding(finding)).collect();
    let mut order: Vec<usize> = (0..findings.len()).collect();
    order.sort_by_key(|&at| (marks[at].order(), &findings[at].title));
    let mut seen: BTreeMap<Identity, usize> = BTreeMap::new();
    let mut fingerprints = vec![String::new(); findings.len()];
    for at in order {
        let identity = Identity::from_finding(findings[at]);
        let text = identity.to_string();
        let nth = seen.entry(identity).or_default();
        *nth += 1;
        fingerprints[at] = if *nth > 1 { format!("{text}:{nth}") } else { text };
    }
    fingerprints
}

/// Separator of a title and its most expensive source location.
pub(crate) const LOCATION_SEPARATOR: &str = "; most of it at ";

/// Identity of a finding across ranks. Ranks run the same program, so lines and modules are equal. Kernels, and so
/// edits, may differ: the title without numbers represents them.
pub(crate) fn rank_identity(finding: &Finding) -> (String, SourceLocation, String) {
    // The most expensive source location of loading may differ between ranks.
    let title = finding.title.split_once(LOCATION_SEPARATOR).map_or(finding.title.as_str(), |(title, _)| title);
    (finding.rule.code.clone(), finding.place.clone(), title_words(title))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(line: u32, module: &str, title: &str) -> Mark {
        let (line, module) = ((line > 0).then_some(line), (!module.is_empty()).then(|| module.to_owned()));
        Mark::new(&SourceLocation { line, module, ..SourceLocation::default() }, title)
    }

    #[test]
    fn title_words_exclude_times_in_any_unit() {
        for (before, now) in [
            (
                "step 5 takes 980 µs, the median step 0.4 ms: more",
                "step 7 takes 1.392 s, the median step 12.3 ms: more",
            ),
            ("a dtype change of 3 tensors (2.1 us)", "a dtype change of 12 tensors (1 ms)"),
        ] {
            assert_eq!(title_words(before), title_words(now));
        }
        assert_ne!(title_words("print 3 ms objects"), title_words("print 3 objects of ms"));
        assert_ne!(title_words("reads ms of a"), title_words("reads of a"), "no number stands before it");
    }

    #[test]
    fn stable_edits_exclude_measured_values() {
        for (edits, kept) in [
            ("scale operators of x.py:16 in Net.softmax 0.0158", "scale operators of x.py in Net.softmax"),
            ("remove sync:item(); set kernel:gemm_128x64 17", "remove sync:item(); set kernel:gemm_128x64"),
            ("fuse module:Linear_3; scale kernel:gemm_3 0.5", "fuse module:Linear; scale kernel:gemm_3"),
            ("", ""),
        ] {
            assert_eq!(stable_edits(edits), kept);
        }
    }

    #[test]
    fn identity_excludes_module_numbers() {
        let of = |module: &str| {
            let place = SourceLocation { module: Some(module.to_owned()), ..SourceLocation::default() };
            Identity::new("SL002", &place, &format!("fuse module:{module}"))
        };
        assert_eq!(of("nn.Module: Linear_12"), of("nn.Module: Linear_13"));
        assert_eq!(of("nn.Module: Linear_12").to_string(), "SL002:::nn.Module: Linear::fuse module:nn.Module: Linear");
        assert_ne!(of("nn.Module: Linear_12"), of("nn.Module: Conv2d_12"));
    }

    #[test]
    fn fixed_findings_are_unmatched() {
        let item = |line| mark(line, "", "item() waits");
        assert_eq!(pair(&[item(10), item(20)], &[item(20)]), [Some(1)]);
        assert_eq!(pair(&[item(10), item(20)], &[item(13), item(23)]), [Some(0), Some(1)]);
        assert_eq!(pair(&[item(20), item(10)], &[item(23), item(13), item(33)]), [Some(0), Some(1), None]);
        assert_eq!(pair(&[], &[item(1)]), [None]);
    }

    #[test]
    fn renumbered_modules_are_matched() {
        let linear = |number: u32| mark(0, &format!("nn.Module: Linear_{number}"), "many small kernels");
        assert_eq!(pair(&[linear(9), linear(10)], &[linear(11), linear(10)]), [Some(1), Some(0)], "one was inserted");
        assert_eq!(pair(&[linear(9), linear(10)], &[linear(10)]), [Some(1)], "one was mended");
        let titled = |title: &str| mark(5, "", title);
        assert_eq!(
            pair(&[titled("gemm 3"), titled("copy 1")], &[titled("copy 9"), titled("gemm 1")]),
            [Some(1), Some(0)]
        );
    }
}
