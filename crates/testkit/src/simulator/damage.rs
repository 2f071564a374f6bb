//! Traces of simulated programs with missing records or wrong times.

use crate::rng::Rng;

use crate::simulator::Simulated;
use crate::simulator::kineto::{self, View};
use crate::simulator::program::{Kind, Role};

/// Kind of damage to the trace of a simulated program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// This percentage of the GPU operations has no record.
    LostKernels(u32),
    /// This percentage of the launch calls has no record.
    LostLaunches(u32),
    /// No Python frames.
    NoPython,
    /// No `cuda_sync` records.
    NoSyncs,
    /// The device's clock is ahead by `offset_ns`, which may be negative, with random errors up to `jitter_ns`.
    Clock {
        /// Offset of all records of the device.
        offset_ns: i64,
        /// Largest random error, drawn for each start and end.
        jitter_ns: i64,
    },
    /// The records are in another order; none is missing.
    Reordered,
    /// Threads other than the main thread have no records: each of the workers, the pinning thread, the second Python
    /// thread and the autograd thread is left out with a probability of one half, and at least one of them.
    LostThreads,
}

/// Damaged trace of a simulated program, and a summary of its missing records.
#[derive(Debug, Clone)]
pub struct Damaged {
    /// The trace.
    pub json: String,
    /// Number of GPU operations without record.
    pub lost_operations: usize,
    /// Number of launch calls without record.
    pub lost_launches: usize,
    /// Threads without records, as process/thread.
    pub lost_threads: Vec<String>,
    pub(crate) view: View,
}

impl Damaged {
    /// Shift the GPU times against which claims are checked by `by_ns`, for a reader that corrects the clock of the
    /// GPU.
    #[must_use]
    pub fn shifted(mut self, by_ns: i64) -> Self {
        for (start, end) in &mut self.view.times {
            *start += by_ns;
            *end += by_ns;
        }
        self
    }
}

impl Simulated {
    /// Write the trace of the simulated program with all kinds of damage in `damages`.
    #[must_use]
    pub fn damaged(&self, damages: &[Damage], seed: u64) -> Damaged {
        let mut rng = Rng::new(seed);
        let mut view = View::complete(&self.outcome);
        let (mut lost_operations, mut lost_launches, mut reordered) = (0, 0, false);
        for damage in damages {
            match *damage {
                Damage::LostKernels(percent) => lost_operations += self.lose_operations(&mut view, &mut rng, percent),
                Damage::LostLaunches(percent) => lost_launches += self.lose_launches(&mut view, &mut rng, percent),
                Damage::NoPython => self.hide(&mut view, |span| span.kind == Kind::Python),
                Damage::NoSyncs => view.hidden_syncs = true,
                Damage::Clock { offset_ns, jitter_ns } => {
                    view.offset = offset_ns;
                    for (start, end) in &mut view.times {
                        *start += offset_ns + rng.between(-jitter_ns, jitter_ns);
                        *end = (*end + offset_ns + rng.between(-jitter_ns, jitter_ns)).max(*start + 1);
                    }
                }
                Damage::Reordered => reordered = true,
                Damage::LostThreads => self.lose_threads(&mut view, &mut rng),
            }
        }
        let lost_threads = view.hidden_threads.iter().map(|&role| kineto::thread_label(role)).collect();
        let mut json = kineto::write(&self.program, &self.outcome, &view);
        if reordered {
            json = reorder(&json, &mut rng);
        }
        Damaged { json, lost_operations, lost_launches, lost_threads, view }
    }

    /// Leave out the records of the spans that `which` selects.
    fn hide(&self, view: &mut View, which: impl Fn(&crate::simulator::run::SpanRecord) -> bool) {
        for (hidden, span) in view.hidden_spans.iter_mut().zip(&self.outcome.spans) {
            *hidden |= which(span);
        }
    }

    /// Leave out the records of `percent` of the GPU operations; returns their number.
    fn lose_operations(&self, view: &mut View, rng: &mut Rng, percent: u32) -> usize {
        let mut lost = 0;
        for hidden in &mut view.hidden_activities {
            if rng.below(100) < percent as usize && !*hidden {
                *hidden = true;
                lost += 1;
            }
        }
        lost
    }

    /// Leave out the records of `percent` of the launch calls; returns their number.
    fn lose_launches(&self, view: &mut View, rng: &mut Rng, percent: u32) -> usize {
        let mut calls: Vec<u32> = self.outcome.activities.iter().map(|activity| activity.call).collect();
        calls.dedup();
        calls.retain(|_| rng.below(100) < percent as usize);
        for &call in &calls {
            view.hidden_spans[call as usize] = true;
        }
        calls.len()
    }

    /// Leave out the records of random threads other than the main thread, at least of one.
    fn lose_threads(&self, view: &mut View, rng: &mut Rng) {
        let others: Vec<Role> = self.outcome.threads.iter().map(|t| t.0).filter(|&r| r != Role::Main).collect();
        let mut lost: Vec<Role> = others.iter().copied().filter(|_| rng.below(2) == 0).collect();
        if lost.is_empty() {
            lost.extend(rng.pick(&others));
        }
        self.hide(view, |span| lost.contains(&self.outcome.threads[span.thread].0));
        view.hidden_threads = lost;
    }
}

/// Put the records of a trace into a random order.
fn reorder(json: &str, rng: &mut Rng) -> String {
    const BEGIN: &str = "\n  {\n    ";
    const END: &str = "\n  ],";
    let Some((head, rest)) = json.split_once(BEGIN) else { return json.to_owned() };
    let Some((list, tail)) = rest.split_once(END) else { return json.to_owned() };
    let between = format!(",{BEGIN}");
    let mut records: Vec<&str> = list.split(between.as_str()).collect();
    for i in (1..records.len()).rev() {
        records.swap(i, rng.below(i + 1));
    }
    [head, BEGIN, &records.join(&between), END, tail].concat()
}
