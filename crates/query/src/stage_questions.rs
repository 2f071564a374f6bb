//! Prefetched queries of one part of the page, with their arguments.

use crate::prefetch::Stage;
use crate::queries::{ALL, Query};
use crate::{Arguments, OpenRun};

/// Name of a query, and its arguments.
pub(crate) type Question = (&'static str, Arguments);

/// Prefetched queries of a part of the page, as listed by the queries, in their order.
pub(crate) fn stage_questions(opened: &OpenRun, stage: Stage) -> Vec<Question> {
    let mut queries: Vec<&Query> = ALL.iter().collect();
    queries.sort_by_key(|query| query.order);
    let of_query = |query: &Query| {
        let name = query.name;
        (query.first)(opened, stage).into_iter().map(move |arguments| (name, arguments))
    };
    queries.into_iter().flat_map(of_query).collect()
}
