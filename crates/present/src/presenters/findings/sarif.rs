//! Findings as SARIF 2.1.0, which editors and code hosts show at their lines.

use super::{Change, Shown, gain, on_ranks};
use crate::presenters::human::capital;
use serde_json::{Value, json};
use stackline_analyze::findings::{Finding, Reason, RuleInfo, Unchecked, evidence};
use std::sync::Arc;

/// Findings as a SARIF document.
pub fn sarif(shown: &Shown<'_>, version: &str) -> Value {
    let listed = shown.listed.iter().map(|(finding, change)| result(shown, finding, *change, None));
    let suppressed = shown.suppressed.iter().map(|(finding, by)| result(shown, finding, None, Some(by)));
    let mut document = json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "Stackline",
                "version": version,
                "rules": shown.found.rules.iter().map(descriptor).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": listed.chain(suppressed).collect::<Vec<_>>(),
        }],
    });
    let failed: Vec<Value> = shown.found.unchecked.iter().filter_map(failure).collect();
    if !failed.is_empty() {
        document["runs"][0]["invocations"] =
            json!([{"executionSuccessful": true, "toolExecutionNotifications": failed}]);
    }
    document
}

/// What is told of a rule of the user's own that failed.
fn failure(unchecked: &Unchecked) -> Option<Value> {
    let Reason::Failed(why, traceback) = &unchecked.reason else { return None };
    let text = traceback.as_ref().map_or_else(|| why.clone(), |traceback| format!("{why}\n{traceback}"));
    Some(json!({"level": "error", "message": {"text": text}, "associatedRule": {"id": unchecked.rule.code}}))
}

fn descriptor(rule: &Arc<RuleInfo>) -> Value {
    let example = rule.example.as_ref().map_or_else(String::new, |(before, after)| {
        format!("\n\n```python\n# before\n{before}\n# after\n{after}\n```\n")
    });
    // Rules of users need not say why; what they find says it.
    let why = if rule.why.is_empty() { &rule.about } else { &rule.why };
    let help = format!("{why} {}", rule.advice).trim().to_owned();
    json!({
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.about},
        "fullDescription": {"text": why},
        "help": {"text": help, "markdown": format!("{help}{example}")},
        "properties": {"area": rule.area.name()},
    })
}

fn result(shown: &Shown<'_>, finding: &Finding, change: Option<Change>, suppressed: Option<&String>) -> Value {
    let gain = gain(shown.found, finding).map_or_else(String::new, |gain| format!(" Gains {gain}."));
    let mut result = json!({
        "ruleId": finding.rule.code,
        "ruleIndex": shown.found.rules.iter().position(|rule| rule.code == finding.rule.code),
        "level": level(shown, finding),
        "message": {"text": format!("{}.{gain} {}", finding.title, finding.rule.advice).trim_end()},
        "locations": locations(finding),
        "partialFingerprints": {"stackline/v1": fingerprint(finding)},
        "properties": {
            "gainNs": finding.gain.map(|gain| gain.ns),
            "gainLowNs": finding.gain.map(|gain| gain.low_ns),
            "gainHighNs": finding.gain.map(|gain| gain.high_ns),
            "evidence": evidence(finding),
            "confidence": finding.confidence.name(),
        },
    });
    if let Some(on) = on_ranks(shown.found, finding) {
        let text = format!("{}.{gain} {} {}", finding.title, capital(&format!("{on}.")), finding.rule.advice);
        result["message"]["text"] = json!(text.trim_end());
        let gains = finding.ranks.iter().map(|of| json!({"rank": of.rank, "gainNs": of.gain_ns}));
        result["properties"]["ranks"] = gains.collect();
    }
    if let Some(change) = change {
        result["baselineState"] = json!(match change {
            Change::New => "new",
            Change::Same => "unchanged",
            Change::Changed(_) => "updated",
        });
    }
    if let Some(by) = suppressed {
        let kind = if by.contains("comment") { "inSource" } else { "external" };
        result["suppressions"] = json!([{"kind": kind, "justification": by}]);
    }
    result
}

/// A warning if it gains 5 % of a step or more.
fn level(shown: &Shown<'_>, finding: &Finding) -> &'static str {
    if finding.gain_ns() * 20 >= shown.found.step_ns.max(1) { "warning" } else { "note" }
}

fn locations(finding: &Finding) -> Value {
    let place = &finding.place;
    let mut location = json!({});
    if let Some(file) = &place.file {
        location["physicalLocation"] = json!({"artifactLocation": {"uri": uri(file)}});
        if let Some(line) = place.line {
            location["physicalLocation"]["region"] = json!({"startLine": line});
        }
    }
    let named = [(&place.function, "function"), (&place.module, "module"), (&place.operator, "function")];
    let logical: Vec<Value> = named
        .into_iter()
        .filter_map(|(name, kind)| name.as_ref().map(|name| json!({"name": name, "kind": kind})))
        .collect();
    if !logical.is_empty() {
        location["logicalLocations"] = json!(logical);
    }
    if location == json!({}) { json!([]) } else { json!([location]) }
}

/// The same for the same finding of another run: lines move; code, place and what is to be changed stay.
fn fingerprint(finding: &Finding) -> String {
    let place = &finding.place;
    let parts = [&place.file, &place.function, &place.module, &place.operator];
    let parts: Vec<&str> = parts.into_iter().map(|part| part.as_deref().unwrap_or("")).collect();
    format!("{}:{}:{}", finding.rule.code, parts.join(":"), finding.edits.join("; "))
}

/// A path as a reference that may stand in a document (RFC 3986): all but what is allowed in paths is escaped.
fn uri(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.replace('\\', "/").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn paths_as_references() {
        assert_eq!(uri("src/a b.py"), "src/a%20b.py");
        assert_eq!(uri("/x/ü.py"), "/x/%C3%BC.py");
    }
}
