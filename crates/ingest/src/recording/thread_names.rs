//! Names for recorded threads that the program did not name.
//!
//! In Linux a new thread inherits the name of its creator: threads of native code are called `python`, like their
//! program. Python's threads have their names from `threading`, and the main thread has the number of its process.

use stackline_model::names::MAIN_THREADS;

/// Limit on the name of a thread in Linux, in bytes.
const LONGEST: usize = 15;

/// Suffix that the recorder adds to the name of a tree that later threads reuse.
const AND_BEFORE: &str = " and threads before it";

/// Replacement of an inherited thread name; `None` if the thread has a name of its own. A thread that may run Python
/// code is called `unnamed`: `_thread.start_new_thread` sets no name.
pub(super) fn replace_inherited(
    name: &str,
    tid: u32,
    process: (u32, &[String]),
    may_run_python: bool,
) -> Option<String> {
    let (pid, command) = process;
    let (own, rest) = name.strip_suffix(AND_BEFORE).map_or((name, ""), |own| (own, AND_BEFORE));
    let is_inherited = tid != pid && (is_interpreter(own) || MAIN_THREADS.contains(&own) || is_program(own, command));
    let kind = if may_run_python { "unnamed" } else { "native" };
    is_inherited.then(|| format!("{kind} thread {tid}{rest}"))
}

/// Check if a name is a Python interpreter's, such as `python` or `python3.14t`.
fn is_interpreter(name: &str) -> bool {
    let version = name.strip_prefix("python").map(|version| version.strip_suffix('t').unwrap_or(version));
    version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// Check if a name is that of a command's program, or of the script whose first line names the program.
fn is_program(name: &str, command: &[String]) -> bool {
    command.iter().take(2).any(|part| {
        let file = part.rsplit('/').next().unwrap_or(part);
        !name.is_empty() && name.as_bytes() == &file.as_bytes()[..file.len().min(LONGEST)]
    })
}

#[cfg(test)]
mod tests {
    use super::replace_inherited;

    #[test]
    fn only_inherited_names_are_replaced() {
        let command = ["/opt/bin/python3.11", "/opt/bin/a-launcher-of-jobs", "train.py"].map(str::to_owned);
        let replaced = |name: &str, tid: u32| replace_inherited(name, tid, (7, &command), false);
        for name in ["python", "python3", "python3.14t", "a-launcher-of-j", "pt_data_worker"] {
            assert_eq!(replaced(name, 9).as_deref(), Some("native thread 9"), "{name}");
            assert_eq!(replaced(name, 7), None, "the main thread");
        }
        for name in ["", "MainThread", "pt_autograd_0", "python worker", "pythonic", "train.py", "Thread-1 (load)"] {
            assert_eq!(replaced(name, 9), None, "{name}");
        }
        assert_eq!(replace_inherited("python", 9, (7, &[]), true).as_deref(), Some("unnamed thread 9"));
        let shared = replaced("python and threads before it", 9);
        assert_eq!(shared.as_deref(), Some("native thread 9 and threads before it"));
    }
}
