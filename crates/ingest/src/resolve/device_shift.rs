//! Shift of device times onto the host's clock, for devices whose clock is off by too much for any analysis.
//!
//! Two facts bound the shift ([`stackline_model::DeviceClock`]): no operation starts before its launch call, and no
//! waiting call returns before its awaited work ends. Without waiting calls, an operation on an idle device starts
//! right after its launch.
//!
//! Differences below 1 ms stay as recorded unless causality proves them ([`proven_shift`]), or a constant launch delay
//! shows them ([`shift_by_constant_delay`]): drivers' own conversions leave small differences. Outliers are ignored:
//! only the largest group of delays from launch to start is used.

use super::clock_jumps::are_many;
use super::constant_delay::shift_by_constant_delay;
use super::launches::shared_ids;
use super::order_shift::shift_by_order;
use super::proven_shift::{LEAST_PROVEN_NS, Proof, lowest, proven_shift};
use super::shifted_events::move_events;
use super::wait_delays::WaitDelays;
use crate::diagnostics;
use rustc_hash::FxHashSet;
use stackline_model::{EventId, EventKind, Trace, TrackKind, flags, names};
use std::collections::BTreeMap;

/// Smallest difference, in ns, that is corrected without a proof by causality.
pub(super) const LEAST_NS: i64 = 1_000_000;
/// Delays that differ by more than this, in ns, or by the host's length, belong to different groups.
const GROUP_NS: i64 = 1_000_000_000;
/// Idle time before an operation, in ns, from which on the device counts as idle.
const IDLE_NS: i64 = 20_000;
/// Largest delay of a wait's return after its work's recorded end, in ns, that confirms the recorded times.
pub(super) const MAX_RETURN_DELAY_NS: i64 = 100_000;
/// Number of operations on an idle device that are required to determine the launch delay.
pub(super) const MIN_OPERATIONS: usize = 3;
/// Number of launches that must agree on a shift. A single record may be wrong.
pub(super) const LINKED: usize = 3;

/// Times of a launch call and of the GPU operation that it launched, in ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launched {
    /// Correlation ID of both.
    pub(super) id: i64,
    /// Start and end of the call, by the host's clock.
    pub(super) call: (i64, i64),
    /// Start and end of the operation, by the device's clock.
    pub(super) ran: (i64, i64),
}

impl Launched {
    /// Time from the start of the launch call to the start of the operation, in ns.
    pub(super) fn delay(&self) -> i64 {
        self.ran.0.saturating_sub(self.call.0)
    }
}

/// Shift, in ns, of the events of a device that start within a time range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shift {
    pub(super) by: i64,
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) is_by_order: bool,
}

/// Applied and contradicted clock shifts of the devices, by device number.
#[derive(Default)]
pub(super) struct Outcome {
    /// Applied shifts in ns.
    pub(super) shifts: BTreeMap<i32, i64>,
    /// Times in ns by which launches and waits contradict every shift ([`stackline_model::DeviceClock`]).
    pub(super) contradicted: BTreeMap<i32, i64>,
}

/// Shift the times of devices whose clocks are off. Requires launches, the time order of tracks, and parents.
pub(super) fn apply(trace: &mut Trace) -> Outcome {
    // The process of these operations was derived from the same IDs as their launches, so the delays are no evidence
    // about the clock.
    if trace.report.count_of(diagnostics::PROCESS_BY_CORRELATION.code) > 0 {
        return Outcome::default();
    }
    let Some(host) = host_span(trace) else { return Outcome::default() };
    let Found { shifts, contradicted } = find(trace, host);
    let mut outcome = Outcome::default();
    for (device, Contradiction { least, most }) in contradicted {
        outcome.contradicted.insert(device, least.saturating_sub(most.unwrap_or(0)));
        let required = least as f64 / 1e9;
        let example = match most.map(|most| most as f64 / 1e9) {
            Some(allowed) => format!(
                "device {device}: its launches require a shift of its times by {required:.6} s, but the calls that \
                 wait for it allow at most {allowed:.6} s"
            ),
            None => format!(
                "device {device}: its launches require a shift of its times by {required:.6} s, but the calls that \
                 wait for it do not allow that shift"
            ),
        };
        diagnostics::CLOCK_CONTRADICTED.count(&mut trace.report, None, &example);
    }
    if shifts.is_empty() {
        return outcome;
    }
    move_events(trace, &shifts);
    trace.index_tracks();
    for (device, shift) in &shifts {
        let way = if shift.by > 0 { "behind" } else { "ahead of" };
        let seconds = shift.by.unsigned_abs() as f64 / 1e9;
        let offset = format!("device {device}: its clock was {seconds:.6} s {way} the host's clock");
        let (code, example) = match shift.is_by_order {
            false => (diagnostics::CLOCK_SHIFTED, offset),
            true => (diagnostics::CLOCK_UNKNOWN, format!("{offset}; device times were shifted to follow launch calls")),
        };
        code.count(&mut trace.report, None, &example);
    }
    outcome.shifts = shifts.into_iter().map(|(device, shift)| (device, shift.by)).collect();
    outcome
}

/// Clock shifts by device, and the devices for which no shift is possible.
#[derive(Default)]
struct Found {
    shifts: BTreeMap<i32, Shift>,
    /// Devices whose times no shift makes possible.
    contradicted: Vec<(i32, Contradiction)>,
}

/// Shift that the launches of a device require, in ns, and the largest one that its waits allow, if known.
struct Contradiction {
    least: i64,
    most: Option<i64>,
}

/// Shifts of all devices by their launches and waits, else by the order of launches, and contradictions.
fn find(trace: &Trace, host: (i64, i64)) -> Found {
    let group = GROUP_NS.max(host.1.saturating_sub(host.0));
    let Work { mut launched, unlinked } = work(trace);
    let linked: BTreeMap<i32, usize> = launched.iter().map(|(&device, all)| (device, all.len())).collect();
    let (mut delays, mut missing) = (WaitDelays::default(), 0);
    // In most traces no launch is late or early enough.
    if launched.values().any(|all| may_be_off(all)) {
        // Fills and copies take negligible time, and some profilers omit fills.
        let is_kernel = |call: &EventId| names::is_kernel_launch(trace.name(*call));
        missing = trace.find_unrecorded_launches().into_iter().filter(is_kernel).count();
        let shared = shared_ids(trace);
        launched.values_mut().for_each(|all| all.retain(|l| !shared.contains(&l.id)));
        delays = WaitDelays::find(trace);
    }
    let mut found = Found::default();
    let mut limited = Vec::new();
    for (&device, all) in launched.iter().filter(|(_, all)| may_be_off(all)) {
        let kept = largest_group(all, group);
        let all = Device {
            launched: &kept,
            unlinked: unlinked.get(&device).map_or(&[], Vec::as_slice),
            linked: linked.get(&device).copied().unwrap_or(0),
            missing,
        };
        let starts = || kept.iter().map(|l| l.ran.0);
        let (Some(first), Some(last)) = (starts().min(), starts().max()) else { continue };
        let (from, to) = (first.saturating_sub(group), last.saturating_add(group));
        match decide(&all, (delays.exact(device), delays.unsure(device)), host) {
            Some(Err(contradiction)) => found.contradicted.push((device, contradiction)),
            Some(Ok((by, is_limit))) => {
                found.shifts.insert(device, Shift { by, from, to, is_by_order: false });
                limited.extend(is_limit.then_some(device));
            }
            None => {}
        }
    }
    share_shifts(&mut found.shifts, &limited);
    for (device, all) in unlinked.into_iter().filter(|(device, _)| !launched.contains_key(device)) {
        if let Some(shift) = shift_by_order(trace, all, host, group) {
            found.shifts.insert(device, shift);
        }
    }
    found
}

/// Shift of a device in ns, and true if only a limit; `None` without evidence, an error if launches contradict waits.
/// `unsure` has delays of waits that may wait for a part of the work.
fn decide(
    device: &Device<'_>,
    (waits, unsure): (&[i64], &[i64]),
    host: (i64, i64),
) -> Option<Result<(i64, bool), Contradiction>> {
    let by_delay = || shift_by_constant_delay(device.launched, waits, unsure).filter(|_| device.is_complete());
    let known = shift(device, waits).filter(|by| by.saturating_abs() >= LEAST_NS);
    let (by, is_limit) = match known {
        Some(by) => (by, false),
        None => match proven_shift(device.launched, waits).or_else(by_delay) {
            Some(Proof::Shift(by)) => return Some(Ok((by, false))),
            Some(Proof::Contradiction { least, most }) => return Some(Err(Contradiction { least, most: Some(most) })),
            None => (largest_shift(device, waits, host)?, true),
        },
    };
    Some(if contradicts(waits, by) { Err(Contradiction { least: by, most: None }) } else { Ok((by, is_limit)) })
}

/// Check if the clock of a device may be off, by its launches: one starts its work early or late, or all do.
fn may_be_off(launched: &[Launched]) -> bool {
    launched.iter().any(|l| l.delay() < -LEAST_PROVEN_NS || l.delay() > LEAST_NS)
        || launched.iter().all(|l| l.delay() > LEAST_PROVEN_NS)
}

/// Devices of one machine mostly have one clock error: a device whose shift is only limited takes that of another device
/// if the limit allows it and it is at least half of the limit. Limits are negative.
fn share_shifts(shifts: &mut BTreeMap<i32, Shift>, limited: &[i32]) {
    let known: Vec<i64> = shifts.iter().filter(|(device, _)| !limited.contains(device)).map(|(_, s)| s.by).collect();
    for (_, shift) in shifts.iter_mut().filter(|(device, _)| limited.contains(device)) {
        let possible = known.iter().filter(|&&by| (shift.by..shift.by / 2).contains(&by));
        shift.by = possible.min().copied().unwrap_or(shift.by);
    }
}

/// Check if waits contradict a shift: with it, a tenth or a quarter of them would newly return before their work ends.
fn contradicts(waits: &[i64], by: i64) -> bool {
    let is_early = |late: i64| late < -LEAST_NS;
    let against = waits.iter().filter(|&&late| !is_early(late) && is_early(late.saturating_sub(by))).count();
    are_many(against, waits.len())
}

/// Check if waits show that a device's clock is not ahead: more of them return at the recorded end of their work than
/// over `least` ns before it. The device then starts slowly because it is shared or loads code lazily.
pub(super) fn confirm(waits: &[i64], least: i64) -> bool {
    let prompt = waits.iter().filter(|late| is_prompt(late)).count();
    let early = waits.iter().filter(|&&late| late < -least).count();
    prompt > early
}

/// Check if a wait returned at the recorded end of its work.
pub(super) fn is_prompt(late: &i64) -> bool {
    (-IDLE_NS..=MAX_RETURN_DELAY_NS).contains(late)
}

/// Operations of each device, with and without a launch call.
#[derive(Default)]
struct Work {
    launched: BTreeMap<i32, Vec<Launched>>,
    unlinked: BTreeMap<i32, Vec<(i64, i64)>>,
}

/// Times of the operations of each device, with and without their launch calls.
fn work(trace: &Trace) -> Work {
    let mut found = Work::default();
    for gpu in trace.gpu.ids() {
        let (event, call) = (trace.gpu.event[gpu.index()], trace.gpu.launch[gpu.index()]);
        if !trace.events.is_timed(event) {
            continue;
        }
        let ran = (trace.events.start[event.index()], trace.events.end(event));
        let device = trace.gpu.device[gpu.index()];
        if call.is_some() && trace.events.is_plausible(call) {
            let id = trace.gpu.correlation[gpu.index()];
            let call = (trace.events.start[call.index()], trace.events.end(call));
            found.launched.entry(device).or_default().push(Launched { id, call, ran });
        } else {
            found.unlinked.entry(device).or_default().push(ran);
        }
    }
    found
}

/// Largest group of launches with similar delays: sorted, neighbors differ by at most `apart` ns. Of equally large
/// groups, the one nearest to zero delay.
fn largest_group(all: &[Launched], apart: i64) -> Vec<Launched> {
    let mut sorted = all.to_vec();
    sorted.sort_unstable_by_key(|l| (l.delay(), l.ran, l.call));
    let groups = sorted.chunk_by(|a, b| b.delay().saturating_sub(a.delay()) <= apart);
    let size = |g: &&[Launched]| (g.len(), std::cmp::Reverse(g.first().map_or(0, |l| l.delay().saturating_abs())));
    groups.max_by_key(size).map(<[Launched]>::to_vec).unwrap_or_default()
}

/// Operations of one device, as evidence about its clock.
struct Device<'w> {
    /// Operations with unambiguous launches, sorted by delay.
    launched: &'w [Launched],
    /// Start and end of operations without a launch.
    unlinked: &'w [(i64, i64)],
    /// Number of operations with a launch.
    linked: usize,
    /// Launches of kernels and graphs without a recorded operation, on any device.
    missing: usize,
}

impl Device<'_> {
    /// Check that few operations lack a launch or a record. These may have kept the device busy.
    fn is_complete(&self) -> bool {
        let known = self.launched.len();
        known * 10 >= 9 * (self.linked + self.unlinked.len()) && self.missing * 100 <= known
    }
}

/// Shortest delay of launches, which are sorted by delay, without outliers.
fn shortest_delay(launched: &[Launched]) -> Option<i64> {
    lowest(launched.iter().map(Launched::delay), LEAST_NS)
}

/// Shift in ns of a device whose clock is off by over a millisecond; `None` if its times are possible or no evidence
/// exists. `waits` has the delays of waits' returns after the end of their work.
fn shift(device: &Device<'_>, waits: &[i64]) -> Option<i64> {
    let launched = device.launched;
    let calls: FxHashSet<i64> = launched.iter().map(|l| l.id).collect();
    if calls.len() < LINKED {
        return None;
    }
    let least = shortest_delay(launched)?;
    if least < -LEAST_NS {
        let early = launched.iter().filter(|l| l.delay() < -LEAST_NS).count();
        // Calls with a wrongly matched launch are a minority.
        return (early * 10 >= launched.len()).then_some(least.saturating_neg());
    }
    if least <= LEAST_NS {
        return None;
    }
    // All operations start late: the clock is ahead, or a full queue keeps the device busy. One wait, or one operation
    // with a wrong length, may be an outlier.
    let mut sorted = waits.to_vec();
    sorted.sort_unstable();
    if let Some(&late) = sorted.get(MIN_OPERATIONS - 1).filter(|&&late| late < -LEAST_NS) {
        return Some(late.max(least.saturating_neg()));
    }
    if confirm(waits, LEAST_NS) {
        return None;
    }
    if let Some(delay) = delay_when_idle(device) {
        return Some(delay.min(least).saturating_neg());
    }
    // A launch and a wait that give the same difference confirm each other, unless another wait confirms the clock.
    let agrees = |late: &&i64| (0..=MAX_RETURN_DELAY_NS).contains(&least.saturating_add(**late));
    sorted.first().filter(agrees).filter(|_| !waits.iter().any(is_prompt)).copied()
}

/// Largest shift that makes the launches of a device possible, if its work starts far too late for a full queue. The
/// queue may have delayed all of the work, so the clock may be less far ahead.
fn largest_shift(device: &Device<'_>, waits: &[i64], host: (i64, i64)) -> Option<i64> {
    let length = host.1.saturating_sub(host.0);
    let least = shortest_delay(device.launched)?;
    let is_known = device.launched.len() >= LINKED && !confirm(waits, LEAST_NS);
    (is_known && least > GROUP_NS.max(length).saturating_mul(2)).then(|| least.saturating_neg())
}

/// Shortest time from the return of a launch to the start of its first operation, over operations on an idle device.
/// `None` if there are few of them, or one started at once.
fn delay_when_idle(device: &Device<'_>) -> Option<i64> {
    if !device.is_complete() {
        return None;
    }
    let launched = device.launched.iter().map(|l| (l.ran, Some(l)));
    let mut by_start: Vec<_> = launched.chain(device.unlinked.iter().map(|&ran| (ran, None))).collect();
    by_start.sort_unstable_by_key(|(ran, launched)| (*ran, launched.map(|l| l.call)));
    let mut busy_until = by_start.first()?.0.1;
    let mut delays = Vec::new();
    // A graph's later operations wait for earlier ones, not for the launch.
    let mut begun: FxHashSet<i64> =
        by_start.first().and_then(|first| first.1).map(|first| first.id).into_iter().collect();
    for (ran, launched) in by_start.into_iter().skip(1) {
        if let Some(operation) = launched
            && begun.insert(operation.id)
            && ran.0.saturating_sub(busy_until) > IDLE_NS
        {
            delays.push(ran.0.saturating_sub(operation.call.1));
        }
        busy_until = busy_until.max(ran.1);
    }
    let least = delays.iter().copied().min()?;
    (delays.len() >= MIN_OPERATIONS && least > LEAST_NS).then_some(least)
}

/// Time range of the plausible events of CPU threads.
fn host_span(trace: &Trace) -> Option<(i64, i64)> {
    let on_host = |e: &EventId| {
        trace.events.is_plausible(*e)
            && trace.events.has(*e, flags::HAS_DURATION)
            && !matches!(trace.kind(*e), EventKind::Recording | EventKind::Other)
            && trace.tracks.get(trace.events.track[e.index()]).kind == TrackKind::Thread
    };
    trace.events.ids().filter(on_host).fold(None, |span, e| {
        let (start, end) = (trace.events.start[e.index()], trace.events.end(e));
        Some(span.map_or((start, end), |(a, b): (i64, i64)| (a.min(start), b.max(end))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Launches every 100 µs, each operation `delay` ns after its call and 10 µs long.
    fn launched(count: i64, delay: i64) -> Vec<Launched> {
        let one = |i: i64| {
            let call = i * 100_000;
            Launched { id: i + 1, call: (call, call + 5_000), ran: (call + delay, call + delay + 10_000) }
        };
        largest_group(&(0..count).map(one).collect::<Vec<_>>(), GROUP_NS)
    }

    fn shift_of(launched: &[Launched], waits: &[i64], host: (i64, i64)) -> Option<i64> {
        let device = Device { launched, unlinked: &[], linked: launched.len(), missing: 0 };
        shift(&device, waits).or_else(|| largest_shift(&device, waits, host))
    }

    #[test]
    fn unlinked_work_keeps_a_device_busy() {
        let launched = launched(50, 100 * MS);
        // Few unlinked operations run throughout: queued copies are late, and the clock is right.
        let unlinked = [(0, 200 * MS), (1, 2)];
        let device = Device { launched: &launched, unlinked: &unlinked, linked: 50, missing: 0 };
        assert_eq!(shift(&device, &[]), None);
        let many: Vec<(i64, i64)> = (0..50).map(|i| (300 * MS + i * 20, 300 * MS + i * 20 + 10)).collect();
        let device = Device { launched: &launched, unlinked: &many, linked: 50, missing: 0 };
        assert_eq!(shift(&device, &[]), None, "half of the work is not known");
        let device = Device { launched: &launched, unlinked: &[], linked: 50, missing: 1 };
        assert_eq!(shift(&device, &[]), None, "what is missing may have run meanwhile");
    }

    #[test]
    fn late_clocks_are_shifted_forward() {
        let host = (0, 10 * MS);
        assert_eq!(shift_of(&launched(50, 8_000), &[], host), None);
        assert_eq!(shift_of(&launched(50, -MS / 2), &[], host), None, "causality must prove small differences");
        assert_eq!(shift_of(&launched(50, -100 * MS), &[], host), Some(100 * MS));
        assert_eq!(shift_of(&launched(50, -300_000_000_000_000), &[], host), Some(300_000_000_000_000));
    }

    #[test]
    fn early_clocks_are_shifted_back() {
        let host = (0, 10 * MS);
        assert_eq!(shift_of(&launched(50, 100 * MS), &[-99 * MS; 3], host), Some(-99 * MS), "as a wait bounds it");
        assert_eq!(
            shift_of(&launched(50, 100 * MS), &[], host),
            Some(-(100 * MS - 5_000)),
            "an idle device starts at once"
        );
        // A queue that never empties may be that long.
        let busy: Vec<Launched> =
            launched(50, 100 * MS).into_iter().map(|l| Launched { ran: (l.ran.0, l.ran.0 + 100_000), ..l }).collect();
        assert_eq!(shift_of(&busy, &[], host), None);
        assert_eq!(shift_of(&busy, &[-60 * MS], host), None, "one wait may be odd");
        assert_eq!(shift_of(&busy, &[-100 * MS], host), Some(-100 * MS), "a launch confirms it");
        assert_eq!(shift_of(&busy, &[-100 * MS, 3_000], host), None, "another wait contradicts it");
        assert_eq!(shift_of(&busy, &[-100 * MS; 3], host), Some(-100 * MS));
    }

    #[test]
    fn late_starts_are_no_shift_if_waits_return_as_work_ends() {
        let (late, host) = (launched(50, 2 * MS), (0, 10 * MS));
        assert_eq!(shift_of(&late, &[], host), Some(-(2 * MS - 5_000)));
        assert_eq!(shift_of(&late, &[3_000; 6], host), None);
        assert_eq!(shift_of(&late, &[2 * MS + 3_000; 6], host), Some(-(2 * MS - 5_000)), "these tell nothing");
        assert_eq!(
            shift_of(&late, &[3_000, -2 * MS, -2 * MS, -2 * MS], host),
            Some(-2 * MS),
            "one may be so by chance"
        );
    }

    #[test]
    fn limited_shifts_take_that_of_another_device() {
        let shift = |by| Shift { by, from: 0, to: 1, is_by_order: false };
        let shared = |known: i64, limit: i64| {
            let mut shifts = BTreeMap::from([(0, shift(known)), (1, shift(limit))]);
            share_shifts(&mut shifts, &[1]);
            shifts[&1].by
        };
        assert_eq!(shared(-5_000 * MS, -5_161 * MS), -5_000 * MS);
        assert_eq!(shared(-5_000 * MS, -4_900 * MS), -4_900 * MS, "the limit rules it out");
        assert_eq!((shared(-100 * MS, -5_000 * MS), shared(MS, -5_000 * MS)), (-5_000 * MS, -5_000 * MS));
    }

    #[test]
    fn waits_rule_out_shifts_that_launches_suggest() {
        assert!(!contradicts(&[100 * MS; 5], 100 * MS), "the whole device is behind");
        assert!(contradicts(&[2 * MS, 2 * MS, 2 * MS, 100 * MS, 100 * MS], 100 * MS), "the clock jumped in the middle");
        assert!(contradicts(&[2 * MS, 2 * MS, 100 * MS, 100 * MS], 100 * MS), "or so it did, as far as few waits tell");
        let odd = |count: usize| [vec![2 * MS; count], vec![100 * MS; 8]].concat();
        assert!(!contradicts(&odd(2), 100 * MS) && contradicts(&odd(3), 100 * MS), "two of ten waits may be odd");
        assert!(!contradicts(&[2 * MS, 100 * MS], 100 * MS), "one may always be");
        assert!(!contradicts(&[-99 * MS; 3], -99 * MS));
    }

    #[test]
    fn outliers_cause_no_shift() {
        let mut all = launched(50, 8_000);
        for (at, wrong) in [(3, i64::MIN / 4), (9, i64::MAX / 4), (20, -500 * MS)] {
            all[at].ran = (wrong, wrong);
        }
        let kept = largest_group(&all, GROUP_NS);
        assert_eq!((kept.len(), shift_of(&kept, &[], (0, 10 * MS))), (48, None));
    }

    #[test]
    fn outliers_do_not_limit_a_shift() {
        let late = 100_000 * MS;
        let busy = launched(50, late).into_iter().map(|l| Launched { ran: (l.ran.0, l.ran.0 + 100_000), ..l });
        let mut busy: Vec<Launched> = busy.collect();
        let (start, end) = busy[3].ran;
        busy[3].ran = (start - 900 * MS, end - 900 * MS);
        let kept = largest_group(&busy, GROUP_NS);
        assert_eq!((kept.len(), shift_of(&kept, &[], (0, 10 * MS))), (50, Some(-late)));
    }
}
