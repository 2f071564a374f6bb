//! SL029: printing, logging and writing of files within steps.

use super::dataloader_starved::is_next;
use super::host_waits;
use crate::critical_path::exact::what_if::Action;
use crate::findings::estimate::Estimate;
use crate::findings::interludes::{Interlude, Seen, Spans};
use crate::findings::{Area, Confidence, Draft, Elsewhere, Fact, Need, Place, Rule, Setting, Subject, Support, Worth};
use stackline_model::words::duration;
use stackline_model::{EventId, EventKind};
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    code: "SL029",
    name: "logging-in-step",
    area: Area::Host,
    about: "print, logging, progress bars, TensorBoard, wandb, torch.save, json.dump, to_csv or savefig hold up the work",
    why: "Text is made and written while nothing is launched; and a tensor in it makes the host wait for the GPU.",
    advice: "Log every so many steps; gather values as tensors on the GPU and read them then; let another thread write.",
    example: ("print(f\"loss {loss.item()}\")", "if step % 100 == 0:\n    print(f\"loss {loss.item()}\")"),
    cost: "one line; values are seen less often",
    wrong_when: "The recorded steps are just those that log: the others are faster already. Recordings see functions in C, such as \
                 print, as the line that calls them: of those only what Python's own logging does is told. Their samples say how \
                 the time between operators divides; where nearly all of them see it, what the thread waits there (for a file, or for a \
                 processor) is its own, too; bounds hold the error of such counts, not that operators behind a log may be \
                 faster without what it leaves in the caches: then more is gained than the upper bound says.",
    source: "field practice",
    needs: &[Need::PythonFrames],
    settings: &[Setting {
        name: "share",
        default: 0.5,
        range: (0.0, 100.0),
        about: "least part of the critical path in calls from one place, in percent",
    }],
    elsewhere: &[
        Elsewhere::of(
            "that save checkpoints in the loop",
            |draft| SAVING.iter().any(|kind| draft.title.starts_with(kind)),
            "Save less often: once in so many minutes, not steps. Copy the state to the CPU and let another thread write it \
             (torch.distributed.checkpoint.async_save does both).",
            (
                "torch.save(model.state_dict(), path)  # every few steps",
                "if time.monotonic() - saved > 600:\n    torch.save(model.state_dict(), path)\n    saved = time.monotonic()",
            ),
        ),
        Elsewhere::without_gpu(
            "Log every so many steps; keep values as tensors and make text of them then; let another thread write.",
            ("print(f\"loss {loss.item()}\")", "if step % 100 == 0:\n    print(f\"loss {loss.item()}\")"),
        ),
    ],
    check,
};

/// What titles call the writing of checkpoints.
const SAVING: [&str; 2] = ["torch.save", "safetensors"];

/// All parts of names of frames that log, and how the title calls them. Progress bars only where they draw: as loops
/// they enclose what they count.
const FRAMES: &[(&str, &[&str])] = &[
    ("print", &["<built-in function print>"]),
    ("logging", &["logging/__init__.py(", "): info"]),
    ("logging", &["logging/__init__.py(", "): debug"]),
    ("logging", &["logging/__init__.py(", "): warning"]),
    ("logging", &["logging/__init__.py(", "): error"]),
    ("logging", &["logging/__init__.py(", "): log"]),
    ("logging", &["logging/__init__.py(", "): _log"]),
    ("writing text", &["<built-in method write of _io."]),
    ("writing text", &["<method 'write' of '_io."]),
    ("the progress bar", &["tqdm/", "): update"]),
    ("the progress bar", &["tqdm/", "): refresh"]),
    ("the progress bar", &["tqdm/", "): display"]),
    ("the progress bar", &["tqdm/", "): set_postfix*"]),
    ("the progress bar", &["tqdm/", "): set_description*"]),
    ("TensorBoard", &["tensorboard/writer.py(", "): add_*"]),
    ("TensorBoard", &["tensorboardX/writer.py(", "): add_*"]),
    ("wandb", &["wandb/", "): log"]),
    ("mlflow", &["mlflow/", "): log_*"]),
    ("torch.save", &["torch/serialization.py(", "): save"]),
    ("safetensors", &["safetensors/", "): save_file"]),
    ("numpy.save", &["numpy/lib/", "): save*"]),
    ("json.dump", &["json/__init__.py(", "): dump"]),
    ("csv.DictWriter", &["csv.py(", "): writerow*"]),
    ("to_csv", &["pandas/", "): to_csv"]),
    ("savefig", &["matplotlib/", "): savefig"]),
];

pub(super) fn kind_of(name: &str) -> Option<&'static str> {
    super::kind_in(FRAMES, name)
}

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let frames = subject.outermost(&subject.named(&[EventKind::PythonFunction], |name| kind_of(name).is_some()));
    // Of functions without operators in recordings samples say more than the stretches that they were seen in.
    let frames = subject.not_between(frames);
    let known = Spans::of(subject.trace(), &host_waits::calls(subject));
    let unexplained = |interlude: &Interlude| rest_of(subject, interlude, &known);
    let seen = subject.seen_between(|name| kind_of(name).is_some(), &frames, unexplained);
    let on_path = subject.path_inside(&frames);
    let by_place = subject.sums_by_place(frames.into_iter().zip(on_path).filter(|&(_, ns)| ns > 0).collect());
    let mut found: BTreeMap<Place, Logging> = BTreeMap::new();
    for (place, ns, frames) in by_place {
        let line = if seen.is_empty() { place } else { Place { module: None, operator: None, ..place } };
        let logging = found.entry(line).or_default();
        logging.on_path += ns;
        logging.frames.extend(frames);
    }
    for (place, seen) in seen {
        found.entry(place).or_default().seen = Some(seen);
    }
    found.into_iter().filter_map(|(place, logging)| draft(subject, place, logging)).collect()
}

/// What a thread does not compute between two operators. Where hardly anything but logging is done there, that is part of it, whether the
/// thread waits for a file or for a processor: it would do neither without. None where something else is known to be waited for.
fn rest_of(subject: &Subject<'_>, interlude: &Interlude, known: &Spans) -> Option<Estimate> {
    let trace = subject.trace();
    let is_loading = |event: EventId| trace.ancestors(event).any(|e| is_next(trace.name(e)));
    let is_known = |&(before, behind): &(EventId, EventId)| {
        known.begin_between(trace, before, behind) || is_loading(before) || is_loading(behind)
    };
    if !interlude.is_one || !interlude.waits.events.is_empty() || interlude.stretches.iter().any(is_known) {
        return None;
    }
    let ns = interlude.ns as f64 - interlude.computing().ns;
    Some(Estimate { ns, low: 0.0, high: ns }).filter(|rest| rest.ns > 0.0)
}

/// What is logged from one place.
#[derive(Default)]
struct Logging {
    /// Calls whose begin and end are known, and
    frames: Vec<EventId>,
    /// their time on the critical path, in ns.
    on_path: i64,
    /// What samples saw between operators.
    seen: Option<Seen>,
}

fn draft(subject: &Subject<'_>, place: Place, logging: Logging) -> Option<Draft> {
    let Logging { mut frames, on_path, seen } = logging;
    frames.sort_unstable();
    let ns = on_path + seen.as_ref().map_or(0, |seen| seen.time.ns as i64);
    if ns == 0 || subject.percent(ns) < subject.setting("share") {
        return None;
    }
    let all = subject.with_waits(&frames);
    let waits = all.iter().filter(|&&e| subject.trace().kind(e).is_api_call()).count();
    let too = if waits > 0 { ", waits for the GPU included" } else { "" };
    let outermost = |sample: EventId| {
        subject.frames_of_sample(sample).filter_map(|f| kind_of(subject.trace().strings.get(f))).last()
    };
    let kind = match (frames.is_empty(), &seen) {
        (true, Some(seen)) => seen.samples.first().and_then(|&sample| outermost(sample)),
        _ => subject.by_name(&frames).first().and_then(|(name, _)| kind_of(name)),
    }?;
    let mut facts = vec![Fact::count("calls", frames.len()), Fact::count("waits for the GPU in them", waits)];
    let (ns_each, a_step) = (duration(subject.per_step(ns)), subject.words().a_step());
    let title = format!("{kind} holds up the work for {ns_each}{a_step}{too}");
    let remove = match subject.by_name(&frames).first() {
        Some((name, _)) => vec![subject.edit(Action::Remove, format!("frame:{name}"), &all)?],
        None => Vec::new(),
    };
    let Some(seen) = seen else {
        facts.push(Fact::time("on the critical path, a step", subject.per_step(ns)));
        let (support, confidence, worth) = (Support::Exact, Confidence::Medium, Worth::Edits(remove));
        return Some(Draft { title, place, facts, events: frames, support, confidence, worth });
    };
    facts.retain(|fact| fact.value > 0.0);
    facts.extend(seen.facts(subject));
    let confidence = seen.confidence();
    let worth = seen.worth(subject, &place, &remove)?;
    let events = frames.into_iter().chain(seen.samples).collect();
    Some(Draft { title, place, facts, events, support: Support::Inferred, confidence, worth })
}
