//! Reading with several threads: workers read the records of some blocks of the text ahead, and the thread of the trace
//! reads the other blocks itself.
//!
//! All records are added to the trace in the order of the text and by one thread, with the code that reads them
//! one after another. A worker's records are used only where that code would read them at the block's beginning, and
//! up to the first damage. So the trace does not depend on the number of threads or on the blocks.

mod batch;
mod blocks;
#[cfg(test)]
mod tests;

use super::builder::Builder;
use super::{ReaderState, SliceContext, Step, TextSource, events, read_text};
use crate::window::{MAX_WINDOW, Refill, Text, Window};
use crate::{Error, ReadOptions};
use batch::{Batch, Job, run_worker};
use blocks::{Block, Blocks};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use stackline_model::{StrId, Trace};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Scope, available_parallelism};

/// Limit on the number of workers: adding their records takes about a quarter of the time of reading them.
const MAX_WORKERS: usize = 4;
/// Number of blocks of each worker that are not read yet.
const BLOCKS_PER_WORKER: usize = 2;
/// Number of batches that may be of no use before workers get no further blocks; more are allowed per batch of use.
const MAX_USELESS: usize = 16;
const USEFUL_PER_USELESS: usize = 8;

/// Number of worker threads, size of a block, and number of blocks in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    workers: usize,
    /// Number of bytes of a block.
    block: usize,
    /// Number of blocks that are in memory.
    ahead: usize,
}

impl Plan {
    /// Plan for a number of threads (0: all cores); none for a single one.
    pub(super) fn for_threads(threads: usize) -> Option<Self> {
        let threads = if threads == 0 { available_parallelism().map_or(1, usize::from) } else { threads };
        let workers = threads.saturating_sub(1).min(MAX_WORKERS);
        (workers > 0).then_some(Self { workers, block: 1 << 20, ahead: 2 + 3 * workers })
    }
}

/// Read a trace from decompressed Chrome trace JSON, with the worker threads of the plan.
pub(super) fn read(name: &str, input: &mut dyn Read, plan: &Plan, options: &ReadOptions) -> Result<Trace, Error> {
    std::thread::scope(|scope| read_text(name, &mut ReadAhead::new(input, *plan, scope), options))
}

/// Next block of the text, to be read by the trace's thread or by a worker.
enum Slot {
    /// A block for the thread of the trace.
    Own(Block),
    /// A block that a worker reads.
    Sent(Receiver<Batch>),
}

/// Text source that reads blocks ahead and distributes them to worker threads.
struct ReadAhead<'scope, 'env: 'scope, 'r> {
    plan: Plan,
    scope: &'scope Scope<'scope, 'env>,
    blocks: Blocks<'r>,
    /// Next blocks, in the order of the text.
    slots: VecDeque<Slot>,
    /// Text before the next block.
    window: Window<io::Empty>,
    /// Blocks for the workers; none before the first one.
    jobs: Option<Sender<Job>>,
    /// Number of blocks that the workers have not read yet.
    waiting: Arc<AtomicUsize>,
    /// Number in the trace of each worker's texts.
    ids: Vec<Vec<StrId>>,
    /// Number of times that workers had to forget their texts, because a batch was not added as a whole.
    epoch: u32,
    useful: usize,
    useless: usize,
    used_blocks: Vec<Block>,
    used_batches: Vec<Batch>,
}

impl<'scope, 'env, 'r> ReadAhead<'scope, 'env, 'r> {
    fn new(input: &'r mut dyn Read, plan: Plan, scope: &'scope Scope<'scope, 'env>) -> Self {
        Self {
            plan,
            scope,
            blocks: Blocks::new(input, plan.block),
            slots: VecDeque::new(),
            window: Window::new(io::empty()),
            jobs: None,
            waiting: Arc::default(),
            ids: vec![Vec::new(); plan.workers],
            epoch: 0,
            useful: 0,
            useless: 0,
            used_blocks: Vec::new(),
            used_batches: Vec::new(),
        }
    }

    /// Read further blocks, and give some to the workers, so that they always have one.
    fn read_blocks(&mut self) {
        while self.slots.len() < self.plan.ahead {
            let Some(block) = self.blocks.next(self.used_blocks.pop().unwrap_or_default()) else { return };
            let slot = match self.waiting.load(Ordering::Relaxed) {
                waiting if waiting < BLOCKS_PER_WORKER * self.plan.workers && self.are_batches_useful() => {
                    self.send(block)
                }
                _ => Slot::Own(block),
            };
            self.slots.push_back(slot);
        }
    }

    /// Check if enough batches were added to the trace that workers should get further blocks.
    fn are_batches_useful(&self) -> bool {
        self.useless < MAX_USELESS + self.useful / USEFUL_PER_USELESS
    }

    /// Queue a block for the workers, which are started with the first block.
    fn send(&mut self, block: Block) -> Slot {
        let jobs = self.jobs.get_or_insert_with(|| {
            let (jobs, queue) = unbounded();
            for worker in 0..self.plan.workers {
                let (queue, waiting) = (queue.clone(), Arc::clone(&self.waiting));
                self.scope.spawn(move || run_worker(worker, &queue, &waiting));
            }
            jobs
        });
        let (done, batch) = bounded(1);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let job = Job { block, batch: self.used_batches.pop().unwrap_or_default(), epoch: self.epoch, done };
        match jobs.send(job) {
            Ok(()) => Slot::Sent(batch),
            // Without workers, this thread reads all blocks.
            Err(job) => Slot::Own(job.0.block),
        }
    }

    /// Next block as text. If a worker read its records, they are discarded.
    fn next_block(&mut self) -> Option<Block> {
        match self.slots.pop_front() {
            Some(Slot::Own(block)) => Some(block),
            Some(Slot::Sent(batch)) => batch.recv().ok().map(|batch| self.without_records(batch)),
            None => self.blocks.next(self.used_blocks.pop().unwrap_or_default()),
        }
    }

    /// Take back the block of a batch whose records cannot be used; later batches must number their texts anew.
    fn without_records(&mut self, mut batch: Batch) -> Block {
        // Texts that are new in this batch are unknown in later ones of the worker.
        if batch.epoch == self.epoch {
            self.epoch += 1;
        }
        self.useless += 1;
        let block = std::mem::take(&mut batch.block);
        self.used_batches.push(batch);
        block
    }

    /// Add the records of a batch to the trace, and return the block with the end of the read text.
    fn add_batch(&mut self, mut batch: Batch, builder: &mut Builder) -> (Block, usize) {
        batch.add_to(builder, &mut self.ids[batch.worker]);
        let block = std::mem::take(&mut batch.block);
        let end = batch.end;
        if end < block.bytes().len() {
            self.epoch += 1;
            self.useless += 1;
        } else {
            self.useful += 1;
        }
        self.used_batches.push(batch);
        (block, end)
    }

    /// Move the text of a block after `end` into the empty window.
    fn keep_rest(&mut self, block: Block, end: usize) {
        self.window.skip(end);
        self.window.append(&block.bytes()[end..]);
        self.used_blocks.push(block);
    }
}

impl TextSource for ReadAhead<'_, '_, '_> {
    fn add_ready(&mut self, place: ReaderState, builder: &mut Builder) -> Option<ReaderState> {
        let ReaderState::Events { member } = place else { return None };
        if !self.window.bytes().is_empty() || builder.commas != 1 {
            return None;
        }
        self.read_blocks();
        let block = match self.slots.pop_front()? {
            Slot::Own(block) => block,
            Slot::Sent(batch) => match batch.recv() {
                Ok(batch) if batch.epoch == self.epoch => {
                    let (block, end) = self.add_batch(batch, builder);
                    self.keep_rest(block, end);
                    return Some(place);
                }
                Ok(batch) => self.without_records(batch),
                Err(_) => return None,
            },
        };
        let (next, end) = match events(block.bytes(), block.offset(), SliceContext { last: false, member }, builder) {
            Step::Go(next, end) => (next, end),
            Step::More(end) => (place, end),
        };
        self.keep_rest(block, end);
        Some(next)
    }
}

impl Text for ReadAhead<'_, '_, '_> {
    fn bytes(&self) -> &[u8] {
        self.window.bytes()
    }

    fn offset(&self) -> u64 {
        self.window.offset()
    }

    fn consume(&mut self, n: usize) {
        self.window.consume(n);
    }

    fn is_final(&self) -> bool {
        self.window.is_final()
    }

    fn refill(&mut self) -> Refill {
        if self.window.is_final() {
            return Refill::End;
        }
        let have = self.window.bytes().len();
        if have >= MAX_WINDOW {
            return Refill::TooLarge;
        }
        // Doubling keeps the work linear if one element is larger than the window.
        while self.window.bytes().len() < 2 * have.max(1) {
            let Some(mut block) = self.next_block() else { break };
            let fitting = self.window.append(block.bytes());
            block.consume(fitting);
            if block.bytes().is_empty() {
                self.used_blocks.push(block);
            } else {
                self.slots.push_front(Slot::Own(block));
                break;
            }
        }
        if self.slots.is_empty() && self.blocks.is_ended() {
            self.window.mark_ended(self.blocks.failure.take());
        }
        if self.window.bytes().len() > have { Refill::More } else { Refill::End }
    }

    fn take_failure(&mut self) -> Option<io::Error> {
        self.window.take_failure()
    }
}
