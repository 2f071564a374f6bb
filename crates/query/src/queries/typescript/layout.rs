//! Layout of TypeScript declarations: one read-only field per line.

/// Format a declaration by `ts-rs` with a comment, and one field per line.
pub(super) fn declaration(docs: &str, declared: &str) -> String {
    let declared = declared.trim().trim_end_matches(';');
    let (head, body) = declared.split_once(" = ").unwrap_or((declared, ""));
    let body = match fields(body) {
        Some(fields) if !fields.is_empty() => {
            let lines: String = fields.iter().map(|field| format!("{}\n", line(field))).collect();
            format!("{{\n{lines}}}")
        }
        _ => read_only(body).replace(", }", " }"),
    };
    let docs = comment(docs);
    format!("{docs}{}export {head} = {body};\n", if docs.is_empty() { "" } else { "\n" })
}

/// Split a TypeScript object type into its fields, each with its comment; `None` for other types.
pub(super) fn fields(body: &str) -> Option<Vec<&str>> {
    let inside = body.trim().strip_prefix('{')?.strip_suffix('}')?;
    let (mut depth, mut from, mut is_comment) = (0_i32, 0, false);
    let mut fields = Vec::new();
    for (at, letter) in inside.char_indices() {
        is_comment = match &inside[at..] {
            rest if rest.starts_with("/*") => true,
            _ if inside[..at].ends_with("*/") => false,
            _ => is_comment,
        };
        match letter {
            _ if is_comment => {}
            '{' | '[' | '(' | '<' => depth += 1,
            '}' | ']' | ')' | '>' => depth -= 1,
            ',' if depth == 0 => {
                fields.push(inside[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
        // `{ .. } & { .. }` is no single object.
        if depth < 0 {
            return None;
        }
    }
    fields.extend(Some(inside[from..].trim()).filter(|rest| !rest.is_empty()));
    Some(fields)
}

/// Name of a TypeScript field, and true if the field is optional.
pub(super) fn name(field: &str) -> (&str, bool) {
    let field = field.rsplit_once("*/").map_or(field, |(_, field)| field).trim();
    let name = field.split_once(':').map_or(field, |(name, _)| name);
    let quoted = name.trim_end_matches('?').trim_matches('"');
    (quoted, name.ends_with('?'))
}

/// Format a field of a TypeScript type, with its comment.
fn line(field: &str) -> String {
    match field.rsplit_once("*/") {
        Some((docs, field)) => format!("  {}\n  readonly {};", comment(docs), read_only(field.trim())),
        None => format!("  readonly {};", read_only(field)),
    }
}

/// Format a TypeScript comment of one line; empty without text.
fn comment(docs: &str) -> String {
    let lines =
        docs.lines().map(|line| line.trim().trim_start_matches("/*").trim_end_matches("*/").trim_start_matches('*'));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    if words.is_empty() { String::new() } else { format!("/** {} */", words.join(" ")) }
}

/// Convert a TypeScript type to a read-only one. Integers become JavaScript numbers.
fn read_only(declared: &str) -> String {
    declared.replace("bigint", "number").replace("Array<", "ReadonlyArray<").replace('[', "readonly [")
}

#[test]
fn each_field_has_a_line_and_is_read_only() {
    let declared = "type A<B> = { \n/**\n * Bytes, if known.\n */\na: bigint | null, b?: Array<[string, B]>, };";
    let expected = "/** Of two. */\nexport type A<B> = {\n  /** Bytes, if known. */\n  readonly a: number | null;\n  \
                    readonly b?: ReadonlyArray<readonly [string, B]>;\n};\n";
    assert_eq!(declaration("/**\n * Of two.\n */\n", declared), expected);
    assert_eq!(declaration("", "type U = C | { error: string, };"), "export type U = C | { error: string };\n");
    let names: Vec<_> = fields("{ a: [b, c], d?: e, }").unwrap_or_default().into_iter().map(name).collect();
    assert_eq!(names, [("a", false), ("d", true)]);
}
