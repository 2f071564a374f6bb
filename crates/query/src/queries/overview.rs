//! What `stackline report --format json` says; or, with `only=first`, the tables of it that are worked out soonest.

use crate::{Answer, Arguments, Opened, QueryError};
use serde_json::Value;
use stackline_model::Table;
use stackline_present::json::{Document, Extra, SCHEMA_VERSION};

pub(super) fn answer(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    opened.trace(None)?;
    let part = arguments.part()?;
    if arguments.choice("only", &[("first", ())])?.is_some() {
        return printed(opened, &opened.first_tables(part)?, &[]);
    }
    let content = opened.content(part)?;
    let paths = Value::Array(content.paths.iter().map(|path| path.json.clone()).collect());
    printed(opened, &content.tables, &[("critical_path", paths.into())])
}

fn printed(opened: &Opened, tables: &[Table], extra: &[(&str, Extra<'_>)]) -> Result<Answer, QueryError> {
    let document =
        Document { command: "report", version: SCHEMA_VERSION, traces: &opened.infos, set: &opened.set, extra, tables };
    super::printed(&document)
}
