//! Breakdown of the time on the critical path by cause (section 2.6 of the HTA specification).

use super::graph::Edge;
use super::result::CriticalPath;
use crate::{CriticalPathError, EdgeKind};
use regex_lite::Regex;
use stackline_model::{Table, Unit};

/// One edge of the critical path, with its cause and time.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Position in the graph's edges.
    pub edge: u32,
    /// HTA's name of the edge's cause; empty for dependencies and synchronization, which have weight 0.
    pub bound_by: &'static str,
    /// Weight in µs; negative where rounding made an event end before its start.
    pub weight_us: f64,
}

/// Share of a cause, or of an event name, in the time of the critical path.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Name of the cause, or of the event.
    pub name: String,
    /// Summed weight in µs.
    pub weight_us: f64,
    /// Percent of the total weight of the path.
    pub percent: f64,
    /// Number of edges.
    pub edges: usize,
}

/// Edges of a critical path with their causes.
#[derive(Clone, Debug, PartialEq)]
pub struct Breakdown {
    /// One per edge of the path, in path order.
    pub steps: Vec<Step>,
    /// Shares per cause, sorted by name.
    pub bound_by: Vec<Share>,
}

impl CriticalPath {
    /// Attribute each edge of the path to a cause, such as `cpu_bound`, and sum the weights by cause.
    ///
    /// Causes are `cpu_bound`, `data_loading`, `gpu_compute_bound`, `gpu_communication_bound`,
    /// `gpu_kernel_kernel_overhead`, `gpu_kernel_launch_overhead`, or the empty text.
    pub fn breakdown(&self) -> Breakdown {
        // The analysis already checked these patterns. Invalid patterns in a restored file match nothing.
        let patterns = data_load_patterns(&self.options.data_load_events).unwrap_or_default();
        // Cache of the causes per name, for host events and GPU events.
        let mut known = [vec![None; self.events.names.len()], vec![None; self.events.names.len()]];
        let steps: Vec<Step> = self
            .path
            .edges
            .iter()
            .filter_map(|&e| self.graph.edges.get(e as usize).map(|edge| (e, edge)))
            .map(|(e, edge)| Step {
                edge: e,
                bound_by: self.bound_by(edge, &patterns, &mut known),
                weight_us: edge.weight_us,
            })
            .collect();
        let mut sums: Vec<(&'static str, f64, usize)> = Vec::new();
        for step in &steps {
            match sums.iter_mut().find(|s| s.0 == step.bound_by) {
                Some(sum) => (sum.1, sum.2) = (sum.1 + step.weight_us, sum.2 + 1),
                None => sums.push((step.bound_by, step.weight_us, 1)),
            }
        }
        let mut bound_by = shares(sums);
        bound_by.sort_by(|a, b| a.name.cmp(&b.name));
        Breakdown { steps, bound_by }
    }

    /// Share of each event name in the time of the path, largest first. Edges count for the event that they are
    /// attributed to. Launch delays have no such event and count for the launched kernel.
    pub fn top_names(&self) -> Vec<Share> {
        let mut sums = vec![(0f64, 0usize); self.events.names.len()];
        for edge in self.path_edges() {
            let event = match edge.kind {
                EdgeKind::Dependency | EdgeKind::SyncDependency => continue,
                EdgeKind::KernelLaunchDelay => self.graph.nodes.event.get(edge.to as usize).copied(),
                EdgeKind::OperatorKernel | EdgeKind::KernelKernelDelay => Some(edge.attributed),
            };
            let name = event.and_then(|e| self.events.name.get(e as usize));
            if let Some(sum) = name.and_then(|&n| sums.get_mut(n as usize)) {
                *sum = (sum.0 + edge.weight_us, sum.1 + 1);
            }
        }
        let names = self.events.names.iter().zip(sums).filter(|(_, sum)| sum.1 > 0);
        let mut shares = shares(names.map(|(name, (weight, edges))| (name.as_str(), weight, edges)).collect());
        shares.sort_by(|a, b| b.weight_us.total_cmp(&a.weight_us).then_with(|| a.name.cmp(&b.name)));
        shares
    }

    /// HTA's name of the cause of an edge, by its kind and event name; empty for dependencies and synchronization.
    /// `known` caches the causes by name.
    fn bound_by(&self, edge: &Edge, patterns: &[Regex], known: &mut [Vec<Option<&'static str>>; 2]) -> &'static str {
        match edge.kind {
            EdgeKind::KernelKernelDelay => return "gpu_kernel_kernel_overhead",
            EdgeKind::KernelLaunchDelay => return "gpu_kernel_launch_overhead",
            EdgeKind::Dependency | EdgeKind::SyncDependency => return "",
            EdgeKind::OperatorKernel => {}
        }
        let is_gpu = self.events.is_gpu(edge.attributed);
        let id = self.events.name.get(edge.attributed as usize).map_or(usize::MAX, |&n| n as usize);
        let memo = known[usize::from(is_gpu)].get_mut(id);
        if let Some(Some(found)) = memo {
            return found;
        }
        let name = shorten(self.events.name(edge.attributed));
        let found = if !is_gpu {
            if patterns.iter().any(|p| p.is_match(&name)) { "data_loading" } else { "cpu_bound" }
        } else if is_communication(&name) {
            "gpu_communication_bound"
        } else {
            "gpu_compute_bound"
        };
        if let Some(memo) = memo {
            *memo = Some(found);
        }
        found
    }
}

/// Convert sums of edge weights in µs and edge counts, by name, into shares of the total weight.
fn shares(sums: Vec<(&str, f64, usize)>) -> Vec<Share> {
    let total: f64 = sums.iter().map(|s| s.1).sum();
    let share = |(name, weight_us, edges): (&str, f64, usize)| Share {
        name: name.to_owned(),
        weight_us,
        percent: if total == 0.0 { 0.0 } else { weight_us / total * 100.0 },
        edges,
    };
    sums.into_iter().map(share).collect()
}

/// Compile the patterns for data loading as regular expressions.
pub(super) fn data_load_patterns(texts: &[String]) -> Result<Vec<Regex>, CriticalPathError> {
    let compile = |text: &String| {
        Regex::new(text).map_err(|e| CriticalPathError::InvalidPattern { pattern: text.clone(), reason: e.to_string() })
    };
    texts.iter().map(compile).collect()
}

/// True if a shortened kernel name is that of a communication kernel by the rule of HTA. Names that start with "hip"
/// count as well.
fn is_communication(name: &str) -> bool {
    ["nccl", "hip", "hccl"].iter().any(|p| name.starts_with(p)) || name.contains("ncclKernel")
}

/// Shorten a name as HTA does: remove arguments and template arguments and keep the last word. Names of memory
/// operations stay.
fn shorten(name: &str) -> std::borrow::Cow<'_, str> {
    if name.starts_with("Mem") && (name.starts_with("Memcpy") || name.starts_with("Memset")) {
        return name.into();
    }
    if !name.contains(['<', '(']) {
        return name.into();
    }
    let mut kept = String::with_capacity(name.len());
    for c in name.replace("->", "").chars() {
        let open = match c {
            '>' => '<',
            ')' => '(',
            _ => {
                kept.push(c);
                continue;
            }
        };
        // A closing bracket without an opening one removes everything before it, as in HTA.
        let start = kept.rfind(open).unwrap_or(0);
        kept.truncate(start);
    }
    kept.rsplit(' ').next().unwrap_or("").to_owned().into()
}

impl CriticalPath {
    /// Breakdown, largest names, edges and nodes as tables.
    pub fn tables(&self) -> Vec<Table> {
        let breakdown = self.breakdown();
        let top = self.top_names();
        vec![
            shares_table("critical_path_breakdown", "Critical path by cause", &breakdown.bound_by),
            shares_table("critical_path_names", "Events with the largest share of the critical path", &top),
            self.edges_table(),
            self.nodes_table(),
        ]
    }

    /// Table of the edges by type: their number in the graph and on the path, and their weight on the path.
    fn edges_table(&self) -> Table {
        let mut on_path = [(0i64, 0f64); 5];
        for edge in self.path_edges() {
            let sum = &mut on_path[edge.kind as usize];
            *sum = (sum.0 + 1, sum.1 + edge.weight_us);
        }
        let all = self.edges_by_type();
        Table::new("critical_path_edges", "Dependency edges in the graph and on the critical path, by type")
            .text("type", all.iter().map(|(k, _)| k.name().to_owned()))
            .i64("edges", Unit::None, all.iter().map(|&(_, n)| n as i64))
            .i64("path_edges", Unit::None, on_path.iter().map(|&(n, _)| n))
            .f64("path_weight", Unit::Us, on_path.iter().map(|&(_, w)| w))
    }

    /// Table of the starts and ends of events on the path, in time order.
    fn nodes_table(&self) -> Table {
        let nodes = &self.graph.nodes;
        let points: Vec<(u32, bool, i64)> = self
            .path
            .nodes
            .iter()
            .map(|&n| n as usize)
            .filter(|&n| n < nodes.len())
            .map(|n| (nodes.event[n], nodes.is_start[n], nodes.time_ns[n]))
            .collect();
        let index = |e: u32| self.events.index.get(e as usize).map(|&i| i64::from(i));
        Table::new("critical_path_nodes", "Starts and ends of events on the critical path, in time order")
            .i64("event", Unit::None, points.iter().map(|p| index(p.0)))
            .text("at", points.iter().map(|p| if p.1 { "start" } else { "end" }.to_owned()))
            .i64("time", Unit::Ns, points.iter().map(|p| p.2.saturating_sub(self.window_start_ns)))
            .text("name", points.iter().map(|p| self.events.name(p.0).to_owned()))
            .text("track", points.iter().map(|p| self.events.track_label(p.0).to_owned()))
            .note("Times count from the start of the window.")
    }
}

/// Table of shares of causes or event names. Dependencies and synchronization, with empty name, appear as
/// `(dependency)`.
fn shares_table(name: &str, title: &str, shares: &[Share]) -> Table {
    let label = |s: &Share| if s.name.is_empty() { "(dependency)".to_owned() } else { s.name.clone() };
    Table::new(name, title)
        .text("name", shares.iter().map(label))
        .f64("weight", Unit::Us, shares.iter().map(|s| s.weight_us))
        .f64("percent", Unit::Percent, shares.iter().map(|s| s.percent))
        .i64("edges", Unit::None, shares.iter().map(|s| s.edges as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names() {
        assert_eq!(
            shorten("void at::native::vectorized_elementwise_kernel<4, F<int>>(int, F)"),
            "at::native::vectorized_elementwise_kernel"
        );
        assert_eq!(shorten("Memcpy DtoH (Device -> Pinned)"), "Memcpy DtoH (Device -> Pinned)");
        assert_eq!(shorten("aten::mm"), "aten::mm");
        assert_eq!(
            shorten("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"),
            "ncclKernel_AllReduce_RING_LL_Sum_float"
        );
    }

    #[test]
    fn communication_by_name() {
        assert!(is_communication("ncclDevKernel_AllReduce"));
        assert!(is_communication("hipLaunchSomething"), "HTA's own mistake, kept");
        assert!(is_communication("my_ncclKernel"));
        assert!(!is_communication("ampere_sgemm"));
    }
}
