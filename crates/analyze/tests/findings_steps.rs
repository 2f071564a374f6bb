//! Rules and steps: shares of steps without a standstill.

use crate::findings_support;

use findings_support::Program;

/// What is launched in a step.
fn launch_adds(p: &mut Program) {
    for _ in 0..100 {
        p.op("aten::add", |p| {
            p.work(8);
            p.kernel("add", 3);
        });
    }
}

/// A pause between steps, or within one, leaves the share of a rule as it is.
#[test]
fn shares_are_of_steps_without_a_standstill() {
    let paused = |between_us: i64, within_us: i64| {
        let mut program = Program::new();
        for number in 0..8 {
            program.step(number, |p| {
                p.python("train.py(10): step", |p| launch_adds(p));
                p.work(if number == 5 { within_us } else { 0 });
            });
            program.work(if number == 3 { between_us } else { 10 });
        }
        let found = program.of("SL012");
        found.into_iter().map(|finding| finding.title).collect::<Vec<_>>()
    };
    let usual = paused(10, 0);
    assert_eq!(usual.len(), 1);
    assert_eq!(paused(1_000_000, 0), usual);
    assert_eq!(paused(10, 1_000_000), usual);
}
