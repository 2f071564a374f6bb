//! What `stackline diff --format json` says of the run and its baseline.

use crate::{Answer, Arguments, Opened, QueryError};
use serde_json::json;
use stackline_analyze::diff::{self, Options, Side};
use stackline_model::TraceSet;
use stackline_present::json::{Document, SCHEMA_VERSION};

pub(super) fn answer(opened: &Opened, _: &Arguments) -> Result<Answer, QueryError> {
    let baseline = opened.before()?;
    if baseline.set.traces.is_empty() != opened.set.traces.is_empty() {
        return Err(QueryError::unavailable(
            "a recording of sums and a trace measure different things: compare two of a kind",
        ));
    }
    let (before, after): (Side, Side) = (vec![baseline.profiles()?], vec![opened.profiles()?]);
    let diff = diff::compare(&before, &after, Options::default());
    let extra = [
        ("before", json!([baseline.name]).into()),
        ("after", json!([opened.name]).into()),
        ("method", json!(diff.method.name()).into()),
        ("level_percent", json!(diff.options.level * 100.0).into()),
        ("kernels_by", json!(if diff.by_family { "family" } else { "name" }).into()),
        ("confidence", json!(diff.confidence().name()).into()),
        ("warnings", json!(diff.warnings).into()),
        ("notes", json!(diff.notes).into()),
    ];
    let infos: Vec<_> = baseline.infos.iter().chain(&opened.infos).cloned().collect();
    let document = Document {
        command: "diff",
        version: SCHEMA_VERSION,
        traces: &infos,
        set: &TraceSet::default(),
        extra: &extra,
        tables: &diff::tables(&diff, &before, &after),
    };
    super::printed(&document)
}
