//! CPU usage of the process: available processors, and running and ready time of its threads.
//!
//! The kernel counts for each thread how long it ran, and how long it was ready and waited for a processor
//! (`/proc/self/task/*/schedstat`). The counters are only read, so that the program has no cost while it runs.

use dlmonitor::clock;
use stackline_recording::{Processors, Record};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Prefix of the names of the recorder's threads.
const THREAD_PREFIX: &str = "stackline";
/// Largest number of threads that are read; each takes some µs.
const MOST_THREADS: usize = 256;

/// Running time and ready time of a thread in ns.
type Times = (u64, u64);

/// CPU usage of the threads of this process so far.
#[derive(Debug, Default)]
pub(crate) struct CpuUsage {
    /// `None` for threads of the recorder.
    threads: BTreeMap<u32, Option<Times>>,
    /// Times of threads that have ended, as they were last read.
    ended_times: Times,
}

impl CpuUsage {
    /// Read the CPU times of all threads except the recorder's, and return their sums as [`Record::Load`]; `None` if
    /// the kernel does not report them.
    pub(crate) fn read_threads(&mut self) -> Option<Record> {
        let ((ran_ns, waited_ns), threads) = self.read_times(&tids()?, is_recorder_thread, times_of);
        (threads > 0).then(|| Record::Load { at_ns: clock::monotonic_ns(), threads, ran_ns, waited_ns })
    }

    /// Read the threads' times, and return their sums with those of ended threads, and the number of live threads.
    /// Threads of the recorder are left out.
    fn read_times(
        &mut self,
        tids: &[u32],
        is_recorder_thread: impl Fn(u32) -> bool,
        times_of: impl Fn(u32) -> Option<Times>,
    ) -> (Times, u32) {
        let mut before = std::mem::take(&mut self.threads);
        for (index, &tid) in tids.iter().enumerate() {
            let known = before.remove(&tid);
            if index >= MOST_THREADS {
                // The thread was read before and is still alive, although other threads are read now.
                self.threads.extend(known.map(|known| (tid, known)));
            } else if matches!(known, Some(None)) || known.is_none() && is_recorder_thread(tid) {
                self.threads.insert(tid, None);
            } else {
                self.update_times(tid, known.flatten(), times_of(tid));
            }
        }
        self.ended_times = before.into_values().flatten().fold(self.ended_times, sum);
        let alive = || self.threads.values().flatten().copied();
        (alive().fold(self.ended_times, sum), alive().count() as u32)
    }

    /// Replace a thread's known times by those read now; if the thread has ended, add the known ones to the ended
    /// threads.
    fn update_times(&mut self, tid: u32, known: Option<Times>, now: Option<Times>) {
        // A thread that ran less is another thread, with the reused number of one that has ended.
        if let Some(ended) = known.filter(|known| now.is_none_or(|now| known.0 > now.0)) {
            self.ended_times = sum(self.ended_times, ended);
        }
        self.threads.extend(now.map(|now| (tid, Some(now))));
    }
}

/// System ids (TIDs) of all threads of this process.
fn tids() -> Option<Vec<u32>> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    Some(tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect())
}

/// Sums of the running times and of the ready times.
fn sum(a: Times, b: Times) -> Times {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
}

/// True if the system name of the thread begins with that of the recorder's threads.
fn is_recorder_thread(tid: u32) -> bool {
    std::fs::read(format!("/proc/self/task/{tid}/comm")).is_ok_and(|name| name.starts_with(THREAD_PREFIX.as_bytes()))
}

/// Read the running and ready time of a thread, in ns; `None` if it has ended.
fn times_of(tid: u32) -> Option<Times> {
    times(&std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?)
}

/// Parse the first two numbers of `schedstat`: running and ready time in ns.
fn times(text: &str) -> Option<Times> {
    let mut words = text.split_ascii_whitespace().map(|word| word.parse().ok());
    Some((words.next()??, words.next()??))
}

/// Number of processors that this process may use, and its CPU quota from control groups.
pub(crate) fn processors() -> Processors {
    // SAFETY: it takes a number.
    let machine = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let theirs = tids().unwrap_or_default().into_iter().filter(|&tid| !is_recorder_thread(tid)).take(MOST_THREADS);
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let quota_milli = smallest_quota_milli(&groups, Path::new("/sys/fs/cgroup"));
    Processors { machine: u32::try_from(machine).unwrap_or(0), allowed: count_allowed(theirs), quota_milli }
}

/// A set of processors, larger than those of existing machines.
type Mask = [u64; 128];

/// Number of processors on which any of these threads may run: an OpenMP runtime may pin each thread to one
/// processor.
fn count_allowed(tids: impl Iterator<Item = u32>) -> u32 {
    let union = tids.filter_map(mask_of).fold([0; 128], |all: Mask, mask| std::array::from_fn(|i| all[i] | mask[i]));
    union.iter().map(|word| word.count_ones()).sum()
}

/// Set of processors on which a thread may run; `None` if it has ended.
fn mask_of(tid: u32) -> Option<Mask> {
    let mut mask: Mask = [0; 128];
    let tid = libc::pid_t::try_from(tid).ok()?;
    // SAFETY: it writes at most the given number of bytes, all of which are ours and valid with any content.
    let known = unsafe { libc::sched_getaffinity(tid, size_of::<Mask>(), mask.as_mut_ptr().cast()) } == 0;
    known.then_some(mask)
}

/// Smallest CPU quota of the process's control groups and their parents, in thousandths of a processor; `None` without
/// limit. `groups` is the text of `/proc/self/cgroup`.
fn smallest_quota_milli(groups: &str, root: &Path) -> Option<u32> {
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
    folders.filter_map(|folder| group_quota_milli(&folder)).min()
}

/// CPU quota of one control group, in thousandths of a processor; `None` without limit. Version 2 uses one file,
/// version 1 two.
fn group_quota_milli(group: &Path) -> Option<u32> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let text = match read("cpu.max") {
        Some(text) => text,
        None => format!("{} {}", read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim()),
    };
    let mut words = text.split_ascii_whitespace().map(str::parse::<u64>);
    // Without limit, the first word is `max` or -1.
    let (quota, period) = (words.next()?.ok()?, words.next()?.ok()?);
    u32::try_from(quota.saturating_mul(1000).checked_div(period)?).ok()
}

#[cfg(test)]
mod tests {
    use super::{CpuUsage, MOST_THREADS, count_allowed, mask_of, processors, smallest_quota_milli, times};
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
        let limit = |groups: &str| smallest_quota_milli(groups, root.path());
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
    fn available_processors_are_read() {
        let own = processors();
        assert!(own.allowed > 0 && own.machine > 0, "{own:?}");
    }

    /// Threads with different masks are counted together.
    #[test]
    fn processors_of_all_threads_count() {
        let own = std::process::id();
        let mask = mask_of(own).unwrap();
        let first = mask.iter().position(|&word| word != 0).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let pinned = std::thread::spawn(move || {
            let mut only = [0; 128];
            only[first] = mask[first] & mask[first].wrapping_neg();
            // SAFETY: the set is valid, and as long as it says; of this thread only.
            assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(&only), only.as_ptr().cast()) }, 0);
            // SAFETY: it takes nothing.
            sender.send((unsafe { libc::gettid() }.cast_unsigned(), count_allowed(std::iter::once(own)))).unwrap();
            ended.recv().unwrap();
        });
        let (tid, seen) = receiver.recv().unwrap();
        let all: u32 = mask.iter().map(|word| word.count_ones()).sum();
        assert_eq!((count_allowed([tid].into_iter()), count_allowed([tid, own].into_iter()), seen), (1, all, all));
        assert!(processors().allowed >= all);
        end.send(()).unwrap();
        pinned.join().unwrap();
    }

    /// Read threads with these running times; threads below 10 are the recorder's.
    fn read_threads(usage: &mut CpuUsage, tids: &[u32], times: &[(u32, u64)]) -> (u64, u32) {
        let times_of_thread = |tid| times.iter().find(|one| one.0 == tid).map(|&(_, ran)| (ran, 1));
        let ((ran, _), threads) = usage.read_times(tids, |tid| tid < 10, times_of_thread);
        (ran, threads)
    }

    #[test]
    fn time_of_ended_threads_is_kept() {
        let mut usage = CpuUsage::default();
        assert_eq!(read_threads(&mut usage, &[1, 10, 11], &[(1, 7), (10, 100), (11, 50)]), (150, 2));
        // A thread is listed, but has ended when it is read.
        assert_eq!(read_threads(&mut usage, &[1, 10, 11], &[(1, 9), (10, 110)]), (160, 1));
        assert_eq!(read_threads(&mut usage, &[1, 10], &[(10, 120)]), (170, 1));
        // Another thread has the number of one that has ended.
        assert_eq!(read_threads(&mut usage, &[10, 11], &[(10, 5), (11, 3)]), (178, 2));
        assert_eq!(read_threads(&mut usage, &[], &[]), (178, 0));
    }

    #[test]
    fn too_many_threads_are_counted_once() {
        let mut usage = CpuUsage::default();
        let tids: Vec<u32> = (10..).take(MOST_THREADS + 1).collect();
        let times: Vec<(u32, u64)> = tids.iter().map(|&tid| (tid, 10)).collect();
        let most = MOST_THREADS as u32;
        assert_eq!(read_threads(&mut usage, &tids, &times), (u64::from(most) * 10, most));
        // The last thread comes first: the one that it displaces was counted, and is still alive.
        let turned: Vec<u32> = tids.iter().rev().copied().collect();
        assert_eq!(read_threads(&mut usage, &turned, &times), (u64::from(most + 1) * 10, most + 1));
        assert_eq!(read_threads(&mut usage, &tids, &times), (u64::from(most + 1) * 10, most + 1));
    }

    #[test]
    fn kernel_totals_are_used_if_available() {
        let counts = std::fs::read_to_string("/proc/self/schedstat").is_ok_and(|text| times(&text).is_some());
        let mut usage = CpuUsage::default();
        let mut last = 0;
        for _ in 0..3 {
            std::thread::spawn(|| std::hint::black_box((0..100_000_u64).sum::<u64>())).join().unwrap();
            match usage.read_threads() {
                Some(Record::Load { threads, ran_ns, .. }) => {
                    assert!(threads >= 1 && ran_ns >= last, "{threads} threads, {ran_ns} ns after {last} ns");
                    last = ran_ns;
                }
                other => assert!(other.is_none() && !counts, "{other:?}"),
            }
        }
    }
}
