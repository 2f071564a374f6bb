//! What `stackline report --format json` says.

use crate::{Answer, Arguments, Opened, QueryError};
use serde_json::Value;
use stackline_present::json::{Document, SCHEMA_VERSION};

pub(super) fn answer(opened: &Opened, arguments: &Arguments) -> Result<Answer, QueryError> {
    opened.trace(None)?;
    let content = opened.content(arguments.part()?)?;
    let paths = Value::Array(content.paths.iter().map(|path| path.json.clone()).collect());
    let document = Document {
        command: "report",
        version: SCHEMA_VERSION,
        traces: &opened.infos,
        set: &opened.set,
        extra: &[("critical_path", paths.into())],
        tables: &content.tables,
    };
    super::printed(&document)
}
