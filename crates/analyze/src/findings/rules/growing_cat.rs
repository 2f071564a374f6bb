//! SL046: a tensor that grows by `cat`, step by step.

use crate::critical_path::exact::what_if::Action;
use crate::findings::{Area, Confidence, Draft, Fact, Need, Place, Rule, Setting, Subject, Support, Worth};
use serde_json::Value;
use stackline_model::{EventId, EventKind, Unit};
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL046",
    name: "growing-cat",
    area: Area::Copies,
    about: "a cache or history grows by torch.cat: each time all of it is copied again",
    why: "torch.cat makes a new tensor and copies both parts: n times a bit more is copied in n steps, and memory for two is needed.",
    advice: "Allocate it once at its largest size and write each part where it belongs: StaticCache for keys and values of \
             transformers, index_copy_ or slices elsewhere; a list, and one cat at the end, where only the end is read.",
    example: ("keys = torch.cat([keys, k], dim=1)", "keys[:, at : at + 1] = k  # allocated once\nat += 1"),
    cost: "some lines; memory of the largest size from the beginning",
    wrong_when: "The sizes grow because the inputs do. The gain supposes that of each copy the part of the new elements is left.",
    source: "field practice",
    needs: &[Need::Operators, Need::Shapes],
    settings: &[
        Setting {
            name: "calls",
            default: 6.0,
            range: (3.0, 1e6),
            about: "least calls from one place that grow one after the other",
        },
        Setting {
            name: "share",
            default: 2.0,
            range: (0.0, 100.0),
            about: "least part of the GPU's busy time, without GPU of all time, that such calls of one line take, in percent",
        },
    ],
    elsewhere: &[],
    check,
};

/// A call of `cat`: elements of its largest input, and of all.
struct Call {
    event: EventId,
    largest: i64,
    all: i64,
}

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let operators = subject.named(&[EventKind::Operator], |name| name == "aten::cat");
    // Layers grow each by itself; a line is told once.
    let mut by_line: BTreeMap<Place, Vec<Call>> = BTreeMap::new();
    for (place, of) in subject.by_place(&operators) {
        for growing in growing(subject, of) {
            let line = Place { module: None, operator: None, ..place.clone() };
            by_line.entry(line).or_default().extend(growing);
        }
    }
    by_line.into_iter().filter_map(|(place, calls)| draft(subject, place, &calls)).collect()
}

/// Calls of one place of which each begins with what the one before made: one list for each tensor that grows.
fn growing(subject: &Subject<'_>, mut operators: Vec<EventId>) -> Vec<Vec<Call>> {
    let events = &subject.trace().events;
    operators.sort_unstable_by_key(|&e| (events.start[e.index()], e));
    let mut chains: Vec<Vec<Call>> = Vec::new();
    for event in operators {
        let Some(call) = sizes(subject, event) else { continue };
        // The largest input is as large as what came out the last time.
        let goes_on = |chain: &&mut Vec<Call>| chain.last().is_some_and(|last| last.all == call.largest);
        match chains.iter_mut().find(goes_on) {
            Some(chain) => chain.push(call),
            None => chains.push(vec![call]),
        }
    }
    chains.retain(|chain| chain.len() as f64 >= subject.setting("calls"));
    chains
}

/// Elements of the largest input of a call, and of all of them; none where one is not a part of the other.
fn sizes(subject: &Subject<'_>, event: EventId) -> Option<Call> {
    let dims = subject.json("Input Dims", event)?;
    let mut sizes: Vec<i64> = dims.get(0)?.as_array()?.iter().map(elements).collect::<Option<_>>()?;
    sizes.sort_unstable();
    let (&largest, all) = (sizes.last()?, sizes.iter().sum());
    (sizes.len() >= 2 && largest > 0 && largest < all).then_some(Call { event, largest, all })
}

/// Elements of a shape.
fn elements(shape: &Value) -> Option<i64> {
    shape.as_array()?.iter().map(Value::as_i64).try_fold(1_i64, |product, n| product.checked_mul(n?))
}

fn draft(subject: &Subject<'_>, place: Place, calls: &[Call]) -> Option<Draft> {
    let operators: Vec<EventId> = calls.iter().map(|call| call.event).collect();
    let kernels: Vec<EventId> = operators.iter().flat_map(|&operator| subject.launched_in(operator)).collect();
    let (copies, share) = if subject.uses_gpu() {
        let share = subject.percent_of_gpu(subject.total(&kernels));
        (kernels, share)
    } else {
        let share = subject.percent(subject.total(&operators));
        (operators.clone(), share)
    };
    if share < subject.setting("share") {
        return None;
    }
    let (old, all) =
        calls.iter().fold((0.0, 0.0), |(old, all), call| (old + call.largest as f64, all + call.all as f64));
    let edit =
        subject.edit(Action::Scale((all - old) / f64::max(all, 1.0)), "operator:aten::cat that grows", &copies)?;
    let largest = calls.iter().map(|call| call.all).max().unwrap_or(0);
    Some(Draft {
        title: format!(
            "a tensor grows by torch.cat {} times, and is copied each time: {share:.0} % of the time",
            calls.len()
        ),
        place,
        facts: vec![
            Fact::count("calls", calls.len()),
            Fact { name: "elements of the largest", value: largest as f64, unit: Unit::None },
            Fact {
                name: "copied again, of all that is copied",
                value: 100.0 * old / f64::max(all, 1.0),
                unit: Unit::Percent,
            },
            Fact::time("together, a step", subject.per_step(subject.total(&copies))),
        ],
        events: operators,
        support: Support::Exact,
        confidence: Confidence::Medium,
        worth: Worth::Edits(vec![edit]),
    })
}
