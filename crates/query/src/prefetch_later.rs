//! Queries that a report answers beyond its first views, in order, as far as there is room. A report holds of these what there
//! is room for, in this order.

use crate::OpenRun;
use crate::prefetch::{Part, Question, Stage, asked};
use stackline_model::Step;

/// Steps that can be looked at alone; of runs with more of them, the first so many.
const STEPS: usize = 32;
/// What would take longer to work out than somebody waits for a file is not made in advance: events and nodes of trees that are
/// looked at, in all questions together.
const MOST_WORK: usize = 20_000_000;

/// Questions with their arguments, the most important first.
pub(crate) fn questions(opened: &OpenRun) -> Vec<Question> {
    let mut list = List { all: Vec::new(), most: MOST_WORK / size(opened).max(1) };
    // All of the same steps stand together: their tree of calls is made once.
    list.add(|| asked(opened, Stage::Files(Part::Chosen)));
    for shape in ["top-down", "bottom-up", "flat"] {
        list.add(|| asked(opened, Stage::Frames(shape)));
    }
    list.add(|| asked(opened, Stage::Merged));
    if opened.chosen(0).is_some() {
        list.add(|| asked(opened, Stage::Whole));
        list.add(|| asked(opened, Stage::WholeTree));
        list.add(|| asked(opened, Stage::Files(Part::Whole)));
    }
    list.add(|| single_steps(opened));
    let mut all = list.all;
    all.extend(asked(opened, Stage::Events));
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
fn size(opened: &OpenRun) -> usize {
    let events = opened.set.traces.first().map_or(0, |trace| trace.events.len());
    events + opened.recording.as_ref().map_or(0, |tree| tree.nodes.len())
}

/// Each step by itself: what it took, its tree, and all that ran in it.
fn single_steps(opened: &OpenRun) -> Vec<Question> {
    let (Ok((_, trace)), Ok(_)) = (opened.trace(None), opened.origin(None)) else { return Vec::new() };
    let stage = |step: &Step| Stage::Step(step.number, step.start, step.end);
    let steps = trace.steps.iter().take(STEPS).map(stage);
    steps.flat_map(|step| asked(opened, step)).collect()
}

#[cfg(test)]
mod tests {
    use super::List;
    use crate::Arguments;

    #[test]
    fn what_has_no_room_is_not_looked_for() {
        let mut list = List { all: Vec::new(), most: 3 };
        list.add(|| vec![("source", Arguments::default()); 2]);
        list.add(|| vec![("frame", Arguments::default()); 2]);
        list.add(|| unreachable!("no tree is made for what is cut"));
        let names: Vec<&str> = list.all.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["source", "source", "frame"]);
    }
}
