//! Search for call paths by pattern: `**/train_step/**/aten::conv*`.

use super::CallIndex;
use stackline_model::{CallNodeId, CallingContextTree, Frame};
use stackline_timeline::name_pattern::Pattern;

/// Maximum number of pattern parts, which are bits of a number.
const MAX_PARTS: usize = 63;

enum Segment {
    /// `**`: any number of callers, including none.
    Any,
    /// One frame.
    One(Pattern),
}

impl CallIndex {
    /// Find the nodes whose call path from the root matches a pattern such as `**/train_step/aten::conv*`. The result
    /// is in the order of the tree. `**` matches any number of frames. Other parts between `/` match one frame: a glob,
    /// or a regular expression after `~`. A part is matched against the frame's name, its file and line (`train.py:12`,
    /// without folders), or both (`step train.py:12`).
    ///
    /// # Errors
    /// An error if the pattern is empty or too long, or if a part is not a valid regular expression.
    pub fn search(&self, pattern: &str) -> Result<Vec<CallNodeId>, String> {
        let segments = parse(pattern)?;
        let matching: Vec<u64> =
            self.tree.frames.iter().map(|frame| matching_bits(&self.tree, frame, &segments)).collect();
        let done = 1_u64 << segments.len();
        // Bit `i`: the path so far matches the parts before `i`.
        let mut states = vec![0_u64; self.len()];
        let mut found = Vec::new();
        if let Some(root) = states.first_mut() {
            *root = skip_any(1, &segments);
        }
        for node in self.tree.nodes.ids().skip(1) {
            let before = states[self.tree.nodes.parent[node.index()].index()];
            let fits = matching.get(self.tree.nodes.frame[node.index()].index()).copied().unwrap_or(0);
            let stays = before & any_bits(&segments);
            let state = skip_any(stays | (before & fits) << 1, &segments);
            states[node.index()] = state;
            if state & done != 0 {
                found.push(node);
            }
        }
        Ok(found)
    }
}

/// Split a search pattern at `/`, and parse its parts.
fn parse(pattern: &str) -> Result<Vec<Segment>, String> {
    let parts: Vec<&str> = pattern.trim_matches('/').split('/').collect();
    if parts.len() > MAX_PARTS {
        return Err(format!(
            "pattern {pattern:?} is too long: it has {} parts separated by /, and at most {MAX_PARTS} are allowed",
            parts.len()
        ));
    }
    let segment = |part: &str| match part {
        "" => Err(format!(
            "pattern {pattern:?} has an empty part between two /; to match any number of frames, write `**`, as in \
             `**/train_step/**/aten::conv*`"
        )),
        "**" => Ok(Segment::Any),
        part => Pattern::parse(part)
            .map(Segment::One)
            .map_err(|reason| format!("pattern {pattern:?} is not valid, because its part {part:?} is {reason}")),
    };
    parts.into_iter().map(segment).collect()
}

/// Bit mask of the parts of a search pattern that are `**`.
fn any_bits(segments: &[Segment]) -> u64 {
    segments.iter().enumerate().filter(|(_, s)| matches!(s, Segment::Any)).fold(0, |bits, (i, _)| bits | 1 << i)
}

/// Add to a search state the positions after reached `**` parts, since `**` also matches no frame. Bit `i` of a state:
/// the parts before `i` match.
fn skip_any(mut state: u64, segments: &[Segment]) -> u64 {
    for (i, segment) in segments.iter().enumerate() {
        if matches!(segment, Segment::Any) && state >> i & 1 == 1 {
            state |= 1 << (i + 1);
        }
    }
    state
}

/// Bit mask of the parts of a search pattern, without `**`, that match a frame.
fn matching_bits(tree: &CallingContextTree, frame: &Frame, segments: &[Segment]) -> u64 {
    let name = frame.name(&tree.strings);
    let file = frame.file().map_or("", |file| tree.strings.get(file));
    let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let place = frame.line().map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"));
    let texts = [name.as_str(), file, place.as_str(), &format!("{name} {place}")];
    let is_match = |pattern: &Pattern| texts.iter().any(|text| !text.is_empty() && pattern.matches(text));
    let bit = |(i, segment): (usize, &Segment)| match segment {
        Segment::One(pattern) if is_match(pattern) => 1 << i,
        _ => 0,
    };
    segments.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit)
}
