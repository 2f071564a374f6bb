//! Request coalescing: equal queries at the same time are computed once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;

/// Map of queries in progress. Concurrent requests of the same query share one computation.
#[derive(Debug)]
pub(crate) struct RequestCoalescing<T>(Mutex<BTreeMap<String, Arc<OnceCell<T>>>>);

impl<T> Default for RequestCoalescing<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> RequestCoalescing<T> {
    /// Return the answer to a query: that of a computation in progress, otherwise of `make`. Await it in a separate
    /// task if the request may be dropped before the answer is ready.
    pub(crate) async fn join<F: Future<Output = T>>(&self, question: &str, make: impl FnOnce() -> F) -> T {
        let flight = Arc::clone(self.in_progress().entry(question.to_owned()).or_default());
        let answer = flight.get_or_init(make).await.clone();
        let mut under_way = self.in_progress();
        if under_way.get(question).is_some_and(|now| Arc::ptr_eq(now, &flight)) {
            under_way.remove(question);
        }
        answer
    }

    /// Lock the map of queries in progress.
    fn in_progress(&self) -> MutexGuard<'_, BTreeMap<String, Arc<OnceCell<T>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Semaphore;

    /// Number of requests that share a query.
    fn holders(coalescing: &RequestCoalescing<usize>, question: &str) -> usize {
        coalescing.in_progress().get(question).map_or(0, |flight| Arc::strong_count(flight) - 1)
    }

    #[test]
    fn concurrent_equal_requests_are_computed_once() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        let coalescing: Arc<RequestCoalescing<usize>> = Arc::default();
        let (made, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let request = |question: &'static str| {
            let (coalescing, made, gate) = (Arc::clone(&coalescing), Arc::clone(&made), Arc::clone(&gate));
            runtime.spawn(async move {
                let make = || async {
                    let _ = gate.acquire().await.expect("open");
                    made.fetch_add(1, Ordering::SeqCst)
                };
                coalescing.join(question, make).await
            })
        };
        let requests: Vec<_> = (0..8).map(|_| request("same")).collect();
        // All requests must wait before the computation continues.
        while holders(&coalescing, "same") < 8 {
            std::thread::yield_now();
        }
        gate.add_permits(1);
        let answers: Vec<usize> = requests.into_iter().map(|task| runtime.block_on(task).expect("answered")).collect();
        assert_eq!(answers, [0; 8]);
        assert_eq!(made.load(Ordering::SeqCst), 1);
        // Later requests compute the answer again; requests for other queries are separate.
        assert_eq!(holders(&coalescing, "same"), 0);
        assert_eq!(runtime.block_on(request("same")).expect("answered"), 1);
        assert_eq!(runtime.block_on(request("other")).expect("answered"), 2);
    }
}
