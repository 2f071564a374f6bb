//! Markdown page of a rule: summary, reason, fix, false positives, requirements.

use super::rule::Rule;
use stackline_model::format::capital;

impl Rule {
    /// Render the page as Markdown, the content of its file in `docs/findings`.
    pub fn page(&self) -> String {
        let (before, after) = self.example;
        let mut page = format!("# {} {}\n\n{}.\n\n", self.code, self.name, capital(self.about));
        let mut section = |title: &str, text: &str| page.push_str(&format!("## {title}\n\n{text}\n\n"));
        section(if self.is_of_memory() { "Why it matters" } else { "Why it costs time" }, self.why);
        section("How the gain is estimated", &gain(self));
        section("Fix", self.advice);
        section("Example", &format!("```python\n# before\n{before}\n\n# after\n{after}\n```"));
        for other in self.advice_variants {
            let (before, after) = other.example;
            let title = format!("Fix in {}", other.programs);
            section(&title, &format!("{}\n\n```python\n# before\n{before}\n\n# after\n{after}\n```", other.advice));
        }
        section("Cost of the change", &format!("{}.", capital(self.cost)));
        section("False positives", self.false_positives);
        section("Requirements", &needs(self));
        if !self.settings.is_empty() {
            section("Settings", &settings(self));
        }
        section("Source", &format!("{}.", capital(self.source)));
        page.trim_end().to_owned() + "\n"
    }
}

/// Section on the gain estimate: the rule's own text, and a description of each method.
fn gain(rule: &Rule) -> String {
    let is_only = rule.gain_methods.len() == 1;
    let methods: Vec<&str> = rule.gain_methods.iter().map(|method| method.about(is_only)).collect();
    format!("{}\n\n{}", rule.gain_text, methods.join("\n\n"))
}

/// Section on the records that a trace must have, so that the rule is checked.
fn needs(rule: &Rule) -> String {
    let needs: Vec<&str> = rule.needs.iter().map(|need| need.missing()).collect();
    match needs.is_empty() {
        true => "The rule has no requirements: it checks every trace.".to_owned(),
        false => format!("The rule is not checked if the trace has:\n\n- {}", needs.join("\n- ")),
    }
}

/// Markdown table of the rule's thresholds: option, default, range and description.
fn settings(rule: &Rule) -> String {
    let mut table = "| `--set` | default | range | description |\n|---|---|---|---|".to_owned();
    for setting in rule.settings {
        let ((least, most), default) = (setting.range, setting.default);
        table.push_str(&format!(
            "\n| `{}.{}` | {default} | {least} to {most} | {} |",
            rule.code, setting.name, setting.about
        ));
    }
    table
}
