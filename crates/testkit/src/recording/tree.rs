//! Generated recording with a call tree of a given size, for tests of viewers.

use super::writer::StreamWriter;
use crate::rng::Rng;
use stackline_recording::{Metric, Process, Role};

/// Largest depth of a call.
const DEEPEST: usize = 60;
/// Number of called functions, in files of 20.
const FUNCTIONS: usize = 4_000;

/// Create a recorder stream with one thread and exactly `nodes` call paths. The same arguments give the same bytes.
///
/// Calls go down and up at random, and times differ by about three orders of magnitude: few paths are wide, most are
/// narrow.
#[must_use]
pub fn tree(nodes: u32, seed: u64) -> Vec<u8> {
    let mut stream = StreamWriter::new(process());
    stream.source("python", true, "CPython 3.11.7, frames read raw");
    let thread = stream.thread(4000, 1, "python");
    let mut rng = Rng::new(seed);
    let names: Vec<String> =
        (0..FUNCTIONS).map(|at| format!("function_{at}@package/module_{}.py:{}", at / 20, 10 + at % 20 * 12)).collect();
    // The open call and its callers.
    let mut open: Vec<u32> = Vec::new();
    let mut made = 0;
    while made < nodes {
        let up = if open.len() >= DEEPEST { DEEPEST / 2 } else { rng.below(4).saturating_sub(1) };
        open.truncate(open.len().saturating_sub(up).max(usize::from(made > 0)));
        let Some(name) = rng.pick(&names) else { break };
        let node = stream.child(thread, open.last().copied().unwrap_or(0), name);
        open.push(node);
        // Nodes are numbered in the order of their creation: an existing call is entered again.
        if node > made {
            made = node;
            let ns = 1_000_u64 << rng.below(11);
            stream.add(thread, node, Metric::CpuTime, ns + rng.bits() % 1_000);
        }
    }
    stream.end(Some(600_000_000_000))
}

fn process() -> Process {
    Process {
        pid: 4000,
        parent_pid: 1,
        start_unix_ns: 1_760_000_000_000_000_000,
        start_monotonic_ns: 7_000_000_000_000,
        role: Role::Main,
        rank: None,
        command: vec!["python".to_owned(), "train.py".to_owned()],
        python: "3.11.7".to_owned(),
        torch: "2.15.0".to_owned(),
        recorder: "0.1.0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::tree;
    use stackline_recording::{Reader, Record};

    #[test]
    fn tree_has_the_requested_number_of_nodes() {
        for nodes in [1, 2, 5_000] {
            let file = tree(nodes, 7);
            assert_eq!(file, tree(nodes, 7));
            let made = Reader::new(&file).unwrap().filter(|record| matches!(record, Record::Node { .. })).count();
            assert_eq!(made, nodes as usize);
        }
    }
}
