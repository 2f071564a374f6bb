//! Value of `--steps`: a range of step numbers, and the profiler cycle that they are of.

use super::{Range, parse_range};

/// Steps from `first` to `last`, both included, of one recorded cycle if several have these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepRange {
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// Number of the cycle, from 1 in time order.
    pub(crate) cycle: Option<usize>,
}

/// Format the steps as on the command line.
impl std::fmt::Display for StepRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { first, last, cycle } = self;
        if first == last {
            write!(f, "{first}")?;
        } else {
            write!(f, "{first}..{last}")?;
        }
        cycle.map_or(Ok(()), |cycle| write!(f, "@{cycle}"))
    }
}

/// Parse `N`, `A..B`, or one of these with the number of a cycle: `A..B@2`.
pub(super) fn parse_steps(text: &str) -> Result<StepRange, String> {
    let (numbers, cycle) = match text.split_once('@') {
        Some((numbers, cycle)) => (numbers, Some(parse_cycle(cycle)?)),
        None => (text, None),
    };
    let Range { first, last } = parse_range(numbers)?;
    Ok(StepRange { first, last, cycle })
}

fn parse_cycle(text: &str) -> Result<usize, String> {
    let cycle = text.trim().parse::<usize>().ok().filter(|number| *number > 0);
    cycle.ok_or_else(|| {
        format!("{text:?} is not the number of a profiler cycle; write a number from 1 after the @, as in 5..8@2")
    })
}

#[cfg(test)]
mod tests {
    use super::{StepRange, parse_steps};

    #[test]
    fn steps_may_name_a_cycle() {
        for (text, first, last, cycle) in [("5", 5, 5, None), ("-5..8", -5, 8, None), ("5..8@2", 5, 8, Some(2))] {
            let steps = parse_steps(text);
            assert_eq!(steps, Ok(StepRange { first, last, cycle }));
            assert_eq!(steps.unwrap().to_string(), text);
        }
        assert_eq!(parse_steps("5@1").unwrap().to_string(), "5@1");
        for text in ["5@0", "5@", "@2", "5@last", "8..5@1", "5@1@2"] {
            assert!(parse_steps(text).is_err(), "{text}");
        }
    }
}
