//! Critical path of each step, and the spread over all steps, so that a single outlier does not mislead.

use super::backward_pass::walk;
use super::category::{Categories, Category};
use super::{Exact, Window};
use serde::Serialize;

/// Time per cause on the critical path of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepPath {
    /// Number of the step.
    pub number: i64,
    /// Length of the step in ns.
    pub window_ns: i64,
    /// Time per cause in ns, in the order of [`Category::ALL`].
    #[serde(skip)]
    pub by_category: [(Category, i64); 14],
}

/// Minimum, median and maximum of the time of one cause over all steps, in ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepSpread {
    /// Cause; none for the length of the step.
    pub category: Option<Category>,
    /// Minimum over the steps.
    pub min_ns: i64,
    /// Median over the steps: for an even number, the mean of the middle two, in whole ns.
    pub median_ns: i64,
    /// Maximum over the steps.
    pub max_ns: i64,
    /// Number of the step with the maximum.
    pub max_step: i64,
}

impl Exact<'_> {
    /// Compute the critical path of each step, in time order.
    pub fn step_paths(&self) -> Vec<StepPath> {
        let mut categories = Categories::new(self);
        let step = |(number, window): (i64, Window)| {
            let mut by_category = Category::ALL.map(|c| (c, 0));
            walk(self, &mut categories, window, |segment| {
                by_category[segment.category as usize].1 += segment.end - segment.start;
            });
            StepPath { number, window_ns: window.length_ns(), by_category }
        };
        self.step_windows().into_iter().map(step).collect()
    }
}

/// Compute the spread over steps of the step length and of each cause that occurs, largest median first.
pub fn spread(steps: &[StepPath]) -> Vec<StepSpread> {
    if steps.is_empty() {
        return Vec::new();
    }
    let over = |category: Option<Category>, value: &dyn Fn(&StepPath) -> i64| {
        let mut values: Vec<(i64, i64)> = steps.iter().map(|s| (value(s), s.number)).collect();
        values.sort_unstable();
        let (max_ns, max_step) = values[values.len() - 1];
        let (low, high) = (values[(values.len() - 1) / 2].0, values[values.len() / 2].0);
        StepSpread { category, min_ns: values[0].0, median_ns: low + (high - low) / 2, max_ns, max_step }
    };
    let mut causes: Vec<StepSpread> =
        Category::ALL.into_iter().map(|c| over(Some(c), &|s: &StepPath| s.by_category[c as usize].1)).collect();
    causes.retain(|c| c.max_ns > 0);
    causes.sort_by_key(|c| (std::cmp::Reverse(c.median_ns), c.category));
    causes.insert(0, over(None, &|s: &StepPath| s.window_ns));
    causes
}
