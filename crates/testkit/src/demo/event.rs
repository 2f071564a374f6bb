//! Events of the simulation, from which the writer makes the trace.

pub(super) use crate::kineto::Flow;
use crate::kineto::quote;

/// Arguments of an event: key and value, the value already JSON text.
#[derive(Debug, Clone, Default)]
pub(super) struct Args(pub(super) Vec<(&'static str, String)>);

impl Args {
    /// Add an argument to an event: a number, or another value whose text is valid JSON.
    pub(super) fn num(mut self, key: &'static str, value: impl ToString) -> Self {
        self.0.push((key, value.to_string()));
        self
    }

    /// Add a text argument to an event.
    pub(super) fn text(mut self, key: &'static str, value: &str) -> Self {
        self.0.push((key, quote(value)));
        self
    }
}

/// A slice of the demo trace (operator, frame, call or GPU work) on a thread or a stream.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) category: &'static str,
    pub(super) name: String,
    pub(super) process: i64,
    pub(super) thread: i64,
    /// Nanoseconds since the profiler was started.
    pub(super) start: i64,
    /// Nanoseconds.
    pub(super) duration: i64,
    pub(super) args: Args,
    pub(super) flow: Option<Flow>,
}

/// An allocation or release by the caching allocator, which Kineto writes as a `[memory]` instant.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    pub(super) thread: i64,
    pub(super) at: i64,
    /// Positive for an allocation, negative for a release.
    pub(super) bytes: i64,
    pub(super) address: u64,
    pub(super) allocated: i64,
    pub(super) reserved: i64,
}

/// An input of an operator, as with `record_shapes`.
#[derive(Debug, Clone)]
pub(super) enum Input {
    /// A contiguous tensor: sizes and element type.
    Tensor(Vec<i64>, &'static str),
    /// A number or list given by value.
    Scalar(String),
    /// `None`.
    Absent,
}

/// Element type of activations.
pub(super) const BF16: &str = "c10::BFloat16";

/// Operator input that is a bfloat16 tensor of these dimensions.
pub(super) fn tensor(dims: &[i64]) -> Input {
    Input::Tensor(dims.to_vec(), BF16)
}

/// Append the inputs of an operator (values, types, strides, dimensions) to its arguments, in Kineto's order.
pub(super) fn with_inputs(args: Args, inputs: &[Input]) -> Args {
    if inputs.is_empty() {
        return args;
    }
    let list = |f: &dyn Fn(&Input) -> String| format!("[{}]", inputs.iter().map(f).collect::<Vec<_>>().join(", "));
    let concrete = list(&|i| if let Input::Scalar(value) = i { quote(value) } else { quote("") });
    let kinds = list(&|i| match i {
        Input::Tensor(_, element) => quote(element),
        Input::Scalar(value) => quote(if value.starts_with('[') { "ScalarList" } else { "Scalar" }),
        Input::Absent => quote(""),
    });
    let strides = list(&|i| if let Input::Tensor(dims, _) = i { numbers(&contiguous(dims)) } else { "[]".to_owned() });
    let dims = list(&|i| if let Input::Tensor(dims, _) = i { numbers(dims) } else { "[]".to_owned() });
    args.num("Concrete Inputs", concrete).num("Input type", kinds).num("Input Strides", strides).num("Input Dims", dims)
}

/// Strides of a contiguous tensor of these dimensions.
fn contiguous(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i];
    }
    strides
}

/// Format numbers as a JSON list: `[1, 2, 3]`.
pub(super) fn numbers(values: &[i64]) -> String {
    format!("[{}]", values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}
