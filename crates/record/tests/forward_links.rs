//! Links of backward nodes to forward operators, with more links than the limit.

use crate::support;

use stackline_recording::FrameKey;
use support::{Stream, here, recorded, streams, torch};

/// Number of backward nodes of products, and of those that are below their forward operator.
fn linked(stream: &Stream) -> (u64, u64) {
    let (mut all, mut linked) = (0, 0);
    for (path, count) in stream.calls() {
        if let [.., around, FrameKey::Backward { name }] = path[..]
            && stream.text(*name) == "MulBackward0"
        {
            all += count;
            linked += if matches!(around, FrameKey::Operator { name } if stream.text(*name) == "aten::mul") {
                count
            } else {
                0
            };
        }
    }
    (all, linked)
}

#[test]
#[ignore = "long: ./dev test --long"]
fn links_beyond_the_bound_are_counted() {
    let Some(python) = torch() else { return };
    for (operators, lost) in [(2000, 0), (140_000, 140_000 - (1 << 17))] {
        let run = tempfile::tempdir().unwrap();
        let program = here("tests/programs/forward_links.py");
        assert!(recorded(&python, run.path()).arg(program).arg(operators.to_string()).status().unwrap().success());
        let stream = streams(run.path()).remove(0);
        let (all, linked) = linked(&stream);
        assert_eq!(all, operators);
        assert_eq!(linked + lost, operators, "lost: {:?}", stream.lost);
        assert_eq!(stream.lost.get("forward_links_over_limit").copied().unwrap_or(0), lost);
    }
}
