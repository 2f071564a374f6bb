//! Thresholds of rules: their declaration, and the values that the user set.

use std::collections::BTreeMap;

/// Threshold of a rule that users can change: name, default, range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Name after the rule's code: `SL001.share` for `share`.
    pub name: &'static str,
    /// Default value.
    pub default: f64,
    /// Minimum and maximum.
    pub range: (f64, f64),
    /// Description with unit.
    pub about: &'static str,
}

impl Setting {
    /// Setting `share` with a default: minimum reported share of GPU busy time, in percent.
    pub(super) const fn share_of_gpu(default: f64) -> Self {
        let about = "report only work that takes at least this percentage of GPU busy time";
        Self { name: "share", default, range: (0.0, 100.0), about }
    }
}

/// Code and settings of a rule, as its file declares them.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeclaredSettings {
    /// Code of the rule; empty for none.
    pub(super) code: &'static str,
    /// Settings of the rule.
    pub(super) settings: &'static [Setting],
}

impl DeclaredSettings {
    /// No rule, without settings.
    pub(super) const NONE: Self = Self { code: "", settings: &[] };
}

/// Thresholds that the user set, by name, such as `SL001.share`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings(BTreeMap<String, f64>);

impl Settings {
    /// Codes of rules with thresholds that the user set, one for each threshold.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter_map(|name| Some(name.split_once('.')?.0))
    }

    /// Set a threshold of a rule to a valid value.
    pub(super) fn insert(&mut self, code: &str, name: &str, value: f64) {
        self.0.insert(format!("{code}.{name}"), value);
    }

    /// Value of a rule's setting, as set by the user or else the default; 0 for an unknown name.
    pub(super) fn value(&self, DeclaredSettings { code, settings }: DeclaredSettings, name: &str) -> f64 {
        let default = || settings.iter().find(|s| s.name == name).map_or(0.0, |s| s.default);
        self.0.get(&format!("{code}.{name}")).copied().unwrap_or_else(default)
    }
}
