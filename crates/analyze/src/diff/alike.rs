//! Makes both sides of a comparison leave out the same.

use super::Side;
use super::profile::{Profile, Row, WARM_UP};
use std::collections::BTreeMap;

/// Why a step is left out that is no warm-up itself.
const LIKE_THE_OTHER: &str = "warm-up of another run";

/// Where the first step of any run is left out as a warm-up, that of each other run is, too, if enough steps stay: it may be one
/// that does not stand out, and what happens in it alone would seem to be gone, or new.
pub fn alike(before: &mut Side, after: &mut Side) {
    let profiles = || before.iter().chain(after.iter()).flatten();
    if !profiles().any(|profile| profile.steps.first().is_some_and(|step| step.left_out == Some(WARM_UP))) {
        return;
    }
    for profile in before.iter_mut().chain(after.iter_mut()).flatten() {
        let is_kept = profile.steps.first().is_some_and(|step| step.left_out.is_none());
        if is_kept && profile.totals.len() > 2 {
            leave_first_out(profile);
        }
    }
}

fn leave_first_out(profile: &mut Profile) {
    profile.steps[0].left_out = Some(LIKE_THE_OTHER);
    profile.totals.remove(0);
    drop_first(&mut profile.operators);
    drop_first(&mut profile.kernels);
    drop_first(&mut profile.families);
    drop_first(&mut profile.paths);
    drop_first(&mut profile.functions);
}

fn drop_first<K: Ord>(rows: &mut BTreeMap<K, Row>) {
    rows.values_mut().for_each(Row::drop_first);
    rows.retain(|_, row| !row.is_empty());
}
