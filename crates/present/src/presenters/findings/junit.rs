//! Findings as a JUnit report, which build servers show as failed tests.

use super::{Shown, gain, place};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use stackline_analyze::findings::{Finding, evidence, rules};
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
    let missing = |code: &str| shown.found.unchecked.iter().find(|u| u.rule.code == code).map(|u| u.need.missing());
    let failures = rules::ALL.iter().filter(|rule| !of(rule.code).is_empty()).count().to_string();
    let skipped = shown.found.unchecked.len().to_string();
    let tests = rules::ALL.len().to_string();
    let counts =
        [("tests", tests.as_str()), ("failures", failures.as_str()), ("skipped", skipped.as_str()), ("errors", "0")];
    writer.create_element("testsuites").write_inner_content(|writer| {
        let suite = writer.create_element("testsuite").with_attribute(("name", "stackline findings"));
        suite.with_attributes(counts).write_inner_content(|writer| {
            for rule in rules::ALL {
                let case = writer
                    .create_element("testcase")
                    .with_attribute(("classname", format!("stackline.{}", rule.area.name()).as_str()))
                    .with_attribute(("name", format!("{} {}", rule.code, rule.name).as_str()))
                    .with_attribute(("time", "0"));
                let (found, missing) = (of(rule.code), missing(rule.code));
                if found.is_empty() && missing.is_none() {
                    case.write_empty()?;
                    continue;
                }
                case.write_inner_content(|writer| match missing {
                    Some(missing) => {
                        let message = clean(&format!("the trace has {missing}"));
                        writer.create_element("skipped").with_attribute(("message", message.as_str())).write_empty()?;
                        Ok(())
                    }
                    None => failure(writer, shown, &found),
                })?;
            }
            Ok(())
        })?;
        Ok(())
    })?;
    String::from_utf8(writer.into_inner()).map_err(io::Error::other)
}

fn failure(writer: &mut Writer<Vec<u8>>, shown: &Shown<'_>, found: &[&Finding]) -> io::Result<()> {
    let message = clean(&found.iter().map(|f| f.title.as_str()).collect::<Vec<_>>().join("; "));
    let line = |f: &&Finding| {
        let gain = gain(shown.found, f).map_or_else(String::new, |gain| format!(": gains {gain}"));
        format!("{}{gain}\n{}\n{}\n{}\n", place(f), f.title, evidence(f), f.rule.advice)
    };
    let text = clean(&found.iter().map(line).collect::<Vec<_>>().join("\n"));
    let failure = writer.create_element("failure").with_attribute(("message", message.as_str()));
    failure.with_attribute(("type", found[0].rule.code)).write_text_content(BytesText::new(&text))?;
    Ok(())
}

/// Without what XML 1.0 cannot hold.
fn clean(text: &str) -> String {
    text.chars().filter(|&c| c == '\n' || c == '\t' || !c.is_control() && c != '\u{fffe}' && c != '\u{ffff}').collect()
}
