//! Damage to times: unusual or impossible values.

use super::doc::Doc;
use crate::rng::Rng;

/// Bytes of the damaged file; `None` if the damage consists of edits of the document.
type Out = Option<Vec<u8>>;

/// Largest number of events per variant.
const PLACES: usize = 6;

/// Parse decimal microseconds as nanoseconds; `None` unless the text consists of digits and a point.
fn parse_ns(value: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(value).ok()?;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let micros: i128 = whole.parse().ok()?;
    let part: i128 = if part.is_empty() { 0 } else { format!("{part:0<3}").get(..3)?.parse().ok()? };
    Some(micros * 1000 + if whole.starts_with('-') { -part } else { part })
}

/// Format nanoseconds as decimal microseconds, with a fraction only if `like` has one.
fn format_micros(ns: i128, like: &[u8]) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let (whole, part) = (ns.unsigned_abs() / 1000, ns.unsigned_abs() % 1000);
    if like.contains(&b'.') { format!("{sign}{whole}.{part:03}") } else { format!("{sign}{whole}") }
}

/// True if event `index` is a slice with a valid start and duration.
fn timed(doc: &Doc<'_>, index: usize) -> bool {
    doc.is_slice(index) && parse_ns(doc.value(index, "ts")).is_some() && parse_ns(doc.value(index, "dur")).is_some()
}

/// Replace member `key` (a time) of the events `picked` by the texts that `new` returns for the old time in ns.
fn rewrite(
    doc: &mut Doc<'_>,
    picked: Vec<usize>,
    key: &str,
    mut new: impl FnMut(&Doc<'_>, usize, i128) -> Option<String>,
) -> Out {
    for index in picked {
        let Some(member) = doc.member(index, key) else { continue };
        let Some(value) = parse_ns(&doc.text[member.value.clone()]) else { continue };
        if let Some(text) = new(doc, index, value) {
            doc.replace(member.value, text);
        }
    }
    None
}

/// First and last start of a slice in the trace, in ns.
fn span(doc: &Doc<'_>) -> (i128, i128) {
    let starts = (0..doc.events.len()).filter(|&i| timed(doc, i)).filter_map(|i| parse_ns(doc.value(i, "ts")));
    starts.fold((i128::MAX, i128::MIN), |(low, high), at| (low.min(at), high.max(at)))
}

/// Set `baseTimeNanoseconds` of the header to a value above 2^53, whose last digits a float would drop.
pub(super) fn odd_base_time(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let base = 1_750_000_000_000_000_000 + rng.between(0, 9_999_999_999_999_999);
    let found = doc.layout.header.iter().find(|m| m.name(doc.text) == b"baseTimeNanoseconds").cloned();
    match found {
        Some(member) => doc.replace(member.value, base.to_string()),
        None => {
            doc.add_header(&format!("\"baseTimeNanoseconds\": {base}"));
        }
    }
    None
}

/// Write starts and durations of some slices as strings.
pub(super) fn time_as_text(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    for index in doc.some(rng, 400, timed) {
        for key in ["ts", "dur"] {
            if let Some(member) = doc.member(index, key) {
                let text = [b"\"", &doc.text[member.value.clone()], b"\""].concat();
                doc.replace(member.value, text);
            }
        }
    }
    None
}

/// Write starts of some slices with an exponent, such as `1.5e+3`.
pub(super) fn time_with_exponent(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let picked = doc.some(rng, 400, timed);
    rewrite(doc, picked, "ts", |_, _, at| {
        let digits = at.to_string();
        let exponent = digits.len() as i64 - 4;
        // at ns = d.ddd * 10^(len - 1) ns = d.ddd * 10^(len - 4) µs
        (at > 0 && digits.len() > 1).then(|| format!("{}.{}e{exponent:+}", &digits[..1], &digits[1..]))
    })
}

/// Write starts of some slices with more than three decimals.
pub(super) fn time_with_many_decimals(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let picked = doc.some(rng, 400, timed);
    rewrite(doc, picked, "ts", |_, _, at| Some(format!("{}.{:03}0000000001", at / 1000, at % 1000)).filter(|_| at > 0))
}

/// Shift the times of all events so that they count from 1970.
pub(super) fn time_absolute(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let base = rng.between(1_600_000_000, 1_900_000_000);
    let all = doc.all(|doc, i| parse_ns(doc.value(i, "ts")).is_some());
    rewrite(doc, all, "ts", |doc, index, at| {
        let shifted = at + i128::from(base) * 1_000_000_000;
        Some(format_micros(shifted, doc.value(index, "ts")))
    })
}

/// Set start and duration of some GPU events to 0.
pub(super) fn gpu_time_zero(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let picked = doc.some(rng, PLACES, |doc, i| doc.on_gpu(i) && timed(doc, i));
    for index in picked {
        for key in ["ts", "dur"] {
            if let Some(member) = doc.member(index, key) {
                doc.replace(member.value, "0");
            }
        }
    }
    None
}

/// Move some GPU events back by about an hour, before the start of the trace.
pub(super) fn time_before_window(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let back = 3_600_000_000_000 + i128::from(rng.between(0, 1_000_000_000));
    let picked = doc.some(rng, PLACES, |doc, i| doc.on_gpu(i) && timed(doc, i));
    rewrite(doc, picked, "ts", |doc, index, at| Some(format_micros(at - back, doc.value(index, "ts"))))
}

/// Start in ns of each runtime or driver call, by its correlation id.
fn launch_starts(doc: &Doc<'_>) -> std::collections::BTreeMap<Vec<u8>, i128> {
    let calls = doc.all(|doc, i| doc.is_slice_of(i, &["cuda_runtime", "cuda_driver", "Runtime"]));
    let time_of = |i: usize| {
        let id = doc.argument(i, "correlation").or_else(|| doc.argument(i, "External id"))?;
        Some((doc.text[id.value].to_vec(), parse_ns(doc.value(i, "ts"))?))
    };
    calls.into_iter().filter_map(time_of).collect()
}

/// Move some GPU events to 2 to 60 µs before their launch calls.
pub(super) fn kernel_before_launch(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let calls = launch_starts(doc);
    let launch = |doc: &Doc<'_>, i: usize| {
        let id = doc.argument(i, "correlation").or_else(|| doc.argument(i, "External id"))?;
        calls.get(&doc.text[id.value]).copied()
    };
    let picked = doc.some(rng, PLACES, |doc, i| doc.on_gpu(i) && timed(doc, i) && launch(doc, i).is_some());
    let early = i128::from(rng.between(2_000, 60_000));
    rewrite(doc, picked, "ts", |doc, index, _| Some(format_micros(launch(doc, index)? - early, doc.value(index, "ts"))))
}

/// Give some slices a negative duration.
pub(super) fn negative_duration(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let picked = doc.some(rng, PLACES, timed);
    let values: Vec<i128> = picked.iter().map(|_| i128::from(rng.between(-9_000_000, -1_000))).collect();
    let mut values = values.into_iter();
    rewrite(doc, picked, "dur", |doc, index, _| Some(format_micros(values.next()?, doc.value(index, "dur"))))
}

/// Remove the duration of some slices.
pub(super) fn missing_duration(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    for index in doc.some(rng, PLACES, timed) {
        let members = doc.members(index);
        let Some(at) = members.iter().position(|m| m.name(doc.text) == b"dur") else { continue };
        // Remove the comma before it, or the one after it for the first member.
        let range = match (at, members.get(at + 1)) {
            (0, Some(next)) => members[0].key.start..next.key.start,
            (0, None) => continue,
            _ => members[at - 1].value.end..members[at].value.end,
        };
        doc.replace(range, "");
    }
    None
}

/// Add pairs of begin and end events, each with the end before the begin.
pub(super) fn end_before_start(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let (low, high) = span(doc);
    if high < low {
        return None;
    }
    for n in 0..=rng.below(PLACES) {
        let start = low + i128::from(rng.between(1_000, 1_000_000)) * (n as i128 + 1);
        let (begin, end) = (format_micros(start, b"."), format_micros(start - 700, b"."));
        doc.add_events(&format!(
            "{{\"ph\": \"B\", \"cat\": \"cpu_op\", \"name\": \"backwards\", \"pid\": 99, \"tid\": {n}, \"ts\": {begin}}},\n  \
             {{\"ph\": \"E\", \"pid\": 99, \"tid\": {n}, \"ts\": {end}}}"
        ));
    }
    None
}

/// Replace the start or duration of some slices by a number outside of the range of a clock.
pub(super) fn overflowing_time(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let huge = [
        "9223372036854775807",
        "1e300",
        "18446744073709551615",
        "-9223372036854775808",
        "99999999999999999999999999.5",
    ];
    for index in doc.some(rng, PLACES, timed) {
        let key = if rng.below(2) == 0 { "ts" } else { "dur" };
        if let (Some(member), Some(text)) = (doc.member(index, key), rng.pick(&huge)) {
            doc.replace(member.value, *text);
        }
    }
    None
}

/// Group timed GPU events by stream, in order of start: index, start and duration in ns.
fn events_by_stream(doc: &Doc<'_>) -> Vec<Vec<(usize, i128, i128)>> {
    let mut by_stream = std::collections::BTreeMap::<_, Vec<_>>::new();
    for index in doc.all(|doc, i| doc.on_gpu(i) && timed(doc, i)) {
        let key = (doc.value(index, "pid"), doc.value(index, "tid"));
        let (Some(start), Some(duration)) = (parse_ns(doc.value(index, "ts")), parse_ns(doc.value(index, "dur")))
        else {
            continue;
        };
        by_stream.entry(key).or_default().push((index, start, duration));
    }
    let mut streams: Vec<_> = by_stream.into_values().collect();
    streams.iter_mut().for_each(|stream| stream.sort_by_key(|e| e.1));
    streams
}

/// Lengthen some GPU events so that each ends `past(rng)` ns after the start of the next one on its stream.
fn lengthen_gpu_events(doc: &mut Doc<'_>, rng: &mut Rng, mut past: impl FnMut(&mut Rng) -> i64) -> Out {
    let pairs: Vec<_> = events_by_stream(doc)
        .iter()
        .flat_map(|s| s.windows(2).map(|w| (w[0].0, w[1].1 - w[0].1)).collect::<Vec<_>>())
        .collect();
    let count = 1 + rng.below(PLACES);
    for at in rng.sample(pairs.len(), count) {
        let (index, distance) = pairs[at];
        let new = distance + i128::from(past(rng));
        if let Some(member) = doc.member(index, "dur") {
            let text = format_micros(new.max(0), doc.value(index, "dur"));
            doc.replace(member.value, text);
        }
    }
    None
}

/// Lengthen some GPU events so that they overlap the next one on their stream by 1 to 6 µs.
pub(super) fn stream_overlap(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    lengthen_gpu_events(doc, rng, |rng| rng.between(1_000, 6_000))
}

/// Lengthen some GPU events so that they end exactly when the next one on their stream starts.
pub(super) fn boundary_tie(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    lengthen_gpu_events(doc, rng, |_| 0)
}

/// Lengthen some GPU events by seconds, as if their end was recorded too late.
pub(super) fn late_flush(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    lengthen_gpu_events(doc, rng, |rng| rng.between(1_000_000_000, 9_000_000_000))
}

/// Lengthen some Python frames by `more(rng)` ns.
fn lengthen_frames(doc: &mut Doc<'_>, rng: &mut Rng, more: impl Fn(&mut Rng) -> i64) -> Out {
    let picked = doc.some(rng, PLACES, |doc, i| doc.is_slice_of(i, &["python_function"]) && timed(doc, i));
    let extra: Vec<i128> = picked.iter().map(|_| i128::from(more(rng))).collect();
    let mut extra = extra.into_iter();
    rewrite(doc, picked, "dur", |doc, index, old| Some(format_micros(old + extra.next()?, doc.value(index, "dur"))))
}

/// Lengthen some Python frames by 3 to 300 µs, so that they may end after their parents.
pub(super) fn crossing_frame(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    lengthen_frames(doc, rng, |rng| rng.between(3_000, 300_000))
}

/// Lengthen some Python frames beyond the end of the trace, as if they were never closed.
pub(super) fn never_closed_frame(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let (low, high) = span(doc);
    let rest = i64::try_from(high.saturating_sub(low)).unwrap_or(0) + 1_000_000;
    lengthen_frames(doc, rng, |_| rest)
}

/// Move all GPU events back by 0.2 to 40 ms, as if the clock of the GPU was late.
pub(super) fn gpu_clock_skew(doc: &mut Doc<'_>, rng: &mut Rng) -> Out {
    let skew = i128::from(rng.between(200_000, 40_000_000));
    let all = doc.all(|doc, i| doc.on_gpu(i) || doc.is_slice_of(i, &["gpu_user_annotation", "cuda_sync"]));
    rewrite(doc, all, "ts", |doc, index, at| Some(format_micros(at - skew, doc.value(index, "ts"))))
}
