//! Comparisons: false alarms and injected changes over many simulated pairs, TraceLens' comparison.

use crate::support::{read, read_mini};
use crate::tl_support;

use stackline_diff::{
    Change, ChangeTable, Diff, Measure, Method, Options, Profile, Side, Verdict, compare, trim_warmup,
};
use stackline_ingest::{ReadOptions, read_bytes, read_paths};
use stackline_model::Vendor;
use stackline_testkit::corpus;
use stackline_testkit::mini::MiniTrace;
use stackline_timeline::Scope;
use std::collections::{BTreeMap, BTreeSet};
use tl_support::Csv;

fn close(got: f64, expected: f64) {
    assert!((got - expected).abs() <= 1e-9 * expected.abs().max(1e-3), "{got} is not {expected}");
}

/// Numbers that look random (splitmix64).
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Of the normal distribution (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.uniform()).cos()
    }
}

/// A program: in each step 12 operators with a kernel each.
#[derive(Clone, Copy)]
struct Program {
    steps: usize,
    /// The third operator's kernel takes so many times as long, and so the step.
    factor: f64,
    /// Spread of each operator, as a share.
    noise: f64,
    /// Share of steps in which something else takes another three times as long as a step.
    pauses: f64,
    /// Part of a step's deviation that the next one keeps.
    memory: f64,
    /// Change in speed of a whole run, as a share.
    run: f64,
}

const OPERATORS: usize = 12;
const US: f64 = 100.0;

const PROGRAM: Program = Program { steps: 12, factor: 1.0, noise: 0.03, pauses: 0.0, memory: 0.0, run: 0.0 };

impl Program {
    /// One run of it, as Kineto writes it.
    fn run(&self, seed: u64) -> Profile {
        let mut random = Random(seed);
        let speed = 1.0 + self.run * random.normal();
        let (mut lines, mut at, mut drift) = (String::new(), 1000.0, 0.0);
        for step in 0..self.steps {
            let from = at;
            drift = self.memory * drift + self.noise * random.normal();
            for operator in 0..OPERATORS {
                let factor = if operator == 3 { self.factor } else { 1.0 };
                let dur = (US * factor * speed * (1.0 + drift + self.noise * random.normal())).max(1.0);
                let id = step * OPERATORS + operator + 1;
                let (call, start, length) = (at + 0.1, at + 0.7, dur - 0.8);
                lines += &format!(
                    "1/1     cpu_op        aten::op{operator}  {at:.3}+{dur:.3}
                     1/1     cuda_runtime  cudaLaunchKernel    {call:.3}+0.5           correlation={id}
                     gpu0/7  kernel        kernel{operator}    {start:.3}+{length:.3}  correlation={id}\n"
                );
                at += dur;
            }
            if random.uniform() < self.pauses {
                at += 3.0 * US * OPERATORS as f64;
            }
            let length = at - from;
            lines += &format!("1/1 user_annotation ProfilerStep#{step} {from:.3}+{length:.3}\n");
        }
        let trace = read_mini(&lines);
        assert_eq!((trace.steps.len(), trace.gpu.len()), (self.steps, self.steps * OPERATORS));
        Profile::from_trace(&trace, 0, &Scope::default())
    }

    /// Itself compared with another, `count` times with `runs` runs on each side.
    fn compare_runs(&self, other: &Self, (count, runs): (u64, u64)) -> Vec<Diff> {
        let side = |program: &Self, from: u64| (from..from + runs).map(|seed| vec![program.run(seed)]).collect();
        let pair = |i: u64| compare(&side(self, i * 1000), &side(other, i * 1000 + 500), Options::default());
        (0..count).map(pair).collect()
    }
}

fn find<'a>(diff: &'a Diff, table: ChangeTable, name: &str, measure: Measure) -> &'a Change {
    diff.changes[&table].iter().find(|change| *change.name == *name && change.measure == measure).unwrap()
}

fn step(diff: &Diff) -> &Change {
    find(diff, ChangeTable::Steps, "", Measure::Step)
}

fn alarms(diffs: &[Diff]) -> usize {
    diffs.iter().filter(|diff| step(diff).verdict.is_change()).count()
}

/// Of 300 pairs at a level of 5 % 15 are expected; more than 26 would occur by chance once in 300 times.
const PAIRS: u64 = 300;
const MAX_ALARMS: usize = 26;

/// However much steps differ: an interval of a change holds nothing beyond that all of it goes.
#[test]
fn intervals_never_exceed_full_removal() {
    let wild = Program { steps: 4, noise: 0.9, ..PROGRAM };
    let small = Program { factor: 0.01, ..wild };
    let diffs = wild.compare_runs(&small, (20, 1));
    let changes = || diffs.iter().flat_map(|diff| diff.changes.values().flatten());
    let low = |change: &Change| change.interval_ns.map(|interval| interval.0);
    assert!(changes().filter_map(low).count() > 100);
    for change in changes() {
        assert!(low(change).is_none_or(|low| low >= -change.before_ns), "{change:?}");
    }
    assert!(changes().any(|change| low(change) == Some(-change.before_ns)), "some would be beyond");
}

#[test]
fn false_alarms_are_rare() {
    // Kernels that drift together and have noise of their own besides remember longer than a process that knows one step:
    // some 7 % of alarms are expected there, 21, and more than 34 would be chance once in 300 times.
    let cases = [
        ("noise", PROGRAM, MAX_ALARMS),
        ("three steps", Program { steps: 3, ..PROGRAM }, MAX_ALARMS),
        ("pauses", Program { pauses: 0.1, steps: 20, ..PROGRAM }, MAX_ALARMS),
        ("drift", Program { memory: 0.5, steps: 40, ..PROGRAM }, 34),
    ];
    for (name, program, most) in cases {
        let diffs = program.compare_runs(&program, (PAIRS, 1));
        println!("{name}: {} alarms in {PAIRS}", alarms(&diffs));
        assert!(alarms(&diffs) <= MAX_ALARMS, "{name}: {} alarms", alarms(&diffs));
        let rows = |diff: &Diff| diff.changes[&ChangeTable::Kernels].iter().any(|change| change.verdict.is_change());
        let any = diffs.iter().filter(|diff| rows(diff)).count();
        println!("{name}: {any} comparisons with any kernel");
        assert!(any <= most, "{name}: {any} comparisons say that some kernel changed");
    }
}

/// Runs that differ as wholes (another machine, another clock) fool a test of one pair, and no test of several.
#[test]
fn several_runs_include_the_spread_between_runs() {
    let program = Program { run: 0.02, noise: 0.01, ..PROGRAM };
    let single = alarms(&program.compare_runs(&program, (100, 1)));
    let several = alarms(&program.compare_runs(&program, (100, 4)));
    println!("single {single}, several {several} of 100");
    assert!(single > 30, "{single}: the case does not show what it is there for");
    assert!(several <= 11, "{several}: of 100 pairs 5 are expected, 12 or more come once in 200 times");
}

#[test]
fn injected_changes_are_found_within_their_interval() {
    let slower = Program { factor: 1.6, ..PROGRAM };
    let truth = 100.0 * 0.6 / OPERATORS as f64;
    let (mut inside, mut kernel_inside, mut found, mut wrong) = (0, 0, 0, 0);
    for diff in PROGRAM.compare_runs(&slower, (200, 1)) {
        assert_eq!(diff.method, Method::Steps);
        let change = step(&diff);
        let (low, high) = change.interval_ns.unwrap();
        inside += usize::from(change.percent_of(low).unwrap() <= truth && truth <= change.percent_of(high).unwrap());
        let kernel = find(&diff, ChangeTable::Kernels, "kernel3", Measure::Gpu);
        found += usize::from(kernel.verdict == Verdict::Slower);
        let (low, high) = kernel.interval_ns.unwrap();
        kernel_inside += usize::from(low <= 60_000.0 && 60_000.0 <= high);
        let others = diff.changes[&ChangeTable::Kernels].iter().filter(|change| &*change.name != "kernel3");
        wrong += others.filter(|change| change.verdict.is_change()).count();
        let path = find(&diff, ChangeTable::Paths, "aten::op3", Measure::Gpu);
        assert_eq!(path.change_ns(), kernel.change_ns(), "a path has the work that it launches");
    }
    println!("step {inside}, kernel {kernel_inside} inside of 200; found {found}; {wrong} others");
    // Of 200 intervals at 95 % 190 are expected to hold the truth; fewer than 181 would be chance once in 200 times.
    assert!(inside >= 181 && kernel_inside >= 181, "{inside}, {kernel_inside}");
    // Twelve steps that resemble their neighbours by chance are taken for a drift: the price of not being fooled by one.
    assert!(found >= 190, "{found} of 200 are found");
    // Adjusted p values keep false ones at 5 % of those that are said to have changed.
    assert!(wrong <= 30, "{wrong} kernels that did not change");
}

/// A program whose steps take so long, in us, and spend half of it in one operator.
fn profile_with_step_lengths(lengths: &[i64]) -> Profile {
    let mut at = 0;
    let mut trace = MiniTrace::new("");
    for (number, length) in lengths.iter().enumerate() {
        let half = length / 2;
        trace
            .add_at(at, &format!("1/1 user_annotation ProfilerStep#{number} 0+{length}\n1/1 cpu_op aten::mm 0+{half}"));
        at += length;
    }
    let trace = read(trace.json());
    Profile::from_trace(&trace, 0, &Scope::default())
}

#[test]
fn first_step_is_excluded_on_both_sides_or_none() {
    let sides = |before: &[i64], after: &[i64]| {
        let mut both: [Side; 2] = [before, after].map(|lengths| vec![vec![profile_with_step_lengths(lengths)]]);
        let [before, after] = &mut both;
        trim_warmup(before, after);
        both.map(|side| side[0][0].clone())
    };
    let times =
        |profile: &Profile| profile.operators["aten::mm"].iter().map(|(at, cell)| (at, cell.cpu)).collect::<Vec<_>>();
    let [before, after] = sides(&[104, 100, 102, 98], &[900, 100, 102, 98]);
    assert_eq!(
        (before.steps[0].left_out, after.steps[0].left_out),
        (Some("as many first steps are left out in another run"), Some("warm-up"))
    );
    assert_eq!(times(&before), [(0, 50_000), (1, 51_000), (2, 49_000)]);
    assert_eq!((&before.totals, times(&before)), (&after.totals, times(&after)));
    let [before, after] = sides(&[104, 100, 102, 98], &[101, 100, 102, 98]);
    assert_eq!((before.totals.len(), after.totals.len()), (4, 4));
    // Of two steps none can be spared.
    let [few, _] = sides(&[104, 100], &[900, 100, 102, 98]);
    assert_eq!(few.totals.len(), 2);
}

#[test]
fn warm_up_and_truncated_steps_are_excluded() {
    let profile = profile_with_step_lengths(&[900, 100, 102, 98, 20]);
    let left_out: Vec<_> = profile.steps.iter().map(|step| step.left_out).collect();
    assert_eq!(left_out, [Some("warm-up"), None, None, None, Some("cut off")]);
    assert_eq!(
        profile.operators["aten::mm"].iter().map(|(_, cell)| cell.cpu).collect::<Vec<_>>(),
        [50_000, 51_000, 49_000]
    );
    let two = profile_with_step_lengths(&[900, 100]);
    assert!(two.steps.iter().all(|step| step.left_out.is_none()), "of two steps none is known to be odd");
    let diff = compare(
        &vec![vec![profile_with_step_lengths(&[100])]],
        &vec![vec![profile_with_step_lengths(&[200])]],
        Options::default(),
    );
    assert_eq!(
        (diff.method, step(&diff).verdict, step(&diff).percent()),
        (Method::None, Verdict::Untested, Some(100.0))
    );
    assert!(diff.notes.iter().any(|note| note.starts_with("A and B have one step each, so")), "{:?}", diff.notes);
}

/// A host that runs ahead: its steps are short, those of the GPU are not.
#[test]
fn steps_last_until_their_gpu_work_ends() {
    let trace = read_mini(
        "1/1     user_annotation  ProfilerStep#0    0..100
         1/1     cuda_runtime     cudaLaunchKernel  5..10      correlation=1
         gpu0/7  kernel           k                 20..320    correlation=1
         1/1     user_annotation  ProfilerStep#1    100..200
         1/1     cuda_runtime     cudaLaunchKernel  105..110   correlation=2
         gpu0/7  kernel           k                 320..620   correlation=2
         1/1     user_annotation  ProfilerStep#2    200..300
         1/1     cuda_runtime     cudaLaunchKernel  205..210   correlation=3
         gpu0/7  kernel           k                 620..920   correlation=3
         1/1     user_annotation  ProfilerStep#3    300..400
         1/1     cuda_runtime     cudaLaunchKernel  305..310   correlation=4
         gpu0/7  kernel           k                 920..1220  correlation=4",
    );
    let profile = Profile::from_trace(&trace, 0, &Scope::default());
    assert_eq!(profile.steps.iter().map(|step| step.ns).collect::<Vec<_>>(), [320_000, 300_000, 300_000, 300_000]);
}

#[test]
fn empty_profiles_are_not_compared() {
    let empty = read_bytes("t", b"[]", &ReadOptions::default()).unwrap_or_default();
    let profile = Profile::from_trace(&empty, 0, &Scope::default());
    let diff = compare(&vec![vec![profile.clone()]], &vec![vec![profile]], Options::default());
    assert!(diff.changes.values().all(Vec::is_empty), "{diff:?}");
    assert!(diff.notes.iter().any(|note| note.contains("no events")), "{:?}", diff.notes);
}

#[test]
fn ranks_are_compared_with_the_same_rank() {
    let profile = |rank: i64, steps| Profile { rank, ..Program { steps, ..PROGRAM }.run(rank as u64 + steps as u64) };
    let before = vec![vec![profile(0, 6), profile(1, 6), profile(2, 6)]];
    let diff = compare(&before, &vec![vec![profile(1, 7), profile(0, 7)]], Options::default());
    let steps = diff.changes[&ChangeTable::Steps].iter().filter(|change| change.measure == Measure::Step);
    assert_eq!(steps.map(|change| change.rank).collect::<Vec<_>>(), [0, 1]);
    assert!(diff.notes.iter().any(|note| note == "Rank 2 is only in A and is not compared."), "{:?}", diff.notes);
}

/// TraceLens' comparison of the same model on H100 and MI300. Operators must agree in all their GPU times: to TraceLens'
/// rounding of spans (2^-10 µs each). Kernels agree where TraceLens knows an operator: it also sums those that were
/// launched before the recording began, which belong to no step, and those of our profile are per step.
#[test]
fn operators_and_kernels_equal_tracelens_comparison() {
    let Some(corpus) = corpus::folder() else { return };
    let profile = |name: &str| {
        let set = read_paths(&[corpus.join("kineto").join(name)], &ReadOptions::default()).unwrap();
        Profile::from_trace(&set.traces[0], 0, &Scope::default())
    };
    let (h100, mi300) = (profile("nvidia-h100-qwen1.5-0.5b.json.gz"), profile("amd-mi300-qwen1.5-0.5b.json.gz"));
    assert_eq!((h100.vendor, mi300.vendor), (Some(Vendor::Nvidia), Some(Vendor::Amd)));
    let sides = (vec![vec![h100]], vec![vec![mi300]]);
    let folder = corpus.join("reference/tracelens/compare-qwen-h100-vs-mi300");
    let diff = compare(&sides.0, &sides.1, Options::default());
    assert!(diff.by_family);
    let sum_of_families: f64 = diff.changes[&ChangeTable::Kernels].iter().map(|change| change.before_ns).sum();
    close(
        sum_of_families,
        sides.0[0][0].kernels.values().flat_map(|row| row.iter()).map(|(_, cell)| cell.gpu as f64).sum(),
    );
    let reference = Csv::read(&folder.join("ops_summary.csv")).unwrap();
    let number = |row: usize, column: &str| reference.get(row, column).parse::<f64>().unwrap_or(0.0);
    for row in 0..reference.rows.len() {
        let name = reference.get(row, "name");
        let change = find(&diff, ChangeTable::Operators, name, Measure::Gpu);
        for (ours, side) in [(change.before_ns, "h100"), (change.after_ns, "mi300")] {
            let calls = number(row, &format!("{side}::Count"));
            let theirs = 1e6 * number(row, &format!("{side}::total_direct_kernel_time_ms"));
            assert!((ours - theirs).abs() <= calls + 1.0, "{name} on {side}: {ours} ns, not {theirs}");
        }
        // Where one side has no such operator TraceLens says no difference.
        if reference.get(row, "total_direct_kernel_time_ms__mi300_diff").is_empty() {
            continue;
        }
        let theirs = 1e6 * number(row, "total_direct_kernel_time_ms__mi300_diff");
        let calls = number(row, "h100::Count") + number(row, "mi300::Count");
        assert!((change.change_ns() - theirs).abs() <= calls + 2.0, "{name}: {} ns, not {theirs}", change.change_ns());
    }
    assert!(reference.rows.len() >= 20, "{} operators", reference.rows.len());
    kernels_equal_tracelens(&sides, &Csv::read(&folder.join("kernel_summary.csv")).unwrap());
}

fn kernels_equal_tracelens((h100, mi300): &(Vec<Vec<Profile>>, Vec<Vec<Profile>>), reference: &Csv) {
    let diff = compare(h100, mi300, Options { by_family: Some(false), ..Options::default() });
    for (side, is_before) in [("h100", true), ("mi300", false)] {
        let mut theirs: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        // TraceLens lists a kernel anew for each partner of its name on the other side.
        let mut seen = BTreeSet::new();
        for row in 0..reference.rows.len() {
            let text = |column: &str| reference.get(row, &format!("{side}::{column}"));
            let key = (reference.get(row, "Kernel name"), text("Parent cpu_op"), text("Kernel stream"));
            if key.1.is_empty() || !seen.insert((key.0, key.1.to_owned(), key.2.to_owned())) {
                continue;
            }
            let number = |column: &str| text(column).parse::<f64>().unwrap_or(0.0);
            let sum = theirs.entry(reference.get(row, "Kernel name")).or_default();
            sum.0 += 1e3 * number("Kernel duration (µs)_sum");
            sum.1 += number("Kernel duration (µs)_count");
        }
        assert!(theirs.len() >= 18, "{} kernels on {side}", theirs.len());
        for (name, (ns, count)) in theirs {
            let change = find(&diff, ChangeTable::Kernels, name, Measure::Gpu);
            let ours = match is_before {
                true => (change.before_ns, change.count_before),
                false => (change.after_ns, change.count_after),
            };
            assert!((ours.0 - ns).abs() <= 1.0 && ours.1 == count, "{name} on {side}: {ours:?}, not {ns} in {count}");
        }
    }
}

#[test]
fn single_step_has_no_spread_only_in_a_single_run() {
    let (one, many) = (Program { steps: 1, ..PROGRAM }, PROGRAM);
    let note = |before: &Program, after: &Program, runs| {
        let side = |program: &Program, from: u64| -> Vec<_> {
            (from..from + runs).map(|seed| vec![program.run(seed)]).collect()
        };
        let diff = compare(&side(before, 1), &side(after, 50), Options::default());
        diff.warnings.iter().find(|warning| warning.contains("so the variation between steps of")).cloned()
    };
    assert!(note(&one, &many, 1).unwrap().starts_with("A has one step and B has 12,"));
    assert!(note(&many, &one, 1).unwrap().starts_with("B has one step and A has 12,"));
    // Five runs of one step each differ, too.
    assert_eq!(note(&one, &many, 5), None);
    assert_eq!(note(&many, &many, 1), None);
}

/// A program of eight steps that calls `slow`, and `quick`, which calls it, too, as a trace with stacks has it; `line` is that of
/// the first function, the others follow below it.
fn python(folder: &str, line: u32, slow_us: i64) -> Profile {
    let mut trace = MiniTrace::new("");
    let (step_line, quick_line) = (line + 20, line + 9);
    let mut at = 1000;
    for step in 0..8 {
        let slow = slow_us + step % 3;
        // What an operator takes is not the function's own.
        let events = format!(
            "1/1  user_annotation  ProfilerStep#{step}                      0+{}
             1/1  python_function  {folder}/train.py({step_line}): step     0+{}
             1/1  python_function  {folder}/train.py({line}): slow          10+{}
             1/1  python_function  <built-in function sum>                  11+{}
             1/1  cpu_op           aten::mm                                 {}+20
             1/1  python_function  {folder}/train.py({quick_line}): quick   {}+300
             1/1  python_function  {folder}/train.py({line}): slow          {}+100",
            slow + 490,
            slow + 480,
            slow + 30,
            slow / 2,
            slow + 12,
            slow + 100,
            slow + 120
        );
        trace.add_at(at, &events);
        at += slow + 500;
    }
    let trace = read(trace.json());
    Profile::from_trace(&trace, 0, &Scope::default())
}

#[test]
fn functions_with_changed_self_time_are_reported_despite_moved_lines() {
    let diff = compare(
        &vec![vec![python("/data/a/src", 12, 200)]],
        &vec![vec![python("/data/b/src", 47, 20_200)]],
        Options::default(),
    );
    let of = |name, measure| find(&diff, ChangeTable::Functions, name, measure);
    let slow = of("/data/a/src/train.py: slow", Measure::Cpu);
    assert_eq!(slow.verdict, Verdict::Slower);
    close(slow.change_ns(), 20e6);
    assert_eq!((slow.count_before, slow.count_after), (2.0, 2.0));
    // 200 µs, 10 µs around the operator, and a call of 100 µs; a step and another one in three are longer.
    close(slow.before_ns, 310e3 + 1e3 * 7.0 / 8.0);
    assert_eq!(of("/data/a/src/train.py: quick", Measure::Cpu).verdict, Verdict::Noise);
    assert_eq!(of("/data/a/src/train.py: step", Measure::Cpu).verdict, Verdict::Noise);
    close(of("/data/a/src/train.py: step", Measure::CpuTotal).change_ns(), 20e6);
    assert_eq!(diff.changes[&ChangeTable::Functions].len(), 6, "{:?}", diff.changes[&ChangeTable::Functions]);
    let paths = &diff.changes[&ChangeTable::Paths];
    assert!(paths.iter().all(|path| path.verdict != Verdict::OnlyAfter), "{paths:?}");
}
