//! Table of bounds on the clock offset between each device and the host, from causes that must precede their effects.
//! The bounds refer to the recorded times ([`stackline_model::DeviceClock`]). Reading has already removed offsets that
//! are proven, before any table is computed.

use crate::{Analysis, Display, TableCommand};
use stackline_model::{DeviceClock, Table, Trace, Unit};
use stackline_timeline::{DefaultWindow, Scope};

/// The registered analysis.
pub(super) const CLOCKS: Analysis = Analysis {
    name: "clocks",
    about: "Bounds on the clock offset between host and devices",
    tables: &["clocks"],
    window: DefaultWindow::Own,
    commands: &[TableCommand::Timeline],
    display: Display::All,
    run,
};

/// Create table `clocks` for the whole trace: one row per device with the shifts that causality allows, in ns.
fn run(trace: &Trace, _: &Scope) -> Vec<Table> {
    let clocks = &trace.meta.clocks;
    let count = |f: fn(&DeviceClock) -> u64| {
        clocks.iter().map(move |c| i64::try_from(f(c)).unwrap_or(i64::MAX)).collect::<Vec<_>>()
    };
    let table = Table::new(
        "clocks",
        "Clock offset of each device from the host: range of shifts that launches and waits allow",
    )
    .i64("device", Unit::None, clocks.iter().map(|c| i64::from(c.device)))
    .text("finding", clocks.iter().map(|c| Some(finding(c).to_owned())))
    .i64("shift_ns", Unit::Ns, clocks.iter().map(DeviceClock::shift_ns))
    .i64("least_shift_ns", Unit::Ns, clocks.iter().map(|c| c.least_ns))
    .i64("most_shift_ns", Unit::Ns, clocks.iter().map(|c| c.most_ns))
    .i64("launches", Unit::None, count(|c| c.launches))
    .i64("early_starts", Unit::None, count(|c| c.early))
    .i64("waits", Unit::None, count(|c| c.waits))
    .i64("late_ends", Unit::None, count(|c| c.late))
    .i64("applied_ns", Unit::Ns, clocks.iter().map(|c| c.applied_ns));
    if clocks.is_empty() {
        let why = if trace.gpu.is_empty() {
            "The trace has no GPU operations."
        } else if trace.gpu.launch.iter().all(|l| l.is_none()) {
            "No GPU operation has its launch call in the trace, so the clock offset cannot be estimated."
        } else if !is_estimable(trace) {
            "Every GPU operation or its launch call lacks a plausible time, so the clock offset cannot be estimated. \
             `stackline doctor` lists implausible times."
        } else {
            "Not estimated: an older version of Stackline wrote this run directory. Import the trace again."
        };
        return vec![table.note(why)];
    }
    let table = table.note(
        "The table covers the whole trace. A shift is a time that is added to the device's times. Column \
         least_shift_ns: the smallest shift with which no operation starts before its launch call. Column \
         most_shift_ns: the largest shift with which no operation ends after the return of a call that waited for it. \
         Column applied_ns: the shift that Stackline added before all analyses. Stackline adds every shift of 1 ms or \
         more, and a shift above 30 µs if several launches or waits prove it.",
    );
    let table = if clocks.iter().any(|c| c.applied_ns != 0 && c.launches == 0) {
        table.note(
            "No operation of a device is linked to a launch call. The device's times were shifted so that its first \
             operation follows the first launch call, or without launch calls the start of the host's events. The \
             device's idle time before its first operation is unknown.",
        )
    } else {
        table
    };
    let unbounded = clocks.iter().all(|c| c.most_ns.is_none());
    vec![if unbounded {
        table.note("The trace has no known synchronization call, so the largest possible shift is unknown.")
    } else {
        table
    }]
}

/// Test if any operation and its launch call both have plausible times.
fn is_estimable(trace: &Trace) -> bool {
    let launches = trace.gpu.event.iter().zip(&trace.gpu.launch);
    launches
        .into_iter()
        .any(|(&event, &call)| call.is_some() && trace.events.is_plausible(event) && trace.events.is_plausible(call))
}

/// State of a device clock in words, such as `device behind host`.
fn finding(clock: &DeviceClock) -> &'static str {
    match clock.shift_ns() {
        _ if clock.is_contradictory() => "contradictory",
        None if clock.applied_ns != 0 => "aligned by launch order",
        None => "unknown",
        Some(0) if clock.applied_ns > 0 => "device behind host",
        Some(0) if clock.applied_ns < 0 => "device ahead of host",
        Some(0) => "no offset found",
        Some(shift) if shift > 0 => "device behind host",
        Some(_) => "device ahead of host",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::Values;

    #[test]
    fn each_device_gets_its_bounds_and_a_finding() {
        let mut trace = Trace::default();
        let mut behind = DeviceClock::new(0);
        behind.add_launch(-250);
        behind.add_wait(900);
        let mut ahead = DeviceClock::new(1);
        ahead.add_launch(700);
        ahead.add_wait(-30);
        let mut wrong = DeviceClock::new(2);
        wrong.add_launch(-5);
        wrong.add_wait(-5);
        trace.meta.clocks = vec![behind, ahead, wrong];
        let table = &run(&trace, &Scope::default())[0];
        let column = |name: &str| table.column(name).map(|c| &c.values);
        assert_eq!(column("shift_ns"), Some(&Values::I64(vec![Some(250), Some(-30), None])));
        assert_eq!(column("least_shift_ns"), Some(&Values::I64(vec![Some(250), Some(-700), Some(5)])));
        assert_eq!(column("most_shift_ns"), Some(&Values::I64(vec![Some(900), Some(-30), Some(-5)])));
        let Some(Values::Str(findings)) = column("finding") else { panic!("no findings") };
        let words = ["device behind", "device ahead", "contradictory"];
        assert!(findings.iter().zip(words).all(|(f, w)| f.as_ref().is_some_and(|f| f.starts_with(w))), "{findings:?}");
    }

    #[test]
    fn missing_bounds_are_explained() {
        let table = &run(&Trace::default(), &Scope::default())[0];
        assert_eq!((table.rows(), table.notes.len()), (0, 1));
    }
}
