//! Other threads and processes: DataLoader workers, pinning thread, a second Python thread.

use super::build::Builder;
use super::{Kind, Loader, Role, Span, Step, extras};
use crate::simulator::names;

/// Queues by which threads of the program wait for each other, and the numbers of DataLoader items.
#[derive(Debug)]
pub(super) struct Shared {
    /// Queues from the main to the autograd thread, and back.
    pub(super) ready: usize,
    pub(super) finished: usize,
    /// One token: the thread that has it holds the lock.
    pub(super) lock: usize,
    /// Items from the workers, and from the pinning thread.
    items: usize,
    pinned: usize,
    /// Number of items, and number of prefetched indices.
    count: usize,
    ahead: usize,
}

impl Shared {
    pub(super) fn new(b: &mut Builder<'_>, passes: usize) -> Self {
        let [ready, finished, items, pinned] = [(); 4].map(|()| b.queue(0));
        let lock = b.queue(1);
        let workers = b.profile.workers as usize;
        let count = if workers > 0 { passes } else { 0 };
        let shared = Self { ready, finished, lock, items, pinned, count, ahead: workers.min(count) };
        if workers > 0 {
            let loader = Loader {
                workers,
                items: (0..count).map(|_| fetch(b)).collect(),
                waits: (0..count).map(|_| (b.rng.between(600, 1_500), b.rng.between(2_000, 6_000))).collect(),
                done: items,
            };
            b.program.loader = Some(loader);
        }
        shared
    }
}

/// Draw the steps in which a DataLoader worker loads one item.
fn fetch(b: &mut Builder<'_>) -> Vec<Step> {
    let outer = std::mem::take(&mut b.steps);
    b.python(names::FETCH, |b| {
        for _ in 0..1 + b.rng.below(3) {
            b.python("dataset.py(31): __getitem__", |b| b.spend(10_000, 220_000));
            b.spend(300, 3_000);
        }
        b.op("aten::stack", |b| b.spend(2_000, 30_000));
    });
    std::mem::replace(&mut b.steps, outer)
}

/// Add the frame in which the main thread requests an item from a DataLoader worker.
fn put_index(b: &mut Builder<'_>) {
    b.put_frame(names::QUEUE_PUT, Step::PutIndex);
    b.spend(8_000, 14_000);
}

/// Add the frames in which the main thread requests the first item of each DataLoader worker.
pub(super) fn prefetch(b: &mut Builder<'_>, shared: &Shared) {
    if shared.count == 0 {
        return;
    }
    b.python("torch/utils/data/dataloader.py(1145): __init__", |b| {
        for _ in 0..shared.ahead {
            put_index(b);
        }
    });
    b.spend(400, 3_000);
}

/// Add the steps that wait for the next batch and request another one. Without workers, the main thread may load it
/// itself.
pub(super) fn next_batch(b: &mut Builder<'_>, shared: &Shared) {
    if shared.count == 0 {
        if b.profile.inline_loading {
            load_inline(b);
        }
        return;
    }
    let (queue, frame) = match b.profile.pin_memory {
        true => (shared.pinned, names::PINNED_GET),
        false => (shared.items, names::QUEUE_GET),
    };
    b.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", |b| {
        b.python("torch/utils/data/dataloader.py(701): __next__", |b| {
            b.wait_frame(frame, queue);
            b.spend(1_000, 4_000);
            let requested_items = b.steps.iter().filter(|step| matches!(step, Step::PutIndex)).count();
            if requested_items < shared.count {
                put_index(b);
            }
        });
    });
    b.spend(400, 3_000);
}

/// Add the steps in which the main thread loads a batch itself, without workers.
fn load_inline(b: &mut Builder<'_>) {
    b.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", |b| {
        b.python("torch/utils/data/dataloader.py(701): __next__", |b| {
            let item = fetch(b);
            b.steps.extend(item);
            if b.chance(40) {
                b.spend(300, 1_500);
                b.op("aten::pin_memory", |b| b.call("cudaHostAlloc", 4_000, 50_000));
            }
        });
    });
    super::train::time_between_parts(b);
}

/// Add the pinning thread and the second Python thread to the program, if the profile has them.
pub(super) fn other_threads(b: &mut Builder<'_>, shared: &Shared) {
    if shared.count > 0 && b.profile.pin_memory {
        for _ in 0..shared.count {
            b.get(shared.items, (2_000, 6_000));
            b.python(names::PIN, |b| {
                b.op("aten::pin_memory", |b| b.call("cudaHostAlloc", 4_000, 50_000));
            });
            b.steps.push(Step::Put(shared.pinned));
        }
        b.thread(Role::Pin);
    }
    if b.profile.locks {
        b.python("logger.py(210): run", |b| {
            for _ in 0..2 + b.rng.below(5) {
                b.spend(5_000, 120_000);
                extras::critical_section(b, shared);
            }
        });
        b.thread(Role::Helper);
    } else if b.profile.gil {
        for i in 0..2 + b.rng.below(4) {
            if i > 0 {
                let (own, lag) = (b.rng.between(5_000, 90_000), b.rng.between(5_000, 30_000));
                b.steps.push(Step::Gap { own, lag });
            }
            b.steps.push(Step::Open(Span::new(Kind::Python, "logger.py(210): compress")));
            b.spend(30_000, 400_000);
            b.steps.push(Step::Close);
        }
        b.thread(Role::Helper);
    }
}
