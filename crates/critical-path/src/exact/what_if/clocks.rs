//! What-if predictions for traces whose host and device clocks disagree, with corrected device times.
//!
//! Times across two clocks have an error equal to the difference of the clocks. Causality bounds this difference
//! ([`stackline_model::DeviceClock`]). The prediction shifts the times of each device by a likely difference. The
//! bounds of the gain also cover the smallest and the largest difference.

use super::cases::NO_GAIN;
use super::sweep::{Sweep, SweepOptions};
use super::{Edit, Gain, NewSegment, Prediction, WhatIf};
use crate::CriticalPathError;
use crate::exact::{Exact, MAX_CLOCK_OFFSET_NS, WindowChoice, clock_offset_ns};
use crate::gpu_dependency::ROUNDING_NS;
use stackline_model::{DeviceClock, ShiftRange, Trace};

/// Possible shift of the times of a device, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shift {
    device: i32,
    least: i64,
    likely: i64,
    most: i64,
}

impl Shift {
    /// Possible range of a device's remaining clock shift after reading. `None` if the times of the device are
    /// possible, except for the error of rounding, or without a usable bound. Another device whose clock is off is no
    /// reason to shift this one.
    fn new(clock: &DeviceClock) -> Option<Self> {
        if clock_offset_ns(clock) <= ROUNDING_NS {
            return None;
        }
        let ShiftRange { least, likely, most } = clock.after_shift().shift_range()?;
        let is_wrong_record = least < -MAX_CLOCK_OFFSET_NS || most > MAX_CLOCK_OFFSET_NS;
        (!is_wrong_record).then_some(Self { device: clock.device, least, likely, most })
    }
}

/// Trace with shifted device times.
struct CorrectedTrace {
    trace: Trace,
    shifts: Vec<Shift>,
    /// Current shift per device, in the order of `shifts`.
    moved: Vec<i64>,
}

impl CorrectedTrace {
    /// Copy a trace whose device times will be shifted; `None` if no clock can be corrected.
    fn new(trace: &Trace) -> Option<Self> {
        let shifts: Vec<Shift> = trace.meta.clocks.iter().filter_map(Shift::new).collect();
        let moved = vec![0; shifts.len()];
        (!shifts.is_empty()).then(|| Self { trace: trace.clone(), shifts, moved })
    }

    /// Shift the times of each device to the shift that `which` returns, in ns from the recorded times.
    fn move_to(&mut self, which: impl Fn(&Shift) -> i64) {
        for (shift, moved) in self.shifts.iter().zip(&mut self.moved) {
            let by = which(shift) - *moved;
            *moved += by;
            for clock in self.trace.meta.clocks.iter_mut().filter(|c| c.device == shift.device) {
                clock.least_ns = clock.least_ns.map(|least| least.saturating_sub(by));
                clock.most_ns = clock.most_ns.map(|most| most.saturating_sub(by));
            }
            let Trace { gpu, events, .. } = &mut self.trace;
            for operation in gpu.ids().filter(|g| gpu.device[g.index()] == shift.device) {
                let event = gpu.event[operation.index()];
                if events.is_plausible(event) {
                    events.start[event.index()] += by;
                }
            }
        }
        self.trace.forget_computed();
    }

    /// Note for readers with the applied and the possible shifts of the device times.
    fn note(&self) -> String {
        let range = |s: &Shift| {
            let us = |ns: i64| format!("{:.1}", ns as f64 / 1e3);
            let (likely, least, most) = (us(s.likely), us(s.least), us(s.most));
            format!("device {} by {likely} µs (possible are {least} to {most} µs)", s.device)
        };
        let ranges: Vec<String> = self.shifts.iter().take(4).map(range).collect();
        let more = if self.shifts.len() > 4 { ", and those of more devices" } else { "" };
        format!(
            "the clocks of host and GPU disagree, so the prediction shifts the times of {}{more}. The bounds cover all \
             possible shifts",
            ranges.join(", ")
        )
    }
}

/// Predict the effect of edits, applied together, on a window of a trace ([`super::WhatIf::predict`]). If the clocks
/// disagree, device times are corrected.
///
/// # Errors
/// Returns an error if the window does not exist, a selector matches no event, or edits contradict each other.
pub fn predict(trace: &Trace, choice: &WindowChoice, edits: &[Edit]) -> Result<Prediction, CriticalPathError> {
    predict_in(Exact::new(trace), choice, edits, None)
}

/// Predict the effect of edits on a window, for a trace with an existing graph ([`predict`]). `segments` receives the
/// critical-path segments after the edits. Each segment begins at the end of the previous one, the first at the start
/// of the window. Adjacent segments of one cause and name are merged.
///
/// # Errors
/// Returns the same errors as [`predict`].
pub fn predict_in(
    exact: Exact<'_>,
    choice: &WindowChoice,
    edits: &[Edit],
    segments: Option<&mut Vec<NewSegment>>,
) -> Result<Prediction, CriticalPathError> {
    let corrected = if exact.clocks_disagree() { CorrectedTrace::new(exact.trace()) } else { None };
    let Some(mut corrected) = corrected else { return exact.what_if().predict_with_segments(choice, edits, segments) };
    drop(exact);
    corrected.move_to(|s| s.likely);
    let mut found = Exact::new(&corrected.trace).what_if().predict_with_segments(choice, edits, segments)?;
    for end in [|s: &Shift| s.least, |s: &Shift| s.most] {
        corrected.move_to(end);
        let other = match Exact::new(&corrected.trace).what_if().gain_of(choice, edits) {
            // Waits depend on the shift. Without a wait there is no gain.
            Err(CriticalPathError::NothingSelected { .. }) => NO_GAIN,
            other => other?,
        };
        found.gain.widen(other);
    }
    // That note is about the recorded trace; the next one describes the correction.
    found.notes.retain(|note| note != super::CLOCKS_DISAGREE);
    found.notes.push(corrected.note());
    Ok(found)
}

/// Try edits of the events with most time on the path ([`super::WhatIf::sweep`]). If the clocks of the trace disagree,
/// device times are corrected.
///
/// # Errors
/// Returns an error if the window does not exist.
pub fn sweep(
    trace: &Trace,
    choice: &WindowChoice,
    options: &SweepOptions,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Sweep, CriticalPathError> {
    let exact = Exact::new(trace);
    let corrected = if exact.clocks_disagree() { CorrectedTrace::new(trace) } else { None };
    let Some(mut corrected) = corrected else { return exact.what_if().sweep(choice, options, stop) };
    drop(exact);
    corrected.move_to(|s| s.likely);
    let (mut found, edits) = Exact::new(&corrected.trace).what_if().sweep_with_edits(choice, options, stop)?;
    for end in [|s: &Shift| s.least, |s: &Shift| s.most] {
        if stop() {
            break;
        }
        corrected.move_to(end);
        let exact = Exact::new(&corrected.trace);
        let alone: Vec<_> = edits.iter().map(std::slice::from_ref).collect();
        let gains = exact.what_if().gains_of(choice, &alone, options.threads, stop)?;
        for (candidate, gain) in found.candidates.iter_mut().zip(gains) {
            candidate.gain.widen(gain.unwrap_or(NO_GAIN));
        }
    }
    found.interrupted |= stop();
    let stopped = if found.interrupted {
        ". The simulation was canceled before its end, so the bounds may cover only the most likely shift of each clock"
    } else {
        ""
    };
    found.notes.push(corrected.note() + stopped);
    Ok(found)
}

/// Estimator of the gains of many lists of edits, for one trace. If the clocks of the trace disagree, device times are
/// corrected.
pub struct Gains<'e, 'a> {
    exact: &'e Exact<'a>,
    /// None if times must be corrected, which is repeated for each shift of the clocks.
    ready: Option<WhatIf<'e, 'a>>,
}

impl<'e, 'a> Gains<'e, 'a> {
    /// Prepare a trace for gain estimates. The replay is prepared now only if the trace's clocks agree.
    pub fn new(exact: &'e Exact<'a>) -> Self {
        Self { exact, ready: (!exact.clocks_disagree()).then(|| exact.what_if()) }
    }

    /// Gain of each list of edits, applied together (`WhatIf::gains_of`). `None` for lists that cannot be applied.
    ///
    /// # Errors
    /// Returns an error if the window does not exist.
    pub fn compute<E: AsRef<[Edit]> + Sync>(
        &self,
        choice: &WindowChoice,
        lists: &[E],
        threads: usize,
    ) -> Result<Vec<Option<Gain>>, CriticalPathError> {
        if let Some(ready) = &self.ready {
            return ready.gains_of(choice, lists, threads, &|| false);
        }
        let Some(mut corrected) = CorrectedTrace::new(self.exact.trace()) else {
            return self.exact.what_if().gains_of(choice, lists, threads, &|| false);
        };
        let mut found: Option<Vec<Option<Gain>>> = None;
        for moment in [|s: &Shift| s.likely, |s: &Shift| s.least, |s: &Shift| s.most] {
            corrected.move_to(moment);
            let gains = Exact::new(&corrected.trace).what_if().gains_of(choice, lists, threads, &|| false)?;
            let Some(found) = &mut found else {
                found = Some(gains);
                continue;
            };
            for (gain, other) in found.iter_mut().zip(gains) {
                if let Some(gain) = gain {
                    gain.widen(other.unwrap_or(NO_GAIN));
                }
            }
        }
        Ok(found.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(least: Option<i64>, most: Option<i64>) -> DeviceClock {
        DeviceClock { least_ns: least, most_ns: most, ..DeviceClock::new(0) }
    }

    fn shift(least: Option<i64>, most: Option<i64>) -> Option<(i64, i64, i64)> {
        Shift::new(&clock(least, most)).map(|s| (s.least, s.likely, s.most))
    }

    /// A wait that returns 300 ns early, or bounds that contradict each other by as much, are rounding.
    #[test]
    fn sound_clocks_are_not_shifted_along_with_others() {
        assert_eq!(shift(Some(-5_000), Some(-300)), None);
        assert_eq!(shift(Some(300), Some(900_000)), None);
        assert_eq!(shift(Some(300), Some(-300)), None);
        let mut trace = Trace::default();
        let sound = DeviceClock { device: 1, ..clock(Some(-5_000), Some(-300)) };
        trace.meta.clocks = vec![clock(Some(17_000), Some(23_000)), sound];
        let corrected = CorrectedTrace::new(&trace).unwrap();
        assert_eq!(corrected.shifts.iter().map(|s| s.device).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn shifts_respect_causality() {
        assert_eq!(shift(None, None), None);
        assert_eq!(shift(Some(-5_000), Some(3_000)), None, "possible as recorded");
        assert_eq!(shift(Some(17_000), Some(23_000)), Some((17_000, 20_000, 23_000)));
        assert_eq!(shift(Some(17_000), Some(900_000)), Some((17_000, 21_000, 37_000)), "a slow wait bounds nothing");
        assert_eq!(shift(Some(17_000), None), Some((17_000, 21_000, 37_000)));
        assert_eq!(shift(Some(-900_000), Some(-17_000)), Some((-37_000, -21_000, -17_000)));
        assert_eq!(shift(None, Some(-17_000)), Some((-37_000, -21_000, -17_000)));
        assert_eq!(shift(Some(20_300), Some(19_900)), Some((19_900, 19_900, 20_300)), "noise");
        assert_eq!(shift(Some(i64::MAX), None), None, "no clock is off by that");
    }
}
