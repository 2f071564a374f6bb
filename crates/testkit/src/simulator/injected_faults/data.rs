//! Injected performance faults: slow data loading, by workers or by the main thread.

use super::Kind;
use super::injector::{At, FaultInjector};
use crate::simulator::Profile;
use crate::simulator::edit::{self, Edit};
use crate::simulator::names;
use crate::simulator::program::build::Builder;
use crate::simulator::program::{self, Program, Span, Step};

/// Name of the fault whose repair adds as many workers as the finding suggests.
pub(super) const STARVED: &str = "too few DataLoader workers";

pub(super) const KINDS: &[Kind] = &[
    Kind::removable(STARVED, "SL009", slow_items).also(&["SL031"]).shape(with_workers),
    Kind::removable("DataLoader without workers", "SL009", load_inline).also(&["SL005"]).shape(without_workers),
    Kind::removable("images are resized in the step", "SL010", resize).also(&["SL009", "SL005"]).shape(without_workers),
];

fn with_workers(profile: &mut Profile) {
    profile.steps = 16 + profile.steps % 9;
    profile.layers = profile.layers.min(5);
    profile.workers = 1 + profile.layers % 3;
    profile.locks = false;
}

fn without_workers(profile: &mut Profile) {
    profile.workers = 0;
}

/// Let each item take its DataLoader worker 1.2 to 3 times as long as would be in time. Repaired: two more workers.
fn slow_items(p: &mut FaultInjector<'_>) {
    p.whole = Some(|program| {
        if let Some(more) = edit::apply(program.clone(), &Edit::MoreWorkers(2)) {
            *program = more;
        }
    });
    let workers = p.b.program.loader.as_ref().map_or(1, |loader| loader.workers);
    let ns = p.draw_step_part(120, 300) * workers as i64;
    let frames = |items: &[Step]| items.iter().filter(|step| is_item(step)).count().max(1) as i64;
    let each = p.b.program.loader.as_ref().and_then(|loader| loader.items.iter().map(|items| frames(items)).max());
    let (each, rng) = (ns / each.unwrap_or(1), &mut p.b.rng);
    set_items(&mut p.b.program, |_| rng.jitter(each, 10));
}

fn is_item(step: &Step) -> bool {
    matches!(step, Step::Open(span) if span.name.contains("__getitem__"))
}

/// Replace the time in ns that DataLoader workers take for each part of an item by the result of `set`.
pub(super) fn set_items(program: &mut Program, mut set: impl FnMut(i64) -> i64) {
    for items in program.loader.iter_mut().flat_map(|loader| &mut loader.items) {
        let mut opened = false;
        // The first time in the frame belongs to its begin.
        let mut times = 0;
        for step in items {
            match step {
                Step::Open(_) => (opened, times) = (is_item(step), 0),
                Step::Spend(own) if opened => {
                    times += 1;
                    if times == 2 {
                        *own = set(*own).max(1);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Add the frames of a DataLoader iterator's `__next__`, with the steps of `body` inside.
fn take(b: &mut Builder<'_>, iterator: &'static str, body: impl FnOnce(&mut Builder<'_>)) {
    b.annotation(iterator, |b| b.python("torch/utils/data/dataloader.py(701): __next__", body));
}

/// Add the steps that take an item from workers that are fast enough, so that it is ready.
fn take_from_workers(b: &mut Builder<'_>) {
    take(b, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", |b| {
        b.python(names::QUEUE_GET, |b| b.spend(8_000, 30_000));
    });
}

/// Inject the loading of a batch of 2 to 8 items by the main thread into each step, for 0.3 to 2 times the step.
/// Repaired: workers load it.
fn load_inline(p: &mut FaultInjector<'_>) {
    let items = p.draw_count(2, 8);
    let ns = p.draw_step_part(30, 200) / items as i64;
    p.insert_both(At::Start, 1, |p| {
        let faulty = p.build_steps(|b| {
            take(b, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", |b| {
                b.python(names::FETCH, |b| {
                    for _ in 0..items {
                        b.python("dataset.py(31): __getitem__", |b| b.spend_about(ns, 15));
                        b.spend(300, 3_000);
                    }
                });
            });
        });
        (faulty, p.build_steps(take_from_workers))
    });
}

/// Inject the loading of a batch of 2 to 8 images by the main thread into each step. Resizing them takes 0.3 to 2 times
/// the step. Repaired: the images are small from the beginning.
fn resize(p: &mut FaultInjector<'_>) {
    const RESIZE: &str = "PIL/Image.py(2203): resize";
    let items = p.draw_count(2, 8);
    let ns = p.draw_step_part(30, 200) / items as i64;
    p.insert_both(At::Start, 1, |p| {
        let faulty = p.build_steps(|b| {
            take(b, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", |b| {
                b.python(names::FETCH, |b| {
                    for _ in 0..items {
                        b.python("dataset.py(31): __getitem__", |b| {
                            b.spend_about(ns / 8, 15);
                            b.steps.push(Step::Open(Span::new(program::Kind::Python, RESIZE)));
                            b.spend_about(ns, 15);
                            b.steps.push(Step::Close);
                        });
                        b.spend(300, 3_000);
                    }
                });
            });
        });
        let mut is_resize = false;
        let stays = |step: &Step| {
            let was = is_resize;
            is_resize = matches!(step, Step::Open(span) if span.name == RESIZE) || was && !matches!(step, Step::Close);
            !was && !is_resize
        };
        let mut repaired = faulty.clone();
        repaired.retain(stays);
        (faulty, repaired)
    });
}
