//! Counters of the system and the processor, read with each sample. The increase since the last sample of a thread is
//! attributed to its current call path.
//!
//! A counter is a kernel file per thread. The program may close files that are not its own (daemons do) and reuse
//! their numbers. Therefore the files have high numbers, and before each read the kernel is asked if the number still
//! belongs to the counter.

use crate::descriptors::{close, duplicate_to_high, files_limit};
use stackline_recording::MAX_COUNTERS;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Event types of `perf_event_open`.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
/// Software events that happen only within the kernel: context switches and migrations.
const IN_KERNEL: [u64; 2] = [3, 4];

/// The kernel's types and numbers for [`stackline_recording::COUNTERS`], in the same order.
const EVENTS: [(u32, u64); stackline_recording::COUNTERS.len()] = [
    (SOFTWARE, 2),
    (SOFTWARE, 6),
    (SOFTWARE, 3),
    (SOFTWARE, 4),
    (HARDWARE, 0),
    (HARDWARE, 1),
    (HARDWARE, 2),
    (HARDWARE, 3),
    (HARDWARE, 4),
    (HARDWARE, 5),
];

/// `PERF_EVENT_IOC_ID`: the kernel's id of a counter.
const IOC_ID: libc::c_ulong = 0x8008_2407;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// Count only outside of the kernel, because users may not count more on all systems.
const EXCLUDE_KERNEL: u64 = 1 << 5;
/// Values include the time that the counter was enabled and the time that it ran.
const FORMAT: u64 = 3;

/// First version of `struct perf_event_attr`, which all kernels accept.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    address: u64,
}

/// Parse a comma-separated list of counter names to indices in [`stackline_recording::COUNTERS`]: the first eight
/// distinct known ones.
pub(crate) fn parse(names: &str) -> Vec<u16> {
    let mut numbers = Vec::new();
    for name in names.split(',').map(str::trim) {
        let number = stackline_recording::COUNTERS.iter().position(|&known| known == name).map(|number| number as u16);
        numbers.extend(number.filter(|number| !numbers.contains(number)));
    }
    numbers.truncate(MAX_COUNTERS);
    numbers
}

/// Requested counters that the machine has.
#[derive(Debug, Default)]
pub(super) struct Available {
    pub(super) counters: Vec<u16>,
    /// Text about these counters, with the reasons why others are missing.
    pub(super) remarks: String,
}

/// Test which of the requested counters this machine has, and why it lacks the others.
pub(super) fn available(numbers: &[u16]) -> Available {
    let mut found = Available::default();
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for &counter in numbers {
        let name = stackline_recording::COUNTERS.get(usize::from(counter)).copied().unwrap_or_default();
        match open(counter, 0) {
            Ok(opened) => {
                close_own(opened.file, opened.id);
                let part = if opened.outside_kernel { " (counted only in user space)" } else { "" };
                found.counters.push(counter);
                there.push(format!("{name}{part}"));
            }
            Err(error) => missing.push(format!("; no counter {name}: {}", unavailable_reason(&error))),
        }
    }
    let what = if there.len() == 1 { "counter" } else { "counters" };
    let read = (!there.is_empty()).then(|| format!("; {what} {}", there.join(", ")));
    found.remarks = read.into_iter().chain(missing).collect();
    found
}

/// Text of the reason why a counter cannot be opened, for the message about missing counters.
fn unavailable_reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP) => {
            "not available on this machine".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => "not permitted (lower the sysctl kernel.perf_event_paranoid)".to_owned(),
        _ => error.to_string(),
    }
}

/// Number of open counter files.
static OPEN_FILES: AtomicU64 = AtomicU64::new(0);

/// A counter of one thread; without file (-1) it counts nothing.
#[derive(Debug)]
struct Counter {
    file: AtomicI32,
    /// The kernel's id of the counter.
    id: AtomicU64,
    last: AtomicU64,
}

/// Counters of one thread, in the requested order.
#[derive(Debug)]
pub(super) struct Counters([Counter; MAX_COUNTERS]);

impl Default for Counters {
    fn default() -> Self {
        let none = || Counter { file: AtomicI32::new(-1), id: AtomicU64::new(0), last: AtomicU64::new(0) };
        Self(std::array::from_fn(|_| none()))
    }
}

impl Counters {
    /// Open and start the counters of a thread, and return the number of those that could not be opened. No handler of
    /// the thread may run meanwhile.
    pub(super) fn start(&self, numbers: &[u16], tid: u32) -> u64 {
        let mut refused = 0;
        for (counter, &number) in self.0.iter().zip(numbers) {
            let opened =
                if OPEN_FILES.load(Ordering::Relaxed) < max_counter_files() { open(number, tid).ok() } else { None };
            let Some(opened) = opened else {
                refused += 1;
                continue;
            };
            OPEN_FILES.fetch_add(1, Ordering::Relaxed);
            counter.id.store(opened.id, Ordering::Relaxed);
            counter.last.store(0, Ordering::Relaxed);
            counter.file.store(opened.file, Ordering::Release);
        }
        refused
    }

    /// Stop the counters, and close their files if they are still ours. Also called in a forked child, which inherits
    /// its parent's files. No handler of the thread may be reading.
    pub(super) fn stop(&self) {
        for counter in &self.0 {
            let file = counter.file.swap(-1, Ordering::AcqRel);
            if file >= 0 {
                OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
                close_own(file, counter.id.load(Ordering::Relaxed));
            }
        }
    }

    /// Read the increase of each counter since the values last passed to [`Self::restart_interval`], and the totals.
    /// For the handler of the thread.
    pub(super) fn read(&self, counts: &mut [u64], totals: &mut [u64; MAX_COUNTERS]) {
        for ((counter, count), total) in self.0.iter().zip(counts).zip(totals) {
            let last = counter.last.load(Ordering::Relaxed);
            *total = counter.total().unwrap_or(last);
            *count = total.saturating_sub(last);
        }
    }

    /// Set the values from which the next increase is counted. For the handler of the thread.
    pub(super) fn restart_interval(&self, totals: &[u64; MAX_COUNTERS], counters: usize) {
        for (counter, &total) in self.0.iter().zip(totals).take(counters) {
            counter.last.fetch_max(total, Ordering::Relaxed);
        }
    }
}

impl Counter {
    /// Read the total count, extrapolated if the kernel multiplexes the counter; `None` without file.
    fn total(&self) -> Option<u64> {
        let file = self.file.load(Ordering::Acquire);
        if file < 0 || id_of(file) != Some(self.id.load(Ordering::Relaxed)) {
            return None;
        }
        let mut words = [0_u64; 3];
        let size = size_of_val(&words);
        // SAFETY: `words` is valid for writes of its size.
        let read = unsafe { libc::read(file, words.as_mut_ptr().cast(), size) };
        if read != size.cast_signed() {
            return None;
        }
        let [value, enabled_ns, ran] = words;
        // If there are more counters than the processor has, the kernel multiplexes them.
        Some(if ran == 0 { 0 } else { (u128::from(value) * u128::from(enabled_ns) / u128::from(ran)) as u64 })
    }
}

/// An open counter file.
struct Opened {
    file: i32,
    id: u64,
    /// The counter excludes the kernel.
    outside_kernel: bool,
}

/// Open and start a counter, by its index, of the thread `tid` (0: the calling one); without the kernel's part if that
/// is not permitted.
fn open(counter: u16, tid: u32) -> io::Result<Opened> {
    let &(kind, config) = EVENTS.get(usize::from(counter)).ok_or(io::ErrorKind::NotFound)?;
    let size = size_of::<Attributes>() as u32;
    let with = |flags| Attributes { kind, size, config, read_format: FORMAT, flags, ..Attributes::default() };
    let (low, outside_kernel) = match perf_event_open(&with(0), tid) {
        Ok(file) => (file, false),
        // These events happen only in the kernel: excluding it would leave none.
        Err(error) if kind == SOFTWARE && IN_KERNEL.contains(&config) => return Err(error),
        Err(_) => (perf_event_open(&with(EXCLUDE_KERNEL), tid)?, true),
    };
    let id = id_of(low).ok_or(io::ErrorKind::Other)?;
    // Move the file to a high number, because the program may need the low one. If the program has taken the low
    // number meanwhile, the file is the program's.
    let high = duplicate_to_high(low);
    close_own(low, id);
    let file = high?;
    if id_of(file) == Some(id) {
        return Ok(Opened { file, id, outside_kernel });
    }
    close(file);
    Err(io::ErrorKind::Other.into())
}

/// Largest number of open counter files in the process: an eighth of the limit of open files, at most 256.
fn max_counter_files() -> u64 {
    (files_limit() / 8).min(256)
}

/// Close a file if it is still this counter.
fn close_own(file: i32, id: u64) {
    if id_of(file) == Some(id) {
        close(file);
    }
}

/// Call the system to open a counter of a thread, and return its file descriptor.
fn perf_event_open(attributes: &Attributes, tid: u32) -> io::Result<i32> {
    // SAFETY: the structure is valid for reads of the size that it states; the kernel checks the rest.
    let file = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            tid.cast_signed(),
            -1,
            -1,
            CLOSE_ON_EXEC,
        )
    };
    if file < 0 { Err(io::Error::last_os_error()) } else { Ok(file as i32) }
}

/// Kernel's id of the counter with this file descriptor; `None` if that is not open or no counter.
fn id_of(file: i32) -> Option<u64> {
    let mut id = 0_u64;
    // SAFETY: `id` is valid for writes; on other files the request returns an error and has no effect.
    let failed = unsafe { libc::ioctl(file, IOC_ID as _, &raw mut id) } != 0;
    (!failed).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::{Counters, MAX_COUNTERS, available, parse, unavailable_reason};
    use std::io;

    #[test]
    fn counter_names_equal_those_of_the_recording() {
        assert_eq!(parse("cycles, page-faults,unheard-of,cycles"), [4, 0]);
        assert_eq!(parse(""), [0; 0]);
    }

    #[test]
    fn missing_counters_follow_available_ones() {
        let there = available(&parse("page-faults,cycles,context-switches"));
        let parts: Vec<&str> = there.remarks.split("; ").skip(1).collect();
        let missing = parts.iter().filter(|part| part.starts_with("no counter ")).count();
        assert_eq!(missing, 3 - there.counters.len(), "{parts:?}");
        assert_eq!(parts.len(), missing + usize::from(!there.counters.is_empty()), "{parts:?}");
        assert!(there.counters.is_empty() || parts[0].starts_with("counter"), "{parts:?}");
        let lacks = unavailable_reason(&io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(lacks, "not available on this machine");
    }

    /// Each first access of a page is a fault, so at least this many are counted, independent of other work.
    #[test]
    fn page_faults_are_counted() {
        let there = available(&parse("page-faults"));
        if there.counters.is_empty() {
            assert!(there.remarks.starts_with("; no counter page-faults: "), "{}", there.remarks);
            return;
        }
        let counters = Counters::default();
        assert_eq!(counters.start(&there.counters, 0), 0);
        let (mut counts, mut totals) = ([0; 1], [0; MAX_COUNTERS]);
        counters.read(&mut counts, &mut totals);
        counters.restart_interval(&totals, 1);
        let size = 300 * 4096;
        // SAFETY: a mapping of this test, accessed within its size and unmapped once.
        unsafe {
            let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let memory = libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            for page in 0..300 {
                memory.cast::<u8>().add(page * 4096).write_volatile(1);
            }
            libc::munmap(memory, size);
        }
        // Fewer faults than pages if the kernel maps larger ones. Increases that were not settled are counted again.
        for _ in 0..2 {
            counters.read(&mut counts, &mut totals);
            assert!(counts[0] > 0, "{counts:?}");
        }
        counters.stop();
        counters.restart_interval(&totals, 1);
        counters.read(&mut counts, &mut totals);
        assert_eq!(counts, [0], "a counter that was stopped counts nothing");
    }

    #[test]
    fn reused_descriptors_are_not_closed() {
        let there = available(&parse("page-faults"));
        let counters = Counters::default();
        counters.start(&there.counters, 0);
        let file = counters.0[0].file.load(std::sync::atomic::Ordering::Relaxed);
        if file < 0 {
            return;
        }
        let (mut ends, message) = ([0; 2], b"for the program");
        // SAFETY: plain calls on files of this test; the counter's number becomes the pipe's.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            assert_eq!(libc::dup2(ends[0], file), file);
            assert_eq!(libc::write(ends[1], message.as_ptr().cast(), message.len()), message.len() as isize);
        }
        let mut counts = [7];
        counters.read(&mut counts, &mut [0; MAX_COUNTERS]);
        assert_eq!(counts, [0]);
        counters.stop();
        let mut read = [0_u8; 32];
        // SAFETY: as above; the pipe still has the counter's number, and nothing was read from it.
        let length = unsafe { libc::read(file, read.as_mut_ptr().cast(), read.len()) };
        assert_eq!(&read[..length.unsigned_abs()], message);
    }
}
