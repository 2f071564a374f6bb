//! Description of this process for the first record of its stream.

use crate::options::Options;
use dlmonitor::clock;
use stackline_recording::Role;

/// True for the command line of a process that `multiprocessing` started by `spawn` or `forkserver`.
fn is_worker(command: &[String]) -> bool {
    command.iter().any(|part| part.contains("multiprocessing.spawn") || part.contains("multiprocessing.forkserver"))
}

/// Description of this process (ids, command, begin, versions), which is the first record of its stream.
pub(crate) fn describe(options: &Options, role: Role) -> stackline_recording::Process {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let mut command: Vec<String> =
        command.split(|&byte| byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect();
    if command.last().is_some_and(String::is_empty) {
        command.pop();
    }
    stackline_recording::Process {
        pid: std::process::id(),
        parent_pid: std::os::unix::process::parent_id(),
        start_unix_ns: i64::try_from(unix.as_nanos()).unwrap_or(i64::MAX),
        start_monotonic_ns: clock::monotonic_ns(),
        role: if is_worker(&command) { Role::Spawn } else { role },
        rank: options.rank,
        command,
        python: dlmonitor::python_version().unwrap_or_default(),
        torch: dlmonitor::torch_version().unwrap_or_default(),
        recorder: env!("CARGO_PKG_VERSION").into(),
    }
}
