//! SL029: printing, logging and writing of files within steps.

use crate::critical_path::exact::what_if::Action;
use crate::findings::{Area, Confidence, Draft, Elsewhere, Fact, Need, Place, Rule, Setting, Subject, Support, Worth};
use stackline_model::{EventId, EventKind};

pub(super) const RULE: Rule = Rule {
    code: "SL029",
    name: "logging-in-step",
    area: Area::Host,
    about: "print, logging, progress bars, TensorBoard, wandb or torch.save hold up the work",
    why: "Text is made and written while nothing is launched; and a tensor in it makes the host wait for the GPU.",
    advice: "Log every so many steps; gather values as tensors on the GPU and read them then; let another thread write.",
    example: ("print(f\"loss {loss.item()}\")", "if step % 100 == 0:\n    print(f\"loss {loss.item()}\")"),
    cost: "one line; values are seen less often",
    wrong_when: "The recorded steps are just those that log: the others are faster already.",
    source: "field practice",
    needs: &[Need::PythonFrames],
    settings: &[Setting {
        name: "share",
        default: 0.5,
        range: (0.0, 100.0),
        about: "least part of the critical path in calls from one place, in percent",
    }],
    elsewhere: &[Elsewhere::without_gpu(
        "Log every so many steps; keep values as tensors and make text of them then; let another thread write.",
        ("print(f\"loss {loss.item()}\")", "if step % 100 == 0:\n    print(f\"loss {loss.item()}\")"),
    )],
    check,
};

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
];

fn kind_of(name: &str) -> Option<&'static str> {
    super::kind_in(FRAMES, name)
}

fn check(subject: &Subject<'_>) -> Vec<Draft> {
    let frames = subject.outermost(&subject.named(&[EventKind::PythonFunction], |name| kind_of(name).is_some()));
    if frames.is_empty() {
        return Vec::new();
    }
    let on_path = subject.path_inside(&frames);
    let by_place = subject.sums_by_place(frames.into_iter().zip(on_path).filter(|&(_, ns)| ns > 0).collect());
    by_place.into_iter().filter_map(|(place, ns, of)| draft(subject, place, (ns, of))).collect()
}

fn draft(subject: &Subject<'_>, place: Place, (on_path, frames): (i64, Vec<EventId>)) -> Option<Draft> {
    if subject.percent(on_path) < subject.setting("share") {
        return None;
    }
    let name = subject.by_name(&frames).first()?.0;
    let all = subject.with_waits(&frames);
    let waits = all.iter().filter(|&&e| subject.trace().kind(e).is_api_call()).count();
    let edit = subject.edit(Action::Remove, format!("frame:{name}"), &all)?;
    let too = if waits > 0 { ", waits for the GPU included" } else { "" };
    Some(Draft {
        title: format!(
            "{} holds up the work for {:.2} ms a step{too}",
            kind_of(name)?,
            subject.per_step(on_path) as f64 / 1e6
        ),
        place,
        facts: vec![
            Fact::count("calls", frames.len()),
            Fact::count("waits for the GPU in them", waits),
            Fact::time("on the critical path, a step", subject.per_step(on_path)),
        ],
        events: frames,
        support: Support::Exact,
        confidence: Confidence::Medium,
        worth: Worth::Edits(vec![edit]),
    })
}
