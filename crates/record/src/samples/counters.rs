//! Counters of the system and the processor, read with each sample: what a thread did since its last sample counts
//! where it is now.
//!
//! A counter is a file of the kernel per thread. The program may close files that are not its own (daemons do), and get
//! their numbers for others: so the files lie high up, and before each reading the kernel is asked whether the number is
//! still that counter.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Counters that a thread may have.
pub(super) const MAX_COUNTERS: usize = 8;

/// Kinds of `perf_event_open`.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;

/// What the kernel calls the counters of [`stackline_recording::COUNTERS`], in their order: kind and number.
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

/// `PERF_EVENT_IOC_ID`: the number that the kernel gave a counter.
const IOC_ID: libc::c_ulong = 0x8008_2407;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// Only what happens outside of the kernel; users may not count more everywhere.
const EXCLUDE_KERNEL: u64 = 1 << 5;
/// Values come with the time that the counter was wanted and the time that it ran.
const FORMAT: u64 = 3;

/// `struct perf_event_attr` in its first version, which all kernels take.
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

/// Numbers of counters by name, for those that are known.
pub(crate) fn parse(names: &str) -> Vec<u16> {
    let mut wanted = Vec::new();
    for name in names.split(',').map(str::trim) {
        let number = stackline_recording::COUNTERS.iter().position(|&known| known == name).map(|number| number as u16);
        wanted.extend(number.filter(|number| !wanted.contains(number)));
    }
    wanted.truncate(MAX_COUNTERS);
    wanted
}

/// Which of the wanted counters this machine has, and why it lacks the others.
pub(super) fn available(wanted: &[u16]) -> (Vec<u16>, Vec<(u16, io::Error)>) {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for &counter in wanted {
        match open(counter, 0) {
            Ok(file) => {
                close(file);
                there.push(counter);
            }
            Err(error) => missing.push((counter, error)),
        }
    }
    (there, missing)
}

/// A counter of one thread; without a file (-1) it counts nothing.
#[derive(Debug)]
struct Counter {
    file: AtomicI32,
    /// The kernel's number for it.
    id: AtomicU64,
    last: AtomicU64,
}

/// The counters of one thread, in the order in which they are wanted.
#[derive(Debug)]
pub(super) struct Counters([Counter; MAX_COUNTERS]);

impl Default for Counters {
    fn default() -> Self {
        let none = || Counter { file: AtomicI32::new(-1), id: AtomicU64::new(0), last: AtomicU64::new(0) };
        Self(std::array::from_fn(|_| none()))
    }
}

impl Counters {
    /// Counts what a thread does from now on. No handler of the thread may run meanwhile.
    pub(super) fn start(&self, wanted: &[u16], tid: u32) {
        for (counter, &number) in self.0.iter().zip(wanted) {
            let Ok(file) = open(number, tid) else { continue };
            let Some(id) = id_of(file) else {
                close(file);
                continue;
            };
            counter.id.store(id, Ordering::Relaxed);
            counter.last.store(0, Ordering::Relaxed);
            counter.file.store(file, Ordering::Release);
        }
    }

    /// Counts no more, and gives the files back that are still ours. In a forked child, too, whose parent's files these
    /// are.
    pub(super) fn stop(&self) {
        for counter in &self.0 {
            let file = counter.file.swap(-1, Ordering::AcqRel);
            if file >= 0 && id_of(file) == Some(counter.id.load(Ordering::Relaxed)) {
                close(file);
            }
        }
    }

    /// How much each of the first of `counts` counted since the last time. For the handler of the thread.
    pub(super) fn read(&self, counts: &mut [u64]) {
        for (counter, count) in self.0.iter().zip(counts) {
            *count = counter.read().unwrap_or(0);
        }
    }
}

impl Counter {
    fn read(&self) -> Option<u64> {
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
        let [value, wanted, ran] = words;
        // Where there are more counters than the processor has, they take turns.
        let whole = if ran == 0 { 0 } else { (u128::from(value) * u128::from(wanted) / u128::from(ran)) as u64 };
        Some(whole.saturating_sub(self.last.fetch_max(whole, Ordering::Relaxed)))
    }
}

/// Opens a counter of a thread (0: the calling one).
fn open(counter: u16, tid: u32) -> io::Result<i32> {
    let &(kind, config) = EVENTS.get(usize::from(counter)).ok_or(io::ErrorKind::NotFound)?;
    let size = size_of::<Attributes>() as u32;
    let with = |flags| Attributes { kind, size, config, read_format: FORMAT, flags, ..Attributes::default() };
    let low = perf_event_open(&with(0), tid).or_else(|_| perf_event_open(&with(EXCLUDE_KERNEL), tid))?;
    let high = raise(low);
    // A number that the program may soon want is not for us.
    close(low);
    high
}

fn perf_event_open(attributes: &Attributes, tid: u32) -> io::Result<i32> {
    // SAFETY: the structure is valid for reads of the size that it names; the kernel checks the rest.
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

/// The same file with a number in the upper half of what the process may have.
fn raise(file: i32) -> io::Result<i32> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writes.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let least = (limit.rlim_cur / 2).clamp(64, 1 << 16) as libc::c_int;
    // SAFETY: takes no pointer; a bad number is an error.
    let high = unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, least) };
    if high < 0 { Err(io::Error::last_os_error()) } else { Ok(high) }
}

/// The kernel's number of a counter; `None` if the file is no counter, or none at all.
fn id_of(file: i32) -> Option<u64> {
    let mut id = 0_u64;
    // SAFETY: `id` is valid for writes; on files that are no counters the request is an error, and does nothing.
    let failed = unsafe { libc::ioctl(file, IOC_ID as _, &raw mut id) } != 0;
    (!failed).then_some(id)
}

fn close(file: i32) {
    // SAFETY: the caller opened it.
    unsafe { libc::close(file) };
}

#[cfg(test)]
mod tests {
    use super::{Counters, available, parse};

    #[test]
    fn names_are_those_of_the_recording() {
        assert_eq!(parse("cycles, page-faults,unheard-of,cycles"), [4, 0]);
        assert_eq!(parse(""), [0; 0]);
    }

    /// Each page that is touched for the first time is a fault: at least so many are counted, whatever else happens.
    #[test]
    fn faults_of_pages_are_counted() {
        let wanted = parse("page-faults");
        let (there, missing) = available(&wanted);
        if there.is_empty() {
            assert_eq!(missing.len(), 1);
            return;
        }
        let counters = Counters::default();
        counters.start(&there, 0);
        let mut counts = [0; 1];
        counters.read(&mut counts);
        let pages = 300;
        let mut memory = vec![0_u8; 4096 * pages];
        for page in memory.chunks_mut(4096) {
            page[0] = 1;
        }
        std::hint::black_box(&memory);
        counters.read(&mut counts);
        // Fewer only where the kernel hands out larger pages.
        assert!(counts[0] > 0, "{counts:?}");
        counters.stop();
        counters.read(&mut counts);
        assert_eq!(counts, [0], "a counter that was stopped counts nothing");
    }

    #[test]
    fn a_number_that_became_another_file_is_left_alone() {
        let (there, _) = available(&parse("page-faults"));
        let counters = Counters::default();
        counters.start(&there, 0);
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
        counters.read(&mut counts);
        assert_eq!(counts, [0]);
        counters.stop();
        let mut read = [0_u8; 32];
        // SAFETY: as above; the pipe is still there under the counter's number, and nothing was taken out of it.
        let length = unsafe { libc::read(file, read.as_mut_ptr().cast(), read.len()) };
        assert_eq!(&read[..length.unsigned_abs()], message);
    }
}
