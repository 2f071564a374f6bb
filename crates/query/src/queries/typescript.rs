//! TypeScript declarations of all answers, for the web page.

use super::ALL;
use std::collections::BTreeMap;
use std::path::Path;
use ts_rs::{TS, TypeVisitor};

mod checks;
mod layout;

/// Path of the generated file of the page.
const FILE: &str = "../../web/src/generated/answers.ts";

const HEAD: &str = "\
/**
 * Answers of queries. Generated from crates/query; to regenerate:
 * STACKLINE_UPDATE_TYPES=1 cargo test -p stackline-query typescript_types
 */

import type { Column } from \"../transport/decode\";
";

/// TypeScript types of JSON documents by name, and the document type of each query.
#[derive(Debug, Default)]
pub(super) struct Declarations {
    types: BTreeMap<String, String>,
    documents: BTreeMap<&'static str, Document>,
}

/// TypeScript type of a query's document: its name and its definition.
#[derive(Debug)]
struct Document {
    name: String,
    inline: String,
}

impl Declarations {
    /// Collect the TypeScript declarations of the answers of all queries.
    fn all() -> Self {
        let mut all = Self::default();
        for query in ALL {
            (query.typescript)(&mut all, query.name);
        }
        all
    }

    /// Add the document type of a query, with all types that the document contains.
    pub(super) fn add<T: TS + 'static>(&mut self, query: &'static str) {
        self.visit::<T>();
        self.documents.insert(query, Document { name: T::name(), inline: T::inline() });
    }

    /// Text of the file with the TypeScript declarations of all answers.
    fn text(&self) -> String {
        let types: String = self.types.values().map(|declared| format!("\n{declared}")).collect();
        let documents: String = self
            .documents
            .iter()
            .map(|(query, document)| format!("  readonly \"{query}\": {};\n", document.name))
            .collect();
        let columns: String = ALL.iter().filter(|query| !query.columns.is_empty()).map(columns).collect();
        format!(
            "{HEAD}{types}\n/** The document of each query. */\nexport interface Answers {{\n{documents}}}\n\n\
             /** The columns of the queries that have any: each comes as the smallest type that holds its numbers. */\nexport type Columns = {{\n{columns}}};\n"
        )
    }
}

/// Line of the TypeScript declarations with the columns of a query's answer.
fn columns(query: &super::Query) -> String {
    let columns: Vec<String> = query.columns.iter().map(|name| format!("readonly {name}: Column")).collect();
    format!("  readonly \"{}\": {{ {} }};\n", query.name, columns.join("; "))
}

impl TypeVisitor for Declarations {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        // Types without a file are built-in types of TypeScript.
        if T::output_path().is_none() {
            return;
        }
        let declared = layout::declaration(&T::docs().unwrap_or_default(), &T::decl());
        match self.types.insert(T::ident(), declared.clone()) {
            None => T::visit_dependencies(self),
            Some(known) => assert_eq!(known, declared, "two types have the same name"),
        }
    }
}

#[test]
fn typescript_types_are_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let text = Declarations::all().text();
    if std::env::var_os("STACKLINE_UPDATE_TYPES").is_some() {
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        std::fs::write(&file, &text).expect("written");
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == text,
        "web/src/generated/answers.ts is stale: run `STACKLINE_UPDATE_TYPES=1 cargo test -p stackline-query typescript_types`"
    );
}

#[test]
fn queries_are_in_the_order_of_their_names() {
    assert!(ALL.windows(2).all(|pair| pair[0].name < pair[1].name));
}
