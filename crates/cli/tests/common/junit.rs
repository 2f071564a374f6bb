//! Validation of JUnit reports as by build servers: the rules of the schema that Surefire and Jenkins share (`junit-10.xsd`), written
//! down here. JUnit itself has none.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::collections::BTreeMap;

/// An element: the attributes that it must have and may have, the elements in it, whether it holds text.
struct Element {
    name: &'static str,
    must: &'static [&'static str],
    may: &'static [&'static str],
    inside: &'static [&'static str],
    text: bool,
}

const ELEMENTS: [Element; 7] = [
    Element {
        name: "testsuites",
        must: &[],
        may: &["name", "time", "tests", "failures", "errors"],
        inside: &["testsuite"],
        text: false,
    },
    Element {
        name: "testsuite",
        must: &["name", "tests", "failures", "errors"],
        may: &["skipped", "time", "timestamp", "hostname", "id", "package", "file", "log", "url", "group"],
        inside: &["testsuite", "properties", "testcase", "system-out", "system-err"],
        text: false,
    },
    Element {
        name: "testcase",
        must: &["name"],
        may: &["time", "classname", "group"],
        inside: &["skipped", "error", "failure", "system-out", "system-err"],
        text: false,
    },
    Element { name: "failure", must: &[], may: &["type", "message"], inside: &[], text: true },
    Element { name: "error", must: &[], may: &["type", "message"], inside: &[], text: true },
    Element { name: "skipped", must: &[], may: &["type", "message"], inside: &[], text: true },
    Element { name: "system-out", must: &[], may: &[], inside: &[], text: true },
];
const COUNTS: [&str; 4] = ["tests", "failures", "errors", "skipped"];

/// Faults of a report; none if it is valid, and its counts are those of its content.
pub(crate) fn faults(xml: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut reader = Reader::from_str(xml);
    let mut open: Vec<String> = Vec::new();
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    let mut declared: BTreeMap<String, usize> = BTreeMap::new();
    loop {
        match reader.read_event() {
            Err(error) => return vec![format!("no XML: {error}")],
            Ok(Event::Eof) => break,
            Ok(Event::Start(start)) => {
                faults.extend(wrong(open.last(), &start, &mut declared));
                open.push(name_of(&start));
                count(&name_of(&start), &mut found);
            }
            Ok(Event::Empty(start)) => {
                faults.extend(wrong(open.last(), &start, &mut declared));
                count(&name_of(&start), &mut found);
            }
            Ok(Event::End(_)) => {
                open.pop();
            }
            Ok(Event::Text(text)) => {
                let is_text = !String::from_utf8_lossy(&text).trim().is_empty();
                let may = open.last().and_then(|name| element(name)).is_some_and(|element| element.text);
                faults.extend((is_text && !may).then(|| format!("text in {open:?}")));
            }
            Ok(_) => {}
        }
    }
    for key in COUNTS {
        let (declared_count, has) = (declared.get(key).copied(), found.get(key).copied().unwrap_or(0));
        faults.extend(
            declared_count
                .filter(|&declared_count| declared_count != has)
                .map(|declared_count| format!("{key}=\"{declared_count}\", but there are {has}")),
        );
    }
    faults
}

fn element(name: &str) -> Option<&'static Element> {
    ELEMENTS.iter().find(|element| element.name == name)
}

fn name_of(start: &BytesStart<'_>) -> String {
    String::from_utf8_lossy(start.name().as_ref()).into_owned()
}

fn count(name: &str, found: &mut BTreeMap<&str, usize>) {
    let key = match name {
        "testcase" => "tests",
        "failure" => "failures",
        "error" => "errors",
        "skipped" => "skipped",
        _ => return,
    };
    *found.entry(key).or_default() += 1;
}

fn wrong(around: Option<&String>, start: &BytesStart<'_>, declared: &mut BTreeMap<String, usize>) -> Vec<String> {
    let name = name_of(start);
    let Some(element) = element(&name) else { return vec![format!("an element {name}")] };
    let mut faults = Vec::new();
    let is_allowed = match around {
        None => name == "testsuites",
        Some(around) => self::element(around).is_some_and(|around| around.inside.contains(&name.as_str())),
    };
    faults.extend((!is_allowed).then(|| format!("{name} in {around:?}")));
    let mut has = Vec::new();
    for attribute in start.attributes() {
        let Ok(attribute) = attribute else { return vec![format!("{name} has an attribute that is none")] };
        let key = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
        let value = String::from_utf8_lossy(&attribute.value).into_owned();
        if COUNTS.contains(&key.as_str()) {
            match value.parse() {
                Ok(number) => drop(declared.insert(key.clone(), number)),
                Err(_) => faults.push(format!("{name}: {key}={value:?} is no count")),
            }
        }
        if key == "time" && value.parse::<f64>().is_err() {
            faults.push(format!("{name}: time={value:?} is no time"));
        }
        has.push(key);
    }
    let known = |key: &&String| element.must.contains(&key.as_str()) || element.may.contains(&key.as_str());
    faults.extend(has.iter().filter(|key| !known(key)).map(|key| format!("{name} has an attribute {key}")));
    let missing = element.must.iter().filter(|must| !has.iter().any(|key| key == *must));
    faults.extend(missing.map(|must| format!("{name} lacks {must}")));
    faults
}
