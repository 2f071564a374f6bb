//! Tables of findings and of rules that were not checked.

use super::finding::Finding;
use super::findings::Findings;
use super::memory::MemoryGain;
use super::skipped_rules::SkippedRule;
use stackline_model::format::{Scale, bytes, number, signed_duration};
use stackline_model::{Table, Unit};
use stackline_timeline::stats::percent;

/// Name of the table of findings.
pub const FINDINGS: &str = "findings";
/// Name of the table of rules that were not checked.
pub const UNCHECKED: &str = "not_checked";

/// Tables of findings and of rules that were not checked.
pub fn tables(found: &Findings) -> Vec<Table> {
    vec![findings_table(found), unchecked(found)]
}

/// Table of findings, by descending gain. Its notes name rules that were not checked.
pub fn findings_table(found: &Findings) -> Table {
    let rows = &found.findings;
    let text = |of: fn(&Finding) -> Option<String>| rows.iter().map(of);
    let gain = |of: fn(&Finding) -> Option<i64>| rows.iter().map(of);
    let mut table = Table::new(FINDINGS, "Findings by estimated gain")
        .text("code", rows.iter().map(|f| f.rule.code.clone()))
        .text("name", rows.iter().map(|f| f.rule.name.clone()))
        .text("area", rows.iter().map(|f| f.rule.area.name().to_owned()))
        .text("title", rows.iter().map(|f| f.title.clone()))
        .text("file", text(|f| f.place.file.clone()))
        .i64("line", Unit::None, rows.iter().map(|f| f.place.line.map(i64::from)))
        .text("function", text(|f| f.place.function.clone()))
        .text("module", text(|f| f.place.module.clone()))
        .text("operator", text(|f| f.place.operator.clone()))
        .text("change_file", text(|f| f.fix_location().file.clone()))
        .i64("change_line", Unit::None, rows.iter().map(|f| f.fix_location().line.map(i64::from)))
        .text("change_function", text(|f| f.fix_location().function.clone()))
        .i64("gain_ns", Unit::Ns, gain(|f| f.gain.map(|g| g.likely_ns)))
        .i64("gain_low_ns", Unit::Ns, gain(|f| f.gain.map(|g| g.low_ns)))
        .i64("gain_high_ns", Unit::Ns, gain(|f| f.gain.map(|g| g.high_ns)))
        .f64(
            "gain_percent",
            Unit::Percent,
            rows.iter().map(|f| f.gain.and_then(|g| percent(g.likely_ns as f64, found.step_ns as f64))),
        )
        .i64("on_top_ns", Unit::Ns, gain(|f| f.on_top_ns))
        .text("method", rows.iter().map(|f| f.method().to_owned()))
        .text("support", rows.iter().map(|f| f.support.name().to_owned()))
        .text("confidence", rows.iter().map(|f| f.confidence.name().to_owned()))
        .i64("events", Unit::None, rows.iter().map(|f| f.events.len() as i64))
        .text("evidence", rows.iter().map(evidence))
        .text("edits", rows.iter().map(|f| f.edits.join("; ")))
        .text("edit_labels", rows.iter().map(|f| f.edit_labels.join("; ")))
        .text("advice", rows.iter().map(|f| f.rule.advice.clone()))
        .text("cost", rows.iter().map(|f| f.rule.cost.clone()))
        .text("page", text(|f| f.rule.page.clone()));
    if rows.iter().any(|finding| finding.memory.is_some()) {
        table = memory_columns(table, rows);
    }
    if !found.ranks.is_empty() {
        let numbers = |f: &Finding| f.ranks.iter().map(|of| of.rank.to_string()).collect::<Vec<_>>().join(" ");
        let least = |f: &Finding| f.ranks.iter().filter_map(|of| of.gain_ns).min();
        table = table
            .text("ranks", rows.iter().map(numbers))
            .i64("rank", Unit::None, rows.iter().map(Finding::detail_rank))
            .i64("gain_least_ns", Unit::Ns, rows.iter().map(least));
    }
    table.notes.extend(found.notes.iter().cloned());
    let missing = |u: &SkippedRule| format!("{} was {}: {}", u.rule.code, u.reason.outcome(), u.reason.sentence());
    table.notes.extend(found.unchecked.iter().map(missing));
    table
}

/// Add columns with the device memory that the changes of findings save.
fn memory_columns(table: Table, rows: &[Finding]) -> Table {
    let of = |value: fn(&MemoryGain) -> u64| {
        rows.iter().map(move |finding| finding.memory.as_ref().and_then(|memory| i64::try_from(value(memory)).ok()))
    };
    table
        .i64("gain_bytes", Unit::Bytes, of(|memory| memory.bytes))
        .i64("lowers_peak_bytes", Unit::Bytes, of(|memory| memory.lowers_bytes))
        .i64("gain_low_bytes", Unit::Bytes, of(|memory| memory.low_bytes))
        .i64("gain_high_bytes", Unit::Bytes, of(|memory| memory.high_bytes))
        .f64("peak_percent", Unit::Percent, rows.iter().map(|finding| Some(finding.memory.as_ref()?.percent())))
        .text("device", rows.iter().map(|finding| Some(finding.memory.as_ref()?.device.clone())))
}

/// Facts of a finding as text: `kernels 120; mean 3.10 µs`.
pub fn evidence(finding: &Finding) -> String {
    let fact = |f: &super::Fact<String>| format!("{} {}", f.name, quantity(f.value, f.unit));
    finding.facts.iter().map(fact).collect::<Vec<_>>().join("; ")
}

/// Format a value with its most readable unit.
fn quantity(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ns => signed_duration(value.round() as i64),
        Unit::Us => signed_duration((value * 1e3).round() as i64),
        Unit::Ms => signed_duration((value * 1e6).round() as i64),
        Unit::Bytes => bytes(value.round() as u64),
        Unit::MiB => bytes((value * 1_048_576.0).round() as u64),
        _ => {
            let decimals = if value.fract() == 0.0 { 0 } else { 1 };
            let number = number(value, &Scale { divisor: 1.0, suffix: "", decimals, grouped: value.abs() >= 1e4 });
            format!("{number} {}", unit.suffix()).trim_end().to_owned()
        }
    }
}

/// Table of rules that were not checked, with the missing requirement or the traceback.
fn unchecked(found: &Findings) -> Table {
    let rows = &found.unchecked;
    Table::new(UNCHECKED, "Not checked")
        .text("code", rows.iter().map(|u| u.rule.code.clone()))
        .text("name", rows.iter().map(|u| u.rule.name.clone()))
        .text("missing", rows.iter().map(|u| u.reason.sentence()))
        .text("traceback", rows.iter().map(|u| u.reason.traceback().map(str::to_owned)))
}
