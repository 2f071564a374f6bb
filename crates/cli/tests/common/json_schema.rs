//! JSON Schema validator for the keywords in `docs/schemas`. Other keywords are errors, so that none is ignored.

use serde_json::Value;

/// A schema that allows no other keys than it names.
pub(crate) fn closed(text: &str) -> Value {
    fn close(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.values_mut().for_each(close);
                if members.get("properties").is_some_and(Value::is_object) {
                    members.insert("additionalProperties".to_owned(), Value::Bool(false));
                }
            }
            Value::Array(items) => items.iter_mut().for_each(close),
            _ => {}
        }
    }
    let mut schema: Value = serde_json::from_str(text).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    close(&mut schema);
    schema
}

/// Errors of a document, each with its location.
pub(crate) fn errors(schema: &Value, document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check((schema, schema), "", document, &mut found);
    found
}

fn check((root, schema): (&Value, &Value), path: &str, value: &Value, found: &mut Vec<String>) {
    for (word, rule) in schema.as_object().unwrap() {
        let inner = |schema, path: &str, value, found: &mut Vec<String>| check((root, schema), path, value, found);
        let number = |is_wrong: fn(f64, f64) -> bool, value: Option<f64>| {
            value.is_some_and(|value| is_wrong(value, rule.as_f64().unwrap()))
        };
        let length = value.as_array().map(|items| items.len() as f64);
        let is_wrong = match word.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => false,
            "$ref" => {
                let target = root.pointer(rule.as_str().unwrap().trim_start_matches('#')).unwrap();
                inner(target, path, value, found);
                false
            }
            "type" => !names(rule).iter().any(|name| is_of(name, value)),
            "const" => rule != value,
            "enum" => !rule.as_array().unwrap().contains(value),
            "anyOf" => !rule.as_array().unwrap().iter().any(|one| {
                let mut wrong = Vec::new();
                inner(one, path, value, &mut wrong);
                wrong.is_empty()
            }),
            "minimum" => number(|value, least| value < least, value.as_f64()),
            "minItems" => number(|length, least| length < least, length),
            "maxItems" => number(|length, most| length > most, length),
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                items.for_each(|(at, item)| inner(rule, &format!("{path}/{at}"), item, found));
                false
            }
            "properties" => {
                for (key, rule) in rule.as_object().unwrap() {
                    value.get(key).into_iter().for_each(|member| inner(rule, &format!("{path}/{key}"), member, found));
                }
                false
            }
            "required" => {
                value.as_object().is_some_and(|object| names(rule).iter().any(|key| !object.contains_key(*key)))
            }
            "additionalProperties" => {
                value.as_object().is_some_and(|object| object.keys().any(|key| schema["properties"].get(key).is_none()))
            }
            other => panic!("the schema says {other:?}, which is not checked"),
        };
        if is_wrong {
            let text: String = value.to_string().chars().take(80).collect();
            found.push(format!("{path}: {text} is not of {word} {rule}"));
        }
    }
}

/// One text, or a list of them.
fn names(rule: &Value) -> Vec<&str> {
    rule.as_str()
        .map_or_else(|| rule.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect(), |name| vec![name])
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other:?}"),
    }
}
