//! Words of the recorder in each open operator ([`dlmonitor::OpenOperator::client`]).

/// Index of the node, with its marks.
pub(crate) const NODE: usize = 0;
/// Index of the operator's begin ([`crate::state::State::now`]); 0 if the operator is not recorded.
pub(crate) const START: usize = 1;
/// Index of the time of its callees, in the unit of [`START`].
pub(crate) const CALLEES_TIME: usize = 2;
/// Index of autograd's numbers, or of the number of a span's name in `trace` mode, or for spans in other modes of
/// [`crate::window::Window::paused`] at its begin.
pub(crate) const SEQUENCE: usize = 3;

/// Bit of an open span, in the word of its node. A span outlives the frame that opened it.
pub(crate) const SPAN: u64 = 1 << 32;

/// Bit of a span whose end ends a training step, in the word of its node.
pub(crate) const STEP: u64 = 1 << 33;

/// Bit of a garbage collection, in the word of its node.
pub(crate) const IS_COLLECTION: u64 = 1 << 34;
