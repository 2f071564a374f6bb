//! Session: the recording of this process, written every half second.

mod ending;
mod exec_replacement;
mod lifetime;

use crate::cpu_usage::CpuUsage;
use crate::options::Options;
use crate::overhead::Change;
use crate::process::{DEFAULT_LIMIT, Process};
use crate::spare_states::SpareStates;
use crate::standard_error::print_message;
use crate::state::State;
use crate::stream::Stream;
use crate::tree::NodeId;
use crate::window::Window;
use dlmonitor::{Observer, SourceState, clock, without_signals};
use lifetime::Lifetime;
use stackline_recording::{Record, Role, Source};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;

/// Write interval, which is the largest loss when the process is killed.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time to the first write. It doubles with each write up to [`INTERVAL`], so that short-lived processes leave a
/// stream.
const FIRST_INTERVAL: Duration = Duration::from_millis(8);
/// Longest delay of `os._exit` for the last write, because its caller expects an immediate end.
const LONGEST_EXIT: Duration = Duration::from_secs(1);

/// Stack of the writer, which builds unwinder caches for threads with small stacks. Physical memory is used only for
/// accessed pages.
const WRITER_STACK: usize = 1 << 20;

/// State of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// The program called `os._exit` with this code, and waits for the last write.
    Exiting(i32),
    /// Another program is about to replace this one, and the calling thread waits for the last write.
    Replacing,
    /// All data are written; the recording continues only if the other program fails to start.
    Replaced,
    /// The thread that ended the recording is writing the remaining data.
    Ending,
    /// All data are written.
    Ended,
}

/// True if `DLMonitor` calls this recorder.
static IS_OBSERVER: AtomicBool = AtomicBool::new(false);

/// Recording of one process.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) process: Process,
    states: SpareStates,
    pub(crate) window: Window,
    /// Begin of the recording, from which `--after` and `--duration` count: that of its first process.
    begin_ns: i64,
    options: Options,
    role: Role,
    started: Once,
    stream: Mutex<Option<Stream>>,
    sources: Mutex<Vec<Source>>,
    usage: Mutex<CpuUsage>,
    /// Version of `PyTorch`, after its import.
    torch: OnceLock<String>,
    phase: Mutex<Phase>,
    /// Signaled when the writer has work.
    wake: Condvar,
    /// Signaled after the last write.
    written: Condvar,
    has_writer: AtomicBool,
    lifetime: Lifetime,
    /// Number of threads that are about to replace this program by another one.
    replacing: Mutex<u32>,
    pid: u32,
    /// True after the message that the stream cannot be written.
    has_reported_failure: AtomicBool,
    /// True after the message that the end would be missing if another program replaced this one.
    has_reported_replacing: AtomicBool,
}

impl Session {
    /// Create a session, whose stream is not yet created; [`Self::make_current`] makes it the one of the process.
    fn new(options: Options, role: Role, sources: Vec<Source>) -> &'static Self {
        let begin_ns = begin_of(options.begin_ns, clock::monotonic_ns());
        Box::leak(Box::new(Self {
            process: Process::new(options.max_nodes.unwrap_or(DEFAULT_LIMIT), options.extra_data()),
            states: SpareStates::default(),
            window: Window::new(options.window.clone(), options.trace, options.overhead_steps, since(begin_ns)),
            begin_ns,
            options,
            role,
            started: Once::new(),
            stream: Mutex::new(None),
            sources: Mutex::new(sources),
            usage: Mutex::default(),
            torch: OnceLock::new(),
            phase: Mutex::new(Phase::Running),
            wake: Condvar::new(),
            written: Condvar::new(),
            has_writer: AtomicBool::new(false),
            lifetime: Lifetime::default(),
            replacing: Mutex::new(0),
            pid: std::process::id(),
            has_reported_failure: AtomicBool::new(false),
            has_reported_replacing: AtomicBool::new(false),
        }))
    }

    /// Begin to record this process with these options. No effect while it is being recorded. `observer` records into
    /// the current session; only the first one in the life of the process is registered with `DLMonitor`.
    ///
    /// # Errors
    /// A sentence with the reason why nothing is recorded.
    pub(crate) fn begin(options: Options, observer: Box<dyn Observer>) -> Result<(), String> {
        if Self::hold().is_some_and(|session| !session.has_ended()) {
            return Ok(());
        }
        let first = dlmonitor::init(observer);
        if first {
            IS_OBSERVER.store(true, Ordering::Release);
        } else if !IS_OBSERVER.load(Ordering::Acquire) {
            return Err(
                "another profiler in this process already uses DLMonitor, the library that observes PyTorch".into()
            );
        }
        Self::new(options, Role::Main, Vec::new()).make_current();
        Self::free_replaced();
        let Some(session) = Self::hold() else { return Ok(()) };
        if !first {
            dlmonitor::resume();
        }
        if session.options.python {
            session.note_source(dlmonitor::start_python());
        }
        if session.options.native {
            session.note_source(dlmonitor::start_native());
        }
        session.start_writing().inspect_err(|_| session.replace())
    }

    /// Begin a session in a forked child, with the options of its parent. Its stream is created with the first data,
    /// because most children run another program at once.
    pub(crate) fn continue_in_child() {
        lifetime::forked();
        if let Some(parent) = Self::hold().filter(|session| !session.has_ended()) {
            // Threads that do not exist here may hold the parent's locks: the data that they guard are not accessed.
            let sources = parent.sources.try_lock().map(|sources| sources.clone()).unwrap_or_default();
            let options = Options { begin_ns: Some(parent.begin_ns), ..parent.options.clone() };
            let session = Self::new(options, Role::Fork, sources);
            session.process.modules.inherit(&parent.process.modules);
            session.make_current();
        }
    }

    /// True if the end of the recording session has begun. In a forked child, a lock that is not available belongs to a
    /// session that continues.
    fn has_ended(&self) -> bool {
        self.phase.try_lock().is_ok_and(|phase| matches!(*phase, Phase::Ending | Phase::Ended))
    }

    /// Create the recorder's state for the calling thread, and start the stream and its writer if that is still to do.
    #[cold]
    pub(crate) fn enter_thread(&self) -> Box<State> {
        if let Err(reason) = self.start_writing() {
            self.report_failure(&reason, "the program continues without recording");
        }
        self.states.enter_thread(&self.process)
    }

    /// End or reuse the tree of a thread that ends, and wake the writer if many ended trees wait for it.
    pub(crate) fn leave_thread(&self, state: Box<State>) {
        if self.states.leave_thread(&self.process, state) {
            self.wake_writer();
        }
    }

    /// Count a training step that ended with a span at this node, and open or close the window or pause operators.
    #[cold]
    pub(crate) fn step_ended(&self, node: NodeId) {
        // Without a writer, pauses that the program does not end by a step would never end.
        let looks = self.has_writer.load(Ordering::Acquire);
        self.window.step_ended(self.elapsed(), node, looks, |change| _ = self.report_operators(change));
    }

    /// Time since the begin of the recording, that of its first process.
    fn elapsed(&self) -> Duration {
        since(self.begin_ns)
    }

    /// Wake the writer before its next interval, because much data is waiting.
    #[cold]
    pub(crate) fn wake_writer(&self) {
        self.wake.notify_all();
    }

    /// Create the stream and start its writer, once. If the stream cannot be created, the recording ends, because its
    /// cost would have no result.
    fn start_writing(&self) -> Result<(), String> {
        let mut result = Ok(());
        self.started.call_once(|| {
            self.resume_in_child();
            result = self.make_stream();
            if result.is_err() {
                dlmonitor::silence();
                *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = Phase::Ended;
                return;
            }
            self.write_usage();
            let Options { samples: rates, counters, .. } = &self.options;
            let state = crate::samples::start(&self.process, *rates, counters, Self::records_samples_now);
            self.note_source(SourceState { name: "samples", state });
            self.spawn_writer();
        });
        result
    }

    /// Create the stream file of this process.
    fn make_stream(&self) -> Result<(), String> {
        let stream = create_stream(&self.options, crate::description::describe(&self.options, self.role))?;
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
        Ok(())
    }

    /// True if Python frames are recorded.
    pub(crate) fn records_python(&self) -> bool {
        self.options.python
    }

    /// Start the requested sources of PyTorch (operators, shapes, memory, compilations, kernels) after its import.
    pub(crate) fn torch_imported(&self) {
        if !self.options.pytorch {
            return;
        }
        dlmonitor::native::renew();
        let touches = self.process.records_memory_events();
        if self.options.shapes || touches {
            let shapes = dlmonitor::start_shapes();
            if let Err(reason) = &shapes.state {
                print_message(&match touches {
                    true => format!("memory accesses of operators are not recorded: {reason}"),
                    false => format!("shapes are not recorded: {reason}"),
                });
            }
            self.note_source(shapes);
        }
        self.note_source(dlmonitor::start_torch());
        dlmonitor::measure_torch();
        if let Some(version) = dlmonitor::torch_version() {
            // Torch is imported once.
            drop(self.torch.set(version));
        }
        if self.options.memory {
            self.note_source(dlmonitor::start_memory());
        }
        if self.options.compilations {
            dlmonitor::start_compilations();
        }
        if self.options.kernels {
            dlmonitor::start_kernels();
        }
        // The writer checked before, and found no operators to stop.
        self.window.operators_started(|change| _ = self.report_operators(change));
    }

    /// True if the session's stream was created, or creation failed.
    #[inline]
    pub(crate) fn has_started(&self) -> bool {
        self.started.is_completed()
    }

    /// Create the stream and start the writer of a forked child, before its first operator or at an operator outside of
    /// the window, which the writer opens later. No effect in other processes.
    #[cold]
    pub(crate) fn start_in_child(&self) {
        if self.role == Role::Fork
            && let Err(reason) = self.start_writing()
        {
            self.report_failure(&reason, "the program continues without recording");
        }
    }

    /// Resume reports of operators in a forked child, which its parent may have paused: without operators the recording
    /// of the child would never start. Not called in the handler of the fork itself, because PyTorch takes a lock:
    /// Python calls this after the fork; otherwise the first span does.
    pub(crate) fn resume_in_child(&self) {
        if self.role == Role::Fork {
            dlmonitor::resume_operators(|| true);
        }
    }

    /// Write the CPU usage at the begin to the stream, from which later ones are subtracted: threads may have run long
    /// before.
    fn write_usage(&self) {
        let load = self.cpu_usage_record();
        if let Some(stream) = self.stream.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            stream.write_usage(load, None);
        }
    }

    /// Record of the CPU usage of all threads so far; `None` outside of `trace` mode.
    fn cpu_usage_record(&self) -> Option<Record> {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        self.options.trace.then(|| usage.read_threads())?
    }

    /// Store the state of a data source, in place of an earlier one with the same name, for the next write.
    fn note_source(&self, state: SourceState) {
        let (on, detail) = match state.state {
            Ok(detail) => (true, detail),
            Err(detail) => (false, detail),
        };
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|source| source.name != state.name);
        sources.push(Source { name: state.name.into(), on, detail });
    }

    /// Write all new data of the process to the stream. `last` is true for the final write.
    fn update(&self, last: bool) {
        dlmonitor::native::renew();
        let leaving = self.process.take_ended_trees();
        if let Some(samples) = crate::samples::drain(&self.process) {
            self.note_source(SourceState { name: "samples", state: Ok(samples) });
        }
        // An earlier recording of this process may have had other sources.
        if self.options.pytorch && dlmonitor::torch_state().state.is_ok() {
            self.note_source(dlmonitor::torch_state());
        }
        let is_source_on = |state: &&SourceState| match state.name {
            "kernels" => self.options.kernels,
            _ => self.options.compilations,
        };
        for state in dlmonitor::compiler_states().filter(is_source_on) {
            self.note_source(state.clone());
        }
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let load = self.cpu_usage_record();
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.is_none() {
            // There is no stream for them.
            drop(self.process.take_samples());
        }
        let Some(stream) = stream.as_mut() else { return self.process.remove_trees(&leaving) };
        stream.retract_end();
        if let Some(version) = self.torch.get() {
            stream.write_torch_version(version);
        }
        let is_taken = stream.update(&self.process, &self.window, &sources, last);
        stream.write_usage(load, dlmonitor::cost());
        stream.write_overhead(self.window.overhead());
        stream.write_step_ends(self.window.step_ends(), self.begin_ns);
        if let Some(error) = stream.error().filter(|_| !last) {
            let then = "the program continues, and the recorder will retry the write";
            self.report_failure(&error.to_string(), then);
        }
        if is_taken {
            stream.forget_trees(&leaving);
            self.process.remove_trees(&leaving);
        } else {
            stream.forget_trees(&self.process.keep_ended_trees(leaving));
        }
    }

    /// Print once that the recording cannot be written, because standard error belongs to the program.
    fn report_failure(&self, reason: &str, then: &str) {
        if !self.has_reported_failure.swap(true, Ordering::Relaxed) {
            print_message(&format!("cannot write the recording: {reason}; {then}"));
        }
    }

    /// Print once that the recording cannot be written before another program replaces this one. A search along `PATH`
    /// fails for most folders, so this message has its own flag, and later messages are still printed.
    fn report_replacing(&self, reason: &str) {
        if !self.has_reported_failure.load(Ordering::Relaxed)
            && !self.has_reported_replacing.swap(true, Ordering::Relaxed)
        {
            let then = "if this process now starts another program with exec, the end of the recording will be missing";
            print_message(&format!("cannot write the recording: {reason}; {then}"));
        }
    }

    /// Start or stop the reports of operators; `false` without a change if another recording of this process has begun,
    /// which has another window. Takes no lock that is held while a window changes.
    fn report_operators(&self, change: Change) -> bool {
        let is_needed = || self.is_current();
        match change {
            Change::Pause => dlmonitor::pause_operators(is_needed),
            Change::Resume => dlmonitor::resume_operators(is_needed),
        }
    }

    /// Start the writer thread, which writes periodically until the session ends.
    fn spawn_writer(&self) {
        let writer = self.writer();
        let spawned = without_signals(|| {
            std::thread::Builder::new()
                .name("stackline".into())
                .stack_size(WRITER_STACK)
                .spawn(move || writer.session().write_until_stopped())
        });
        // Without the thread, all data are written at the end.
        self.has_writer.store(spawned.is_ok(), Ordering::Release);
    }

    /// Loop of the writer thread: write new data at each interval, and the end of the recording.
    fn write_until_stopped(&self) {
        let mut interval = FIRST_INTERVAL;
        loop {
            let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
            if *phase == Phase::Running {
                phase = self.wake.wait_timeout(phase, interval).unwrap_or_else(PoisonError::into_inner).0;
            }
            let now = *phase;
            drop(phase);
            interval = (2 * interval).min(INTERVAL);
            match now {
                Phase::Running => {
                    clock::measure();
                    self.window.check_time(self.elapsed(), |change| _ = self.report_operators(change));
                    self.update(false);
                }
                Phase::Replacing => self.write_replaced(),
                Phase::Replaced => self.wait_for_other_program(),
                Phase::Exiting(code) => return self.write_last(Some(code)),
                Phase::Ending | Phase::Ended => return,
            }
        }
    }
}

/// Begin of the recording in ns: the launcher's, or now if that is missing or in the future. A time in the future comes
/// from another clock (a container may have its own).
fn begin_of(given_ns: Option<i64>, now_ns: i64) -> i64 {
    given_ns.filter(|given_ns| (0..=now_ns).contains(given_ns)).unwrap_or(now_ns)
}

/// Time since `begin_ns` on the monotonic clock; 0 if that is in the future.
fn since(begin_ns: i64) -> Duration {
    Duration::from_nanos(clock::monotonic_ns().saturating_sub(begin_ns).max(0).cast_unsigned())
}

/// Create the stream file `streams/PID-N.slr` in the run directory, with the first free number.
fn create_stream(options: &Options, head: stackline_recording::Process) -> Result<Stream, String> {
    let folder = options.run.join("streams");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let (pid, boot) = (head.pid, stackline_recording::boot());
    let mut attempt = 0;
    loop {
        // Process ids are reused.
        let path: PathBuf = folder.join(format!("{pid}-{attempt}.slr"));
        match Stream::create(&path, (head.clone(), boot), options.trace_limit) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && attempt < 1000 => attempt += 1,
            other => return other.map_err(|error| format!("cannot make {}: {error}", path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Session, begin_of};
    use crate::options::Options;
    use crate::tree::NodeId;
    use stackline_recording::{Reader, Record, Role};
    use std::time::Duration;

    /// A forked child has its session long before its stream, and all times count from the stream's first record.
    #[test]
    fn step_ends_share_the_time_origin_of_the_process_end() {
        const AFTER_BEGIN: Duration = Duration::from_millis(200);
        let run = tempfile::tempdir().unwrap();
        let path = run.path().display().to_string();
        let options = Options::from(|name| (name == "STACKLINE_RECORD").then(|| path.clone())).unwrap();
        let session = Session::new(options, Role::Fork, Vec::new());
        std::thread::sleep(AFTER_BEGIN);
        session.started.call_once(|| session.make_stream().unwrap());
        session.step_ended(NodeId(1));
        session.write_last(None);
        let file = run.path().join(format!("streams/{}-0.slr", std::process::id()));
        let records: Vec<Record> = Reader::new(&std::fs::read(file).unwrap()).unwrap().collect();
        let found = |value_of: fn(&Record) -> Option<u64>| records.iter().find_map(value_of).unwrap();
        let step_ns = found(|record| if let Record::StepEnds(ends) = record { Some(ends.last_ns) } else { None });
        let end_ns = found(|record| if let Record::End { at_ns } = record { Some(*at_ns) } else { None });
        assert!(step_ns <= end_ns, "a step ended {step_ns} ns after the begin, the process {end_ns} ns after it");
    }

    #[test]
    fn future_begins_are_rejected() {
        let begin_for = |given_ns| begin_of(given_ns, 1_000);
        assert_eq!([None, Some(400), Some(1_001), Some(-1)].map(begin_for), [1_000, 400, 1_000, 1_000]);
    }
}
