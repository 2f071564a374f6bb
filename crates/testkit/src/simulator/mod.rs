//! Simulator of training programs with known ground truth, for tests and demos.
//!
//! [`simulate`] draws a program (threads, DataLoader workers, streams, events, copies, graphs, locks), runs it in
//! exact nanoseconds, and writes a trace as PyTorch's profiler (Kineto) does. It returns the real critical path: a
//! backward pass from the end over causes, with the category of each time.
//!
//! # Rules
//!
//! * A GPU operation starts at the latest of: end of a prerequisite plus the lag drawn for it. Prerequisites are its
//!   launch, the previous operation of its stream, the events that its stream waits for, the previous copy on the
//!   same copy engine (one per direction, first come first served), and inside a graph the previous level.
//! * A launch releases its operation at the call's end, or at the operation's start if that is earlier. Operations
//!   start inside their launch call only if all prerequisites were done when the call began.
//! * A record is complete when all earlier work of its stream is complete, including waits. A wait for an event that
//!   was never recorded has no effect.
//! * A synchronizing call that finds all work done takes its own time; otherwise it returns some time after the last
//!   end. `cudaFree` waits for the device without a record. A sequence of queries ends with the first that starts
//!   after the end of its target; queries of events leave a record, queries of streams do not.
//! * A stream holds at most [`Profile::queue_limit`] pending operations; a launch call waits for space.
//! * A kernel with programmatic dependent launch may start before the previous kernel of its stream ends, if it was
//!   launched early enough; the path is cut at its start.
//! * Thread handovers use queues: `run_backward` and the autograd thread, `put` and `get` of the DataLoader (workers
//!   in turn, with one prefetched index each), locks. A thread that finds a token continues at once, otherwise some
//!   time after the token is put.
//! * Time between top-level spans is `host_python`, on the autograd thread `host_operator`, on workers and pinning
//!   thread `host_data_loading`. A thread that reaches such a gap while another thread of its process is inside a
//!   top-level Python frame is blocked until that frame ends (the GIL).
//!
//! Decisions where the usual definitions are ambiguous:
//!
//! * The latency of a launch that a full queue blocks counts from the call's end, as for every launch. Blocking
//!   copies do not wait for space. The length of the queue is not in a trace; [`Simulated::queue_limit`] returns it.
//! * An asynchronous operation never ends inside its launch call; otherwise the call would look as if it had waited.
//! * A synchronization of a stream also waits for the events that the stream waits for.
//! * The first and the last level of a graph have one kernel, on the launching stream; branches have separate
//!   streams.
//! * A frame in which a thread waits for another one ends when the thread continues; a frame with a handover hands
//!   over at its end. Workers and pinning thread have no frame around their wait, and hand over at the end of a
//!   top-level span.
//! * Overhead of the profiler is recorded on the thread that it blocks.
//! * Threads without a handover at their begin start at time 0.
//!
//! All lags belong to the program, so that an edited program runs with the same lags. In the first run of a program
//! they are settled: if the prerequisite that ends last would not be the binding one, the lag of the other is
//! adjusted. Programs with an ambiguous trace are drawn again.
//!
//! ```
//! use stackline_testkit::simulator::{Profile, simulate};
//! let run = simulate(1, &Profile::any(1));
//! let truth = run.truth();
//! assert_eq!(truth.bound_by_ns.values().sum::<i64>(), truth.window_ns);
//! assert!(run.json().contains("cudaLaunchKernel"));
//! ```
//!
//! [`Damage`] removes records from a trace or makes its times noisy; [`Simulated::refute_damaged`] checks claims
//! about such a trace. [`Edit`] changes a program and runs it again, which gives the ground truth of a prediction.
//! [`injected_faults`] makes programs with a problem whose repair is known.

mod ambiguity;
mod damage;
mod edit;
pub mod injected_faults;
mod kineto;
mod names;
mod profile;
mod program;
mod run;
mod simulated;
mod truth;
mod verify_path;

pub use damage::{Damage, Damaged};
pub use edit::Edit;
pub use profile::Profile;
pub use simulated::{Simulated, Step, simulate};
pub use truth::{TrueSegment, Truth};
pub use verify_path::Claim;
