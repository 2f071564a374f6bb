//! What-if edits of the methods `hta` and `ctda`: selected dependencies and the change of their time, parsed from text.

use super::{CriticalPathError, EdgeKind};
use serde::{Deserialize, Serialize};

/// Resource (host or GPU) to which the time of an edge is attributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Edges attributed to a host event.
    Cpu,
    /// Edges attributed to an event on a stream.
    Gpu,
}

/// Selector of graph edges by kind, resource and name; an edge must meet all conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Selector {
    /// Edge kinds; any kind if empty.
    pub kinds: Vec<EdgeKind>,
    /// Resource of the attributed event.
    pub resource: Option<Resource>,
    /// Pattern for the whole name of the attributed event, in which `*` matches any text.
    pub name: Option<String>,
}

/// Change of an edge's weight: a factor or a new value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Multiplication by a factor.
    Scale(f64),
    /// New weight in µs.
    Set(f64),
}

/// Edit: a change of the weights of selected edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edit {
    /// Edges to edit.
    pub select: Selector,
    /// Change of their weights.
    pub change: Change,
}

/// Form of an edit: `WHAT[:NAME]=CHANGE`; see [`Edit::parse`].
const GRAMMAR: &str = "write WHAT[:NAME]=CHANGE, such as gpu:*gemm*=x0.5; WHAT is cpu, gpu, launch, gap or all, NAME an event name \
                       (* matches any text), CHANGE a factor (x0.5), a percentage (-20%) or a duration in µs (0)";

impl Edit {
    /// Parse an edit: `cpu=x0.5` (all host time halved), `gpu:ampere_*=x0.5`, `launch=0` (no launch delays), `gap=0`
    /// (no gaps between kernels), `cpu:cudaMalloc=0`, `gpu=-20%`.
    pub fn parse(text: &str) -> Result<Self, CriticalPathError> {
        let fail = |reason: &str| CriticalPathError::InvalidEdit { text: text.to_owned(), reason: reason.to_owned() };
        let refuse = |reason: &str| CriticalPathError::RefusedEdit { text: text.to_owned(), reason: reason.to_owned() };
        // Kernel names may contain "=", changes never do.
        let (what, change) = text.rsplit_once('=').ok_or_else(|| fail(GRAMMAR))?;
        let (what, name) = what.split_once(':').map_or((what, None), |(w, n)| (w, Some(n.to_owned())));
        let operator = vec![EdgeKind::OperatorKernel];
        let (kinds, resource) = match what.trim() {
            "cpu" => (operator, Some(Resource::Cpu)),
            "gpu" => (operator, Some(Resource::Gpu)),
            "launch" => (vec![EdgeKind::KernelLaunchDelay], None),
            "gap" => (vec![EdgeKind::KernelKernelDelay], None),
            "all" => (Vec::new(), None),
            _ => return Err(fail(GRAMMAR)),
        };
        if what.trim() == "launch" && name.is_some() {
            return Err(refuse("launch delays do not belong to events, so they cannot be selected by name"));
        }
        let change = parse_change(change.trim()).ok_or_else(|| fail(GRAMMAR))?;
        if !is_in_range(change) {
            return Err(refuse("a factor must be from 0 to 1000 (-100% to +99900%), a duration from 0 to 1e9 µs"));
        }
        Ok(Self { select: Selector { kinds, resource, name }, change })
    }
}

/// Limits of edits, beyond which an edit is a mistake: factors, and durations in µs (1,000 s).
const LARGEST_FACTOR: f64 = 1_000.0;
const LONGEST_US: f64 = 1e9;

/// Parse the change of an edit, such as `x0.5`, `-20%` or `3us`; `None` if invalid.
fn parse_change(text: &str) -> Option<Change> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|f| f.is_finite());
    if let Some(factor) = text.strip_prefix(['x', '*']) {
        return number(factor).map(Change::Scale);
    }
    if let Some(percent) = text.strip_suffix('%') {
        return number(percent).map(|p| Change::Scale(1.0 + p / 100.0));
    }
    let text = text.strip_suffix("us").or_else(|| text.strip_suffix("µs")).unwrap_or(text);
    number(text).map(Change::Set)
}

/// True if a factor is from 0 to 1,000, or a duration from 0 to 1e9 µs.
fn is_in_range(change: Change) -> bool {
    match change {
        Change::Scale(factor) => (0.0..=LARGEST_FACTOR).contains(&factor),
        Change::Set(us) => (0.0..=LONGEST_US).contains(&us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::vocabulary::matches;

    #[test]
    fn patterns() {
        assert!(matches("cudaMalloc", "cudaMalloc"));
        assert!(!matches("cudaMalloc", "cudaMallocAsync"));
        assert!(matches("cudaMalloc*", "cudaMallocAsync"));
        assert!(matches("*gemm*", "ampere_sgemm_32x32"));
        assert!(matches("a*b*c", "a_b_b_c"));
        assert!(!matches("a*bc*c", "a_bc"));
        assert!(matches("*", ""));
    }

    #[test]
    fn edits_as_text() {
        let edit = Edit::parse("gpu:void f<a=b>*=x0.5").unwrap();
        assert_eq!(edit.select.name.as_deref(), Some("void f<a=b>*"));
        assert_eq!(edit.change, Change::Scale(0.5));
        assert_eq!(Edit::parse("launch=0").unwrap().change, Change::Set(0.0));
        assert_eq!(Edit::parse("cpu=-25%").unwrap().change, Change::Scale(0.75));
        assert_eq!(Edit::parse("cpu:aten::mm=3us").unwrap().select.name.as_deref(), Some("aten::mm"));
        for bad in ["", "cpu", "cpu=", "cpu=-3", "gpu=xNaN", "disk=0", "cpu=-200%", "launch:a=0"] {
            assert!(Edit::parse(bad).is_err(), "{bad}");
        }
    }
}
