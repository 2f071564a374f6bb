//! What the process may use of the machine's processors, and what its threads made of that.
//!
//! The kernel counts for each thread how long it ran and how long it was ready to run and had to wait
//! (`/proc/self/task/*/schedstat`): nothing is done while the program runs, its threads are only looked at.

use dlmonitor::clock;
use stackline_recording::{Processors, Record};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Our own threads have names that begin like this.
const OURS: &str = "stackline";
/// Threads that are looked at, at most: each costs some µs.
const MOST_THREADS: usize = 256;

/// ns that a thread ran, and that it waited for a processor.
type Times = (u64, u64);

/// What the threads of this process used, up to now.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// `None` for threads of ours.
    threads: BTreeMap<u32, Option<Times>>,
    /// Of threads that ended, as it was seen last.
    gone: Times,
}

impl Usage {
    /// Looks at all threads; `None` where the kernel does not count.
    pub(crate) fn look(&mut self) -> Option<Record> {
        let tasks = std::fs::read_dir("/proc/self/task").ok()?;
        let tids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok());
        let mut before = std::mem::take(&mut self.threads);
        for tid in tids.take(MOST_THREADS) {
            let known = before.remove(&tid);
            if matches!(known, Some(None)) || known.is_none() && is_ours(tid) {
                self.threads.insert(tid, None);
            } else if let Some(times) = times_of(tid) {
                // Another thread with the number of one that ended.
                if let Some(Some(ended)) = known.filter(|known| known.is_some_and(|known| known.0 > times.0)) {
                    self.gone = sum(self.gone, ended);
                }
                self.threads.insert(tid, Some(times));
            }
        }
        self.gone = before.into_values().flatten().fold(self.gone, sum);
        let alive = || self.threads.values().flatten().copied();
        let (ran_ns, waited_ns) = alive().fold(self.gone, sum);
        let threads = alive().count() as u32;
        (threads > 0).then(|| Record::Load { at_ns: clock::monotonic_ns(), threads, ran_ns, waited_ns })
    }
}

fn sum(a: Times, b: Times) -> Times {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
}

fn is_ours(tid: u32) -> bool {
    std::fs::read(format!("/proc/self/task/{tid}/comm")).is_ok_and(|name| name.starts_with(OURS.as_bytes()))
}

fn times_of(tid: u32) -> Option<Times> {
    times(&std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?)
}

fn times(text: &str) -> Option<Times> {
    let mut words = text.split_ascii_whitespace().map(|word| word.parse().ok());
    Some((words.next()??, words.next()??))
}

/// What this process may use.
pub(crate) fn processors() -> Processors {
    // SAFETY: both calls only write to the set that is handed over, which is valid for all bit patterns, or nothing.
    let (machine, allowed) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let known = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) == 0;
        (libc::sysconf(libc::_SC_NPROCESSORS_ONLN), if known { libc::CPU_COUNT(&set) } else { 0 })
    };
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let quota_milli = quota(&groups, Path::new("/sys/fs/cgroup"));
    Processors {
        machine: u32::try_from(machine).unwrap_or(0),
        allowed: u32::try_from(allowed).unwrap_or(0),
        quota_milli,
    }
}

/// The least that the process's control groups, and those around them, let it have.
fn quota(groups: &str, root: &Path) -> Option<u32> {
    let lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let folders = lines.flat_map(|(controllers, path)| {
        let own = match controllers {
            "" => root.to_owned(),
            _ if controllers.split(',').any(|controller| controller == "cpu") => root.join(controllers),
            _ => return Vec::new(),
        };
        let path = Path::new(path.trim_start_matches('/'));
        path.ancestors().map(|part| own.join(part)).collect::<Vec<PathBuf>>()
    });
    folders.filter_map(|folder| limit(&folder)).min()
}

/// The limit of one control group: of version 2 in one file, of version 1 in two.
fn limit(group: &Path) -> Option<u32> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let text = match read("cpu.max") {
        Some(text) => text,
        None => format!("{} {}", read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim()),
    };
    let mut words = text.split_ascii_whitespace().map(str::parse::<u64>);
    // Without a limit the first word is `max`, or -1.
    let (quota, period) = (words.next()?.ok()?, words.next()?.ok()?);
    u32::try_from(quota.saturating_mul(1000).checked_div(period)?).ok()
}

#[cfg(test)]
mod tests {
    use super::{Usage, processors, quota, times};
    use stackline_recording::Record;

    #[test]
    fn times_are_the_first_two_numbers() {
        assert_eq!(times("278018 17 2\n"), Some((278_018, 17)));
        assert_eq!(times("278018"), None);
        assert_eq!(times("a b c"), None);
    }

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |folder: &str, file: &str, text: &str| {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
            std::fs::write(root.path().join(folder).join(file), text).unwrap();
        };
        let limit = |groups: &str| quota(groups, root.path());
        write("a/b", "cpu.max", "max 100000\n");
        assert_eq!(limit("0::/a/b\n"), None);
        write("a", "cpu.max", "150000 100000\n");
        assert_eq!(limit("0::/a/b\n"), Some(1500));
        assert_eq!(limit("0::/\n"), None);
        write("cpu,cpuacct/job", "cpu.cfs_quota_us", "-1\n");
        write("cpu,cpuacct/job", "cpu.cfs_period_us", "100000\n");
        assert_eq!(limit("5:memory:/x\n4:cpu,cpuacct:/job\n"), None);
        write("cpu,cpuacct/job", "cpu.cfs_quota_us", "50000\n");
        assert_eq!(limit("4:cpu,cpuacct:/job\n0::/a\n"), Some(500));
        assert_eq!(limit("nonsense"), None);
    }

    #[test]
    fn this_process_runs_on_some_processors() {
        let own = processors();
        assert!(own.allowed > 0 && own.machine > 0, "{own:?}");
    }

    #[test]
    fn what_threads_ran_only_grows() {
        let mut usage = Usage::default();
        let mut last = 0;
        for _ in 0..3 {
            std::thread::spawn(|| std::hint::black_box((0..100_000_u64).sum::<u64>())).join().unwrap();
            // Kernels that do not count have nothing to say.
            let Some(Record::Load { threads, ran_ns, .. }) = usage.look() else { return };
            assert!(threads >= 1 && ran_ns >= last, "{threads} threads, {ran_ns} ns after {last} ns");
            last = ran_ns;
        }
    }
}
