//! Queries that a report embeds after its first views, most important first, within a limit of work.

use crate::OpenRun;
use crate::prefetch::{Part, Stage};
use crate::stage_questions::{Question, stage_questions};
use stackline_model::Step;

/// Maximum number of steps with their own views.
const STEPS: usize = 32;
/// Limit of work for prefetched questions: events and nodes of all visited trees together. Longer work would delay
/// writing the file too much.
const MOST_WORK: usize = 20_000_000;

/// Queries that a report embeds after its first views, with their arguments, the most important first.
pub(crate) fn questions(opened: &OpenRun) -> Vec<Question> {
    let mut list = List { all: Vec::new(), most: MOST_WORK / estimated_work(opened).max(1) };
    // Questions about the same steps are adjacent, so that their call tree is built once.
    list.add(|| stage_questions(opened, Stage::Files(Part::Chosen)));
    for shape in ["top-down", "bottom-up", "flat"] {
        list.add(|| stage_questions(opened, Stage::Frames(shape)));
    }
    list.add(|| stage_questions(opened, Stage::Merged));
    if opened.chosen(0).is_some() {
        list.add(|| stage_questions(opened, Stage::Whole));
        list.add(|| stage_questions(opened, Stage::WholeTree));
        list.add(|| stage_questions(opened, Stage::Files(Part::Whole)));
    }
    list.add(|| single_steps(opened));
    let mut all = list.all;
    all.extend(stage_questions(opened, Stage::Events));
    all
}

/// List of prefetched queries up to a maximum length.
struct List {
    all: Vec<Question>,
    most: usize,
}

impl List {
    /// Append the queries that `find` returns, up to the maximum; at the maximum, `find` is not called.
    fn add(&mut self, find: impl FnOnce() -> Vec<Question>) {
        if self.all.len() < self.most {
            self.all.extend(find());
            self.all.truncate(self.most);
        }
    }
}

/// Estimated work of one query: number of events and call tree nodes of the run.
fn estimated_work(opened: &OpenRun) -> usize {
    let events = opened.set.traces.first().map_or(0, |trace| trace.events.len());
    events + opened.recording.as_ref().map_or(0, |tree| tree.nodes.len())
}

/// Prefetched queries about single steps: time, call tree and events of each of the first steps.
fn single_steps(opened: &OpenRun) -> Vec<Question> {
    let (Ok((_, trace)), Ok(_)) = (opened.trace(None), opened.origin(None)) else { return Vec::new() };
    let stage = |step: &Step| Stage::Step(step.number, step.start, step.end);
    let steps = trace.steps.iter().take(STEPS).map(stage);
    steps.flat_map(|step| stage_questions(opened, step)).collect()
}

#[cfg(test)]
mod tests {
    use super::List;
    use crate::Arguments;

    #[test]
    fn queries_beyond_the_limit_are_not_computed() {
        let mut list = List { all: Vec::new(), most: 3 };
        list.add(|| vec![("source", Arguments::default()); 2]);
        list.add(|| vec![("frame", Arguments::default()); 2]);
        list.add(|| unreachable!("no tree is made for what is cut"));
        let names: Vec<&str> = list.all.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["source", "source", "frame"]);
    }
}
