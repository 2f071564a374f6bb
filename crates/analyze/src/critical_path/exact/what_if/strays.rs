//! Moments that lie in a stretch on one axis but not on the other: who held when somebody asked, before and after an edit.
//!
//! With many threads nearly every moment lies in stretches of all of them, so pairs are not looked at one by one: a sweep over
//! one axis keeps sums over the other one.

/// A stretch on two axes, half open; the second one may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) group: u32,
    pub(super) x: (i64, i64),
    pub(super) y: (i64, i64),
    pub(super) length: i64,
}

/// A moment on both axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) group: u32,
    pub(super) x: i64,
    pub(super) y: i64,
}

/// Over all pairs of other groups whose stretch holds the moment on the first axis but not on the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Strays {
    /// From the moment to the end of the stretch on the first axis, summed.
    pub(super) left: i64,
    /// The longest such stretch.
    pub(super) longest: i64,
}

impl Stretch {
    /// Whether a moment in it on the first axis is outside of it on the second.
    fn is_left_by(&self, moment: &Moment) -> bool {
        !(self.y.0..self.y.1).contains(&moment.y)
    }
}

/// Finds the pairs. Stretches of one group do not overlap. Linear but for sorting and searching.
pub(super) fn strays(stretches: &[Stretch], moments: &[Moment]) -> Strays {
    let mut moments = moments.to_vec();
    moments.sort_by_key(|m| (m.x, m.y, m.group));
    let extremes = Extremes::new(&moments);
    // Most stretches moved together with what is in them: those need no second look.
    let inside = |s: &Stretch| moments.partition_point(|m| m.x < s.x.0)..moments.partition_point(|m| m.x < s.x.1);
    let may_be_left = |s: &&Stretch| {
        let (least, most) = extremes.of(inside(s));
        s.x.0 < s.x.1 && (least < s.y.0 || most >= s.y.1)
    };
    let mut left: Vec<Stretch> = stretches.iter().filter(may_be_left).copied().collect();
    left.sort_by_key(|s| (std::cmp::Reverse(s.length), s.group, s.x));
    let by_others = |s: &&Stretch| moments[inside(s)].iter().any(|m| m.group != s.group && s.is_left_by(m));
    let longest = left.iter().find(by_others).map_or(0, |s| s.length);
    Strays { left: sum(&left, &moments), longest }
}

/// The least and the greatest second coordinate of runs of moments.
struct Extremes {
    leaves: usize,
    /// A binary tree: the children of `i` are `2 i` and `2 i + 1`.
    nodes: Vec<(i64, i64)>,
}

impl Extremes {
    fn new(moments: &[Moment]) -> Self {
        let leaves = moments.len();
        let mut nodes = vec![(i64::MAX, i64::MIN); leaves];
        nodes.extend(moments.iter().map(|m| (m.y, m.y)));
        for i in (1..leaves).rev() {
            let (a, b) = (nodes[2 * i], nodes[2 * i + 1]);
            nodes[i] = (a.0.min(b.0), a.1.max(b.1));
        }
        Self { leaves, nodes }
    }

    fn of(&self, range: std::ops::Range<usize>) -> (i64, i64) {
        let (mut from, mut to) = (range.start + self.leaves, range.end + self.leaves);
        let mut found = (i64::MAX, i64::MIN);
        let mut take = |node: (i64, i64)| found = (found.0.min(node.0), found.1.max(node.1));
        while from < to {
            if from % 2 == 1 {
                take(self.nodes[from]);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                take(self.nodes[to]);
            }
            (from, to) = (from / 2, to / 2);
        }
        found
    }
}

/// How many ends there are, and their sum, up to a place: a binary indexed tree.
struct Sums(Vec<(i64, i128)>);

impl Sums {
    fn new(places: usize) -> Self {
        Self(vec![(0, 0); places + 1])
    }

    fn add(&mut self, place: usize, count: i64, end: i64) {
        let mut at = place + 1;
        while at < self.0.len() {
            self.0[at].0 += count;
            self.0[at].1 += i128::from(count) * i128::from(end);
            at += at & at.wrapping_neg();
        }
    }

    /// Of the places before this one.
    fn before(&self, place: usize) -> (i64, i128) {
        let (mut count, mut sum, mut at) = (0, 0, place);
        while at > 0 {
            count += self.0[at].0;
            sum += self.0[at].1;
            at &= at - 1;
        }
        (count, sum)
    }
}

/// The sum of [`Strays::left`]: a sweep over the first axis with two indexes by the second one.
fn sum(stretches: &[Stretch], moments: &[Moment]) -> i64 {
    let end = |s: &Stretch| s.y.1.max(s.y.0);
    let mut begins: Vec<i64> = stretches.iter().map(|s| s.y.0).collect();
    let mut ends: Vec<i64> = stretches.iter().map(end).collect();
    begins.sort_unstable();
    ends.sort_unstable();
    let (mut by_begin, mut by_end) = (Sums::new(begins.len()), Sums::new(ends.len()));
    let places = |s: &Stretch| (begins.partition_point(|&y| y < s.y.0), ends.partition_point(|&y| y < end(s)));
    let mut opening: Vec<(&Stretch, (usize, usize))> = stretches.iter().map(|s| (s, places(s))).collect();
    opening.sort_by_key(|(s, _)| s.x.0);
    let mut closing = opening.clone();
    closing.sort_by_key(|(s, _)| s.x.1);
    let (mut opening, mut closing) = (opening.into_iter().peekable(), closing.into_iter().peekable());
    let own = Own::new(stretches);
    let mut total = 0i128;
    for moment in moments {
        while let Some((s, (begin, end))) = opening.next_if(|(s, _)| s.x.0 <= moment.x) {
            by_begin.add(begin, 1, s.x.1);
            by_end.add(end, 1, s.x.1);
        }
        while let Some((s, (begin, end))) = closing.next_if(|(s, _)| s.x.1 <= moment.x) {
            by_begin.add(begin, -1, s.x.1);
            by_end.add(end, -1, s.x.1);
        }
        let all = by_begin.before(begins.len());
        let begun = by_begin.before(begins.partition_point(|&y| y <= moment.y));
        let ended = by_end.before(ends.partition_point(|&y| y <= moment.y));
        let (count, sum) = (all.0 - begun.0 + ended.0, all.1 - begun.1 + ended.1);
        total += sum - i128::from(count) * i128::from(moment.x);
        if let Some(s) = own.at(moment).filter(|s| s.is_left_by(moment)) {
            total -= i128::from(s.x.1 - moment.x);
        }
    }
    i64::try_from(total).unwrap_or(i64::MAX)
}

/// Stretches by group and time.
struct Own(Vec<Stretch>);

impl Own {
    fn new(stretches: &[Stretch]) -> Self {
        let mut all = stretches.to_vec();
        all.sort_by_key(|s| (s.group, s.x));
        Self(all)
    }

    /// The stretch of its own group in which a moment lies.
    fn at(&self, moment: &Moment) -> Option<&Stretch> {
        let after = self.0.partition_point(|s| (s.group, s.x.0) <= (moment.group, moment.x));
        let found = self.0.get(after.checked_sub(1)?)?;
        (found.group == moment.group && moment.x < found.x.1).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every pair looked at.
    fn one_by_one(stretches: &[Stretch], moments: &[Moment]) -> Strays {
        let mut found = Strays::default();
        for moment in moments {
            for s in stretches.iter().filter(|s| s.group != moment.group && (s.x.0..s.x.1).contains(&moment.x)) {
                if s.is_left_by(moment) {
                    found.left += s.x.1 - moment.x;
                    found.longest = found.longest.max(s.length);
                }
            }
        }
        found
    }

    /// Stretches of one group that follow one another on both axes: gaps and lengths on both.
    fn group(drawn: Vec<(i64, i64, i64, i64)>, group: u32) -> Vec<Stretch> {
        let (mut x, mut y) = (0, 0);
        let next = |(gap, length, other_gap, other): (i64, i64, i64, i64)| {
            let stretch =
                Stretch { group, x: (x + gap, x + gap + length), y: (y + other_gap, y + other_gap + other), length };
            (x, y) = (stretch.x.1, stretch.y.1);
            stretch
        };
        drawn.into_iter().map(next).collect()
    }

    proptest! {
        #[test]
        fn the_sweep_finds_what_pairs_say(
            groups in proptest::collection::vec(proptest::collection::vec((0i64..9, 0i64..9, 0i64..9, 0i64..9), 0..12), 0..5),
            moments in proptest::collection::vec((0u32..5, 0i64..60, -12i64..12), 0..40),
        ) {
            let stretches: Vec<Stretch> = (0..).zip(groups).flat_map(|(number, drawn)| group(drawn, number)).collect();
            let moments: Vec<Moment> =
                moments.into_iter().map(|(group, x, moved)| Moment { group, x, y: x + moved }).collect();
            prop_assert_eq!(strays(&stretches, &moments), one_by_one(&stretches, &moments));
        }
    }
}
