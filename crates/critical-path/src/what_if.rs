//! What-if for graphs of method `hta`: edits of edge weights, followed by a new search for the longest path.
//!
//! Breakdown and overlay of the result use the edited weights, unlike HTA's. Host work keeps its order, so the result
//! shows the waits that would remain.

use super::graph::{Edge, EdgeKind, NO_EVENT};
use super::longest_path::longest_path;
use super::nearest::nearest;
use super::{CriticalPath, CriticalPathError, Warning, WarningCode};
use serde::{Deserialize, Serialize};
use stackline_model::vocabulary::matches;
use std::collections::BTreeSet;

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

impl CriticalPath {
    /// Find the critical path after some edits, applied in sequence. Negative weights count as 0, as in the search. An
    /// edit that matches no edge adds a warning to the result.
    pub fn apply(&self, edits: &[Edit]) -> Self {
        let mut result = self.clone();
        for edge in &mut result.graph.edges {
            edge.weight_us = edge.search_weight_us();
        }
        for edit in edits {
            let named = edit.select.name.as_ref().map(|pattern| self.names_matching(pattern));
            let selected = |edge: &Edge| self.selects(&edit.select, named.as_deref(), edge);
            let mut matched = false;
            for edge in result.graph.edges.iter_mut().filter(|e| selected(e)) {
                matched = true;
                let weight = match edit.change {
                    Change::Scale(factor) => edge.weight_us * factor,
                    Change::Set(weight) => weight,
                };
                edge.weight_us = if weight.is_finite() { weight.max(0.0) } else { edge.weight_us };
            }
            if !matched {
                Warning::add_detail(
                    &mut result.warnings,
                    WarningCode::WhatIfUnmatched,
                    self.no_match_reason(&edit.select),
                );
            }
        }
        // The edges are still those of an acyclic graph, so a path exists.
        result.path = longest_path(result.graph.nodes.len(), &result.graph.edges).unwrap_or_default();
        result
    }

    /// Reason why a selector matches no edge, with similar names.
    fn no_match_reason(&self, select: &Selector) -> String {
        let any_name = Selector { name: None, ..select.clone() };
        let edges = self.graph.edges.iter().filter(|e| self.selects(&any_name, None, e));
        let names: BTreeSet<&str> = edges.map(|e| self.events.name(e.attributed)).filter(|n| !n.is_empty()).collect();
        let Some(pattern) = &select.name else {
            return "no dependency in the graph is of the selected kind and on the selected device (CPU or GPU)"
                .to_owned();
        };
        let near = nearest(names, &pattern.replace('*', ""));
        if near.is_empty() {
            return format!("no event is named '{pattern}'");
        }
        let near: Vec<String> = near.iter().map(|name| shortened(name)).collect();
        format!("no event is named '{pattern}'; nearest names: '{}'", near.join("', '"))
    }

    /// True if a selector matches an edge by kind, resource and name. `named` marks the matching event names; `None`
    /// accepts all.
    fn selects(&self, select: &Selector, named: Option<&[bool]>, edge: &Edge) -> bool {
        let charged = edge.attributed != NO_EVENT;
        let is_gpu = self.events.is_gpu(edge.attributed);
        let name = self.events.name.get(edge.attributed as usize).map(|&n| n as usize);
        (select.kinds.is_empty() || select.kinds.contains(&edge.kind))
            && select.resource.is_none_or(|r| charged && is_gpu == (r == Resource::Gpu))
            && named.is_none_or(|m| name.and_then(|n| m.get(n)).copied().unwrap_or(false))
    }

    /// Per distinct event name: true if the pattern matches the whole name.
    fn names_matching(&self, pattern: &str) -> Vec<bool> {
        self.events.names.iter().map(|name| matches(pattern, name)).collect()
    }
}

/// Shorten a name to its first 60 characters; names of kernels can have thousands.
fn shortened(name: &str) -> String {
    const CHARACTERS: usize = 60;
    let short: String = name.chars().take(CHARACTERS).collect();
    if short.len() < name.len() { short + "…" } else { short }
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
