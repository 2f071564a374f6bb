//! Detection of the offsets of inline fields in `at::RecordFunction`.
//!
//! The fields moved twice since 2.1 and once more with the ABI of `std::string`, so the version number does not
//! determine them. Instead the first operators are inspected: one word always has the id of the thread, one has -1 or
//! the next sequence number, and one names a thread on backward nodes. If no known layout fits, these fields are not
//! read, and forward and backward operators are not joined. Names and times don't need them.

use super::{Functions, Operator};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Byte offsets of fields in `at::RecordFunction`, as far as known. The fields are the scope, the sequence number and
/// the forward thread, in 16 bits each from the lowest ones on. 0 means unknown. The offsets are packed into one word,
/// because each operator copies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields(u64);

impl Fields {
    /// Pack three byte offsets, each below 65,536; 0 for unknown ones.
    const fn new(scope: usize, sequence_number: usize, forward_thread: usize) -> Self {
        Self((scope | sequence_number << 16 | forward_thread << 32) as u64)
    }

    /// Byte offset in the 16 bits from `bit` on; `None` if unknown.
    #[inline]
    const fn at(self, bit: u32) -> Option<usize> {
        match (self.0 >> bit) as u16 {
            0 => None,
            offset => Some(offset as usize),
        }
    }

    /// Byte offset of an operator call's scope; `None` if unknown.
    #[inline]
    pub(super) const fn scope_offset(self) -> Option<usize> {
        self.at(0)
    }

    /// Byte offset of an operator call's sequence number; `None` if unknown.
    #[inline]
    pub(super) const fn sequence_number_offset(self) -> Option<usize> {
        self.at(16)
    }

    /// Byte offset of the id of the thread that ran the forward operator; `None` if unknown.
    #[inline]
    pub(super) const fn forward_thread_offset(self) -> Option<usize> {
        self.at(32)
    }
}

const THREAD: usize = 88;
const SCOPE: usize = 96;
/// Offsets of sequence number and forward thread: 2.7 and later; 2.4 to 2.6; 2.1 to 2.3.
const LAYOUTS: [(usize, usize); 3] = [(200, 304), (176, 280), (176, 224)];
/// Operators that a layout must fit before it is accepted.
const LEAST_INSPECTED: u32 = 256;
/// Bits of `STATE`: the low bits are the layouts that are still possible, the others count the inspected operators.
const ALL_LAYOUTS: u32 = 0b111;
/// Thread id and scope are at the offsets that all versions have.
const HEAD_FITS: u32 = 0b1000;
const COUNT: u32 = 0b1_0000;

/// Scope of spans that C++ or Python code names.
const USER: u8 = 7;
/// PyTorch numbers threads from 1.
const MOST_THREADS: u64 = 1 << 20;
/// Largest number of consecutive operators that were created on other threads.
const MOST_FOREIGN: u32 = 64;

/// Operators since the last one that began on the thread that created it.
static SINCE_OWN_THREAD: AtomicU32 = AtomicU32::new(0);

static STATE: AtomicU32 = AtomicU32::new(ALL_LAYOUTS | HEAD_FITS);

/// Offsets of the layouts that [`STATE`] still allows.
static FIELDS: AtomicU64 = AtomicU64::new(fields(ALL_LAYOUTS | HEAD_FITS).0);

/// Offsets of `at::RecordFunction` fields by the first layout that no inspected operator has contradicted.
#[inline]
pub(super) fn current() -> Fields {
    Fields(FIELDS.load(Ordering::Relaxed))
}

/// Field offsets of the first layout that `state`, a value of [`STATE`], still allows.
const fn fields(state: u32) -> Fields {
    let layout = (state & ALL_LAYOUTS).trailing_zeros() as usize;
    if state & HEAD_FITS == 0 {
        Fields(0)
    } else if layout < LAYOUTS.len() {
        Fields::new(SCOPE, LAYOUTS[layout].0, LAYOUTS[layout].1)
    } else {
        Fields::new(SCOPE, 0, 0)
    }
}

/// True once enough operators were inspected to accept the field offsets.
#[inline]
pub(crate) fn has_known_fields() -> bool {
    STATE.load(Ordering::Relaxed) >= LEAST_INSPECTED * COUNT
}

/// Inspect an operator that begins on the calling thread, to exclude field offsets that contradict it.
#[cold]
pub(crate) fn inspect_operator(functions: &Functions, operator: &Operator) {
    // SAFETY: both functions take nothing and read a thread-local variable.
    let (thread, next) = unsafe { ((functions.thread_id)(), (functions.next_sequence_number)()) };
    let (maker, scope) = (operator.word(THREAD), operator.byte(SCOPE));
    // Backends of `torch.distributed` create one on the requesting thread and begin it on their own thread.
    let is_of_another = maker != thread && (1..MOST_THREADS).contains(&maker) && scope == USER;
    if is_of_another && SINCE_OWN_THREAD.fetch_add(1, Ordering::Relaxed) < MOST_FOREIGN {
        return;
    }
    let mut refuted = 0;
    if maker != thread || !matches!(scope, 0..=9) {
        refuted |= HEAD_FITS;
    } else {
        SINCE_OWN_THREAD.store(0, Ordering::Relaxed);
    }
    let backward = operator.byte(SCOPE) == 1;
    for (index, &(sequence, forward)) in LAYOUTS.iter().enumerate() {
        let (number, forward) = (operator.word(sequence), operator.word(forward));
        // A backward node carries the number and the thread of its forward operator; `AccumulateGrad` has none (-1).
        let fits = match (backward, number) {
            (true, u64::MAX) => forward < 1 << 32,
            (true, _) => number < 1 << 48 && (1..1 << 32).contains(&forward),
            (false, _) => forward == 0 && (number == u64::MAX || number == next),
        };
        if !fits {
            refuted |= 1 << index;
        }
    }
    let _ = STATE.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |state| Some((state & !refuted) + COUNT));
    // Another thread that changed the state concurrently may have stored its offsets first.
    loop {
        let state = STATE.load(Ordering::SeqCst);
        FIELDS.store(fields(state).0, Ordering::SeqCst);
        if STATE.load(Ordering::SeqCst) == state {
            return;
        }
    }
}

/// Description of the detected field offsets in one line.
pub(crate) fn describe() -> String {
    let state = STATE.load(Ordering::Relaxed);
    let fields = current();
    match (fields.scope_offset(), fields.sequence_number_offset(), fields.forward_thread_offset()) {
        (None, ..) => "only names and times of operators are recorded: the data structures of this version of PyTorch \
             are unknown"
            .into(),
        _ if state < COUNT => "no operator seen yet".into(),
        (_, Some(sequence), Some(forward)) => {
            format!(
                "at::RecordFunction has the sequence number at byte {sequence} and the forward thread at byte \
                 {forward}"
            )
        }
        _ => "backward operators are not linked to forward operators: the data structures of this version of PyTorch \
             are unknown"
            .into(),
    }
}
