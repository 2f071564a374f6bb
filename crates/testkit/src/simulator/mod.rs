//! A simulator of training programs, for tests and demos: it knows what its traces can only be asked for.
//!
//! [`simulate`] draws a program (threads, DataLoader workers, streams, events, copies, graphs, locks), runs it in exact
//! nanoseconds, writes what PyTorch's profiler (Kineto) would have written, and tells the true critical path: which time
//! was spent on what, back from the end over what released what.
//!
//! # Rules
//!
//! * An operation of the GPU starts at the latest of: end of a prerequisite plus the lag drawn for it. Prerequisites are
//!   its launch, the operation before it on its stream, the events that its stream was told to wait for, the copy before
//!   it on the same copy engine (one per direction, first come first served), and inside a graph the level before its own.
//! * A launch releases its operation at the call's end, or at the operation's start if that is earlier. Operations start
//!   inside their launch call only if everything before them was done when the call began.
//! * A record is complete when everything before it on its stream is, waits included. A wait for an event that was never
//!   recorded does nothing.
//! * A synchronising call that finds everything done takes its own time; else it returns some time after the last end.
//!   `cudaFree` waits for the device and leaves no record of it. A run of queries ends with the first that starts after the
//!   end that it asks for; queries of events leave a record, queries of streams do not.
//! * A stream holds [`Profile::queue_limit`] operations that are not done; a launch call waits for room.
//! * A kernel with programmatic dependent launch may start before the kernel before it on its stream ends, if it was
//!   launched early enough; the path is cut at its start.
//! * Threads hand over by queues: `run_backward` and the autograd thread, `put` and `get` of the DataLoader (round robin,
//!   one index ahead per worker), locks. A thread that finds a token goes on at once, else some time after the token is put.
//! * Time between top-level spans is `host_python`, of the autograd thread `host_operator`, of workers and pinning thread
//!   `host_data_loading`. A thread that reaches such a gap while another thread of its process is inside a top-level Python
//!   frame stands still until that frame ends (the GIL).
//!
//! Where the usual definitions leave room:
//!
//! * A launch that a full queue blocks counts its latency from the call's end, as every launch does. Blocking copies do not
//!   look for room. The length of the queue is no part of a trace; [`Simulated::queue_limit`] tells it.
//! * An asynchronous operation never ends inside its launch call, else it would look as if the call had waited for it.
//! * A stream's synchronisation also waits for the events that the stream was told to wait for.
//! * The first and the last level of a graph have one kernel, on the launching stream; branches have streams of their own.
//! * A frame in which a thread waits for another ends when it goes on; a frame that hands something over does so at its
//!   end. Workers and pinning thread have no frame around their wait, and hand over at the end of a top-level span.
//! * The profiler's own work stands on the thread that it holds up.
//! * Threads that nobody wakes begin at time 0.
//!
//! All lags belong to the program, so that an edited program runs with the same ones. In the first run of a program they
//! are settled: where the prerequisite that ends last would not be the one that binds, the loser's lag is adjusted.
//! Programs whose trace would still allow another cause than the true one are drawn again.
//!
//! ```
//! use stackline_testkit::simulator::{Profile, simulate};
//! let run = simulate(1, &Profile::any(1));
//! let truth = run.truth();
//! assert_eq!(truth.bound_by_ns.values().sum::<i64>(), truth.window_ns);
//! assert!(run.json().contains("cudaLaunchKernel"));
//! ```
//!
//! [`Damage`] takes records out of a trace or makes its times noisy; [`Simulated::refute_damaged`] then judges what is said about
//! it. [`Edit`] changes a program and runs it again, so that a prediction has a truth. [`injected_faults`] makes programs with a problem
//! whose repair is known.

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
