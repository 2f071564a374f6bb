//! What is asked of a report once its first views have been seen: the whole run, single steps, other ways to draw the tree, frames,
//! events and source files. A report holds of these what there is room for, in this order.

use crate::Opened;
use crate::first::{Question, document, with};
use serde_json::Value;
use stackline_model::Step;

/// Steps that can be looked at alone; of runs with more of them, the first so many.
const STEPS: usize = 32;
/// What would take longer to work out than somebody waits for a file is not made in advance: events and nodes of trees that are
/// looked at, in all questions together.
const MOST_WORK: usize = 20_000_000;
/// Frames of each direction of the flame graph whose details are at hand: those that take most.
const FRAMES: usize = 60;
/// Events whose details are at hand: those that last longest.
const EVENTS: usize = 600;
/// Source files that can be read as a whole: those that cost most.
const FILES: usize = 60;

const SHAPES: [&str; 3] = ["top-down", "bottom-up", "flat"];

type Pairs = [(&'static str, String)];

/// Questions with their arguments, the most important first; `steps` are those that are looked at where nobody chose any.
pub(crate) fn questions(opened: &Opened, steps: &Pairs) -> Vec<Question> {
    let whole = [("steps", "whole".to_owned())];
    let mut list = List { all: Vec::new(), most: MOST_WORK / size(opened).max(1) };
    // All of the same steps stand together: their tree of calls is made once.
    list.add(|| files(opened, steps));
    for shape in SHAPES {
        list.add(|| frames(opened, &[steps, &[("shape", shape.to_owned())]].concat()));
    }
    list.add(|| drawn_otherwise(steps));
    if !steps.is_empty() {
        list.add(|| [("overview", with(&whole)), ("path", with(&whole)), ("source", with(&whole))].to_vec());
        list.add(|| shapes(&whole));
        list.add(|| files(opened, &whole));
    }
    list.add(|| single_steps(opened));
    let mut all = list.all;
    all.extend(longest(opened).into_iter().map(|event| ("event", with(&[("event", event.to_string())]))));
    all
}

/// Questions that are worth their work: what would stand behind the last of these is not looked for.
struct List {
    all: Vec<Question>,
    most: usize,
}

impl List {
    /// Adds what is found, as far as there is room.
    fn add(&mut self, find: impl FnOnce() -> Vec<Question>) {
        if self.all.len() < self.most {
            self.all.extend(find());
            self.all.truncate(self.most);
        }
    }
}

/// How much each question looks at: events and nodes.
fn size(opened: &Opened) -> usize {
    let events = opened.set.traces.first().map_or(0, |trace| trace.events.len());
    events + opened.recording.as_ref().map_or(0, |tree| tree.nodes.len())
}

fn shapes(steps: &Pairs) -> Vec<Question> {
    SHAPES.iter().map(|shape| ("calls", with(&[steps, &[("shape", (*shape).to_owned())]].concat()))).collect()
}

/// The tree with what has one name merged, and without recursion.
fn drawn_otherwise(steps: &Pairs) -> Vec<Question> {
    let ways: [&Pairs; 3] = [
        &[("merge", "name".to_owned())],
        &[("recursion", "collapsed".to_owned())],
        &[("merge", "name".to_owned()), ("recursion", "collapsed".to_owned())],
    ];
    let shapes = |way: &Pairs| shapes(&[steps, way].concat());
    ways.into_iter().flat_map(shapes).collect()
}

/// Each step by itself: what it took, its tree, and all that ran in it.
fn single_steps(opened: &Opened) -> Vec<Question> {
    let (Ok((_, trace)), Ok(origin)) = (opened.trace(None), opened.origin(None)) else { return Vec::new() };
    let one = |step: &Step| {
        let alone = [("steps", format!("{0}..{0}", step.number))];
        let at = |time: i64| time.saturating_sub(origin).to_string();
        let marked = [("from", at(step.start)), ("to", at(step.end))];
        let mut all = vec![("range", with(&marked)), ("overview", with(&alone)), ("path", with(&alone))];
        all.extend(shapes(&alone));
        all
    };
    trace.steps.iter().take(STEPS).flat_map(one).collect()
}

/// Details of the frames that take most of a view.
fn frames(opened: &Opened, view: &Pairs) -> Vec<Question> {
    let Ok(answer) = crate::ask(opened, "calls", &with(view)) else { return Vec::new() };
    let mut rows: Vec<(f64, f64)> =
        answer.numbers("inclusive").iter().copied().zip(answer.numbers("row").iter().copied()).collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.total_cmp(&b.1)));
    let one = |(_, row): (f64, f64)| ("frame", with(&[view, &[("root", row.to_string())]].concat()));
    rows.into_iter().filter(|&(_, row)| row > 0.0).take(FRAMES).map(one).collect()
}

/// The source files that cost most, as a whole.
fn files(opened: &Opened, steps: &Pairs) -> Vec<Question> {
    let Some(document) = document(opened, "source", &with(steps)) else { return Vec::new() };
    let list = document["files"].as_array().map_or(&[][..], Vec::as_slice);
    let cost = |file: &Value| file["exclusive"][0].as_u64().unwrap_or(0);
    let mut costly: Vec<(u64, &str)> =
        list.iter().filter_map(|file| Some((cost(file), file["file"].as_str()?))).collect();
    costly.retain(|&(cost, _)| cost > 0);
    costly.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let one = |(_, file): (u64, &str)| ("source", with(&[steps, &[("file", file.to_owned())]].concat()));
    costly.into_iter().take(FILES).map(one).collect()
}

/// The events that last longest, longest first.
fn longest(opened: &Opened) -> Vec<u32> {
    let Ok((_, trace)) = opened.trace(None) else { return Vec::new() };
    let dur = |event: u32| trace.events.dur[event as usize];
    let mut all: Vec<u32> =
        trace.events.ids().filter(|&event| trace.events.is_timed(event)).map(|event| event.0).collect();
    let most = EVENTS.min(all.len());
    let by_length = |a: &u32, b: &u32| dur(*b).cmp(&dur(*a)).then(a.cmp(b));
    if most < all.len() {
        all.select_nth_unstable_by(most, by_length);
    }
    all.truncate(most);
    all.sort_unstable_by(by_length);
    all
}

#[cfg(test)]
mod tests {
    use super::{List, with};

    #[test]
    fn what_has_no_room_is_not_looked_for() {
        let mut list = List { all: Vec::new(), most: 3 };
        list.add(|| vec![("source", with(&[])); 2]);
        list.add(|| vec![("frame", with(&[])); 2]);
        list.add(|| unreachable!("no tree is made for what is cut"));
        let names: Vec<&str> = list.all.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["source", "source", "frame"]);
    }
}
