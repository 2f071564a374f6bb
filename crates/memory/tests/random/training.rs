//! Random training steps: recomputed and in-place results have unchanged values, and the peak equals the predicted one.

use proptest::prelude::*;
use stackline_memory::replay::Replay;
use stackline_memory::suggest::{Action, Suggestion, suggestions};
use stackline_memory::{ObjectUsage, Rules, patterns};
use stackline_model::{
    AccessEvidence, AccessExtent, AccessMode, Frame, MemoryCallKind, MemoryDeviceId, MemoryObjectId, MemoryObjectKind,
    MemoryStackId, MemoryTrace, NewCall, NewObject,
};
use std::collections::{BTreeMap, BTreeSet};

/// Call of the program. Objects are numbers.
#[derive(Clone, Debug)]
enum Op {
    Allocate(usize),
    Free(usize),
    Kernel(Kernel),
    /// Copy an object to the host and free it.
    Leave(usize),
    /// Allocate an object and copy it back.
    Return(usize),
}

#[derive(Clone, Debug)]
struct Kernel {
    name: &'static str,
    reads: Vec<usize>,
    writes: Vec<usize>,
    /// True if the call runs in backward.
    backward: bool,
}

/// Calls with their positions in the original program, and sizes of objects.
#[derive(Clone, Debug, Default)]
struct Program {
    ops: Vec<(Option<usize>, Op)>,
    sizes: Vec<u64>,
    /// First object whose memory each object uses.
    block: Vec<usize>,
}

const NAMES: [&str; 5] = ["aten::relu", "aten::mm", "aten::add", "aten::native_dropout", "mine::relu"];

/// Programs. Forward: operators on live objects, some of which are freed or changed. Backward reads many of them, and
/// frees them.
fn programs() -> impl Strategy<Value = Program> {
    proptest::collection::vec(any::<[u8; 4]>(), 1..30).prop_map(|draws| {
        let mut program = Program::default();
        let mut live = vec![program.object(64), program.object(2048)];
        let forward = draws.len();
        for draw in draws.iter().cycle().take(2 * forward).enumerate() {
            let (at, [what, a, b, c]) = (draw.0, *draw.1);
            let pick = |live: &[usize], at: u8| live[usize::from(at) % live.len()];
            let backward = at >= forward;
            let (one, other) = (pick(&live, a), pick(&live, b));
            let mut reads = if c % 3 == 0 { vec![one, other] } else { vec![one] };
            reads.dedup();
            match what % 8 {
                0 if live.len() > 2 => {
                    live.retain(|object| *object != one);
                    program.push(Op::Free(one));
                }
                1 => {
                    let kernel = Kernel { name: "aten::add_", reads: vec![one], writes: vec![one], backward };
                    program.push(Op::Kernel(kernel));
                }
                _ if backward => {
                    program.push(Op::Kernel(Kernel { name: "grad", reads, writes: Vec::new(), backward }));
                }
                _ => {
                    let size = if c % 4 == 0 { 100 } else { program.sizes[one] };
                    let mut writes = vec![program.object(size)];
                    if c % 16 == 5 {
                        writes.push(program.object(30));
                    }
                    live.extend(&writes);
                    let name = NAMES[usize::from(what / 8) % NAMES.len()];
                    program.push(Op::Kernel(Kernel { name, reads, writes, backward }));
                    if c % 5 > 1 && live.len() > 3 {
                        live.retain(|object| *object != one);
                        program.push(Op::Free(one));
                    }
                }
            }
        }
        program
    })
}

impl Program {
    fn push(&mut self, op: Op) {
        self.ops.push((Some(self.ops.len()), op));
    }

    fn object(&mut self, size: u64) -> usize {
        self.sizes.push(size);
        self.block.push(self.block.len());
        self.push(Op::Allocate(self.sizes.len() - 1));
        self.sizes.len() - 1
    }

    fn trace(&self) -> MemoryTrace {
        let mut trace = MemoryTrace::default();
        let device = trace.device("cuda:0");
        let [float, function] = ["f32", "backward"].map(|text| trace.strings.intern(text));
        let backward = trace.stacks.intern_path([Frame::backward(function)]);
        for (original, op) in &self.ops {
            let start_ns = original.unwrap() as i64 * 10;
            match op {
                Op::Allocate(object) => {
                    let kind = self.kind(*object);
                    let new =
                        NewObject { bytes: self.sizes[*object], device, dtype: float, kind, ..NewObject::default() };
                    trace.allocate(new, NewCall { start_ns, ..NewCall::default() });
                }
                Op::Free(object) => {
                    trace.release(MemoryObjectId::new(*object), NewCall { start_ns, ..NewCall::default() });
                }
                Op::Kernel(kernel) => {
                    let name = trace.strings.intern(kernel.name);
                    let stack = if kernel.backward { backward } else { MemoryStackId::NONE };
                    let call = NewCall { start_ns, duration_ns: 7, name, stack, ..NewCall::default() };
                    trace.calls.push(MemoryCallKind::Kernel, call);
                    for (object, mode) in kernel.accesses() {
                        let object = MemoryObjectId::new(object);
                        trace.accesses.push(object, mode, AccessEvidence::OperatorLevel, AccessExtent::Whole);
                    }
                    trace.seal_call();
                }
                Op::Leave(_) | Op::Return(_) => unreachable!("not in original programs"),
            }
        }
        trace.check().unwrap();
        trace
    }

    /// Kind as in recordings: objects that backward uses are activations.
    fn kind(&self, object: usize) -> MemoryObjectKind {
        let used = |op: &Op| match op {
            Op::Kernel(kernel) => kernel.backward && kernel.reads.contains(&object),
            _ => false,
        };
        let is_used = self.ops.iter().any(|(_, op)| used(op));
        if is_used { MemoryObjectKind::Activation } else { MemoryObjectKind::Temporary }
    }

    fn at(&self, original: usize) -> usize {
        self.ops.iter().position(|(known, _)| *known == Some(original)).unwrap()
    }

    fn insert_before(&mut self, original: usize, op: Op) {
        let at = self.at(original);
        self.ops.insert(at, (None, op));
    }

    fn insert_after(&mut self, original: usize, op: Op) {
        let at = self.at(original) + 1;
        self.ops.insert(at, (None, op));
    }

    /// Run a kernel again before a call. Its result and its freed inputs get these other names; its other results go to
    /// memory that is freed after the call.
    fn again(&mut self, by: usize, before: usize, there: &[MemoryObjectId], names: &mut BTreeMap<usize, usize>) {
        let (_, Op::Kernel(kernel)) = self.ops[self.at(by)].clone() else { panic!("{by} is no kernel") };
        let name = |read: &usize| match there.contains(&MemoryObjectId::new(*read)) {
            true => *read,
            false => names.get(read).copied().unwrap_or(*read),
        };
        let reads = kernel.reads.iter().map(name).collect();
        for written in &kernel.writes {
            names.entry(*written).or_insert_with(|| {
                self.sizes.push(self.sizes[*written]);
                self.block.push(self.block.len());
                let scratch = self.sizes.len() - 1;
                self.insert_before(before, Op::Allocate(scratch));
                self.insert_after(before, Op::Free(scratch));
                scratch
            });
        }
        let writes = kernel.writes.iter().map(|written| names[written]).collect();
        self.insert_before(before, Op::Kernel(Kernel { reads, writes, ..kernel }));
    }

    fn apply(&mut self, suggestion: &Suggestion) {
        let object = suggestion.object.index();
        match &suggestion.action {
            Action::Recompute { after, before, by, first, needs, .. } => {
                self.insert_after(after.index(), Op::Free(object));
                let mut names = BTreeMap::new();
                if let Some(first) = first {
                    self.again(first.index(), before.index(), needs, &mut names);
                }
                self.insert_before(before.index(), Op::Allocate(object));
                names.insert(object, object);
                self.again(by.index(), before.index(), needs, &mut names);
            }
            Action::Offload { after, before } => {
                self.insert_after(after.index(), Op::Leave(object));
                self.insert_before(before.index(), Op::Return(object));
            }
            Action::InPlace { owner } => {
                let (old, new) = (self.block[object], self.block[owner.index()]);
                self.block.iter_mut().filter(|block| **block == old).for_each(|block| *block = new);
            }
            Action::SmallerDtype { to } => self.sizes[object] = self.sizes[object].min(*to),
            Action::MoveFree { after } => {
                let mine = |op: &Op| matches!(op, Op::Free(other) if *other == object);
                self.ops.retain(|(original, op)| original.is_none() || !mine(op));
                self.insert_after(after.index(), Op::Free(object));
            }
            other => panic!("not in this test: {other:?}"),
        }
    }

    /// Run the program: values that each kernel of the original program reads, and the peak.
    fn run(&self) -> (BTreeMap<usize, Vec<u64>>, u64) {
        let (mut content, mut away): (BTreeMap<usize, u64>, BTreeMap<usize, u64>) = Default::default();
        let (mut read, mut most) = (BTreeMap::new(), 0);
        let mut to_free: BTreeMap<usize, usize> = BTreeMap::new();
        for (_, op) in &self.ops {
            if let Op::Allocate(object) = op {
                *to_free.entry(self.block[*object]).or_default() += 1;
            }
        }
        for (at, (original, op)) in self.ops.iter().enumerate() {
            match op {
                // If several objects share a block, the first one allocates, and the last one frees.
                Op::Allocate(object) => {
                    content.entry(self.block[*object]).or_insert(0);
                }
                Op::Free(object) => {
                    let block = self.block[*object];
                    let left = to_free.get_mut(&block).unwrap();
                    *left -= 1;
                    if *left == 0 || self.is_alone(block) {
                        content.remove(&block).unwrap();
                    }
                }
                Op::Leave(object) => {
                    away.insert(*object, content.remove(&self.block[*object]).unwrap());
                }
                Op::Return(object) => {
                    content.insert(self.block[*object], away.remove(object).unwrap());
                }
                Op::Kernel(kernel) => {
                    let found: Vec<u64> = kernel.reads.iter().map(|object| content[&self.block[*object]]).collect();
                    for (number, object) in kernel.writes.iter().enumerate() {
                        let result = result(kernel.name, &found, number, original.unwrap_or(usize::MAX - at));
                        *content.get_mut(&self.block[*object]).unwrap() = result;
                    }
                    read.extend(original.map(|original| (original, found)));
                }
            }
            most = most.max(content.keys().map(|block| self.sizes[*block]).sum());
        }
        (read, most)
    }

    fn is_alone(&self, block: usize) -> bool {
        self.block.iter().filter(|other| **other == block).count() == 1
    }
}

impl Kernel {
    fn accesses(&self) -> Vec<(usize, AccessMode)> {
        let both: BTreeSet<usize> = self.reads.iter().copied().filter(|read| self.writes.contains(read)).collect();
        let mode = |object: &usize, mode| if both.contains(object) { AccessMode::Both } else { mode };
        let reads = self.reads.iter().map(|read| (*read, mode(read, AccessMode::Read)));
        let writes = self.writes.iter().filter(|written| !both.contains(written));
        reads.chain(writes.map(|written| (*written, AccessMode::Write))).collect()
    }
}

/// Result of a kernel: equal for equal inputs, unless the kernel is random or unknown. Then each run differs.
fn result(name: &str, read: &[u64], number: usize, run: usize) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    let differs = name == "aten::native_dropout" || name == "mine::relu";
    (name, read, number, if differs { run } else { 0 }).hash(&mut hasher);
    hasher.finish()
}

/// Suggestions of the actions that this test can perform.
fn suggested(trace: &MemoryTrace) -> Vec<Suggestion> {
    let usage = ObjectUsage::new(trace, Rules::default());
    let mut all = suggestions(&usage, &patterns::find(&usage));
    all.retain(|suggestion| match suggestion.action {
        Action::MoveFree { .. } => suggestion.fills == 0,
        Action::Recompute { .. } | Action::InPlace { .. } | Action::Offload { .. } | Action::SmallerDtype { .. } => {
            true
        }
        _ => false,
    });
    all
}

/// Apply some of the suggestions, in order, to the replay and to the program.
fn compare(program: &Program, trace: &MemoryTrace, all: &[Suggestion], picks: &[usize]) -> Result<(), TestCaseError> {
    let mut replay = Replay::new(trace, MemoryDeviceId(0), all);
    let applied: Vec<usize> = picks.iter().copied().filter(|pick| replay.apply(*pick)).collect();
    let mut changed = program.clone();
    // An operator that runs again writes its whole result, even if less of it is kept, so sizes change last.
    let shrinks = |at: &&usize| matches!(all[**at].action, Action::SmallerDtype { .. });
    applied.iter().filter(|at| !shrinks(at)).for_each(|at| changed.apply(&all[*at]));
    applied.iter().filter(shrinks).for_each(|at| changed.apply(&all[*at]));
    let ((expected, _), (read, most)) = (program.run(), changed.run());
    let positions = |read: &BTreeMap<usize, Vec<u64>>| read.keys().copied().collect::<Vec<_>>();
    prop_assert_eq!(positions(&expected), positions(&read));
    prop_assert_eq!(replay.peak().bytes, most, "{:?}", applied.iter().map(|at| &all[*at]).collect::<Vec<_>>());
    prop_assert_eq!(read, expected, "{:?}", applied.iter().map(|at| &all[*at]).collect::<Vec<_>>());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn values_and_peaks_are_correct(program in programs(), picks in proptest::collection::vec(any::<u16>(), 0..16)) {
        let trace = program.trace();
        let all = suggested(&trace);
        for at in 0..all.len() {
            compare(&program, &trace, &all, &[at])?;
        }
        let picks: Vec<usize> = picks.iter().filter(|_| !all.is_empty()).map(|at| usize::from(*at) % all.len()).collect();
        compare(&program, &trace, &all, &picks)?;
        let every: Vec<usize> = (0..all.len()).collect();
        compare(&program, &trace, &all, &every)?;
    }
}

/// The programs above contain all tested actions.
#[test]
fn all_actions_occur() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut levels, mut scratched) = (0, 0);
    for _ in 0..300 {
        let program = programs().new_tree(&mut runner).unwrap().current();
        for suggestion in suggested(&program.trace()) {
            *seen.entry(suggestion.action.name()).or_default() += 1;
            if let Action::Recompute { first, scratch, .. } = suggestion.action {
                levels += usize::from(first.is_some());
                scratched += usize::from(scratch > 0 && first.is_none());
            }
        }
    }
    let enough = ["recompute", "in place", "offload", "smaller dtype", "move free"];
    assert!(enough.iter().all(|name| seen.get(name).is_some_and(|count| *count > 20)), "{seen:?}");
    assert!(levels > 5 && scratched > 5, "{levels} {scratched} {seen:?}");
}
