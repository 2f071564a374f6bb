//! Findings as a JUnit report, which build servers show as failed tests.

use super::{Shown, gain, on_ranks, place};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use stackline_findings::{Finding, Reason, RuleInfo, SkippedRule, evidence};
use std::io;

/// Maximum number of listed findings below --min-gain.
const MOST_LISTED: usize = 20;

/// Result of a JUnit test case of a rule.
enum Outcome<'f> {
    Passed,
    /// Only findings below --min-gain.
    Small(Vec<&'f Finding>),
    Found(Vec<&'f Finding>),
    /// The rule failed; its earlier findings are a test of their own.
    Failed(&'f SkippedRule),
    Skipped(String),
}

impl Outcome<'_> {
    /// Suffix of the test's name, for a second test of one rule.
    fn suffix(&self) -> &'static str {
        match self {
            Self::Passed | Self::Small(_) | Self::Found(_) => "",
            Self::Failed(_) => ": failed",
            Self::Skipped(_) => ": ignored",
        }
    }
}

/// A rule, and how one of its tests ended.
type Case<'f> = (&'f RuleInfo, String, Outcome<'f>);

/// Findings as JUnit XML: a test per rule, failed if the rule has findings, skipped if the rule could not run. A rule
/// with findings that then failed, or with ignored findings, has another test for that.
///
/// # Errors
/// None: memory takes everything.
pub fn junit(shown: &Shown<'_>) -> io::Result<String> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let cases: Vec<Case<'_>> = shown.found.rules.iter().flat_map(|rule| cases(shown, rule)).collect();
    let count = |is: fn(&Outcome<'_>) -> bool| cases.iter().filter(|case| is(&case.2)).count().to_string();
    let counts = [
        ("tests", cases.len().to_string()),
        ("failures", count(|outcome| matches!(outcome, Outcome::Found(_)))),
        ("skipped", count(|outcome| matches!(outcome, Outcome::Skipped(_)))),
        ("errors", count(|outcome| matches!(outcome, Outcome::Failed(_)))),
    ];
    writer.create_element("testsuites").write_inner_content(|writer| {
        let suite = writer.create_element("testsuite").with_attribute(("name", "stackline findings"));
        let suite = suite.with_attributes(counts.iter().map(|(key, count)| (*key, count.as_str())));
        suite.write_inner_content(|writer| cases.iter().try_for_each(|case| test(writer, shown, case)))?;
        Ok(())
    })?;
    String::from_utf8(writer.into_inner()).map_err(io::Error::other)
}

/// JUnit test cases of a rule: the first one has only the rule's name.
fn cases<'f>(shown: &Shown<'f>, rule: &'f RuleInfo) -> Vec<Case<'f>> {
    let is_of = |finding: &&Finding| finding.rule.code == rule.code;
    let found: Vec<&Finding> = shown.listed.iter().map(|(finding, _)| *finding).filter(is_of).collect();
    let mut outcomes = Vec::new();
    if !found.is_empty() {
        outcomes.push(Outcome::Found(found));
    }
    if let Some(unchecked) = shown.found.unchecked.iter().find(|unchecked| unchecked.rule.code == rule.code) {
        outcomes.push(match unchecked.reason {
            Reason::Missing(_) => Outcome::Skipped(unchecked.reason.sentence()),
            Reason::Failed(..) | Reason::Cut(_) => Outcome::Failed(unchecked),
        });
    }
    let ignored = shown.suppressed.iter().filter(|(finding, _)| is_of(finding));
    let ignored: Vec<String> =
        ignored.map(|(finding, by)| format!("{} at {} ({by})", finding.title, place(finding))).collect();
    if !ignored.is_empty() {
        outcomes.push(Outcome::Skipped(format!("ignored: {}", ignored.join("; "))));
    }
    if outcomes.is_empty() {
        let small: Vec<&Finding> = shown.found.small.iter().filter(is_of).collect();
        outcomes.push(if small.is_empty() { Outcome::Passed } else { Outcome::Small(small) });
    }
    let name = |nth: usize, outcome: &Outcome<'_>| {
        let suffix = if nth == 0 { "" } else { outcome.suffix() };
        format!("{} {}{suffix}", rule.code, rule.name)
    };
    outcomes.into_iter().enumerate().map(|(nth, outcome)| (rule, name(nth, &outcome), outcome)).collect()
}

/// Write one JUnit test case with its outcome.
fn test(writer: &mut Writer<Vec<u8>>, shown: &Shown<'_>, (rule, name, outcome): &Case<'_>) -> io::Result<()> {
    let case = writer
        .create_element("testcase")
        .with_attribute(("classname", format!("stackline.{}", rule.area.name()).as_str()))
        .with_attribute(("name", name.as_str()))
        .with_attribute(("time", "0"));
    match outcome {
        Outcome::Passed => case.write_empty()?,
        Outcome::Small(small) => case.write_inner_content(|writer| write_small(writer, shown, small))?,
        Outcome::Found(found) => case.write_inner_content(|writer| failure(writer, shown, found))?,
        Outcome::Failed(unchecked) => case.write_inner_content(|writer| error(writer, unchecked))?,
        Outcome::Skipped(why) => case.write_inner_content(|writer| {
            let message = clean(why);
            writer.create_element("skipped").with_attribute(("message", message.as_str())).write_empty()?;
            Ok(())
        })?,
    };
    Ok(())
}

/// Write the output of a passed JUnit test: the rule's findings with a gain below --min-gain.
fn write_small(writer: &mut Writer<Vec<u8>>, shown: &Shown<'_>, small: &[&Finding]) -> io::Result<()> {
    let line = |f: &&Finding| {
        let gain = gain(shown.found, f).map_or_else(String::new, |gain| format!(": estimated gain {gain}"));
        format!("\n{}: {}{gain}", place(f), f.title)
    };
    let count = small.len();
    let head = match count {
        1 => "The gain of 1 finding is below --min-gain, so this test does not fail:".to_owned(),
        _ => format!("The gains of {count} findings are below --min-gain, so this test does not fail:"),
    };
    let lines = small.iter().take(MOST_LISTED).map(line).collect::<String>();
    let more = if count > MOST_LISTED { format!("\nand {} more", count - MOST_LISTED) } else { String::new() };
    let text = clean(&format!("{head}{lines}{more}"));
    writer.create_element("system-out").write_text_content(BytesText::new(&text))?;
    Ok(())
}

/// Write the error of a JUnit test case: a rule that failed, with its traceback.
fn error(writer: &mut Writer<Vec<u8>>, unchecked: &SkippedRule) -> io::Result<()> {
    let message = clean(&unchecked.reason.sentence());
    let error =
        writer.create_element("error").with_attributes([("message", message.as_str()), ("type", "rule failed")]);
    let text = clean(unchecked.reason.traceback().unwrap_or_default());
    error.write_text_content(BytesText::new(&text))?;
    Ok(())
}

/// Write the failure of a JUnit test case: the rule's findings with gain, evidence and advice.
fn failure(writer: &mut Writer<Vec<u8>>, shown: &Shown<'_>, found: &[&Finding]) -> io::Result<()> {
    let message = clean(&found.iter().map(|f| f.title.as_str()).collect::<Vec<_>>().join("; "));
    let line = |f: &&Finding| {
        let gain = gain(shown.found, f).map_or_else(String::new, |gain| format!(": estimated gain {gain}"));
        let on = on_ranks(shown.found, f).map_or_else(String::new, |on| format!(" ({on})"));
        let change = f.change.as_ref().map_or_else(String::new, |at| format!("\nchange here: {}", at.text()));
        format!("{}{gain}{on}{change}\n{}\n{}\n{}\n", place(f), f.title, evidence(f), f.rule.advice)
    };
    let text = clean(&found.iter().map(line).collect::<Vec<_>>().join("\n"));
    let failure = writer.create_element("failure").with_attribute(("message", message.as_str()));
    failure.with_attribute(("type", found[0].rule.code.as_str())).write_text_content(BytesText::new(&text))?;
    Ok(())
}

/// Remove control characters and others that XML 1.0 cannot contain.
fn clean(text: &str) -> String {
    text.chars().filter(|&c| c == '\n' || c == '\t' || !c.is_control() && c != '\u{fffe}' && c != '\u{ffff}').collect()
}
