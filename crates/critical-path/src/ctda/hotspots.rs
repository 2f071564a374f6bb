//! Hotspots: time on the path by name and category, by phase and by cause (section 3.4 of the paper).

use super::CtdaPath;
use rustc_hash::FxHashMap;
use stackline_timeline::phase_rules::Phase;

/// Hotspot: the events of one name and category on the critical path, with their total time.
#[derive(Clone, Debug, PartialEq)]
pub struct Hotspot {
    /// Name.
    pub name: String,
    /// Category as in the source.
    pub category: String,
    /// Effective time on the path in ns, without overlap with later work of the path.
    pub duration_ns: i64,
    /// Number of time ranges of such events on the path.
    pub pieces: usize,
    /// Percent of the path's executed time.
    pub proportion: f64,
    /// Percent of the window.
    pub prop_in_total: f64,
}

impl CtdaPath {
    /// Hotspots of the path: time by event name and category, largest first.
    pub fn hotspots(&self) -> Vec<Hotspot> {
        let mut sums: FxHashMap<(u32, u32), (i64, usize)> = FxHashMap::default();
        for (_, piece) in self.path_pieces() {
            let at = piece.event as usize;
            let (Some(&name), Some(&category)) = (self.events.name.get(at), self.categories.of_event.get(at)) else {
                continue;
            };
            let sum = sums.entry((name, category)).or_default();
            *sum = (sum.0 + piece.end_ns - piece.start_ns, sum.1 + 1);
        }
        let (executed, window) = (self.executed_ns(), self.window_ns());
        let text = |list: &[String], row: u32| list.get(row as usize).cloned().unwrap_or_default();
        let mut hotspots: Vec<Hotspot> = sums
            .into_iter()
            .map(|((name, category), (duration_ns, pieces))| Hotspot {
                name: text(&self.events.names, name),
                category: text(&self.categories.names, category),
                duration_ns,
                pieces,
                proportion: percent(duration_ns, executed),
                prop_in_total: percent(duration_ns, window),
            })
            .collect();
        let key = |h: &Hotspot| (std::cmp::Reverse(h.duration_ns), h.name.clone(), h.category.clone());
        hotspots.sort_by_cached_key(key);
        hotspots
    }

    /// Executed time of the path in ns by phase of its nodes, in the order of [`Phase::ALL`].
    pub fn phases(&self) -> [(Phase, i64); 7] {
        let mut sums = [0; 7];
        for (step, piece) in self.path_pieces() {
            let phase = self.graph.nodes.get(step.node as usize).map_or(Phase::Other, |n| n.phase);
            sums[phase as usize] += piece.end_ns - piece.start_ns;
        }
        Phase::ALL.map(|phase| (phase, sums[phase as usize]))
    }

    /// Time on the path by cause in ns, with HTA's names: `cpu_bound`, `data_loading`, `gpu_compute_bound` or
    /// `gpu_communication_bound`. Sorted by name.
    pub fn bound_by_ns(&self) -> Vec<(&'static str, i64)> {
        let mut sums =
            [("cpu_bound", 0), ("data_loading", 0), ("gpu_communication_bound", 0), ("gpu_compute_bound", 0)];
        let communicates: Vec<bool> = self.events.names.iter().map(|n| communicates(n)).collect();
        for (step, piece) in self.path_pieces() {
            let Some(node) = self.graph.nodes.get(step.node as usize) else { continue };
            let name = self.events.name.get(piece.event as usize).map_or(usize::MAX, |&n| n as usize);
            let at = match (node.is_gpu, node.phase) {
                (true, _) if communicates.get(name).copied().unwrap_or(false) => 2,
                (true, _) => 3,
                (false, Phase::DataLoad) => 1,
                (false, _) => 0,
            };
            sums[at].1 += piece.end_ns - piece.start_ns;
        }
        sums.into_iter().filter(|s| s.1 > 0).collect()
    }
}

/// True if a kernel's name shows communication with other devices.
fn communicates(name: &str) -> bool {
    use stackline_timeline::kernel_type::{KernelType, RULES, by_name};
    by_name(RULES, name) == KernelType::Communication
}

/// Convert `part` to percent of `whole`; 0 if `whole` is 0.
pub(super) fn percent(part: i64, whole: i64) -> f64 {
    if whole <= 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}
