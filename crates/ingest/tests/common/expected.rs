//! Expected results of each kind of damage: codes of the read report, and unchanged parts of the trace.

use stackline_model::{EventId, EventKind, RECORDED_DURATION, Severity, Trace, flags};
use std::collections::BTreeMap;

/// Expected codes of the read report, beyond those of the undamaged trace.
pub(crate) enum Report {
    /// At least one of these codes.
    Reports(&'static [&'static str]),
    /// No codes except notes, or some of these.
    MayReport(&'static [&'static str]),
}
use Report::{MayReport, Reports};

/// Part of the trace that must be the same with and without the damage.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Same {
    /// Number of occurrences of each name.
    Names,
    /// Number of occurrences of each category text.
    Categories,
    /// Number of events of each kind.
    Kinds,
    /// Number of occurrences of each start.
    Starts,
    /// Number of occurrences of each duration.
    Durations,
    /// Each event's parent.
    Parents,
    /// Each GPU operation's launch.
    Launches,
    /// Each GPU operation's operator.
    Owners,
    /// First start and last end of the trace.
    Window,
    /// The window may be smaller, not larger.
    Inside,
    /// The window is at most twice as long, or the report marks it as unreliable.
    Believable,
    /// Every frame that was cut ends with its caller and keeps its recorded duration.
    Cut,
    /// The bounds of each device's clock moved by the same amount as its times.
    Clock,
}
use Same::*;

/// Everything but texts.
const STRUCTURE: &[Same] = &[Categories, Kinds, Starts, Durations, Parents, Launches, Owners, Window];
const ALL: &[Same] = &[Names, Categories, Kinds, Starts, Durations, Parents, Launches, Owners, Window];
/// All parts except durations and parts that depend on them.
const PLACED: &[Same] = &[Names, Categories, Kinds, Starts, Launches];
const NO_LINKS: &[Same] = &[Names, Categories, Kinds, Starts, Durations, Parents, Window];
const QUIET: Report = MayReport(&[]);

/// Kind of damage, expected report, unchanged parts.
pub(crate) const EXPECTED: &[(&str, Report, &[Same])] = &[
    ("bare-quote-in-name", Reports(&["bare_quote"]), STRUCTURE),
    ("bare-backslash", Reports(&["backslash"]), STRUCTURE),
    ("bad-unicode-escape", Reports(&["backslash"]), STRUCTURE),
    ("control-character", Reports(&["control_character"]), STRUCTURE),
    ("invalid-utf8", Reports(&["invalid_utf8"]), STRUCTURE),
    ("lone-surrogate", Reports(&["invalid_utf8"]), STRUCTURE),
    ("bare-word-argument", Reports(&["odd_value"]), ALL),
    ("non-finite-duration", Reports(&["bad_time"]), PLACED),
    ("log-line-between-events", Reports(&["foreign_text"]), ALL),
    ("log-line-between-keys", Reports(&["foreign_text"]), ALL),
    ("empty-metadata", Reports(&["malformed_argument", "missing_value"]), ALL),
    ("missing-key-quote", Reports(&["missing_quote", "foreign_text", "damaged_event"]), &[]),
    ("trailing-comma", Reports(&["extra_comma"]), ALL),
    ("leading-comma", Reports(&["extra_comma"]), ALL),
    ("missing-comma", Reports(&["missing_comma"]), ALL),
    ("truncated-text", Reports(&["truncated"]), &[Inside]),
    ("truncated-in-string", Reports(&["truncated"]), &[Inside]),
    ("unterminated-string", Reports(&["bare_quote", "control_character"]), &[]),
    ("missing-close", Reports(&["truncated", "unclosed_list"]), ALL),
    ("truncated-gzip", Reports(&["damaged_compression"]), &[Inside]),
    ("corrupt-gzip", Reports(&["damaged_compression"]), &[Believable]),
    ("two-documents", Reports(&["trailing_data"]), ALL),
    // These two give no trace, or a correct one.
    ("empty-file", QUIET, &[]),
    ("gzip-through-text", QUIET, &[]),
    ("binary-tail", Reports(&["trailing_data"]), ALL),
    ("integer-above-int64", QUIET, ALL),
    ("odd-base-time", QUIET, ALL),
    ("time-as-text", Reports(&["time_as_text"]), ALL),
    ("time-with-exponent", QUIET, ALL),
    ("time-with-many-decimals", QUIET, ALL),
    // Where the times were absolute before, twice that is beyond the year 2065.
    ("time-absolute", MayReport(&["bad_time", "zero_time"]), &[Names, Categories, Kinds, Durations, Launches]),
    ("wrong-display-unit", QUIET, ALL),
    ("gpu-time-zero", Reports(&["zero_time"]), &[Names, Categories, Kinds, Parents, Launches, Owners, Inside]),
    (
        "time-before-window",
        // If most of a device's work is affected, its clock is off.
        Reports(&["implausible_time", "device_clock_shifted"]),
        &[Names, Categories, Kinds, Durations, Parents, Launches, Owners, Inside],
    ),
    (
        "kernel-before-launch",
        Reports(&["kernel_before_launch", "device_clock_shifted"]),
        &[Names, Categories, Kinds, Durations, Parents, Launches, Owners],
    ),
    ("negative-duration", Reports(&["negative_duration"]), &[Names, Categories, Kinds, Starts, Launches, Inside]),
    ("missing-duration", Reports(&["no_duration"]), &[Names, Categories, Kinds, Starts, Launches, Inside]),
    ("end-before-start", Reports(&["negative_duration"]), &[Launches, Owners]),
    ("overflowing-time", Reports(&["bad_time"]), &[Names, Categories, Kinds, Launches]),
    (
        "stream-overlap",
        MayReport(&["stream_overlap", "stream_overlap_noise", "stream_overlap_dependent_launch"]),
        &[Names, Categories, Kinds, Starts, Parents, Launches, Owners],
    ),
    ("boundary-tie", QUIET, &[Names, Categories, Kinds, Starts, Parents, Launches, Owners]),
    (
        "late-flush",
        Reports(&["stream_overlap", "implausible_length"]),
        &[Names, Categories, Kinds, Starts, Parents, Launches, Owners],
    ),
    ("crossing-frame", MayReport(&["never_closed"]), &[Names, Categories, Kinds, Starts, Launches, Owners, Cut]),
    ("never-closed-frame", Reports(&["never_closed"]), &[Names, Categories, Kinds, Starts, Launches, Owners, Cut]),
    (
        "gpu-clock-skew",
        Reports(&["kernel_before_launch", "device_clock_shifted"]),
        &[Names, Categories, Kinds, Durations, Parents, Launches, Owners, Clock],
    ),
    ("duplicate-header-key", Reports(&["duplicate_key"]), ALL),
    ("duplicate-event-key", Reports(&["duplicate_key"]), ALL),
    ("duplicate-correlation", MayReport(&["ambiguous_launch"]), NO_LINKS),
    ("orphan-kernel", Reports(&["no_launch"]), NO_LINKS),
    ("orphan-launch", QUIET, NO_LINKS),
    ("orphan-flow", QUIET, ALL),
    ("odd-thread-id", QUIET, ALL),
    ("text-thread-id", QUIET, ALL),
    ("colliding-process-id", QUIET, ALL),
    ("old-categories", QUIET, &[Names, Starts, Durations, Parents, Launches, Owners, Window]),
    ("other-vendor-categories", QUIET, &[Names, Kinds, Starts, Durations, Parents, Launches, Owners, Window]),
    ("unknown-category", Reports(&["unknown_category"]), &[Names, Starts, Durations]),
    ("legacy-array", QUIET, &[Names, Categories, Kinds, Starts, Durations, Launches, Window]),
    ("copies-as-kernels", QUIET, &[Starts, Durations, Parents, Launches, Owners, Window]),
    ("agent-id-device", QUIET, ALL),
    ("renamed-collectives", QUIET, STRUCTURE),
    ("graph-replay", QUIET, &[Categories, Kinds, Starts, Durations, Parents, Window]),
    ("cut-split-sizes", QUIET, ALL),
    ("missing-group-fields", QUIET, ALL),
    ("environment-dump", QUIET, ALL),
];

/// Check a damaged trace against its line of the table.
pub(crate) fn check(kind: &str, whole: &Trace, damaged: &Trace, shows: bool) -> Result<(), String> {
    let line = EXPECTED.iter().find(|(name, ..)| *name == kind);
    let Some((_, report, same)) = line else { return Err("the table of expectations lacks this kind".to_owned()) };
    codes(report, whole, damaged, shows)?;
    same.iter().try_for_each(
        |what| {
            if holds(*what, whole, damaged) { Ok(()) } else { Err(format!("{what:?} changed")) }
        },
    )
}

fn codes(report: &Report, whole: &Trace, damaged: &Trace, shows: bool) -> Result<(), String> {
    let more = |code: &str| damaged.report.count_of(code) > whole.report.count_of(code);
    match report {
        Reports(codes) if shows && !codes.iter().any(|code| more(code)) => {
            Err(format!("the report says none of {codes:?}: {:?}", damaged.report.problems))
        }
        MayReport(codes) => {
            let other = |p: &&stackline_model::Problem| {
                p.severity != Severity::Note && more(&p.code) && !codes.contains(&p.code.as_str())
            };
            damaged.report.problems.iter().find(other).map_or(Ok(()), |p| Err(format!("the report complains: {p:?}")))
        }
        Reports(_) => Ok(()),
    }
}

/// Number of occurrences of each value.
fn tally<'a, K: Ord>(trace: &'a Trace, key_of: impl Fn(&'a Trace, EventId) -> K) -> BTreeMap<K, usize> {
    let mut tally = BTreeMap::new();
    for event in trace.events.ids() {
        *tally.entry(key_of(trace, event)).or_insert(0) += 1;
    }
    tally
}

fn holds(what: Same, whole: &Trace, damaged: &Trace) -> bool {
    let (a, b) = (whole, damaged);
    let length = |t: &Trace| t.span().map_or(0, |(start, end)| end - start);
    match what {
        Names => tally(a, |t, e| t.name(e)) == tally(b, |t, e| t.name(e)),
        Categories => tally(a, |t, e| t.category(e)) == tally(b, |t, e| t.category(e)),
        Kinds => tally(a, |t, e| t.kind(e).name()) == tally(b, |t, e| t.kind(e).name()),
        Starts => tally(a, |t, e| t.events.start[e.index()]) == tally(b, |t, e| t.events.start[e.index()]),
        Durations => tally(a, |t, e| t.events.dur[e.index()]) == tally(b, |t, e| t.events.dur[e.index()]),
        Parents => a.events.parent == b.events.parent,
        Launches => a.gpu.launch == b.gpu.launch,
        Owners => a.gpu.operator == b.gpu.operator,
        Window => a.span() == b.span(),
        Inside => match (a.span(), b.span()) {
            (Some(a), Some(b)) => a.0 <= b.0 && b.1 <= a.1,
            (_, b) => b.is_none(),
        },
        Believable => b.report.count_of("uncertain_window") > 0 || length(b) <= 2 * length(a),
        Cut => cut(b),
        Clock => clock(a, b),
    }
}

fn cut(trace: &Trace) -> bool {
    let recorded = trace.attr(RECORDED_DURATION);
    let cut = |e: &EventId| trace.events.has(*e, flags::CLAMPED) && trace.kind(*e) == EventKind::PythonFunction;
    trace.events.ids().filter(cut).all(|e| {
        let ends_with_caller = trace.ancestors(e).any(|a| trace.events.end(a) == trace.events.end(e));
        ends_with_caller && recorded.i64(e).is_some_and(|dur| dur > trace.events.dur[e.index()])
    })
}

fn clock(whole: &Trace, damaged: &Trace) -> bool {
    let moved = |device: i32| {
        let at = |t: &Trace| {
            let row = t.gpu.ids().find(|g| t.gpu.device[g.index()] == device)?;
            Some(t.events.start[t.gpu.event[row.index()].index()])
        };
        Some(at(whole)? - at(damaged)?)
    };
    whole.meta.clocks.len() == damaged.meta.clocks.len()
        && whole.meta.clocks.iter().zip(&damaged.meta.clocks).all(|(a, b)| {
            let by = |bound: Option<i64>, moved: i64| bound.map(|b| b + moved);
            // As recorded, without the shift of the reader.
            let moved = moved(a.device).map(|m| m + b.applied_ns - a.applied_ns);
            moved.is_some_and(|m| by(a.least_ns, m) == b.least_ns && by(a.most_ns, m) == b.most_ns)
        })
}
