//! Findings as SARIF 2.1.0, which editors and code hosts show at their lines.

use super::{Change, IgnoreLocation, Shown, gain, on_ranks};
use crate::presenters::human::capital;
use serde_json::{Value, json};
use stackline_findings::{Finding, Findings, Reason, Rule, RuleInfo, SkippedRule, evidence, fingerprints, rules};
use stackline_timeline::source_location::SourceLocation;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::Arc;

/// Version, repository, input and working directory of the program that writes a SARIF document.
#[derive(Clone, Copy, Debug)]
pub struct Tool<'a> {
    /// Version of the tool.
    pub version: &'a str,
    /// URL of the repository; empty if unknown.
    pub repository: &'a str,
    /// Analyzed file or directory: the location of findings without another one.
    pub run: &'a str,
    /// The folder that it runs in: files below it are named from there, as code hosts want them. Empty if it is not known.
    pub folder: &'a str,
}

impl Tool<'_> {
    /// Path of a file relative to the folder; unchanged if the file lies elsewhere.
    fn below<'f>(&self, file: &'f str) -> &'f str {
        let own = file.strip_prefix(self.folder.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
        own.filter(|own| !self.folder.is_empty() && !own.is_empty()).unwrap_or(file)
    }

    /// Location of the run: relative to the folder, or its name only. The rest of the path is specific to this machine.
    fn run_location(&self) -> Value {
        let below = self.below(self.run);
        if !std::path::Path::new(below).is_absolute() {
            return json!({"uri": uri(below)});
        }
        let name = below.trim_end_matches('/').rsplit('/').next().unwrap_or(below);
        json!({"uri": uri(name), "uriBaseId": RUN})
    }

    /// Web address of a documentation page of this version; none without a repository.
    fn address(&self, page: &str) -> Option<String> {
        let repository = self.repository.trim_end_matches('/').trim_end_matches(".git");
        (!repository.is_empty()).then(|| format!("{repository}/blob/v{}/{page}", self.version))
    }
}

/// Base of the name of a run outside the folder.
const RUN: &str = "RUN";

/// Convert findings to a SARIF document (JSON).
pub fn sarif(shown: &Shown<'_>, tool: &Tool<'_>) -> Value {
    // Hidden findings count too, so that fingerprints do not depend on the selection.
    let all: Vec<&Finding> = shown.found.findings.iter().chain(&shown.found.ignored).collect();
    let names: BTreeMap<*const Finding, String> =
        all.iter().map(|finding| ptr::from_ref(*finding)).zip(fingerprints(&all)).collect();
    let result_of = |item: ListedFinding<'_>| result(shown, tool, item, names.get(&ptr::from_ref(item.0)));
    let listed = shown.listed.iter().map(|(finding, change)| result_of((finding, *change, None)));
    let suppressed = shown.suppressed.iter().map(|(finding, by)| result_of((finding, None, Some(by))));
    json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "Stackline",
                "version": tool.version,
                "rules": shown.found.rules.iter().map(|rule| descriptor(rule, tool)).collect::<Vec<_>>(),
            }},
            "originalUriBaseIds": {RUN: {"description": {"text": "Directory of the analyzed run."}}},
            "invocations": [invocation(shown.found)],
            "columnKind": "unicodeCodePoints",
            "results": listed.chain(suppressed).collect::<Vec<_>>(),
        }],
    })
}

/// SARIF invocation: success, notes and failed rules as tool notifications, rules without data as configuration
/// notifications.
fn invocation(found: &Findings) -> Value {
    let note = |text: &String| json!({"level": "note", "message": {"text": format!("{}.", capital(text))}});
    let mut notifications: Vec<Value> = found.notes.iter().map(note).collect();
    let mut missing = Vec::new();
    for unchecked in &found.unchecked {
        match unchecked.reason {
            Reason::Failed(..) | Reason::Cut(_) => notifications.push(not_checked("error", unchecked)),
            Reason::Missing(_) => missing.push(not_checked("note", unchecked)),
        }
    }
    let has_failed = found.unchecked.iter().any(|unchecked| matches!(unchecked.reason, Reason::Failed(..)));
    let mut invocation = json!({"executionSuccessful": !has_failed});
    for (key, list) in [("toolExecutionNotifications", notifications), ("toolConfigurationNotifications", missing)] {
        if !list.is_empty() {
            invocation[key] = json!(list);
        }
    }
    invocation
}

/// SARIF notification for a rule that was not checked, with the reason, and the traceback of a failed rule.
fn not_checked(level: &str, unchecked: &SkippedRule) -> Value {
    let outcome = capital(unchecked.reason.outcome());
    let why = format!("{outcome}: {}: {}", unchecked.rule.code, unchecked.reason.sentence());
    let text = unchecked.reason.traceback().map_or_else(|| why.clone(), |traceback| format!("{why}\n{traceback}"));
    json!({"level": level, "message": {"text": text}, "associatedRule": {"id": unchecked.rule.code}})
}

/// SARIF descriptor of a rule, with its documentation.
fn descriptor(rule: &Arc<RuleInfo>, tool: &Tool<'_>) -> Value {
    // Python rules may lack a reason; their summary replaces it.
    let why = if rule.why.is_empty() { &rule.about } else { &rule.why };
    let help = format!("{why} {}", rule.advice).trim().to_owned();
    let page = rules::find(&rule.code).map_or_else(|| help.clone(), Rule::page);
    let mut descriptor = json!({
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.about},
        "fullDescription": {"text": why},
        "help": {"text": help, "markdown": page},
        "properties": {"area": rule.area.name()},
    });
    if let Some(page) = &rule.page {
        descriptor["properties"]["page"] = json!(page);
        if let Some(address) = tool.address(page) {
            descriptor["helpUri"] = json!(address);
        }
    }
    descriptor
}

type ListedFinding<'f> = (&'f Finding, Option<Change>, Option<&'f IgnoreLocation>);

/// SARIF result of one finding, with location, gain, baseline state and suppression.
fn result(
    shown: &Shown<'_>,
    tool: &Tool<'_>,
    (finding, change, suppressed): ListedFinding<'_>,
    fingerprint: Option<&String>,
) -> Value {
    let mut gain = gain(shown.found, finding).map_or_else(String::new, |gain| format!(" Gains {gain}."));
    // Editors that show no related locations show the message.
    if let Some(change) = &finding.change {
        gain.push_str(&format!(" {CHANGE}: {}.", change.text()));
    }
    let mut result = json!({
        "ruleId": finding.rule.code,
        "ruleIndex": shown.found.rules.iter().position(|rule| rule.code == finding.rule.code),
        "level": level(shown, finding),
        "message": {"text": format!("{}.{gain} {}", finding.title, finding.rule.advice).trim_end()},
        "locations": [location(&finding.place, tool)],
        "partialFingerprints": {"stackline/v1": fingerprint},
        "properties": {
            "gainNs": finding.gain.map(|gain| gain.likely_ns),
            "gainLowNs": finding.gain.map(|gain| gain.low_ns),
            "gainHighNs": finding.gain.map(|gain| gain.high_ns),
            "evidence": evidence(finding),
            "confidence": finding.confidence.name(),
        },
    });
    if let Some(saved) = &finding.memory {
        for (key, bytes) in [
            ("gainBytes", saved.bytes),
            ("lowersPeakBytes", saved.lowers_bytes),
            ("gainLowBytes", saved.low_bytes),
            ("gainHighBytes", saved.high_bytes),
        ] {
            result["properties"][key] = json!(bytes);
        }
        result["properties"]["device"] = json!(saved.device);
    }
    if let Some(change) = &finding.change {
        let mut location = location(change, tool);
        location["message"] = json!({"text": CHANGE});
        result["relatedLocations"] = json!([location]);
    }
    if let Some(on) = on_ranks(shown.found, finding) {
        let text = format!("{}.{gain} {} {}", finding.title, capital(&format!("{on}.")), finding.rule.advice);
        result["message"]["text"] = json!(text.trim_end());
        let gains = finding.ranks.iter().map(|rank| json!({"rank": rank.rank, "gainNs": rank.gain_ns}));
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
        let kind = match by {
            IgnoreLocation::Comment(_) => "inSource",
            IgnoreLocation::File(_) => "external",
        };
        result["suppressions"] = json!([{"kind": kind, "justification": by.to_string()}]);
    }
    result
}

/// SARIF level of a finding: `warning` for a gain of at least 5 % of a step or of a device's peak memory, otherwise
/// `note`.
fn level(shown: &Shown<'_>, finding: &Finding) -> &'static str {
    if let Some(saved) = &finding.memory {
        return if saved.percent() >= 5.0 { "warning" } else { "note" };
    }
    if finding.gain_ns() * 20 >= shown.found.step_ns.max(1) { "warning" } else { "note" }
}

/// Label of the location of the edit, if it differs from the location of the finding.
const CHANGE: &str = "Change here";

/// SARIF location of a finding. Without a source file it is the run itself, since code hosts refuse results without a
/// file.
fn location(place: &SourceLocation, tool: &Tool<'_>) -> Value {
    let mut location = json!({});
    location["physicalLocation"]["artifactLocation"] = match &place.file {
        Some(file) => json!({"uri": uri(tool.below(file))}),
        None => tool.run_location(),
    };
    if let Some(line) = place.line {
        location["physicalLocation"]["region"] = json!({"startLine": line});
    }
    let named = [(&place.function, "function"), (&place.module, "module"), (&place.operator, "function")];
    let logical: Vec<Value> = named
        .into_iter()
        .filter_map(|(name, kind)| name.as_ref().map(|name| json!({"name": name, "kind": kind})))
        .collect();
    if !logical.is_empty() {
        location["logicalLocations"] = json!(logical);
    }
    location
}

/// Escape a path as a URI reference (RFC 3986).
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
    use super::{Tool, uri};
    use serde_json::json;

    #[test]
    fn pages_are_linked_where_there_is_a_repository() {
        let tool = |repository| Tool { version: "1.2.3", repository, run: "", folder: "" };
        let page = "docs/findings/SL001-hotspot.md";
        assert_eq!(tool("").address(page), None);
        let linked = tool("https://example.org/stackline.git").address(page);
        assert_eq!(linked.unwrap(), format!("https://example.org/stackline/blob/v1.2.3/{page}"));
    }

    #[test]
    fn files_are_named_from_the_folder() {
        let run = |folder, run| Tool { version: "", repository: "", run, folder }.run_location();
        assert_eq!(run("/src", "/src/runs/x.json"), json!({"uri": "runs/x.json"}));
        assert_eq!(run("/src", "runs/x.json"), json!({"uri": "runs/x.json"}));
        assert_eq!(run("/src", "/elsewhere/x y.json/"), json!({"uri": "x%20y.json", "uriBaseId": "RUN"}));
        let below = |folder, file| Tool { version: "", repository: "", run: "", folder }.below(file).to_owned();
        assert_eq!(below("/src/", "/src/prog/x.py"), "prog/x.py");
        assert_eq!(below("/src", "/src2/x.py"), "/src2/x.py");
        assert_eq!(below("", "/x.py"), "/x.py");
        assert_eq!(below("/src", "prog/x.py"), "prog/x.py");
    }

    #[test]
    fn paths_as_references() {
        assert_eq!(uri("src/a b.py"), "src/a%20b.py");
        assert_eq!(uri("/x/ü.py"), "/x/%C3%BC.py");
    }
}
