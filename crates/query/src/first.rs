//! What the page asks when it is opened: what a report in one file must hold.

use crate::{Arguments, Opened, next};
use serde_json::Value;
use std::collections::BTreeSet;

/// Events of a finding that the page lists.
const EVENTS: usize = 12;
/// Frames of the flame graph whose source is at hand.
const FRAMES: usize = 100;

pub(crate) type Question = (&'static str, Arguments);

/// Questions with their arguments, the most important first.
pub(crate) fn questions(opened: &Opened) -> Vec<Question> {
    let steps = steps(opened);
    let plain = |name: &'static str| (name, with(&[]));
    let findings = opened.findings(None).map_or(0, |found| found.findings.len());
    let details: Vec<Arguments> = (0..findings).map(|at| with(&[("at", at.to_string())])).collect();
    if opened.is_memory_alone() {
        let found = details.into_iter().map(|arguments| ("finding", arguments));
        return [vec![plain("meta")], memory(opened), vec![plain("findings")], found.collect()].concat();
    }
    let mut all =
        vec![plain("meta"), ("overview", with(&steps)), plain("findings"), ("path", with(&steps)), plain("lanes")];
    all.extend(details.iter().map(|arguments| ("finding", arguments.clone())));
    for shape in ["top-down", "bottom-up", "flat"] {
        all.push(("calls", with(&[&steps[..], &[("shape", shape.to_owned())]].concat())));
    }
    all.push(("source", with(&steps)));
    for name in ["tiles", "counters"] {
        all.extend(whole_timeline(opened).map(|arguments| (name, arguments)));
    }
    all.extend(opened.before().into_iter().flat_map(|before| comparison(before, &steps)));
    if opened.has_memory() {
        all.extend(memory(opened));
    }
    all.extend(details.iter().flat_map(|arguments| evidence(opened, arguments)));
    all.extend(excerpts(opened, &steps));
    all.extend([plain("overview"), plain("path")]);
    for by in ["thread", "phase", "module"] {
        all.push(("calls", with(&[&steps[..], &groups(by)].concat())));
    }
    all.extend(next::questions(opened, &steps));
    all
}

/// What the page asks first, and waits for: it can be begun before it asks.
pub(crate) fn soonest(opened: &Opened) -> Vec<Question> {
    let first = [("only", "first".to_owned())];
    let overview = ("overview", with(&[&steps(opened)[..], &first].concat()));
    let has_tables = !opened.set.traces.is_empty();
    std::iter::once(("meta", with(&[]))).chain(has_tables.then_some(overview)).collect()
}

pub(crate) fn with(pairs: &[(&'static str, String)]) -> Arguments {
    Arguments::new(pairs.iter().cloned())
}

/// What the page of a comparison shows beside what it shows of the run.
fn comparison(before: &Opened, steps: &[(&'static str, String)]) -> Vec<Question> {
    let of_it = |arguments: Arguments| arguments.and("run", "before");
    let mut all = vec![
        ("compare", with(&[])),
        ("compare-memory", with(&[])),
        ("meta", of_it(with(&[]))),
        ("lanes", of_it(with(&[]))),
    ];
    for name in ["tiles", "counters"] {
        all.extend(whole_timeline(before).map(|arguments| (name, of_it(arguments))));
    }
    let differences = [("shape", "top-down".to_owned()), ("beside", "before".to_owned())];
    all.push(("calls", with(&[steps, &differences].concat())));
    all
}

/// How the page asks what there is to choose from.
fn groups(by: &str) -> [(&'static str, String); 3] {
    [("shape", "flat".to_owned()), ("by", by.to_owned()), ("least", "0".to_owned())]
}

/// The steps that are looked at where nobody chose any.
fn steps(opened: &Opened) -> Vec<(&'static str, String)> {
    opened.chosen(0).into_iter().map(|(first, last)| ("steps", format!("{first}..{last}"))).collect()
}

/// The arguments by which the tiles of all lanes over all time are asked for, if there is a timeline.
fn whole_timeline(opened: &Opened) -> Option<Arguments> {
    let document = document(opened, "lanes", &with(&[]))?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Some(Arguments::new(document["whole"].as_object()?.iter().map(|(name, value)| (name.clone(), text(value)))))
}

/// Suggestions whose effect alone is at hand, and objects of a list whose details are.
const SUGGESTIONS: usize = 12;
const OBJECTS: usize = 60;

/// What the Memory page asks: of each device its curve, its calls and its objects, sorted in each way and alive at each peak.
fn memory(opened: &Opened) -> Vec<Question> {
    let overview: Question = ("memory", with(&[]));
    let Some(document) = document(opened, overview.0, &overview.1) else { return vec![overview] };
    let page = &document["page"];
    let whole: Vec<(&'static str, String)> =
        ["level", "first", "last"].into_iter().map(|name| (name, page["whole"][name].to_string())).collect();
    let list = |of: &str| page[of].as_array().cloned().unwrap_or_default();
    let mut all = vec![overview, ("memory-suggestions", with(&[])), ("memory-calls", with(&whole))];
    let ways = ["size", "waste", "first"].map(|order| vec![("order", order.to_owned())]);
    for device in list("devices").iter().map(|device| device["device"].clone()) {
        let here = [&whole[..], &[("device", device.to_string())]].concat();
        all.push(("memory-curve", with(&here)));
        let alive = list("peaks").into_iter().filter(|peak| peak["device"] == device);
        let alive = alive.map(|peak| vec![("order", "size".to_owned()), ("alive", texts(&peak["name"]))]);
        all.extend(ways.iter().cloned().chain(alive).map(|way| ("memory-objects", with(&[&here[..], &way].concat()))));
        all.extend(
            applied(opened).into_iter().map(|apply| ("memory-apply", with(&[&here[..], &[("apply", apply)]].concat()))),
        );
    }
    all.extend(
        ["place", "kind", "operator", "module", "phase", "size"]
            .map(|by| ("memory-holders", with(&[("by", by.to_owned())]))),
    );
    all.push(("memory-allocator", with(&[])));
    let lanes = all
        .iter()
        .filter(|(name, _)| *name == "memory-objects")
        .filter_map(|(name, of)| crate::ask(opened, name, of).ok());
    let objects: BTreeSet<String> =
        lanes.flat_map(|answer| answer.whole_numbers("object", OBJECTS)).map(|object| object.to_string()).collect();
    all.extend(objects.into_iter().map(|object| ("memory-object", with(&[("object", object)]))));
    all
}

/// The suggestions that are applied first: those that together lower the peak furthest, and the best ones alone.
fn applied(opened: &Opened) -> Vec<String> {
    let Some(document) = document(opened, "memory-suggestions", &with(&[])) else { return Vec::new() };
    let numbers = |value: &Value| value.as_array().map_or(0, Vec::len);
    let combination = document["page"]["combination"].as_array().cloned().unwrap_or_default();
    let together: Vec<String> = combination.iter().map(Value::to_string).collect();
    let alone =
        (1..=numbers(&document["tables"]["memory_suggestions"]["rows"]).min(SUGGESTIONS)).map(|one| one.to_string());
    let mut all: Vec<String> = [together.join(",")].into_iter().filter(|list| !list.is_empty()).collect();
    all.extend(alone.filter(|one| together.len() != 1 || *one != together[0]));
    all
}

fn texts(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The events that a finding lists.
fn evidence(opened: &Opened, finding: &Arguments) -> Vec<Question> {
    let Some(document) = document(opened, "finding", finding) else { return Vec::new() };
    let rank = document["rank"].as_i64().map(|rank| ("rank", rank.to_string()));
    let events = document["events"].as_array().map_or(&[][..], Vec::as_slice);
    let one = |event: &Value| {
        let event = ("event", event[0].to_string());
        ("event", with(&rank.iter().cloned().chain([event]).collect::<Vec<_>>()))
    };
    events.iter().take(EVENTS).map(one).collect()
}

/// The source around the frames that took most, as the details of a frame show it.
fn excerpts(opened: &Opened, steps: &[(&'static str, String)]) -> Vec<Question> {
    let flat = with(&[steps, &[("shape", "flat".to_owned())]].concat());
    let Some(document) = document(opened, "calls", &flat) else { return Vec::new() };
    let labels = document["labels"].as_array().map_or(&[][..], Vec::as_slice);
    let place = |label: &Value| Some((label[3].as_str()?.to_owned(), label[4].as_u64().filter(|&line| line > 0)?));
    let places = labels.iter().filter_map(place).filter(|(file, _)| opened.files().contains(file));
    let one = |(file, line): (String, u64)| ("excerpt", with(&[("file", file), ("line", line.to_string())]));
    places.take(FRAMES).map(one).collect()
}

pub(crate) fn document(opened: &Opened, name: &str, arguments: &Arguments) -> Option<Value> {
    serde_json::from_str(&crate::ask(opened, name, arguments).ok()?.json).ok()
}
