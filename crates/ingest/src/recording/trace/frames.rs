//! Python frames and module calls as spans, inferred: a recording says from where each operator was called, not when the
//! functions in between began and ended.
//!
//! A frame lasts from the first to the last of neighbouring operators below it. Two operators are below the same call of
//! a function if all frames above are the same, and its callers are at the same line. So a function that is called
//! twice from one line, with nothing in between, is one span. Frames end where training steps do.

use super::calls::{Call, Calls, ThreadCalls};
use rustc_hash::FxHashMap;
use stackline_recording::FrameKey;

/// A span that no record states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InferredFrame {
    pub(super) start: i64,
    pub(super) end: i64,
    /// How many spans are around it.
    pub(super) depth: u32,
    /// The frame: Python or a module.
    pub(super) frame: u32,
}

/// What may be around an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    /// A call, by its place among the calls.
    Call(usize),
    /// A function or module that runs: its frame, and that frame at any line.
    Frame { frame: u32, identity: (u32, u32, u32, bool) },
}

#[derive(Clone, Copy, Debug)]
struct Open {
    element: Element,
    start: i64,
    end: i64,
}

/// Infers the frames of a thread, none of which goes on beyond one of `cuts` (ascending). Calls stand in the order of
/// their starts, outer ones first; the result has, beside the frames, the depth of each call.
pub(super) fn infer(calls: &Calls, thread: &ThreadCalls, cuts: &[i64]) -> (Vec<InferredFrame>, Vec<u32>) {
    let mut inference = Inference {
        calls,
        thread,
        running: Vec::new(),
        nodes: FxHashMap::default(),
        open: Vec::new(),
        found: Vec::new(),
    };
    let mut depths = Vec::with_capacity(thread.calls.len());
    let (mut path, mut elements) = (Vec::new(), Vec::new());
    let mut cuts = cuts.iter().copied().peekable();
    for (index, call) in thread.calls.iter().enumerate() {
        inference.end_before(call);
        while let Some(cut) = cuts.next_if(|&cut| cut <= call.start) {
            inference.cut(cut);
        }
        thread.path(call.node, &mut path);
        inference.elements(&path, &mut elements);
        inference.enter(call, &elements);
        let open = Open { element: Element::Call(index), start: call.start, end: call.end };
        depths.push(inference.open.len() as u32);
        inference.open.push(open);
        inference.running.push(index);
        *inference.nodes.entry(call.node).or_default() += 1;
    }
    inference.close(0);
    (inference.found, depths)
}

struct Inference<'a> {
    calls: &'a Calls,
    thread: &'a ThreadCalls,
    /// Calls that run at the moment, outermost first.
    running: Vec<usize>,
    /// How many of them stand at a node.
    nodes: FxHashMap<u32, u32>,
    /// What is around the last call, outermost first, and that call.
    open: Vec<Open>,
    found: Vec<InferredFrame>,
}

impl Inference<'_> {
    /// Takes calls out that are over when `call` begins. Those that run end no sooner the further out they are.
    fn end_before(&mut self, call: &Call) {
        while let Some(&last) = self.running.last() {
            let Call { end, node, .. } = self.thread.calls[last];
            if end >= call.end && end > call.start {
                break;
            }
            self.running.pop();
            if let Some(count) = self.nodes.get_mut(&node) {
                *count -= 1;
            }
        }
    }

    /// Ends the functions that are open, but for those around a call that goes on.
    fn cut(&mut self, at: i64) {
        let goes_on = |open: &Open| matches!(open.element, Element::Call(call) if self.thread.calls[call].end > at);
        let from = self.open.iter().rposition(goes_on).map_or(0, |innermost| innermost + 1);
        self.close(from);
    }

    /// Whether a call runs.
    fn runs(&self, at: usize) -> bool {
        self.running.binary_search(&at).is_ok()
    }

    /// What is around a call with this path (itself left out). Calls on the path that do not run are no part of it: they
    /// were not recorded, or they are the forward operators above a backward node.
    fn elements(&self, path: &[u32], elements: &mut Vec<Element>) {
        elements.clear();
        let mut running = self.running.iter().copied().peekable();
        let above = &path[..path.len().saturating_sub(1)];
        // Above a backward node stands where its forward operator was called: that is over.
        let begin = path.iter().rposition(|&node| self.is_backward(node));
        if let Some(begin) = begin {
            let node = path[begin];
            match self.running.iter().rposition(|&at| self.thread.calls[at].node == node) {
                // Below the node: from it on.
                Some(place) => {
                    elements.extend(self.surroundings(self.running[place]));
                    running.nth(place);
                }
                // The node itself, or its record is missing: it runs where the thread is, as far as that is known.
                None => {
                    let ended = |open: &Open| matches!(open.element, Element::Call(at) if !self.runs(at));
                    elements.extend(self.open.iter().take_while(|open| !ended(open)).map(|open| open.element));
                    running.nth(self.running.len());
                }
            }
        }
        for &node in above.get(begin.map_or(0, |begin| begin + 1)..).unwrap_or(&[]) {
            match self.key(node) {
                Some(
                    FrameKey::Operator { .. }
                    | FrameKey::ShapedOperator { .. }
                    | FrameKey::Backward { .. }
                    | FrameKey::ShapedBackward { .. }
                    | FrameKey::Span { .. },
                ) => {
                    // Asked first: most calls on a path run, those that do not would be looked for in vain.
                    if self.nodes.get(&node).is_none_or(|&count| count == 0) {
                        continue;
                    }
                    let found = running.clone().position(|at| self.thread.calls[at].node == node);
                    if let Some(at) = found.and_then(|skip| running.nth(skip)) {
                        elements.push(Element::Call(at));
                    }
                }
                Some(&FrameKey::Python { function, file, first_line, .. }) => {
                    elements.push(self.frame(node, (function, file, first_line, false)));
                }
                Some(&FrameKey::Module { path, class }) => elements.push(self.frame(node, (path, class, 0, true))),
                _ => {}
            }
        }
    }

    /// The elements that are open down to a call that runs, the call included.
    fn surroundings(&self, at: usize) -> Vec<Element> {
        let last = self.open.iter().rposition(|open| open.element == Element::Call(at));
        self.open[..last.map_or(0, |last| last + 1)].iter().map(|open| open.element).collect()
    }

    fn frame(&self, node: u32, identity: (u32, u32, u32, bool)) -> Element {
        Element::Frame { frame: self.thread.nodes[node as usize].1, identity }
    }

    fn is_backward(&self, node: u32) -> bool {
        matches!(self.key(node), Some(FrameKey::Backward { .. } | FrameKey::ShapedBackward { .. }))
    }

    fn key(&self, node: u32) -> Option<&FrameKey> {
        self.calls.frames.get(self.thread.nodes.get(node as usize)?.1 as usize)
    }

    /// Goes from what is open to what is around `call`.
    fn enter(&mut self, call: &Call, elements: &[Element]) {
        let mut same = 0;
        let mut moved = false;
        for (open, element) in self.open.iter_mut().zip(elements) {
            let goes_on = match (&mut open.element, element) {
                (Element::Call(open), Element::Call(now)) => open == now,
                (Element::Frame { frame, identity }, Element::Frame { frame: now, identity: wanted }) => {
                    // Another line of the same function: what it called before is over.
                    moved = frame != now && identity == wanted;
                    *frame = if moved { *now } else { *frame };
                    identity == wanted
                }
                _ => false,
            };
            if !goes_on {
                break;
            }
            same += 1;
            if moved {
                break;
            }
        }
        self.close(same);
        // What was called before autograd's engine took over may be over: only an operator of its own prolongs it.
        let is_backward = |at: usize| self.is_backward(self.thread.calls[at].node);
        let engine = elements.iter().rposition(|element| matches!(element, &Element::Call(at) if is_backward(at)));
        let own = if self.is_backward(call.node) { elements.len() } else { engine.map_or(0, |engine| engine + 1) };
        for open in self.open.iter_mut().skip(own) {
            if matches!(open.element, Element::Frame { .. }) {
                open.end = open.end.max(call.end);
            }
        }
        let new = elements.iter().skip(same).map(|&element| Open { element, start: call.start, end: call.end });
        self.open.extend(new);
    }

    /// Ends everything that is open from this depth on.
    fn close(&mut self, from: usize) {
        for (depth, open) in self.open.drain(from.min(self.open.len())..).enumerate() {
            if let Element::Frame { frame, .. } = open.element {
                let depth = (from + depth) as u32;
                self.found.push(InferredFrame { start: open.start, end: open.end, depth, frame });
            }
        }
    }
}
