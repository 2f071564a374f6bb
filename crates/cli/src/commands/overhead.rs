//! Measured overhead of recording, as text and JSON.

use serde_json::{Value, json};
use stackline_ingest::recording::LEAST_UNRECORDED_STEPS;
use stackline_model::{CallOverhead, CallingContextTree};

/// Sentence about the overhead of recording, in the process in which it is highest, or the reason why it is unknown;
/// `None` if it was not to be measured, or without training steps. The sentence names the number of unrecorded steps.
pub(super) fn sentence(tree: &CallingContextTree) -> Option<String> {
    let measured = || tree.processes.iter().filter_map(|process| process.overhead);
    let most = measured()
        .max_by_key(|overhead| (overhead.fraction.map(|fraction| fraction.median_ppm), overhead.unrecorded_steps))?;
    let steps = match most.unrecorded_steps {
        0 => {
            let reason = "too few optimizer steps ended at the same call path";
            return Some(format!("overhead of recording: unknown, because {reason}"));
        }
        1 => "1 step".to_owned(),
        steps => format!("{steps} steps"),
    };
    let Some(fraction) = most.fraction else {
        let is_enough = most.unrecorded_steps >= LEAST_UNRECORDED_STEPS.into();
        return Some(if is_enough {
            format!("overhead of recording: unknown, because step times vary too much ({steps} ran unrecorded)")
        } else {
            format!("overhead of recording: unknown, because too few steps ran unrecorded ({steps})")
        });
    };
    let percent = |ppm: i64| format!("{:.1}", ppm as f64 / 1e4);
    Some(format!(
        "overhead of recording: {} % of a step (95 % interval {} to {} %), compared with {steps} that ran unrecorded",
        percent(fraction.median_ppm),
        percent(fraction.low_ppm),
        percent(fraction.high_ppm),
    ))
}

/// Recording overhead for JSON output, in percent of an unrecorded step; null if not measured.
pub(super) fn json(overhead: Option<CallOverhead>) -> Value {
    let Some(overhead) = overhead.filter(|overhead| overhead.unrecorded_steps > 0) else { return Value::Null };
    let percent = |ppm: i64| ppm as f64 / 1e4;
    json!({
        "unrecorded_steps": overhead.unrecorded_steps,
        "comparisons": overhead.comparisons,
        "percent": overhead.fraction.map(|fraction| percent(fraction.median_ppm)),
        "low_percent": overhead.fraction.map(|fraction| percent(fraction.low_ppm)),
        "high_percent": overhead.fraction.map(|fraction| percent(fraction.high_ppm)),
    })
}

#[cfg(test)]
mod tests {
    use super::{json, sentence};
    use serde_json::Value;
    use stackline_model::{CallOverhead, CallProcess, CallingContextTree, OverheadFraction};

    #[test]
    fn process_with_the_highest_overhead_is_named() {
        let process = |unrecorded_steps, fraction: Option<[i64; 3]>| CallProcess {
            overhead: Some(CallOverhead {
                unrecorded_steps,
                comparisons: 7,
                fraction: fraction.map(|[low_ppm, median_ppm, high_ppm]| OverheadFraction {
                    low_ppm,
                    median_ppm,
                    high_ppm,
                }),
            }),
            ..CallProcess::default()
        };
        let mut tree = CallingContextTree { processes: vec![CallProcess::default()], ..CallingContextTree::default() };
        assert_eq!((sentence(&tree), json(None)), (None, Value::Null));
        tree.processes.push(process(0, None));
        assert_eq!(
            sentence(&tree).unwrap(),
            "overhead of recording: unknown, because too few optimizer steps ended at the same call path"
        );
        assert_eq!(json(tree.processes[1].overhead), Value::Null);
        tree.processes.push(process(1, None));
        assert_eq!(
            sentence(&tree).unwrap(),
            "overhead of recording: unknown, because too few steps ran unrecorded (1 step)"
        );
        tree.processes.push(process(52, None));
        assert!(
            sentence(&tree)
                .unwrap()
                .starts_with("overhead of recording: unknown, because step times vary too much (52 steps")
        );
        tree.processes.extend([process(63, Some([-4_000, 31_000, 52_000])), process(60, Some([0, 10_000, 90_000]))]);
        assert_eq!(
            sentence(&tree).unwrap(),
            "overhead of recording: 3.1 % of a step (95 % interval -0.4 to 5.2 %), compared with 63 steps that ran \
             unrecorded"
        );
        assert_eq!(json(tree.processes[4].overhead)["low_percent"], -0.4);
    }
}
