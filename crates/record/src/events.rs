//! Single calls, for recordings in `trace` mode: from the threads to the writer of the stream, without a lock.

use crate::tree::NodeId;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Calls that wait for the writer at most, per thread. It is woken when half of them do.
const WAITING: usize = 1 << 17;

/// A call that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// When it began, in ticks.
    pub(crate) start: u64,
    /// How long it took, in ns: converted once, so that the calls of a node add up to what its tree says.
    pub(crate) took_ns: u64,
    /// Where in the tree it belongs.
    pub(crate) node: NodeId,
}

/// The thread's end.
#[derive(Debug)]
pub(crate) struct Outbox {
    calls: rtrb::Producer<Call>,
    lost: Arc<AtomicU64>,
}

/// The writer's end.
#[derive(Clone, Debug)]
pub(crate) struct Inbox {
    calls: Arc<Mutex<rtrb::Consumer<Call>>>,
    lost: Arc<AtomicU64>,
}

/// Both ends for one thread.
pub(crate) fn mailbox() -> (Outbox, Inbox) {
    let (producer, consumer) = rtrb::RingBuffer::new(WAITING);
    let lost = Arc::new(AtomicU64::new(0));
    (Outbox { calls: producer, lost: Arc::clone(&lost) }, Inbox { calls: Arc::new(Mutex::new(consumer)), lost })
}

impl Outbox {
    /// Posts a call; `true` if the writer should come. What finds no room is counted.
    #[inline]
    pub(crate) fn post(&mut self, call: Call) -> bool {
        if self.calls.push(call).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        self.calls.slots() == WAITING / 2
    }
}

impl Inbox {
    /// Takes all that was posted.
    pub(crate) fn take(&self) -> Vec<Call> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = calls.slots();
        calls.read_chunk(waiting).map(|chunk| chunk.into_iter().collect()).unwrap_or_default()
    }

    /// How many calls found no room.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Call, WAITING, mailbox};
    use crate::tree::NodeId;

    #[test]
    fn calls_arrive_in_order_and_what_is_too_much_is_counted() {
        let (mut outbox, inbox) = mailbox();
        let call = |start| Call { start, took_ns: 1, node: NodeId(3) };
        let wakes = (0..WAITING as u64 + 5).filter(|&start| outbox.post(call(start))).count();
        assert_eq!(wakes, 1, "woken once, half-way");
        let taken = inbox.take();
        assert_eq!((taken.len(), inbox.lost()), (WAITING, 5));
        assert!(taken.iter().enumerate().all(|(at, taken)| *taken == call(at as u64)));
        assert!(!outbox.post(call(0)) && inbox.take() == [call(0)]);
    }
}
