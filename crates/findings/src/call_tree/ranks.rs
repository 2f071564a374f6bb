//! Several ranks in one calling context tree: separate analysis, and merge of the findings.

use super::{find_for_rank, no_times};
use crate::identity::rank_identity;
use crate::rules::{busy_python, dataloader_starved, operators_in_loops};
use crate::{Finding, Findings, Options, Rule, merge, ranks_text};
use stackline_calls::NoCalls;
use stackline_model::CallingContextTree;
use stackline_timeline::source_location::SourceLocation;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Search the call trees of these ranks for findings and merge the results.
pub(super) fn find(
    tree: &CallingContextTree,
    ranks: Vec<i64>,
    options: &Options,
    keep: &dyn Fn(&Finding) -> bool,
) -> Result<Findings, NoCalls> {
    let (mut found, mut without) = (Vec::new(), Vec::new());
    for rank in ranks {
        match find_for_rank(tree, Some(rank), options, keep) {
            Ok(findings) => found.push((rank, findings)),
            Err(_) => without.push(rank),
        }
    }
    // Times of steps and of whole runs are not comparable: a rank without steps serves the others, or ended early.
    let has_steps = |(_, findings): &(i64, Findings)| findings.steps > 0;
    let apart: Vec<i64> = if found.iter().any(has_steps) {
        found.extract_if(.., |of_one| !has_steps(of_one)).map(|(rank, _)| rank).collect()
    } else {
        Vec::new()
    };
    // Excluded times differ between ranks, but are of the same kind.
    let slowest = found.iter().max_by_key(|(rank, findings)| (findings.step_ns, Reverse(*rank)));
    let kept_notes = slowest.map(|(_, findings)| findings.notes.clone()).unwrap_or_default();
    found
        .iter_mut()
        .for_each(|(_, findings): &mut (i64, Findings)| findings.notes.retain(|note| kept_notes.contains(note)));
    unify_lines(&mut found, keep);
    let mut merged = merge(found, options, keep).ok_or_else(|| no_times(tree, None))?;
    if !apart.is_empty() {
        merged.notes.push(format!("findings exclude {}, where no steps are marked", ranks_text(&apart)));
    }
    if !without.is_empty() {
        merged.notes.push(format!("findings exclude {}, where no time was measured in steps", ranks_text(&without)));
    }
    Ok(merged)
}

/// Rules whose findings combine all lines of a function or of the program, and whose source location is the line with
/// most time. That line may differ between ranks.
const COMBINES_LINES: [&Rule; 3] = [&busy_python::RULE, &dataloader_starved::RULE, &operators_in_loops::RULE];

/// Key that merges findings of the rules in [`COMBINES_LINES`] across ranks: their identity without the line. None for
/// other rules.
fn merge_key(finding: &Finding) -> Option<(String, SourceLocation, String)> {
    let rule = COMBINES_LINES.iter().find(|rule| rule.code == finding.rule.code)?;
    let is_of_program = rule.code == dataloader_starved::RULE.code;
    let (code, place, words) = rank_identity(finding);
    let place = if is_of_program { SourceLocation::default() } else { SourceLocation { line: None, ..place } };
    Some((code, place, words))
}

/// Move findings that differ only in their lines to the line of the rank with the largest gain, unless the user ignores
/// findings there.
fn unify_lines(found: &mut [(i64, Findings)], keep: &dyn Fn(&Finding) -> bool) {
    let mut places: BTreeMap<_, Vec<(i64, i64, SourceLocation)>> = BTreeMap::new();
    for (rank, findings) in &*found {
        for finding in findings.findings.iter().chain(&findings.small) {
            if let Some(key) = merge_key(finding) {
                places.entry(key).or_default().push((finding.gain_ns(), *rank, finding.place.clone()));
            }
        }
    }
    // Two loops of a function with two callers differ only in their lines.
    places.retain(|_, of| of.windows(2).all(|pair| pair[0].1 != pair[1].1));
    for (_, findings) in found {
        for finding in findings.findings.iter_mut().chain(&mut findings.small) {
            let of = merge_key(finding).and_then(|key| places.get(&key));
            if let Some((.., place)) = of.and_then(|of| of.iter().max_by_key(|(ns, rank, _)| (*ns, Reverse(*rank)))) {
                let moved = Finding { place: place.clone(), ..finding.clone() };
                if keep(&moved) {
                    *finding = moved;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::find_in_calls;
    use super::super::testing::{MS, TestTree, summaries};
    use crate::{ExternalRules, Options};
    use stackline_model::CallMetric;

    #[test]
    fn each_rank_is_analyzed() {
        let mut made = TestTree::new();
        for (rank, waits) in [(0, 200), (1, 400), (2, 0)] {
            made.rank(rank);
            let at = "train.py:50 <module> > train.py:";
            made.calls(&format!("{at}21 main > aten::mm"), 20, 800);
            made.cpu(&format!("{at}21 main > aten::mm"), 800);
            made.waits(&format!("{at}22 main > /usr/lib/python3.11/queue.py:171 Queue.get"), waits);
            made.calls(&format!("{at}23 main > Optimizer.step#SGD.step"), 10, 0);
        }
        // A rank that only started.
        made.rank(3);
        made.add((1, 0), "train.py:50 <module>", CallMetric::Allocated, (1, 10));
        // A rank that serves the others, for longer than their steps.
        made.rank(4);
        made.cpu("train.py:50 <module> > train.py:3 serve", 10_000);
        let tree = made.builder.finish();
        let find =
            |rank| find_in_calls(&tree, rank, &Options::default(), &ExternalRules::default(), &|_| true).unwrap();
        let found = find(None);
        let ranks: Vec<(i64, i64)> = found.ranks.iter().map(|of| (of.rank, of.step_ns / MS as i64)).collect();
        assert_eq!((ranks, found.step_ns), (vec![(0, 100), (1, 120), (2, 80)], 120 * MS as i64));
        assert_eq!(summaries(&found), [("SL039", Some(22), 40)]);
        let gains: Vec<(i64, Option<i64>)> = found.findings[0].ranks.iter().map(|of| (of.rank, of.gain_ns)).collect();
        assert_eq!(gains, [(0, Some(20 * MS as i64)), (1, Some(40 * MS as i64))]);
        let notes = [
            "findings exclude rank 4, where no steps are marked",
            "findings exclude rank 3, where no time was measured in steps",
        ];
        assert!(found.notes.ends_with(&notes.map(str::to_owned)), "{:?}", found.notes);
        assert_eq!(summaries(&find(Some(0))), [("SL039", Some(22), 20)]);
    }

    /// A finding of a whole function is one finding, although different lines may take most time on different ranks.
    #[test]
    fn ranks_with_different_busiest_lines_share_a_finding() {
        let mut made = TestTree::new();
        for (rank, ms) in [(0, [300, 100]), (1, [200, 400])] {
            made.rank(rank);
            let at = "train.py:50 <module> > train.py:";
            made.calls(&format!("{at}21 main > aten::mm"), 20, 800);
            made.cpu(&format!("{at}21 main > aten::mm"), 800);
            made.cpu(&format!("{at}22 main > train.py:11 mask"), ms[0]);
            made.cpu(&format!("{at}22 main > train.py:12 mask"), ms[1]);
            made.calls(&format!("{at}23 main > Optimizer.step#SGD.step"), 10, 0);
        }
        let tree = made.builder.finish();
        let find = |keep: &dyn Fn(&crate::Finding) -> bool| {
            find_in_calls(&tree, None, &Options::default(), &ExternalRules::default(), keep).unwrap()
        };
        let found = find(&|_| true);
        assert_eq!(summaries(&found), [("SL043", Some(12), 30)]);
        let gains: Vec<(i64, Option<i64>)> = found.findings[0].ranks.iter().map(|of| (of.rank, of.gain_ns)).collect();
        assert_eq!(gains, [(0, Some(20 * MS as i64)), (1, Some(30 * MS as i64))]);
        // An ignored finding does not move findings of other ranks.
        let found = find(&|finding| finding.place.line != Some(12));
        assert_eq!(summaries(&found), [("SL043", Some(11), 20)]);
        assert_eq!(found.ignored.iter().map(|of| of.place.line).collect::<Vec<_>>(), [Some(12)]);
    }

    /// Two callers of a function on one rank are two loops: the loop of another rank's line is unknown.
    #[test]
    fn loops_of_one_function_with_two_callers_are_separate() {
        let mut made = TestTree::new();
        for (rank, lines) in [(0, [11, 12]), (1, [11, 13])] {
            made.rank(rank);
            let at = "train.py:50 <module> > train.py:";
            made.calls(&format!("{at}21 main > aten::mm"), 20, 400);
            made.cpu(&format!("{at}21 main > aten::mm"), 400);
            for (caller, line) in [24, 25].into_iter().zip(lines) {
                made.calls(&format!("{at}{caller} main > train.py:{line} each > aten::neg"), 20_000, 400);
                made.cpu(&format!("{at}{caller} main > train.py:{line} each > aten::neg"), 400);
            }
            made.calls(&format!("{at}23 main > Optimizer.step#SGD.step"), 10, 0);
        }
        let found = made.found();
        let lines: Vec<(&str, Option<u32>)> =
            summaries(&found).into_iter().map(|(code, line, _)| (code, line)).collect();
        let mut sorted = lines.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [("SL038", Some(11)), ("SL038", Some(12)), ("SL038", Some(13))], "{lines:?}");
    }
}
