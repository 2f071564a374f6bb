//! Critical path of method "exact": a window and its segments.

use super::category::Category;
use super::segment_list::{PathSegment, PathSegments};
use super::window::Window;
use crate::gpu_dependency::Evidence;
use std::collections::BTreeMap;

/// Critical path: segments without gap or overlap, from the start to the end of the window.
#[derive(Clone, Debug, PartialEq)]
pub struct ExactPath {
    /// The window.
    pub window: Window,
    /// Segments in time order.
    pub segments: PathSegments,
}

impl ExactPath {
    /// Length of the path in ns, equal to that of its window.
    pub fn length_ns(&self) -> i64 {
        self.segments.iter().map(|h| h.end - h.start).sum()
    }

    /// Time on the path per cause in ns, in the order of [`Category::ALL`], including causes without time.
    pub fn by_category(&self) -> [(Category, i64); 14] {
        let mut sums = Category::ALL.map(|c| (c, 0));
        for segment in self.segments.iter() {
            sums[segment.category as usize].1 += segment.end - segment.start;
        }
        sums
    }

    /// Time on the path whose cause is inferred, not recorded, in ns.
    pub fn inferred_ns(&self) -> i64 {
        self.segments.iter().filter(|h| h.evidence == Evidence::Inferred).map(|h| h.end - h.start).sum()
    }

    /// Time on the path whose cause is inferred, by inference rule, in ns. Unexplained time is excluded.
    pub(crate) fn inferred_by_rule(&self) -> BTreeMap<&'static str, i64> {
        let mut sums = BTreeMap::new();
        let is_assumed = |h: &PathSegment| h.evidence == Evidence::Inferred && h.category != Category::Unknown;
        for segment in self.segments.iter().filter(is_assumed) {
            *sums.entry(segment.rule).or_default() += segment.end - segment.start;
        }
        sums
    }
}
