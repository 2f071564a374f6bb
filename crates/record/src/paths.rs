//! Call-tree nodes of the Python frames and modules between the enclosing operator and an operator that begins.

use crate::client_words::{SPAN, START};
use crate::process::Process;
use crate::python_path_cache::{Outer, PathCache, PathContext};
use crate::tree::{NodeId, ROOT, TreeOwner};
use dlmonitor::{Interpreter, OpenOperator, PythonFrame};
use rustc_hash::FxHashMap;

/// Largest number of calls between the `__enter__` of a context manager and the begin of its span.
const ENTER_DEPTH: usize = 4;
/// Number of cached paths, one per depth of nested operators.
const MAX_PATH_CACHES: usize = 8;

/// Limit of the cache of code objects that are or are not an `__enter__`.
const MAX_ENTERS: usize = 4096;

/// Path caches of one thread.
#[derive(Debug)]
pub(crate) struct Paths {
    /// The last path from the root, then those below open operators and spans, by their depth.
    path_caches: Vec<PathCache>,
    /// True for code objects that are the `__enter__` of a context manager, by address and fingerprint.
    enters: FxHashMap<(usize, u64), bool>,
}

impl Paths {
    /// Create the empty caches of a thread.
    pub(crate) fn new() -> Self {
        Self { path_caches: vec![PathCache::default()], enters: FxHashMap::default() }
    }

    /// Clear the caches, because their nodes belong to another tree.
    pub(crate) fn clear(&mut self) {
        self.path_caches.iter_mut().for_each(PathCache::clear);
    }

    /// Find or create the node of the Python frames up to `newest`, below the open operators: the parent of an operator
    /// that begins.
    #[inline]
    pub(crate) fn node(
        &mut self,
        tree: &mut TreeOwner,
        process: &Process,
        open: &[OpenOperator],
        newest: Option<&PythonFrame>,
    ) -> NodeId {
        let known = |open: &&OpenOperator| open.client[START] != 0;
        // An operator that began before the window opened has no node.
        let Some(innermost) = open.last().filter(known) else {
            let (Some(newest), Some(interpreter)) = (newest, dlmonitor::interpreter()) else { return ROOT };
            return self.walk_whole_path(&mut PathContext { tree, process, interpreter }, newest).unwrap_or(ROOT);
        };
        let below = NodeId(innermost.client[0] as u32);
        let (Some(newest), Some(interpreter)) = (newest, dlmonitor::interpreter()) else { return below };
        let mut context = PathContext { tree, process, interpreter };
        // The frame that opened a span may have returned, as with `ExitStack`. A path that no longer has a frame in
        // common with the span is placed next to it, in the enclosing operator or span.
        for depth in (1..=open.len()).rev() {
            let Some(enclosing) = open.get(depth - 1).filter(known) else { break };
            let below = NodeId(enclosing.client[0] as u32);
            let outer = match &enclosing.python {
                None => Outer::Root,
                Some(entered) if entered == newest => return below,
                Some(entered) if enclosing.client[0] & SPAN != 0 => Outer::With(entered),
                // This frame is still calling the operator, and is placed above the operator already.
                Some(entered) => Outer::Before(entered),
            };
            if let Some(node) = self.path_cache(depth).node(&mut context, below, newest, outer) {
                return node;
            }
        }
        self.walk_whole_path(&mut context, newest).unwrap_or(below)
    }

    /// Node of the whole Python path from the root to `newest`, without open operators.
    fn walk_whole_path(&mut self, context: &mut PathContext<'_>, newest: &PythonFrame) -> Option<NodeId> {
        self.path_cache(0).node(context, ROOT, newest, Outer::Root)
    }

    /// Path cache for a number of enclosing operators; the deepest ones share a cache.
    #[inline]
    fn path_cache(&mut self, outer: usize) -> &mut PathCache {
        let at = outer.min(MAX_PATH_CACHES - 1);
        if self.path_caches.len() <= at {
            self.path_caches.resize_with(at + 1, PathCache::default);
        }
        &mut self.path_caches[at]
    }

    /// Python frame whose `with` statement begins a span: the caller of `__enter__`, or `newest` if no `__enter__` is
    /// near.
    pub(crate) fn with_statement_frame(&mut self, newest: Option<PythonFrame>) -> Option<PythonFrame> {
        let (newest, interpreter) = (newest?, dlmonitor::interpreter()?);
        let mut frame = newest;
        for _ in 0..ENTER_DEPTH {
            let caller = interpreter.caller(frame);
            if self.is_enter(interpreter, frame) {
                return caller;
            }
            let Some(caller) = caller else { break };
            frame = caller;
        }
        Some(newest)
    }

    /// True if the frame runs the `__enter__` of a context manager, cached by code object.
    fn is_enter(&mut self, interpreter: &Interpreter, frame: PythonFrame) -> bool {
        if self.enters.len() >= MAX_ENTERS {
            self.enters.clear();
        }
        *self.enters.entry((frame.code, interpreter.fingerprint(frame))).or_insert_with(|| {
            let function = interpreter.describe(frame).function;
            function == "__enter__" || function.ends_with(".__enter__")
        })
    }
}
