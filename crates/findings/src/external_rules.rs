//! Rules and findings that users write in Python: received as lines of JSON, validated, and converted to findings.

use super::finding::{Candidate, Fact, Finding, RankedCandidate, Support};
use super::gain_estimate::{GainBasis, GainEstimate};
use super::requirement::Requirement;
use super::rule_info::{Area, RuleInfo};
use super::skipped_rules::{Reason, SkippedRule};
use serde::{Deserialize, Serialize};
use stackline_critical_path::exact::what_if::{Case, Edit, Gain};
use stackline_model::{EventId, Trace, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Message of the process that runs Python rules, one line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    /// First message.
    Hello {
        /// Version of the protocol.
        protocol: u32,
        /// Version of the package.
        version: String,
    },
    /// Start of loading a file, to list its rules.
    Loading {
        /// File or entry point.
        source: String,
    },
    /// Declaration of a rule.
    Rule(ExternalRule),
    /// End of the rules; the input is read next.
    Loaded,
    /// Start of a rule.
    Begin {
        /// Code of the rule.
        code: String,
    },
    /// Finding of the rule.
    Found(Box<ExternalFinding>),
    /// Missing requirement of a rule, which is not checked.
    Missing {
        /// Code of the rule.
        code: String,
        /// Name of the requirement.
        need: String,
    },
    /// Failure of a rule; earlier findings remain valid.
    Failed {
        /// Code of the rule.
        code: String,
        /// Reason, in one line.
        reason: String,
        /// Traceback, in lines.
        traceback: Option<String>,
    },
    /// Limit on the findings of a rule; only the first ones are kept.
    Cut {
        /// Code of the rule.
        code: String,
        /// Exceeded limit, in one line.
        reason: String,
    },
    /// End of a rule.
    End {
        /// Code of the rule.
        code: String,
    },
    /// Error that prevents all rules: an invalid file, a duplicate code, or an unreadable input.
    Refused {
        /// Reason, in one or more lines.
        reason: String,
        /// True if the input, not a rule, is unreadable.
        input: bool,
    },
}

/// Metadata of a Python rule that a user wrote: code, name, requirements and thresholds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalRule {
    /// Stable code: letters, digits, `-` and `_`, and not a built-in code.
    pub code: String,
    /// Stable name in words.
    pub name: String,
    /// Summary, in one line.
    pub about: String,
    /// Fix.
    pub advice: String,
    /// File and line of its function.
    pub source: String,
    /// Documentation by the author, in lines.
    #[serde(default)]
    pub doc: String,
    /// Names of requirements.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Thresholds that a user may change.
    #[serde(default)]
    pub thresholds: BTreeMap<String, f64>,
}

/// Finding of an external rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExternalFinding {
    /// Code of the rule.
    pub code: String,
    /// Title, in one line.
    pub title: String,
    /// File, if known.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Function.
    pub function: Option<String>,
    /// Module.
    pub module: Option<String>,
    /// Operator.
    pub operator: Option<String>,
    /// Rows of the supporting events.
    pub events: Vec<u32>,
    /// Supporting facts.
    pub facts: Vec<ExternalFact>,
    /// [`Support::name`].
    pub support: String,
    /// [`Confidence::name`].
    pub confidence: String,
    /// Lower bound, estimate and upper bound in ns per step, if the rule states the gain.
    pub gain: Option<(i64, i64, i64)>,
    /// Edits whose replay determines the gain.
    pub edits: Vec<String>,
}

/// Number that supports a finding of a Python rule, as sent: name, value and unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalFact {
    /// Name of the measured quantity.
    pub name: String,
    /// Value.
    pub value: f64,
    /// [`Unit::suffix`].
    pub unit: String,
}

/// External rules with their findings.
#[derive(Clone, Debug, Default)]
pub struct ExternalRules {
    rules: Vec<(Arc<RuleInfo>, ExternalRule)>,
    found: Vec<(Arc<RuleInfo>, ValidatedFinding)>,
    /// Rules that were not checked, or not completely.
    pub unchecked: Vec<SkippedRule>,
}

/// Finding of a Python rule with parsed facts, support, confidence and edits.
#[derive(Clone, Debug)]
struct ValidatedFinding {
    finding: ExternalFinding,
    facts: Vec<Fact<String>>,
    support: Support,
    confidence: Confidence,
    edits: Vec<Edit>,
}

impl ValidatedFinding {
    /// Convert the finding to a candidate with these events of the trace, and the gain that the rule states or its
    /// edits.
    fn to_candidate(&self, events: Vec<EventId>) -> Candidate {
        let finding = self.finding.clone();
        let gain_estimate = match finding.gain {
            Some((low_ns, likely_ns, high_ns)) => GainEstimate::Stated(Gain::new(likely_ns, low_ns, high_ns)),
            None if self.edits.is_empty() => GainEstimate::None,
            None => GainEstimate::edits(self.edits.clone()),
        };
        let (file, line, function) = (finding.file, finding.line, finding.function);
        Candidate {
            title: finding.title,
            place: SourceLocation { file, line, function, module: finding.module, operator: finding.operator },
            events,
            facts: Vec::new(),
            kind: None,
            support: self.support,
            confidence: self.confidence,
            gain_estimate,
        }
    }
}

impl ExternalRules {
    /// External rules, in the order in which messages declared them.
    pub fn rules(&self) -> impl Iterator<Item = &Arc<RuleInfo>> {
        self.rules.iter().map(|(rule, _)| rule)
    }

    /// Process a message of Python rules: register its rule or finding, or the reason why a rule was not checked.
    ///
    /// # Errors
    /// If the message is invalid: an unknown code, requirement or unit, a reserved or duplicate code, an invalid gain.
    pub fn add(&mut self, message: Message) -> Result<(), String> {
        match message {
            Message::Rule(rule) => self.add_rule(rule),
            Message::Found(finding) => {
                let rule = self.rule(&finding.code)?;
                let checked = validate(*finding).map_err(|reason| format!("{}: {reason}", rule.code))?;
                self.found.push((rule, checked));
                Ok(())
            }
            Message::Missing { code, need } => {
                let need = Requirement::from_name(&need).ok_or_else(|| unknown_requirement(&code, &need))?;
                self.unchecked.push(SkippedRule { rule: self.rule(&code)?, reason: Reason::Missing(need) });
                Ok(())
            }
            Message::Failed { code, reason, traceback } => {
                self.unchecked.push(SkippedRule { rule: self.rule(&code)?, reason: Reason::Failed(reason, traceback) });
                Ok(())
            }
            Message::Cut { code, reason } => {
                self.unchecked.push(SkippedRule { rule: self.rule(&code)?, reason: Reason::Cut(reason) });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Markdown page of a Python rule, found by code or name: documentation, fix, requirements and thresholds.
    pub fn page(&self, code: &str) -> Option<String> {
        let is_it =
            |(rule, _): &&(Arc<RuleInfo>, ExternalRule)| rule.code.eq_ignore_ascii_case(code) || rule.name == code;
        self.rules.iter().find(is_it).map(|(rule, rule_info)| render_page(rule, rule_info))
    }

    /// Find the declared rule of a message by its code; an error message if the code was not declared.
    fn rule(&self, code: &str) -> Result<Arc<RuleInfo>, String> {
        let known = self.rules().find(|rule| rule.code == code);
        known.cloned().ok_or_else(|| format!("there is no rule {code:?}"))
    }

    /// Register a declared rule; an error message for an invalid, reserved or duplicate code, or an unknown
    /// requirement.
    fn add_rule(&mut self, rule: ExternalRule) -> Result<(), String> {
        let ExternalRule { code, name, about, advice, source, .. } = rule.clone();
        let is_code = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if code.is_empty() || !code.chars().all(is_code) {
            return Err(format!("{source}: invalid code {code:?}; use letters and digits, such as MY001"));
        }
        if is_reserved_code(&code) {
            return Err(format!(
                "{source}: codes such as {code} are reserved for built-in rules; choose another, such as MY001"
            ));
        }
        if let Some(need) = rule.needs.iter().find(|need| Requirement::from_name(need).is_none()) {
            return Err(format!("{source}: {}", unknown_requirement(&code, need)));
        }
        if let Some((_, other)) = self.rules.iter().find(|(known, _)| known.code.eq_ignore_ascii_case(&code)) {
            return Err(format!("two rules have the code {code}: {} and {source}", other.source));
        }
        let (area, why, cost) = (Area::Own, String::new(), String::new());
        let info = RuleInfo { code, name, area, about, why, advice, example: None, cost, page: None };
        self.rules.push((Arc::new(info), rule));
        Ok(())
    }

    /// Findings of Python rules on call trees, which cannot be replayed: only gains that the rules state are known.
    pub(super) fn findings_of_calls(&self, step_ns: i64) -> Vec<Finding> {
        let finding = |(rule, checked): &(Arc<RuleInfo>, ValidatedFinding)| {
            let Candidate { title, place, support, confidence, gain_estimate, .. } = checked.to_candidate(Vec::new());
            let gain = gain_estimate.gain(None, step_ns);
            Finding {
                rule: Arc::clone(rule),
                title,
                place,
                change: None,
                events: Vec::new(),
                facts: checked.facts.clone(),
                kind: None,
                support,
                confidence,
                gain,
                memory: None,
                on_top_ns: None,
                basis: if gain.is_some() { GainBasis::Stated } else { GainBasis::Nothing },
                edits: Vec::new(),
                edit_labels: Vec::new(),
                ranks: Vec::new(),
            }
        };
        self.found.iter().map(finding).collect()
    }

    /// Convert the findings of Python rules to candidates; events that the trace lacks are dropped.
    pub(super) fn ranked_candidates(&self, trace: &Trace) -> Vec<RankedCandidate> {
        let in_trace = |row: &&u32| (**row as usize) < trace.events.len();
        let proposal = |(rule, checked): &(Arc<RuleInfo>, ValidatedFinding)| {
            let events = checked.finding.events.iter().filter(in_trace).map(|&row| EventId(row)).collect();
            RankedCandidate {
                rule: Arc::clone(rule),
                candidate: checked.to_candidate(events),
                facts: checked.facts.clone(),
            }
        };
        self.found.iter().map(proposal).collect()
    }
}

/// Render the page of a Python rule as Markdown.
fn render_page(rule: &RuleInfo, rule_info: &ExternalRule) -> String {
    let about = if rule_info.doc.is_empty() { &rule.about } else { &rule_info.doc };
    let mut page = format!("# {} {}\n\n{about}\n\n", rule.code, rule.name);
    let mut section = |title: &str, text: &str| page.push_str(&format!("## {title}\n\n{text}\n\n"));
    if !rule.advice.is_empty() {
        section("Fix", &rule.advice);
    }
    let needs: Vec<&str> =
        rule_info.needs.iter().filter_map(|need| Some(Requirement::from_name(need)?.missing())).collect();
    match needs.is_empty() {
        true => section("Requirements", "The rule has no requirements: it checks every trace."),
        false => {
            section("Requirements", &format!("The rule is not checked if the trace has:\n\n- {}", needs.join("\n- ")));
        }
    }
    if !rule_info.thresholds.is_empty() {
        let one = |(name, value): (&String, &f64)| format!("`--set {}.{name}={value}`", rule.code);
        section("Thresholds", &rule_info.thresholds.iter().map(one).collect::<Vec<_>>().join("\n"));
    }
    section("Source", &format!("A Python rule: {}.", rule_info.source));
    page.trim_end().to_owned() + "\n"
}

/// Error message for an unknown requirement of a rule, with the known ones.
fn unknown_requirement(code: &str, need: &str) -> String {
    let known = Requirement::ALL.map(Requirement::name).join(", ");
    format!("{code} requires {need:?}, which is not a known requirement; choose from {known}")
}

/// Check if a code is reserved for built-in rules.
fn is_reserved_code(code: &str) -> bool {
    let number = code.get(..2).filter(|start| start.eq_ignore_ascii_case("SL")).and_then(|_| code.get(2..));
    number.is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

/// Check a finding, and parse its facts, support, confidence and edits; an error message if any is invalid.
fn validate(finding: ExternalFinding) -> Result<ValidatedFinding, String> {
    if finding.title.trim().is_empty() {
        return Err("a finding has an empty title".to_owned());
    }
    if finding.line == Some(0) {
        return Err("a finding has line 0, but line numbers count from 1".to_owned());
    }
    if let Some((low, likely, high)) = finding.gain {
        if !(low <= likely && likely <= high) {
            return Err(format!("the gain of {likely} ns is not within its bounds, {low} to {high} ns"));
        }
        if !finding.edits.is_empty() {
            return Err("a finding has a gain and edits; omit the gain, which Stackline computes from edits".to_owned());
        }
    }
    let edits = finding.edits.iter().map(|edit| Edit::parse(edit).map_err(|error| error.to_string()));
    let edits = edits.collect::<Result<Vec<Edit>, _>>()?;
    if let Some(edit) = edits.iter().find(|edit| edit.case != Case::Likely) {
        return Err(format!("{edit}: remove the case at the beginning of the edit, such as `case 1:`"));
    }
    let facts = finding.facts.iter().map(parse_fact).collect::<Result<_, _>>()?;
    let support = find_by_name(&Support::ALL, |support| support.name(), &finding.support, "support")?;
    let confidence = find_by_name(&Confidence::ALL, |confidence| confidence.name(), &finding.confidence, "confidence")?;
    Ok(ValidatedFinding { finding, facts, support, confidence, edits })
}

/// Convert a fact with the name of its unit; an error message for an unknown unit, or a value that is not finite.
fn parse_fact(external: &ExternalFact) -> Result<Fact<String>, String> {
    if !external.value.is_finite() {
        return Err(format!("the value of fact {:?} is not a finite number", external.name));
    }
    let unit = find_by_name(&Unit::ALL, |unit| unit.suffix(), &external.unit, "unit")?;
    Ok(Fact { name: external.name.clone(), value: external.value, unit })
}

/// Find the value of a Python rule's finding by name, such as its unit; the error lists the known names.
fn find_by_name<T: Copy>(all: &[T], name: fn(&T) -> &'static str, requested: &str, what: &str) -> Result<T, String> {
    all.iter().find(|one| name(one) == requested).copied().ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(name).collect();
        format!("a finding has the unknown {what} {requested:?}; choose from {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(code: &str, source: &str) -> Message {
        let text = || "text".to_owned();
        let (code, source) = (code.to_owned(), source.to_owned());
        let (name, about, advice) = (text(), text(), text());
        Message::Rule(ExternalRule { code, name, about, advice, source, ..ExternalRule::default() })
    }

    fn found(change: impl FnOnce(&mut ExternalFinding)) -> Message {
        let text = str::to_owned;
        let (support, confidence) = (text("exact"), text("low"));
        let (code, title) = (text("MY001"), text("t"));
        let mut finding = ExternalFinding { code, title, support, confidence, ..ExternalFinding::default() };
        change(&mut finding);
        Message::Found(Box::new(finding))
    }

    #[test]
    fn codes_differ_from_those_of_built_in_rules() {
        let mut others = ExternalRules::default();
        others.add(rule("MY001", "a.py:1")).unwrap();
        assert_eq!(
            others.add(rule("my001", "b.py:2")).unwrap_err(),
            "two rules have the code my001: a.py:1 and b.py:2"
        );
        for code in ["SL001", "sl999", "", "MY 1", "MY\u{e9}"] {
            assert!(others.add(rule(code, "a.py:1")).unwrap_err().starts_with("a.py:1: "), "{code}");
        }
        for code in ["SLOW1", "SL", "S", "X-1_a"] {
            others.add(rule(code, "a.py:1")).unwrap();
        }
    }

    #[test]
    fn pages_contain_the_documentation_of_the_author() {
        let mut others = ExternalRules::default();
        let line = r#"{"type":"rule","code":"MY001","name":"slow","about":"a","advice":"Do.","source":"a.py:1",
            "doc":"First.\n\nMore.","needs":["steps"],"thresholds":{"most":3.5}}"#;
        others.add(serde_json::from_str(line).unwrap()).unwrap();
        let page = others.page("my001").unwrap();
        for part in
            ["# MY001 slow\n\nFirst.\n\nMore.", "Do.", "not checked if the trace has", "--set MY001.most=3.5", "a.py:1"]
        {
            assert!(page.contains(part), "{page}");
        }
        assert_eq!(others.page("slow"), Some(page));
        assert_eq!(others.page("MY002"), None);
        let unknown = line.replace("MY001", "MY002").replace("steps", "luck");
        assert!(others.add(serde_json::from_str(&unknown).unwrap()).unwrap_err().contains("luck"));
    }

    #[test]
    fn findings_are_validated() {
        let mut others = ExternalRules::default();
        assert!(others.add(found(|_| ())).unwrap_err().contains("no rule \"MY001\""));
        others.add(rule("MY001", "a.py:1")).unwrap();
        others.add(found(|finding| finding.gain = Some((-1, 0, 1)))).unwrap();
        others.add(found(|finding| finding.edits = vec!["remove sync:item()".to_owned()])).unwrap();
        type Change = fn(&mut ExternalFinding);
        let wrong: [(Change, &str); 9] = [
            (|finding| finding.title = " ".to_owned(), "empty title"),
            (|finding| finding.line = Some(0), "count from 1"),
            (|finding| finding.gain = Some((2, 1, 3)), "not within its bounds"),
            (
                |finding| (finding.gain, finding.edits) = (Some((1, 1, 1)), vec!["more-workers 1".to_owned()]),
                "omit the gain",
            ),
            (|finding| finding.edits = vec!["explode".to_owned()], "explode"),
            (|finding| finding.edits = vec!["case 1: remove sync:item()".to_owned()], "case 1"),
            (|finding| finding.support = "sure".to_owned(), "unknown support"),
            (|finding| finding.confidence = String::new(), "unknown confidence"),
            (
                |finding| finding.facts = vec![ExternalFact { unit: "miles".to_owned(), ..ExternalFact::default() }],
                "unknown unit",
            ),
        ];
        for (change, reason) in wrong {
            let error = others.add(found(change)).unwrap_err();
            assert!(error.starts_with("MY001: ") && error.contains(reason), "{error}");
        }
        let code = || "MY001".to_owned();
        assert!(others.add(Message::Missing { code: code(), need: "x".to_owned() }).is_err());
        others.add(Message::Missing { code: code(), need: "steps".to_owned() }).unwrap();
        assert_eq!(others.unchecked[0].reason, Reason::Missing(Requirement::Steps));
    }

    #[test]
    fn messages_are_lines_of_json() {
        let text = r#"{"type":"found","code":"A","title":"t","events":[1],"gain":[1,2,3],"support":"exact","confidence":"low"}"#;
        let Message::Found(finding) = serde_json::from_str(text).unwrap() else { panic!("{text}") };
        assert_eq!((finding.gain, finding.events, finding.file), (Some((1, 2, 3)), vec![1], None));
        assert_eq!(serde_json::from_str::<Message>(r#"{"type":"loaded"}"#).unwrap(), Message::Loaded);
        for wrong in [
            "",
            "{}",
            r#"{"type":"other"}"#,
            r#"{"type":"found","code":"A","more":1}"#,
            r#"{"type":"begin"}"#,
            r#"{"type":"rule","code":"A"}"#,
        ] {
            assert!(serde_json::from_str::<Message>(wrong).is_err(), "{wrong}");
        }
    }
}
