//! Lock-free event queue from the threads to the stream writer, for individual calls and memory events in `trace` mode.

use crate::tree::NodeId;
use stackline_recording::{Metric, TouchKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Largest number of calls (or memory accesses) per thread that wait for the writer. The writer is woken when half of
/// this is reached.
const MAX_QUEUED: usize = 1 << 17;
/// Initial size per thread, because most threads are short.
const INITIAL_SIZE: usize = 1 << 11;

/// An ended call of an operator or span, for the stream in `trace` mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Begin, `CLOCK_MONOTONIC`.
    pub(crate) start: i64,
    /// Duration in ns. The calls of a node add up to the time of the node.
    pub(crate) took_ns: u64,
    /// Node in the tree.
    pub(crate) node: NodeId,
    /// Autograd's numbers.
    pub(crate) sequence: Sequence,
    /// Number of its [`CallName`], 0 if the node has the exact name.
    pub(crate) name: u32,
}

/// Exact name of a call whose node is shared by many names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallName {
    /// Number of the name on the thread, from 1.
    pub(crate) number: u32,
    pub(crate) name: Box<str>,
}

/// Longest [`CallName`] in bytes.
pub(crate) const MAX_CALL_NAME: usize = 1024;

/// Autograd's sequence number of a call and, for a backward node, the thread of its forward operator, packed into one
/// word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sequence(pub(crate) u64);

/// Bits of the sequence number plus 1; the bits above are the thread.
const NUMBER_BITS: u32 = 48;

impl Sequence {
    /// Pack both numbers into one value; empty if either does not fit, or for a call without a number.
    pub(crate) fn new(number: Option<u64>, forward_thread: Option<u64>) -> Self {
        let number = number.map_or(0, |number| number.saturating_add(1));
        let thread = forward_thread.unwrap_or(0);
        let fits = number > 0 && number >> NUMBER_BITS == 0 && thread >> (u64::BITS - NUMBER_BITS) == 0;
        Self(if fits { thread << NUMBER_BITS | number } else { 0 })
    }

    /// Unpack the sequence number, and torch's id of the forward thread (0 for a forward operator); `None` if empty.
    pub(crate) fn get(self) -> Option<(u64, u64)> {
        let number = self.0 & ((1 << NUMBER_BITS) - 1);
        (number > 0).then(|| (number - 1, self.0 >> NUMBER_BITS))
    }
}

/// A sample's metric value at a call-tree node, with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimedSample {
    /// Tree of the node.
    pub(crate) tree: u32,
    pub(crate) node: NodeId,
    /// Time in ticks.
    pub(crate) at: u64,
    pub(crate) metric: Metric,
    pub(crate) value: u64,
}

/// Allocation, access or release of a tensor's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryAccess {
    /// Time, `CLOCK_MONOTONIC`; for an input, the begin of the operator.
    pub(crate) at: i64,
    pub(crate) address: usize,
    /// See [`stackline_recording::Record::Touch`].
    pub(crate) bytes: u64,
    pub(crate) node: NodeId,
    pub(crate) kind: TouchKind,
}

/// Sender of the event queue, owned by a thread.
#[derive(Debug)]
pub(crate) struct EventSender<T> {
    waiting: rtrb::Producer<T>,
    /// Capacity of the ring.
    room: usize,
    inbox: EventReceiver<T>,
}

/// Receiver of the event queue, owned by the writer.
#[derive(Debug)]
pub(crate) struct EventReceiver<T> {
    /// Rings of the thread; it posts to the last one. The thread takes the lock only when it adds a larger ring.
    rings: Arc<Mutex<Vec<rtrb::Consumer<T>>>>,
    lost: Arc<AtomicU64>,
}

impl<T> Clone for EventReceiver<T> {
    fn clone(&self) -> Self {
        Self { rings: Arc::clone(&self.rings), lost: Arc::clone(&self.lost) }
    }
}

/// Create sender and receiver of one thread's event queue.
pub(crate) fn channel<T>() -> (EventSender<T>, EventReceiver<T>) {
    let (waiting, consumer) = rtrb::RingBuffer::new(INITIAL_SIZE);
    let inbox = EventReceiver { rings: Arc::new(Mutex::new(vec![consumer])), lost: Arc::default() };
    (EventSender { waiting, room: INITIAL_SIZE, inbox: inbox.clone() }, inbox)
}

impl<T> EventSender<T> {
    /// Post an event; `true` if the writer should be woken. Events that do not fit are counted as lost.
    #[inline]
    pub(crate) fn post(&mut self, event: T) -> bool {
        if let Err(rtrb::PushError::Full(event)) = self.waiting.push(event) {
            return self.post_to_new_ring(event);
        }
        self.waiting.slots() == self.room / 2
    }

    /// Count one lost event that the caller does not post.
    pub(crate) fn count_lost(&self) {
        self.inbox.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Post an event to a new, larger ring and return `true`; if that exists already, count the event as lost.
    #[cold]
    fn post_to_new_ring(&mut self, event: T) -> bool {
        if self.room == MAX_QUEUED {
            self.count_lost();
            return false;
        }
        let (waiting, consumer) = rtrb::RingBuffer::new(MAX_QUEUED);
        self.inbox.rings.lock().unwrap_or_else(PoisonError::into_inner).push(consumer);
        (self.waiting, self.room) = (waiting, MAX_QUEUED);
        self.post(event);
        true
    }
}

impl<T> EventReceiver<T> {
    /// Take all events that the thread has posted to the queue.
    pub(crate) fn take(&self) -> Vec<T> {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::new();
        for ring in rings.iter_mut() {
            let waiting = ring.slots();
            taken.extend(ring.read_chunk(waiting).into_iter().flatten());
        }
        // Only the last ring receives more events.
        let outgrown = rings.len().saturating_sub(1);
        rings.drain(..outgrown);
        taken
    }

    /// Number of events that were lost because they did not fit into the queue.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Call, INITIAL_SIZE, MAX_QUEUED, Sequence, channel};
    use crate::tree::NodeId;

    #[test]
    fn calls_arrive_in_order_and_overflow_is_counted() {
        let (mut outbox, inbox) = channel();
        let call = |start| Call { start, took_ns: 1, node: NodeId(3), sequence: Sequence::default(), name: 0 };
        let room = INITIAL_SIZE + MAX_QUEUED;
        let wakes: Vec<i64> = (0..room as i64 + 5).filter(|&start| outbox.post(call(start))).collect();
        let half_way = [INITIAL_SIZE / 2 - 1, INITIAL_SIZE, INITIAL_SIZE + MAX_QUEUED / 2 - 1].map(|at| at as i64);
        assert_eq!(wakes, half_way, "woken half-way, and when the first room was too small");
        let taken = inbox.take();
        assert_eq!((taken.len(), inbox.lost()), (room, 5));
        assert!(taken.iter().enumerate().all(|(at, taken)| *taken == call(at as i64)));
        assert!(!outbox.post(call(0)) && inbox.take() == [call(0)]);
    }

    #[test]
    fn sequence_numbers_survive_or_are_none() {
        for (number, thread) in [(0, 0), (7, 3), ((1 << 48) - 2, (1 << 16) - 1)] {
            assert_eq!(Sequence::new(Some(number), Some(thread)).get(), Some((number, thread)));
        }
        for (number, thread) in
            [(None, Some(1)), (Some(1 << 48), None), (Some(u64::MAX), None), (Some(1), Some(1 << 16))]
        {
            assert_eq!(Sequence::new(number, thread).get(), None);
        }
    }
}
