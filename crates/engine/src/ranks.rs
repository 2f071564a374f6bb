//! Which rank a trace is.

use crate::Error;
use stackline_model::{Trace, TraceSet};

/// The rank of each trace: as the files say it if every file names one and no two the same, otherwise the positions of
/// the traces in the set, from 0.
pub fn ranks(set: &TraceSet) -> Vec<i64> {
    let named: Option<Vec<i64>> = set.traces.iter().map(|t| t.meta.rank).collect();
    match named {
        Some(named) if is_distinct(&named) => named,
        _ => (0..set.traces.len() as i64).collect(),
    }
}

fn is_distinct(ranks: &[i64]) -> bool {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|w| w[0] != w[1])
}

/// Keeps the trace of one rank. The rank of a trace that no file names is its position.
pub fn select_rank(set: TraceSet, wanted: i64) -> Result<TraceSet, Error> {
    let available = ranks(&set);
    let Some(at) = available.iter().position(|&r| r == wanted) else {
        let mut available = available;
        available.sort_unstable();
        return Err(Error::NoRank { wanted, available });
    };
    let trace: Option<Trace> = set.traces.into_iter().nth(at);
    Ok(TraceSet { traces: trace.into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranks: &[Option<i64>]) -> TraceSet {
        let trace = |&rank: &Option<i64>| {
            let mut trace = Trace::default();
            trace.meta.rank = rank;
            trace
        };
        TraceSet { traces: ranks.iter().map(trace).collect() }
    }

    #[test]
    fn ranks_are_named_or_counted() {
        assert_eq!(ranks(&set(&[Some(3), Some(1)])), [3, 1]);
        assert_eq!(ranks(&set(&[Some(3), None])), [0, 1]);
        assert_eq!(ranks(&set(&[Some(3), Some(3)])), [0, 1]);
    }

    #[test]
    fn a_rank_is_selected_or_the_others_are_named() {
        let one = select_rank(set(&[Some(3), Some(1)]), 1).unwrap();
        assert_eq!((one.traces.len(), one.traces[0].meta.rank), (1, Some(1)));
        let error = select_rank(set(&[Some(3), Some(1)]), 2).unwrap_err();
        assert!(error.to_string().contains("ranks 1, 3"), "{error}");
    }
}
