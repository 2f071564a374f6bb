//! Launch of the command to record: forwarding of signals, and exit with the command's exit code or signal.

use crate::failure::cannot_run;
use anyhow::{Context, Result};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, getegid};
use signal_hook::consts::signal::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use stackline_ingest::recording::{BEGIN, Begin, SignaledProcess, boot};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Signals that would end this process before the command, or that programs give a meaning of their own.
const PASSED_ON: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM];

/// Run the command to record and wait for its end; return its process ID and exit status.
pub(super) fn run(command: &[OsString], environment: &[(&str, OsString)]) -> Result<(u32, ExitStatus)> {
    let [program, arguments @ ..] = command else {
        return Err(cannot_run(NOT_FOUND, "the command to record is missing"));
    };
    // From here on no signal ends this process; a handler is no heritage, so the command starts with none.
    let mut signals = SignalsInfo::<WithOrigin>::new(forwarded_signals()).context("cannot install signal handlers")?;
    let mut child = start(program, arguments, environment).map_err(|error| not_started(program, &error))?;
    let pid = Pid::from_raw(child.id().cast_signed());
    // The command inherits these ignored signals (`nohup`), but may still install handlers for them.
    for signal in PASSED_ON.into_iter().filter(|&signal| is_ignored(signal)) {
        signals.handle().add_signal(signal).context("cannot install signal handlers")?;
    }
    // `None` once it has ended: its number may then be another's.
    let alive = Arc::new(Mutex::new(Some(pid)));
    let handle = signals.handle();
    let target = Arc::clone(&alive);
    let forwarder = std::thread::spawn(move || {
        for origin in signals.forever() {
            // The terminal sends its signals (Ctrl-C) to the command as well.
            let sent = matches!(origin.cause, Cause::Sent(_) | Cause::Unknown);
            let target = target.lock().unwrap_or_else(PoisonError::into_inner);
            if let (Some(pid), true, Ok(signal)) = (*target, sent, Signal::try_from(origin.signal)) {
                // The command may have ended, but is not reaped yet.
                let _ = kill(pid, signal);
            }
        }
    });
    wait_until_ended(pid);
    *alive.lock().unwrap_or_else(PoisonError::into_inner) = None;
    let ended = child.wait().context("cannot get the exit status of the recorded command");
    handle.close();
    let _ = forwarder.join();
    Ok((pid.as_raw().cast_unsigned(), ended?))
}

/// Environment variable with the start time of the recording, the zero of all recorded processes' clocks. It contains
/// the boot ID, so that processes on other machines detect that the time does not apply to them.
pub(super) fn start_time_variable() -> Option<(&'static str, OsString)> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?;
    let ns = i128::from(now.tv_sec()) * 1_000_000_000 + i128::from(now.tv_nsec());
    let begin = Begin { monotonic_ns: i64::try_from(ns).ok()?, boot: boot()? };
    Some((BEGIN, begin.to_string().into()))
}

/// Start the command to record, with the signal settings of this process. `posix_spawn` of glibc would leave signals 32
/// and 33 ignored in the command. Setting the group ID to its current value forces a plain fork, which avoids that.
/// Some sandboxes refuse to set it; then the command starts without. A Ctrl-C within the microseconds between that fork
/// and the command's start is lost. Until then the child has the handlers of this process, and blocked signals would
/// stay blocked in the command.
fn start(program: &OsString, arguments: &[OsString], environment: &[(&str, OsString)]) -> io::Result<Child> {
    let command = || {
        let mut command = Command::new(program);
        command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
        command
    };
    command().gid(getegid().as_raw()).spawn().or_else(|_| command().spawn())
}

/// Process ID, signal and time of a recorded process that a signal ended; `None` if the process exited by itself.
pub(super) fn signaled(pid: u32, ended: ExitStatus) -> Option<SignaledProcess> {
    let signal = ended.signal()?;
    let name = Signal::try_from(signal).map_or_else(|_| real_time_name(signal), |known| known.as_str().to_owned());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(SignaledProcess { pid, signal, name, at_unix_ns: i64::try_from(now.as_nanos()).unwrap_or(0) })
}

/// First real-time signal that programs may use (`kill -l`).
const FIRST_REAL_TIME: i32 = 34;

fn real_time_name(signal: i32) -> String {
    match signal - FIRST_REAL_TIME {
        0 => "SIGRTMIN".to_owned(),
        after @ 1..=30 => format!("SIGRTMIN+{after}"),
        _ => format!("signal {signal}"),
    }
}

/// Keep this process alive when a file reaches its size limit (SIGXFSZ): the write fails instead. The command to record
/// does not inherit the handler.
pub(super) fn outlive_file_limit() {
    if !is_ignored(SIGXFSZ) {
        // Without the handler the limit ends it, as it would have.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    }
}

/// Wait until a process has ended, without reaping: its process ID stays reserved.
fn wait_until_ended(pid: Pid) {
    while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(nix::errno::Errno::EINTR) {}
}

/// Signals to forward. Signals that this process ignores are excluded, since the command inherits that.
fn forwarded_signals() -> impl Iterator<Item = i32> {
    PASSED_ON.into_iter().filter(|&signal| !is_ignored(signal))
}

/// Check if this process ignores a signal, according to `/proc/self/status`.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored >> (signal - 1) & 1 == 1
}

/// Exit code where a command is not found, as shells have it.
const NOT_FOUND: u8 = 127;
/// Exit code where it cannot be run.
const NOT_RUN: u8 = 126;

/// Error for a command that cannot be started, with the exit code that shells use.
fn not_started(program: &OsString, error: &io::Error) -> anyhow::Error {
    let name = program.to_string_lossy();
    match error.kind() {
        io::ErrorKind::NotFound => cannot_run(NOT_FOUND, format!("{name}: command not found")),
        _ => cannot_run(NOT_RUN, format!("{name}: cannot be started: {error}")),
    }
}

/// Convert the recorded command's end to an exit code. If a signal killed the command, this function kills its own
/// process with the same signal and does not return.
pub(super) fn end_like(ended: ExitStatus) -> u8 {
    let Some(signal) = ended.signal() else {
        return ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    };
    // The command has left its own core, if it was to.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    // A signal that does not end processes by default: as shells say it.
    u8::try_from(128 + signal).unwrap_or(1)
}
