//! Number and size of allocations of a read: nearly none per event, independent of the trace's length.
#![allow(unsafe_code, reason = "an allocator that counts can only be written so; see the SAFETY notes")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

use stackline_ingest::{ReadOptions, read_bytes};
use stackline_testkit::{demo, replicate};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Calls of the allocator that gave new or larger memory.
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// Bytes in use, and their maximum.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn grown(by: usize) {
    CALLS.fetch_add(1, Relaxed);
    let live = LIVE.fetch_add(by, Relaxed) + by;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: each method hands its arguments unchanged to the system's allocator, which upholds the contract; counting
// allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, passed on as it is.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `at` came from `System` with this layout, as the caller of `dealloc` guarantees.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_sub(layout.size(), Relaxed);
        grown(size);
        // SAFETY: `at` came from `System` with this layout, and `size` is what the caller asks for.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Cost {
    events: usize,
    calls: usize,
    peak: usize,
}

/// Cost of reading a trace of about this many events, without its text.
fn cost(demo: &[u8], events: u64) -> Cost {
    let mut text = Vec::new();
    replicate::replicate(demo, events, &mut text).unwrap();
    let (calls, live) = (CALLS.load(Relaxed), LIVE.load(Relaxed));
    PEAK.store(live, Relaxed);
    let trace = read_bytes("long", &text, &ReadOptions { threads: 1, ..ReadOptions::default() }).unwrap();
    assert!(trace.report.is_clean(), "{:?}", trace.report.problems);
    Cost { events: trace.events.len(), calls: CALLS.load(Relaxed) - calls, peak: PEAK.load(Relaxed) - live }
}

/// Allocations per further event. Columns that double allocate rarely; an allocation per event exceeds the limit.
const MAX_CALLS: f64 = 0.01;
/// Bytes in use per further event at the peak, when columns have just doubled.
const MAX_BYTES: f64 = 400.0;

#[test]
fn a_longer_trace_takes_few_more_allocations() {
    let demo = demo::generate(&demo::Config { steps: 2, layers: 2, ..demo::Config::default() });
    let (short, long) = (cost(demo.as_bytes(), 20_000), cost(demo.as_bytes(), 120_000));
    let more = (long.events - short.events) as f64;
    let calls = long.calls.saturating_sub(short.calls) as f64 / more;
    let bytes = long.peak.saturating_sub(short.peak) as f64 / more;
    println!(
        "{calls:.4} allocations and {bytes:.0} bytes at the peak per further event; {} for the first",
        short.calls
    );
    assert!(calls < MAX_CALLS, "{calls} allocations per event");
    assert!(bytes < MAX_BYTES, "{bytes} bytes per event");
    assert!(short.calls < 3_000, "{} allocations for {} events", short.calls, short.events);
}
