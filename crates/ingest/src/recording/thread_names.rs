//! Names for recorded threads that the program did not name.
//!
//! In Linux a new thread inherits the name of its creator: threads of native code are called `python`, like their
//! program, or like the Python thread that created them (Python 3.14 gives the system its names). Python's threads have
//! their names from `threading`, and the main thread has the number of its process.

use stackline_model::names::MAIN_THREADS;
use std::collections::BTreeSet;

/// Limit on the name of a thread in Linux, in bytes.
const LONGEST: usize = 15;

/// Suffix that the recorder adds to the name of a tree that later threads reuse.
const AND_BEFORE: &str = " and threads before it";

/// Names that threads of a process may have inherited: those of its command and of its threads that run Python code.
pub(super) struct InheritableNames<'a> {
    pid: u32,
    command: &'a [String],
    /// Names of threads that run Python code.
    of_python: BTreeSet<String>,
}

impl<'a> InheritableNames<'a> {
    /// Collect the inheritable names of a process from its PID, its command and the names of its threads that run
    /// Python code.
    pub(super) fn new<'n>(pid: u32, command: &'a [String], of_python: impl Iterator<Item = &'n str>) -> Self {
        let own = |name: &str| name.strip_suffix(AND_BEFORE).unwrap_or(name).to_owned();
        Self { pid, command, of_python: of_python.map(own).collect() }
    }

    /// Replacement of an inherited thread name; `None` if the thread has a name of its own. A thread that may run
    /// Python code is called `unnamed`: `_thread.start_new_thread` sets no name.
    pub(super) fn replace(&self, name: &str, tid: u32, may_run_python: bool) -> Option<String> {
        let (own, rest) = name.strip_suffix(AND_BEFORE).map_or((name, ""), |own| (own, AND_BEFORE));
        if tid == self.pid {
            return None;
        }
        if is_interpreter(own) || MAIN_THREADS.contains(&own) || is_program(own, self.command) {
            let kind = if may_run_python { "unnamed" } else { "native" };
            return Some(format!("{kind} thread {tid}{rest}"));
        }
        let is_of_python = !may_run_python && self.of_python.iter().any(|name| is_shortened(own, name));
        is_of_python.then(|| format!("native thread {tid} of {own}{rest}"))
    }
}

/// Check if a name is a Python interpreter's, such as `python` or `python3.14t`.
fn is_interpreter(name: &str) -> bool {
    let version = name.strip_prefix("python").map(|version| version.strip_suffix('t').unwrap_or(version));
    version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// Check if a thread name is the file name of the command's program, or of the script whose first line names the
/// program.
fn is_program(name: &str, command: &[String]) -> bool {
    command.iter().take(2).any(|part| is_shortened(name, part.rsplit('/').next().unwrap_or(part)))
}

/// Check if a thread name equals a longer name as Linux truncates it, to 15 bytes.
fn is_shortened(name: &str, whole: &str) -> bool {
    !name.is_empty() && name.as_bytes() == &whole.as_bytes()[..whole.len().min(LONGEST)]
}

#[cfg(test)]
mod tests {
    use super::InheritableNames;

    #[test]
    fn only_inherited_names_are_replaced() {
        let command = ["/opt/bin/python3.11", "/opt/bin/a-launcher-of-jobs", "train.py"].map(str::to_owned);
        let names = InheritableNames::new(7, &command, [].into_iter());
        let replaced = |name: &str, tid: u32| names.replace(name, tid, false);
        for name in ["python", "python3", "python3.14t", "a-launcher-of-j", "pt_data_worker"] {
            assert_eq!(replaced(name, 9).as_deref(), Some("native thread 9"), "{name}");
            assert_eq!(replaced(name, 7), None, "the main thread");
        }
        for name in ["", "MainThread", "pt_autograd_0", "python worker", "pythonic", "train.py", "Thread-1 (load)"] {
            assert_eq!(replaced(name, 9), None, "{name}");
        }
        assert_eq!(names.replace("python", 9, true).as_deref(), Some("unnamed thread 9"));
        let shared = replaced("python and threads before it", 9);
        assert_eq!(shared.as_deref(), Some("native thread 9 and threads before it"));
    }

    #[test]
    fn native_threads_inherit_names_of_python_threads() {
        let names =
            InheritableNames::new(7, &[], ["loader and threads before it", "ThreadPoolExecutor-0_3"].into_iter());
        assert_eq!(names.replace("loader", 9, false).as_deref(), Some("native thread 9 of loader"));
        assert_eq!(names.replace("ThreadPoolExecu", 9, false).as_deref(), Some("native thread 9 of ThreadPoolExecu"));
        assert_eq!(names.replace("loader", 9, true), None, "two Python threads may have one name");
        assert!(["loader 2", "load", ""].iter().all(|name| names.replace(name, 9, false).is_none()));
    }
}
