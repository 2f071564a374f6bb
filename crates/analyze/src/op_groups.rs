//! Grouping of operators that launch GPU work, shared by TraceLens' operator tables.

use rustc_hash::FxHashMap;
use stackline_model::names::MODULE_PREFIX;
use stackline_model::{EventId, StrId, Table, Trace, Unit};
use stackline_timeline::classify;
use stackline_timeline::gpu_view::{Launcher, Launchers};
use stackline_timeline::stats::percent;

/// Group key of operators that launch GPU work: name, module, category, recomputation. Keys that are not grouped by are
/// empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupKey {
    pub(crate) name: StrId,
    pub(crate) module: Option<String>,
    pub(crate) category: Option<&'static str>,
    pub(crate) recompute: Option<bool>,
}

/// Operators that launch GPU work and have equal keys, in order of start.
pub(crate) struct Group<'a> {
    pub(crate) by: GroupKey,
    pub(crate) members: Vec<&'a Launcher>,
    pub(crate) direct_us: f64,
    pub(crate) subtree_us: f64,
}

impl Group<'_> {
    /// Name of the operators in a group.
    pub(crate) fn name(&self, trace: &Trace) -> String {
        trace.strings.get(self.by.name).to_owned()
    }

    /// Distinct categories of a group's operators, in alphabetical order: one operator may launch different kernels.
    pub(crate) fn categories(&self) -> Vec<&'static str> {
        let mut all: Vec<_> = self.members.iter().map(|l| l.category).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Group operators that launch GPU work, largest direct GPU time first. Groups of equal time are in order of first
/// start.
pub(crate) fn group<'a>(launchers: &'a Launchers, by: impl Fn(&Launcher) -> GroupKey) -> Vec<Group<'a>> {
    let mut index: FxHashMap<GroupKey, usize> = FxHashMap::default();
    let mut groups: Vec<Group<'a>> = Vec::new();
    for launcher in &launchers.list {
        let key = by(launcher);
        let at = *index.entry(key.clone()).or_insert_with(|| {
            groups.push(Group { by: key, members: Vec::new(), direct_us: 0.0, subtree_us: 0.0 });
            groups.len() - 1
        });
        groups[at].members.push(launcher);
        groups[at].direct_us += launcher.direct_us;
        groups[at].subtree_us += launcher.subtree_us;
    }
    groups.sort_by(|a, b| b.direct_us.total_cmp(&a.direct_us));
    groups
}

/// Class of an `nn.Module` call from its name: `Linear` for `nn.Module: Linear_12`; `None` without a call.
pub(crate) fn module_type(trace: &Trace, module: EventId) -> Option<String> {
    let name = trace.name(module.some()?);
    let name = name.strip_prefix(MODULE_PREFIX).map_or(name, str::trim_start);
    let instance = name.rfind('_').filter(|&i| i + 1 < name.len() && name[i + 1..].bytes().all(|b| b.is_ascii_digit()));
    Some(instance.map_or(name, |i| &name[..i]).to_owned())
}

/// The `nn.Module` calls around an event as the profiler numbers them: `Decoder_0 > Conv2d_0`; `None` without one.
///
/// Outermost first.
pub(crate) fn module_path(trace: &Trace, event: EventId) -> Option<String> {
    let names = trace.ancestors(event).map(|e| trace.name(e)).filter(|name| classify::is_module_call(name));
    let mut path: Vec<&str> = names.map(|n| n.strip_prefix(MODULE_PREFIX).map_or(n, str::trim_start)).collect();
    path.reverse();
    (!path.is_empty()).then(|| path.join(" > "))
}

/// Add the columns `module` and `module_path_first` if groups are by module, otherwise column `recompute` if
/// `any_recompute`.
pub(crate) fn add_key_columns(
    table: Table,
    trace: &Trace,
    groups: &[Group<'_>],
    by_module: bool,
    any_recompute: bool,
) -> Table {
    if by_module {
        let first = |g: &Group<'_>| g.members.first().and_then(|l| module_path(trace, l.event));
        table
            .text("module", groups.iter().map(|g| g.by.module.clone()))
            .text("module_path_first", groups.iter().map(first))
    } else if any_recompute {
        table.bool("recompute", groups.iter().map(|g| g.by.recompute))
    } else {
        table
    }
}

/// Add the columns `percent` and `cumulative_percent`: share of each group in the direct GPU time, and the running sum.
pub(crate) fn add_share_columns(table: Table, groups: &[Group<'_>]) -> Table {
    let all: f64 = groups.iter().map(|g| g.direct_us).sum();
    let share: Vec<Option<f64>> = groups.iter().map(|g| percent(g.direct_us, all)).collect();
    let mut sum = 0.0;
    let running: Vec<Option<f64>> = share
        .iter()
        .map(|s| {
            s.map(|s| {
                sum += s;
                sum
            })
        })
        .collect();
    table.f64("percent", Unit::Percent, share).f64("cumulative_percent", Unit::Percent, running)
}
