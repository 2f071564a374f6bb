//! Findings as a JUnit report, which build servers show as failed tests.

use super::{Shown, gain, on_ranks, place};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use stackline_analyze::findings::{Finding, Reason, Unchecked, evidence};
use std::io;

/// Findings as JUnit XML: a test per rule, failed if it found something; skipped if it could not look.
///
/// # Errors
/// None: memory takes everything.
pub fn junit(shown: &Shown<'_>) -> io::Result<String> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let of = |code: &str| -> Vec<&Finding> {
        shown.listed.iter().map(|(finding, _)| *finding).filter(|finding| finding.rule.code == code).collect()
    };
    let rules = &shown.found.rules;
    let unchecked = |code: &str| shown.found.unchecked.iter().find(|u| u.rule.code == code);
    let failed = |u: &&Unchecked| matches!(u.reason, Reason::Failed(..));
    let errors = shown.found.unchecked.iter().filter(failed).count();
    let failures = rules.iter().filter(|rule| !of(&rule.code).is_empty() && unchecked(&rule.code).is_none()).count();
    let counts = [
        ("tests", rules.len().to_string()),
        ("failures", failures.to_string()),
        ("skipped", (shown.found.unchecked.len() - errors).to_string()),
        ("errors", errors.to_string()),
    ];
    writer.create_element("testsuites").write_inner_content(|writer| {
        let suite = writer.create_element("testsuite").with_attribute(("name", "stackline findings"));
        suite.with_attributes(counts.iter().map(|(key, count)| (*key, count.as_str()))).write_inner_content(
            |writer| {
                for rule in rules {
                    let case = writer
                        .create_element("testcase")
                        .with_attribute(("classname", format!("stackline.{}", rule.area.name()).as_str()))
                        .with_attribute(("name", format!("{} {}", rule.code, rule.name).as_str()))
                        .with_attribute(("time", "0"));
                    let (found, unchecked) = (of(&rule.code), unchecked(&rule.code));
                    if found.is_empty() && unchecked.is_none() {
                        case.write_empty()?;
                        continue;
                    }
                    case.write_inner_content(|writer| match unchecked {
                        Some(unchecked) => not_checked(writer, unchecked),
                        None => failure(writer, shown, &found),
                    })?;
                }
                Ok(())
            },
        )?;
        Ok(())
    })?;
    String::from_utf8(writer.into_inner()).map_err(io::Error::other)
}

fn not_checked(writer: &mut Writer<Vec<u8>>, unchecked: &Unchecked) -> io::Result<()> {
    let message = clean(&unchecked.reason.sentence());
    if let Reason::Missing(_) = unchecked.reason {
        writer.create_element("skipped").with_attribute(("message", message.as_str())).write_empty()?;
        return Ok(());
    }
    let error =
        writer.create_element("error").with_attributes([("message", message.as_str()), ("type", "rule failed")]);
    let text = clean(unchecked.reason.traceback().unwrap_or_default());
    error.write_text_content(BytesText::new(&text))?;
    Ok(())
}

fn failure(writer: &mut Writer<Vec<u8>>, shown: &Shown<'_>, found: &[&Finding]) -> io::Result<()> {
    let message = clean(&found.iter().map(|f| f.title.as_str()).collect::<Vec<_>>().join("; "));
    let line = |f: &&Finding| {
        let gain = gain(shown.found, f).map_or_else(String::new, |gain| format!(": gains {gain}"));
        let on = on_ranks(shown.found, f).map_or_else(String::new, |on| format!(" ({on})"));
        format!("{}{gain}{on}\n{}\n{}\n{}\n", place(f), f.title, evidence(f), f.rule.advice)
    };
    let text = clean(&found.iter().map(line).collect::<Vec<_>>().join("\n"));
    let failure = writer.create_element("failure").with_attribute(("message", message.as_str()));
    failure.with_attribute(("type", found[0].rule.code.as_str())).write_text_content(BytesText::new(&text))?;
    Ok(())
}

/// Without what XML 1.0 cannot hold.
fn clean(text: &str) -> String {
    text.chars().filter(|&c| c == '\n' || c == '\t' || !c.is_control() && c != '\u{fffe}' && c != '\u{ffff}').collect()
}
