//! What the page asks when it is opened: what a report in one file must hold.

use crate::{Arguments, Opened};
use serde_json::Value;

/// Events of a finding that the page lists.
const EVENTS: usize = 12;
/// Frames of the flame graph whose source is at hand.
const FRAMES: usize = 100;

type Question = (&'static str, Arguments);

/// Questions with their arguments, the most important first.
pub(crate) fn questions(opened: &Opened) -> Vec<Question> {
    let steps = steps(opened);
    let plain = |name: &'static str| (name, with(&[]));
    let mut all =
        vec![plain("meta"), ("overview", with(&steps)), plain("findings"), ("path", with(&steps)), plain("lanes")];
    let findings = opened.findings(None).map_or(0, |found| found.findings.len());
    let details: Vec<Arguments> = (0..findings).map(|at| with(&[("at", at.to_string())])).collect();
    all.extend(details.iter().map(|arguments| ("finding", arguments.clone())));
    for shape in ["top-down", "bottom-up", "flat"] {
        all.push(("calls", with(&[&steps[..], &[("shape", shape.to_owned())]].concat())));
    }
    all.push(("source", with(&steps)));
    for name in ["tiles", "counters"] {
        all.extend(whole_timeline(opened).map(|arguments| (name, arguments)));
    }
    all.extend(opened.before().into_iter().flat_map(|before| comparison(before, &steps)));
    all.extend(details.iter().flat_map(|arguments| evidence(opened, arguments)));
    all.extend(excerpts(opened, &steps));
    all.extend([plain("overview"), plain("path")]);
    for by in ["thread", "phase", "module"] {
        all.push(("calls", with(&[&steps[..], &groups(by)].concat())));
    }
    all
}

fn with(pairs: &[(&'static str, String)]) -> Arguments {
    Arguments::new(pairs.iter().cloned())
}

/// What the page of a comparison shows beside what it shows of the run.
fn comparison(before: &Opened, steps: &[(&'static str, String)]) -> Vec<Question> {
    let of_it = |arguments: Arguments| arguments.and("run", "before");
    let mut all = vec![("compare", with(&[])), ("meta", of_it(with(&[]))), ("lanes", of_it(with(&[])))];
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
    let chosen = opened.set.traces.first().and_then(stackline_analyze::calls::chosen_steps);
    chosen.into_iter().map(|(first, last)| ("steps", format!("{first}..{last}"))).collect()
}

/// The arguments by which the tiles of all lanes over all time are asked for, if there is a timeline.
fn whole_timeline(opened: &Opened) -> Option<Arguments> {
    let document = document(opened, "lanes", &with(&[]))?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Some(Arguments::new(document["whole"].as_object()?.iter().map(|(name, value)| (name.clone(), text(value)))))
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

fn document(opened: &Opened, name: &str, arguments: &Arguments) -> Option<Value> {
    serde_json::from_str(&crate::ask(opened, name, arguments).ok()?.json).ok()
}
