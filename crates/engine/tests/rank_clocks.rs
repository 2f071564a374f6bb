//! Clock offsets of ranks: estimates compared with generated offsets, and on real ranks.

use stackline_engine::{CollectiveEnds, OpenOptions, RankClock, Run, rank_clock_table, rank_clocks};
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::{EventKind, Table, Trace, TraceSet};
use stackline_testkit::{corpus, demo, mini};

/// Maximum difference in ns between the ranks' ends of a generated collective.
const JITTER: i64 = 1_500;

/// Ranks of one job with equal, simultaneous work, and clocks that are ahead by `offsets` ns. Time bases differ, and
/// the ends of collectives have some jitter.
fn ranks(offsets: &[i64]) -> TraceSet {
    let text = demo::generate(&demo::Config { steps: 3, layers: 2, ..demo::Config::default() });
    let whole = read_bytes("demo", text.as_bytes(), &ReadOptions::default()).unwrap();
    let mut state = 7_u64;
    let mut jitter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as i64 % JITTER
    };
    let mut one = |(rank, offset): (usize, &i64)| {
        let mut trace = whole.clone();
        let base = rank as i64 * 7_000_000_000;
        trace.meta.rank = Some(rank as i64);
        trace.meta.base_ns += base;
        trace.events.start.iter_mut().for_each(|start| *start += offset - base);
        for event in trace.gpu.event.clone() {
            if trace.name(event).contains("nccl") {
                trace.events.dur[event.index()] += jitter();
            }
        }
        trace
    };
    TraceSet { traces: offsets.iter().enumerate().map(&mut one).collect() }
}

fn table(set: &TraceSet) -> Table {
    let ends: Vec<CollectiveEnds> = set.traces.iter().map(CollectiveEnds::from_trace).collect();
    rank_clock_table(&stackline_engine::ranks(set), &ends)
}

fn assert_close(clock: &RankClock, offset: i64) {
    let found = clock.offset_ns.unwrap();
    assert!((found - offset).abs() <= JITTER, "{offset} ns, found {clock:?}");
    assert!(clock.mad_ns.unwrap() <= JITTER && clock.half_spread_ns.unwrap() <= JITTER, "{clock:?}");
    assert!((found - offset).abs() <= clock.half_spread_ns.unwrap() + JITTER / 2, "{offset} ns, found {clock:?}");
}

#[test]
fn known_offsets_are_found() {
    let offsets = [0, 250_000, -3_000_000, 12_345_678_901, 40];
    let set = ranks(&offsets);
    let clocks = rank_clocks(&set);
    assert_eq!(clocks[0].offset_ns, Some(0));
    for (clock, &offset) in clocks.iter().zip(&offsets).skip(1) {
        assert_eq!(clock.against, Some(0));
        assert!(clock.collectives >= 6, "{clock:?}");
        assert_close(clock, offset);
    }
    let table = table(&set);
    assert_eq!((table.rows(), table.notes.len()), (5, 1));
    assert!(table.notes[0].contains("not corrected by these offsets"));
}

fn without_collectives(mut trace: Trace) -> Trace {
    for event in trace.gpu.event.clone() {
        if trace.name(event).contains("nccl") {
            trace.events.name[event.index()] = trace.events.name[0];
        }
    }
    trace
}

#[test]
fn missing_collectives_give_a_note_instead_of_an_estimate() {
    let set = TraceSet { traces: ranks(&[0, 500]).traces.into_iter().map(without_collectives).collect() };
    assert!(rank_clocks(&set).iter().skip(1).all(|c| c.offset_ns.is_none()));
    let table = table(&set);
    assert!(table.notes[0].contains("offsets are unknown"), "{:?}", table.notes);
}

/// Trace with one all-reduce kernel per (group, sequence number, end in µs).
fn made(collectives: &[(&str, Option<i64>, i64)]) -> Trace {
    let kernel = |(group, number, end): &(&str, Option<i64>, i64)| {
        let number = number.map(|n| format!("Seq={n}")).unwrap_or_default();
        let name = "ncclDevKernel_AllReduce";
        format!(
            "gpu0/7 kernel {name} {}..{end} Collective name=allreduce Process Group Name=\"{group}\" {number}\n",
            end - 5
        )
    };
    let text = mini::trace(&collectives.iter().map(kernel).collect::<String>());
    read_bytes("made", text.as_bytes(), &ReadOptions::default()).unwrap()
}

#[test]
fn sequence_numbers_match_recordings_with_different_starts() {
    let first = [("0", Some(4), 100), ("0", Some(5), 200), ("0", Some(6), 300)];
    let second = [("0", Some(5), 1_201), ("0", Some(6), 1_303)];
    let set = TraceSet { traces: vec![made(&first), made(&second)] };
    let clock = rank_clocks(&set).remove(1);
    assert_eq!((clock.offset_ns, clock.collectives, clock.by_sequence), (Some(1_002_000), 2, true));
    assert_eq!((clock.mad_ns, clock.half_spread_ns), (Some(1_000), Some(1_000)));
    let plain =
        |list: &[(&'static str, Option<i64>, i64)]| made(&list.iter().map(|c| (c.0, None, c.2)).collect::<Vec<_>>());
    let set = TraceSet { traces: vec![plain(&first), plain(&second)] };
    assert_eq!(rank_clocks(&set)[1].offset_ns, None);
}

#[test]
fn ranks_of_other_groups_are_placed_through_shared_ranks() {
    let traces = vec![
        made(&[("a", None, 100), ("a", None, 200)]),
        made(&[("b", None, 1_150), ("b", None, 1_250)]),
        made(&[("a", None, 110), ("a", None, 210), ("b", None, 150), ("b", None, 250)]),
    ];
    let clocks = rank_clocks(&TraceSet { traces });
    let placed: Vec<_> = clocks.iter().map(|c| (c.against, c.offset_ns)).collect();
    assert_eq!(placed, [(None, Some(0)), (Some(2), Some(1_010_000)), (Some(0), Some(10_000))]);
}

#[test]
fn eight_real_ranks_of_one_host_share_a_clock() {
    let Some(file) = corpus::file("bundles/param-dlrm_kineto.tar.gz") else { return };
    let set = Run::open(&[file], &OpenOptions::default()).unwrap().traces().unwrap();
    assert!(set.traces.iter().all(|t| t.events.kind.contains(&EventKind::Kernel)));
    let clocks = rank_clocks(&set);
    assert_eq!(clocks.len(), 8);
    for clock in clocks.iter().skip(1) {
        println!("{clock:?}");
        // Without the unnamed point-to-point kernels; times are in whole µs.
        assert_eq!(clock.collectives, 3);
        assert!(clock.offset_ns.unwrap().abs() <= 5_000 && clock.mad_ns.unwrap() <= 5_000, "{clock:?}");
    }
}
