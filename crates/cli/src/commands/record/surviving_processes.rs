//! Recorded processes that outlive their command, such as daemons.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time limit for processes to end after the command. The resource tracker of `multiprocessing` is not a daemon and
/// ends after its parent, usually within 20 ms, on a busy machine later.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

/// Sentence with the number of recorded processes that still run; empty if all have ended. The function first waits for
/// processes that are about to end, so that their event streams are complete.
pub(super) fn sentence(run: &Path) -> String {
    let (streams, since) = (run.join("streams"), Instant::now());
    let mut running = count(&streams);
    while running > 0 && since.elapsed() < PATIENCE {
        std::thread::sleep(PAUSE);
        running = count(&streams);
    }
    match running {
        0 => String::new(),
        1 => "; 1 process is still running and being recorded".to_owned(),
        count => format!("; {count} processes are still running and being recorded"),
    }
}

/// Number of event streams of a recording that a running process still has open.
fn count(streams: &Path) -> usize {
    let Ok(entries) = fs::read_dir(streams) else { return 0 };
    entries.flatten().filter(|entry| is_written(&entry.path()).unwrap_or(false)).count()
}

/// Check if the process of a stream, by the PID in its name, has the stream open. Another process with the same PID
/// does not.
fn is_written(stream: &Path) -> Option<bool> {
    let (pid, _) = stream.file_name()?.to_str()?.split_once('-')?;
    let pid: u32 = pid.parse().ok()?;
    let mut files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    Some(files.any(|file| fs::read_link(file.path()).is_ok_and(|target| target == stream)))
}

#[cfg(test)]
mod tests {
    use super::{PATIENCE, sentence};
    use std::fs::File;
    use std::time::Instant;

    #[test]
    fn processes_with_open_streams_are_still_running() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().canonicalize().unwrap();
        std::fs::create_dir(run.join("streams")).unwrap();
        let stream = |name: String| File::create(run.join("streams").join(name)).unwrap();
        let open = stream(format!("{}-0.slr", std::process::id()));
        // Of an earlier process with this number, and of one that is no process.
        drop(stream(format!("{}-1.slr", std::process::id())));
        drop(stream("ended_by_parent".to_owned()));
        assert_eq!(sentence(&run), "; 1 process is still running and being recorded");
        let since = Instant::now();
        // As the resource tracker does.
        let ends = std::thread::spawn(move || {
            std::thread::sleep(PATIENCE / 10);
            drop(open);
        });
        assert_eq!(sentence(&run), "");
        assert!(since.elapsed() < PATIENCE, "it ended long before");
        ends.join().unwrap();
        let since = Instant::now();
        assert_eq!(sentence(&run), "");
        assert!(since.elapsed() < PATIENCE, "nothing is waited for");
    }
}
