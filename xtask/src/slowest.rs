//! List the slowest tests of the last run of `cargo nextest`, from its JUnit report.

use crate::files;
use anyhow::{Context, Result};
use quick_xml::events::Event;
use quick_xml::reader::Reader;

/// Tests that are listed.
const LISTED: usize = 20;

/// Print the slowest tests of the last run under a profile, slowest first, in seconds.
pub(crate) fn run(profile: &str) -> Result<()> {
    let path = files::target().join("nextest").join(profile).join("junit.xml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let tests = durations(&text).with_context(|| path.display().to_string())?;
    let total: f64 = tests.iter().map(|(seconds, _)| seconds).sum();
    println!("the slowest of {} tests, which took {total:.0} s together:", tests.len());
    for (seconds, name) in tests.iter().take(LISTED) {
        println!("{seconds:8.1} s  {name}");
    }
    Ok(())
}

/// Parse a JUnit report: seconds and name of each test, slowest first.
fn durations(text: &str) -> Result<Vec<(f64, String)>> {
    let mut reader = Reader::from_str(text);
    let mut tests = Vec::new();
    loop {
        match reader.read_event()? {
            Event::Start(element) | Event::Empty(element) if element.name().as_ref() == b"testcase" => {
                let attribute = |name: &str| -> Result<String> {
                    let value = element.try_get_attribute(name)?.map(|attribute| attribute.value.into_owned());
                    Ok(String::from_utf8(value.unwrap_or_default())?)
                };
                let seconds = attribute("time")?.parse().unwrap_or(0.0);
                tests.push((seconds, format!("{} {}", attribute("classname")?, attribute("name")?)));
            }
            Event::Eof => break,
            _ => {}
        }
    }
    tests.sort_by(|a: &(f64, String), b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    Ok(tests)
}

#[cfg(test)]
mod tests {
    #[test]
    fn slowest_first() {
        let text = r#"<testsuites><testsuite><testcase name="a" classname="x" time="0.5"/>
            <testcase name="b" classname="y::it" time="2.25"><system-out>text</system-out></testcase></testsuite></testsuites>"#;
        let found = super::durations(text).unwrap();
        assert_eq!(found, [(2.25, "y::it b".to_owned()), (0.5, "x a".to_owned())]);
    }
}
