//! Additional work between modules: events, waits, copies, graphs, allocation, locks.

use super::build::{BRANCHES, Builder, COMPUTE, COPY, SIDE};
use super::{Kind, Span, Step, Target, Work, host};
use crate::simulator::names;

const TO_DEVICE: &str = "Memcpy HtoD (Pinned -> Device)";
const TO_HOST: &str = "Memcpy DtoH (Device -> Pinned)";
const PAGEABLE: &str = "Memcpy DtoH (Device -> Pageable)";

/// Add the work of one feature that the profile allows, drawn at random.
pub(super) fn random_feature(b: &mut Builder<'_>, shared: &host::Shared) {
    let p = b.profile;
    let mut choices: Vec<fn(&mut Builder<'_>, &host::Shared)> = vec![|b, _| fill(b)];
    let mut offer = |on: bool, what: fn(&mut Builder<'_>, &host::Shared)| {
        if on {
            choices.extend([what, what]);
        }
    };
    offer(p.events, |b, _| side_stream_work(b));
    offer(p.syncs, |b, _| wait_for_device(b));
    offer(p.polls, |b, _| poll(b));
    offer(p.copies, |b, _| copies(b));
    offer(p.graphs, |b, _| graph(b));
    offer(p.allocator, |b, _| allocate(b));
    offer(p.locks, critical_section);
    let chosen = b.rng.below(choices.len());
    choices[chosen](b, shared);
}

/// Add the copy of the batch to the device and an event wait for it, if the profile has copies.
pub(super) fn load_batch(b: &mut Builder<'_>) {
    if !b.profile.copies {
        return;
    }
    b.op("aten::to", |b| {
        b.op("aten::copy_", |b| {
            let duration = b.rng.between(4_000, 90_000);
            b.launch(Work::HostToDevice, TO_DEVICE, COPY, duration);
            b.spend(150, 900);
            let copied = b.record(COPY, None);
            b.spend(150, 900);
            b.wait(COMPUTE, copied);
        });
    });
    super::train::time_between_parts(b);
}

/// Add an operator that fills device memory.
fn fill(b: &mut Builder<'_>) {
    b.op("aten::zero_", |b| {
        let duration = b.rng.between(1_000, 5_000);
        b.launch(Work::Fill, "Memset (Device)", COMPUTE, duration);
    });
}

/// Add kernels on a second stream, which waits for an event of the compute stream. Later the compute stream waits for
/// an event of the second stream.
fn side_stream_work(b: &mut Builder<'_>) {
    b.python("model.py(57): overlapped", |b| {
        let ready = b.record(COMPUTE, None);
        b.spend(200, 900);
        b.wait(SIDE, ready);
        if b.chance(25) {
            // Waiting twice has no effect, nor has waiting for an event that was never recorded.
            b.spend(200, 900);
            b.wait(SIDE, ready);
            b.program.records.push(900);
            let never = b.program.records.len() - 1;
            b.spend(200, 900);
            b.wait(SIDE, never);
        }
        b.spend(200, 900);
        b.op("aten::mm", |b| {
            for _ in 0..1 + b.rng.below(2) {
                b.kernel(SIDE);
                b.spend(150, 900);
            }
        });
        b.spend(200, 900);
        let mut done = b.record(SIDE, None);
        b.spend(200, 900);
        b.op("aten::add", |b| b.kernel(COMPUTE));
        if b.chance(30) {
            // The event is recorded again later, so that later waits wait for more work.
            b.spend(200, 900);
            b.op("aten::mul", |b| b.kernel(SIDE));
            b.spend(200, 900);
            done = b.record(SIDE, Some(done));
        }
        b.spend(200, 900);
        b.wait(COMPUTE, done);
        if b.profile.syncs && b.chance(30) {
            b.spend(200, 900);
            b.sync(Target::Record(done));
        }
    });
}

/// Add `Tensor.item()`: a blocking copy, or a copy and a synchronization.
pub(crate) fn item(b: &mut Builder<'_>) {
    b.op("aten::item", |b| {
        b.op("aten::_local_scalar_dense", |b| {
            if b.chance(50) {
                let call = if b.chance(50) { "cudaMemcpyAsync" } else { "cudaMemcpy" };
                b.blocking_copy(Work::DeviceToHost, PAGEABLE, call, COMPUTE);
            } else {
                let duration = b.rng.between(1_000, 2_500);
                b.launch(Work::DeviceToHost, TO_HOST, COMPUTE, duration);
                b.spend(150, 900);
                b.sync(Target::Stream(COMPUTE));
            }
        });
    });
}

/// Add a synchronization with the device, a stream or an event, or `Tensor.item()`.
fn wait_for_device(b: &mut Builder<'_>) {
    match b.rng.below(4) {
        0 => b.python("torch/cuda/__init__.py(985): synchronize", |b| b.sync(Target::Device)),
        1 => b.python("torch/cuda/streams.py(105): synchronize", |b| b.sync(Target::Stream(COMPUTE))),
        2 => b.python("torch/cuda/streams.py(231): synchronize", |b| {
            let done = b.record(COMPUTE, None);
            b.spend(300, 2_500);
            b.op("aten::mul", |b| b.kernel(COMPUTE));
            b.spend(300, 2_500);
            b.sync(Target::Record(done));
        }),
        _ => item(b),
    }
}

/// Add a Python frame that queries an event or the compute stream until it is done.
fn poll(b: &mut Builder<'_>) {
    b.python("utils.py(88): wait_until_done", |b| {
        if b.chance(60) {
            let done = b.record(COMPUTE, None);
            b.spend(300, 2_500);
            b.poll(Target::Record(done));
        } else {
            b.poll(Target::Stream(COMPUTE));
        }
    });
}

/// Add one to three copies of random directions, on the copy and the compute stream.
fn copies(b: &mut Builder<'_>) {
    b.op("aten::copy_", |b| {
        let ready = b.record(COMPUTE, None);
        b.spend(150, 900);
        b.wait(COPY, ready);
        for _ in 0..1 + b.rng.below(3) {
            b.spend(150, 900);
            let duration = b.rng.between(2_000, 80_000);
            let (work, name) = [
                (Work::HostToDevice, TO_DEVICE),
                (Work::DeviceToHost, TO_HOST),
                (Work::DeviceToDevice, "Memcpy DtoD (Device -> Device)"),
            ][b.rng.below(3)];
            let stream = [COPY, COPY, COMPUTE][b.rng.below(3)];
            b.launch(work, name, stream, duration);
        }
        b.spend(150, 900);
        let copied = b.record(COPY, None);
        b.spend(150, 900);
        b.wait(COMPUTE, copied);
    });
}

/// Launch a CUDA graph: levels of concurrent kernels; the first and the last have one kernel, on the launching stream.
fn graph(b: &mut Builder<'_>) {
    b.python("torch/cuda/graphs.py(88): replay", |b| {
        let mut levels = Vec::new();
        let depth = 2 + b.rng.below(4);
        for level in 0..depth {
            let wide = if level == 0 || level + 1 == depth { 1 } else { 1 + b.rng.below(3) };
            let streams = std::iter::once(COMPUTE).chain(BRANCHES).take(wide);
            levels.push(streams.map(|stream| (stream, b.rng.between(3_000, 60_000))).collect());
        }
        b.graph(&levels);
    });
}

/// Add a call of `cudaMalloc`, in some cases after `cudaFree`.
fn allocate(b: &mut Builder<'_>) {
    b.op("aten::empty", |b| {
        if b.chance(40) {
            b.sync(Target::Free);
            b.spend(200, 1_500);
        }
        b.call("cudaMalloc", 40_000, 400_000);
    });
}

/// Add steps that take the lock shared with the second Python thread, work, and release it.
pub(super) fn critical_section(b: &mut Builder<'_>, shared: &host::Shared) {
    b.wait_frame(names::ACQUIRE, shared.lock);
    b.spend(200, 900);
    b.steps.push(Step::Open(Span::new(Kind::Python, "metrics.py(31): update")));
    b.spend(5_000, 90_000);
    b.steps.push(Step::Close);
    b.spend(200, 900);
    b.put_frame(names::RELEASE, Step::Put(shared.lock));
}
