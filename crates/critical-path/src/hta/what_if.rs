//! What-if for graphs of method `hta`: edits of edge weights, followed by a new search for the longest path.
//!
//! Breakdown and overlay of the result use the edited weights, unlike HTA's. Host work keeps its order, so the result
//! shows the waits that would remain.

use super::graph::{Edge, NO_EVENT};
use super::longest_path::longest_path;
use super::result::CriticalPath;
use crate::nearest::nearest;
use crate::{Change, Edit, Resource, Selector, Warning, WarningCode};
use stackline_model::vocabulary::matches;
use std::collections::BTreeSet;

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
