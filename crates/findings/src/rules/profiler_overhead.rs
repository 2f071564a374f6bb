//! SL033: the profiler itself takes a large part of the recorded time.

use crate::{
    AdviceVariant, Area, Candidate, Fact, GainEstimate, GainMethod, ProgramCondition, Rule, RuleContext, Setting,
    Support,
};
use stackline_critical_path::exact::Category;
use stackline_model::{EventId, EventKind, TrackId, Unit};
use stackline_timeline::confidence::Confidence;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::cuda::is_runtime_overhead;

pub(super) const RULE: Rule = Rule {
    code: "SL033",
    name: "profiler-overhead",
    area: Area::Measurement,
    about: "the profiler takes so much time that host times are unreliable",
    why: "Each recorded call adds overhead. For short calls, the overhead is most of the measured time.",
    gain_methods: &[GainMethod::Nothing],
    gain_text: "The rule reports two numbers. The first is the share of the critical path that the trace marks as the \
         profiler's own work. The second is an estimate for the thread with the most Python frames: the number of \
         frames times `SL033.frame_ns`, as a share of the time in these frames.",
    advice: "Use Python frames (with_stack, with_modules) only to find source locations, and make a second recording \
         without them to measure times. Record fewer steps.",
    example: ("profile(with_stack=True)", "profile()  # for times\nprofile(with_stack=True)  # for source locations"),
    cost: "the change takes a second recording",
    false_positives: "The overhead is smaller if the profiler is faster than assumed: set the cost of a frame with \
         `SL033.frame_ns`.",
    source: "common practice",
    needs: &[],
    settings: &[
        Setting {
            name: "share",
            default: 20.0,
            range: (0.0, 100.0),
            about: "report only if the overhead of the profiler takes at least this percentage of the critical path, \
                or of the time in Python frames",
        },
        Setting {
            name: "frame_ns",
            default: 500.0,
            range: (0.0, 1e6),
            about: "assumed overhead per recorded Python frame, in ns",
        },
    ],
    advice_variants: &[AdviceVariant {
        programs: "programs without recorded Python frames",
        condition: ProgramCondition::Where(|context| !context.trace().events.kind.contains(&EventKind::PythonFunction)),
        kind: None,
        advice: "Record less: a shorter time, and only the kinds of calls that you need.",
        example: (
            "profile()",
            "profile(schedule=schedule(wait=50, warmup=5, active=3))  # nsys: --delay, --duration; rocprofv3: \
                 --collection-period",
        ),
    }],
    properties: &[],
    check,
};

/// Find out if the profiler takes a large part of the recorded time, by its own records and by its Python frames.
fn check(context: &RuleContext<'_>) -> Vec<Candidate> {
    recorded_overhead(context).into_iter().chain(frame_overhead(context)).collect()
}

/// Create a candidate without source location or gain, as the problem affects only the measurement.
fn candidate(title: String, facts: Vec<Fact>, events: Vec<EventId>, support: Support) -> Candidate {
    let (place, confidence, gain_estimate) = (SourceLocation::default(), Confidence::Medium, GainEstimate::None);
    Candidate { title, place, events, facts, kind: None, support, confidence, gain_estimate }
}

/// Candidate for overhead that the profiler recorded itself; `None` if its share of the critical path is small.
fn recorded_overhead(context: &RuleContext<'_>) -> Option<Candidate> {
    let share = context.percent(context.path_ns_of(Category::Profiler));
    if share < context.setting("share") {
        return None;
    }
    let events = context.named(&[EventKind::Overhead], |name| !is_runtime_overhead(name));
    let facts = vec![
        Fact { name: "share of the critical path in the profiler", value: share, unit: Unit::Percent },
        Fact::count("interruptions by the profiler", events.len()),
    ];
    let title = format!("Profiler overhead: {share:.0} % of the critical path");
    Some(candidate(title, facts, events, Support::Exact))
}

/// Candidate for the overhead of recording Python frames, estimated on the thread with most of them; `None` if small.
fn frame_overhead(context: &RuleContext<'_>) -> Option<Candidate> {
    let trace = context.trace();
    let frames = context.named(&[EventKind::PythonFunction], |_| true);
    let mut per_track = vec![0usize; trace.tracks.len()];
    for &frame in &frames {
        per_track[trace.events.track[frame.index()].index()] += 1;
    }
    let (track, &most) = per_track.iter().enumerate().max_by_key(|&(i, count)| (*count, std::cmp::Reverse(i)))?;
    let of_track: Vec<EventId> =
        frames.into_iter().filter(|f| trace.events.track[f.index()] == TrackId::new(track)).collect();
    let active = context.total(&context.outermost(&of_track));
    // Frames without any duration are damaged, and allow no estimate.
    let share = (100.0 * most as f64 * context.setting("frame_ns") / active.max(1) as f64).min(100.0);
    if active == 0 || share < context.setting("share") {
        return None;
    }
    let facts = vec![
        Fact::count("Python frames", most),
        Fact { name: "frames per µs", value: most as f64 * 1e3 / active as f64, unit: Unit::None },
    ];
    let title = format!(
        "Profiler overhead: possibly about {share:.0} % of the host's time, for recording {most} \
         Python frames"
    );
    let mut found = candidate(title, facts, Vec::new(), Support::Inferred);
    found.confidence = Confidence::Low;
    Some(found)
}
