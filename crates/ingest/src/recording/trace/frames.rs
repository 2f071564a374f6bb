//! Inference of Python frames and module calls as spans. A recording has the call path of each operator and sample, but
//! not the start and end of the functions between them.
//!
//! A frame lasts from the first to the last of consecutive operators and samples below it. Two of them belong to the
//! same call of a function if all frames above are equal and the callers are at the same line. So a function that is
//! called twice from one line, with nothing in between, is one span. Frames end at the ends of training steps. A sample
//! from before the position of a module in the model was known is assigned to the open module of its class.

use super::calls::{Call, Calls, ThreadCalls};
use super::sampled_python_spans::SampledSpan;
use rustc_hash::FxHashMap;
use stackline_recording::FrameKey;

/// An inferred span of a Python function or a module call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InferredFrame {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Number of enclosing spans.
    pub(super) depth: u32,
    /// A Python or module frame.
    pub(super) frame: u32,
    /// Tree of the process, and node within it.
    pub(super) at: Place,
}

/// A node of one of the process's call trees: index of the tree, and node.
pub(super) type Place = (usize, u32);

/// An element of a thread's stack: a recorded call, or an inferred Python function or module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    /// A call, by its index.
    Call(usize),
    /// A running function or module: its frame, and its identity independent of the line.
    Frame { frame: u32, identity: Identity, at: Place },
}

/// Identity of a function (independent of the line) or of a module, for comparisons of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    Function {
        function: u32,
        file: u32,
        first_line: u32,
    },
    /// A module; the position in the model is none if a sample could not determine it.
    Module {
        class: u32,
        path: Option<u32>,
    },
}

impl Identity {
    /// Check if two identities may be the same function or module.
    fn may_equal(self, other: Self) -> bool {
        match (self, other) {
            (Self::Module { class: a, path }, Self::Module { class: b, path: of }) => {
                a == b && (path == of || path.is_none() || of.is_none())
            }
            _ => self == other,
        }
    }

    /// Check if the identity is a module whose position in the model is unknown.
    fn lacks_path(self) -> bool {
        matches!(self, Self::Module { path: None, .. })
    }
}

/// An element of the open stack, with its time range so far.
#[derive(Clone, Copy, Debug)]
struct Open {
    element: Element,
    start: i64,
    end: i64,
}

/// Infer the frames of the thread with this index; no frame crosses one of `cuts` (ascending). Calls are sorted by
/// start, outer ones first. The result has the frames and the depth of each call.
pub(super) fn infer(
    calls: &Calls,
    tree: usize,
    sampled_spans: &[SampledSpan],
    cuts: &[i64],
) -> (Vec<InferredFrame>, Vec<u32>) {
    let thread = &calls.threads[tree];
    let mut inference = Inference {
        calls,
        thread,
        tree,
        sampled_spans,
        cuts,
        running: Vec::new(),
        nodes: FxHashMap::default(),
        open: Vec::new(),
        found: Vec::new(),
    };
    let mut depths = Vec::with_capacity(thread.calls.len());
    let (mut path, mut elements) = (Vec::new(), Vec::new());
    for (index, call) in thread.calls.iter().enumerate() {
        inference.apply_samples_before(call.start, &mut path, &mut elements);
        inference.pop_ended_calls(call.start, call.end);
        inference.end_functions_until(call.start);
        thread.path(call.node, &mut path);
        inference.stack_around_call(&path, &mut elements);
        inference.change_stack((call.start, call.end), Some(call.node), &elements);
        let open = Open { element: Element::Call(index), start: call.start, end: call.end };
        depths.push(inference.open.len() as u32);
        inference.open.push(open);
        inference.running.push(index);
        *inference.nodes.entry(call.node).or_default() += 1;
    }
    inference.apply_samples_before(i64::MAX, &mut path, &mut elements);
    inference.close_from(0);
    (inference.found, depths)
}

/// State of the inference for one thread: running calls, open stack and found frames.
struct Inference<'a> {
    calls: &'a Calls,
    thread: &'a ThreadCalls,
    tree: usize,
    /// Samples that are not processed yet.
    sampled_spans: &'a [SampledSpan],
    /// Times at which frames are still to be cut.
    cuts: &'a [i64],
    /// Running calls, outermost first.
    running: Vec<usize>,
    /// Number of running calls per node.
    nodes: FxHashMap<u32, u32>,
    /// Stack around the last call, outermost first, and that call.
    open: Vec<Open>,
    found: Vec<InferredFrame>,
}

impl Inference<'_> {
    /// Remove the running calls that ended before a time range. Outer running calls end no sooner than inner ones.
    fn pop_ended_calls(&mut self, start: i64, to: i64) {
        while let Some(&last) = self.running.last() {
            let Call { end, node, .. } = self.thread.calls[last];
            if end >= to && end > start {
                break;
            }
            self.running.pop();
            if let Some(count) = self.nodes.get_mut(&node) {
                *count -= 1;
            }
        }
    }

    /// End the open functions at each cut up to a time, in ns.
    fn end_functions_until(&mut self, time: i64) {
        while let [cut, rest @ ..] = self.cuts
            && *cut <= time
        {
            self.cuts = rest;
            self.end_functions(*cut);
        }
    }

    /// End the open functions at a time, except those around a call that continues.
    fn end_functions(&mut self, at: i64) {
        let continues = |open: &Open| matches!(open.element, Element::Call(call) if self.thread.calls[call].end > at);
        let from = self.open.iter().rposition(continues).map_or(0, |innermost| innermost + 1);
        self.close_from(from);
    }

    /// Check if the call with this index is among the running ones.
    fn is_running(&self, at: usize) -> bool {
        self.running.binary_search(&at).is_ok()
    }

    /// Collect the stack around a call with this path (the call excluded). Calls on the path that are not running are
    /// excluded: they were not recorded, or they are the forward operators above a backward node.
    fn stack_around_call(&self, path: &[u32], elements: &mut Vec<Element>) {
        elements.clear();
        let mut running = self.running.iter().copied().peekable();
        let above = &path[..path.len().saturating_sub(1)];
        // Frames above a backward node belong to the call of its forward operator, which has ended.
        let begin = path.iter().rposition(|&node| self.is_backward(node));
        if let Some(begin) = begin {
            let node = path[begin];
            match self.running.iter().rposition(|&at| self.thread.calls[at].node == node) {
                // Elements below the node.
                Some(place) => {
                    elements.extend(self.stack_down_to(self.running[place]));
                    running.nth(place);
                }
                // The node itself is not running, or its record is missing: it is on the thread's current stack, as far
                // as known.
                None => {
                    let ended = |open: &Open| matches!(open.element, Element::Call(at) if !self.is_running(at));
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
                    // This check comes first: most calls on a path are running, and a search for the others would fail.
                    if self.nodes.get(&node).is_none_or(|&count| count == 0) {
                        continue;
                    }
                    let found = running.clone().position(|at| self.thread.calls[at].node == node);
                    if let Some(at) = found.and_then(|skip| running.nth(skip)) {
                        elements.push(Element::Call(at));
                    }
                }
                _ => elements.extend(self.frame_element((self.tree, node))),
            }
        }
    }

    /// Open stack elements from the outermost one to a running call, inclusive.
    fn stack_down_to(&self, at: usize) -> Vec<Element> {
        let last = self.open.iter().rposition(|open| open.element == Element::Call(at));
        self.open[..last.map_or(0, |last| last + 1)].iter().map(|open| open.element).collect()
    }

    /// Stack element for the Python function or module at a call-tree node; `None` for other frames.
    fn frame_element(&self, (tree, node): Place) -> Option<Element> {
        let frame = self.calls.threads[tree].nodes.get(node as usize)?.1;
        let identity = match *self.calls.frames.get(frame as usize)? {
            FrameKey::Python { function, file, first_line, .. } => Identity::Function { function, file, first_line },
            FrameKey::Module { path, class } => {
                Identity::Module { class, path: Some(path).filter(|&path| !self.calls.text(path).is_empty()) }
            }
            _ => return None,
        };
        Some(Element::Frame { frame, identity, at: (tree, node) })
    }

    /// Apply the samples before a time to the open stack, except those that contradict the running calls.
    fn apply_samples_before(&mut self, time: i64, path: &mut Vec<u32>, elements: &mut Vec<Element>) {
        while let [glimpse, rest @ ..] = self.sampled_spans
            && glimpse.start < time
        {
            self.sampled_spans = rest;
            self.pop_ended_calls(glimpse.start, glimpse.end);
            self.end_functions_until(glimpse.start);
            self.calls.threads[glimpse.tree].path(glimpse.node, path);
            if self.stack_around_sample(glimpse.tree, path, elements) {
                self.change_stack((glimpse.start, glimpse.end), None, elements);
            }
        }
    }

    /// Collect the stack around a sample with this path. Returns true if exactly the running calls are on the path, in
    /// their order.
    fn stack_around_sample(&self, tree: usize, path: &[u32], elements: &mut Vec<Element>) -> bool {
        elements.clear();
        let frame_of = |nodes: &[(u32, u32)], node: u32| nodes.get(node as usize).map(|&(_, frame)| frame);
        let mut running = self.running.iter().copied();
        for &node in path {
            let frame = frame_of(&self.calls.threads[tree].nodes, node);
            match frame.and_then(|frame| self.calls.frames.get(frame as usize)) {
                Some(FrameKey::Python { .. } | FrameKey::Module { .. }) => {
                    elements.extend(self.frame_element((tree, node)));
                }
                Some(FrameKey::Native { .. } | FrameKey::Unmapped { .. }) => {}
                _ => match running.next() {
                    Some(at) if frame_of(&self.thread.nodes, self.thread.calls[at].node) == frame => {
                        elements.push(Element::Call(at));
                    }
                    _ => return false,
                },
            }
        }
        running.next().is_none()
    }

    /// Check if a call-tree node of the thread is a backward node.
    fn is_backward(&self, node: u32) -> bool {
        matches!(self.key(node), Some(FrameKey::Backward { .. } | FrameKey::ShapedBackward { .. }))
    }

    /// Frame of a call-tree node of the thread; `None` for an unknown node.
    fn key(&self, node: u32) -> Option<&FrameKey> {
        self.calls.frames.get(self.thread.nodes.get(node as usize)?.1 as usize)
    }

    /// Replace the open stack by that around a call or sample in this time range, and close ended frames. `call` is the
    /// node of a call.
    fn change_stack(&mut self, (start, end): (i64, i64), call: Option<u32>, elements: &[Element]) {
        let mut same = 0;
        let mut moved = false;
        for (open, element) in self.open.iter_mut().zip(elements) {
            let continues = match (&mut open.element, element) {
                (Element::Call(open), Element::Call(now)) => open == now,
                (
                    Element::Frame { frame, identity, at },
                    Element::Frame { frame: now, identity: expected, at: place },
                ) => {
                    if identity.lacks_path() && identity.may_equal(*expected) {
                        (*frame, *identity, *at) = (*now, *expected, *place);
                    }
                    // Another line of the same function: its previous callees have ended.
                    moved = frame != now && identity == expected;
                    *frame = if moved { *now } else { *frame };
                    identity.may_equal(*expected)
                }
                _ => false,
            };
            if !continues {
                break;
            }
            same += 1;
            if moved {
                break;
            }
        }
        self.close_from(same);
        // Frames from before autograd's engine took over may have ended: only an operator of their own extends them.
        let is_backward = |at: usize| self.is_backward(self.thread.calls[at].node);
        let engine = elements.iter().rposition(|element| matches!(element, &Element::Call(at) if is_backward(at)));
        let own = if call.is_some_and(|node| self.is_backward(node)) {
            elements.len()
        } else {
            engine.map_or(0, |engine| engine + 1)
        };
        for open in self.open.iter_mut().skip(own) {
            if matches!(open.element, Element::Frame { .. }) {
                open.end = open.end.max(end);
            }
        }
        let new = elements.iter().skip(same).map(|&element| Open { element, start, end });
        self.open.extend(new);
    }

    /// Remove all open elements from this depth on, and store the frames among them as found.
    fn close_from(&mut self, from: usize) {
        for (depth, open) in self.open.drain(from.min(self.open.len())..).enumerate() {
            if let Element::Frame { frame, at, .. } = open.element {
                let depth = (from + depth) as u32;
                self.found.push(InferredFrame { start: open.start, end: open.end, depth, frame, at });
            }
        }
    }
}
