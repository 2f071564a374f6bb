//! Checks of memory findings: comparison with an earlier run, ignored findings, and `--fail-on` conditions.

use super::baseline::Baseline;
use super::conditions::{Condition, JudgedData};
use super::session;
use crate::args::{Common, Document, MemoryArgs, MemoryGateArgs};
use crate::commands::findings::suppress::{Suppressions, comment_sources};
use crate::commands::findings::{compared, for_tools, outcome_keys, tables};
use crate::failure::{is_closed_pipe, wrong_use};
use crate::output::{print_message, print_read_report, to_output};
use anyhow::Result;
use serde_json::{Value, json};
use stackline_engine::memory_findings;
use stackline_findings::{DevicePeak, Finding, Findings};
use stackline_memory::MemoryAnalysis;
use stackline_model::{MemoryTrace, Table};
use stackline_present::findings::{Change, IgnoreLocation, Shown};
use stackline_present::human::bytes;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Options of the checks of memory findings: baseline, findings to ignore, and `--fail-on` conditions.
pub(super) struct Gate {
    conditions: Vec<Condition>,
    baseline: Option<Baseline>,
    suppressions: Suppressions,
}

impl Gate {
    /// Parse the options of the checks before the input is read, so that invalid usage fails early.
    pub(super) fn read(args: &MemoryGateArgs, inputs: &[PathBuf]) -> Result<Self> {
        let conditions = args.fail_on.iter().map(|c| Condition::parse(c)).collect::<Result<Vec<_>>>()?;
        if let Some(at) = conditions.iter().position(Condition::needs_baseline).filter(|_| args.baseline.is_none()) {
            return Err(wrong_use(format!(
                "--fail-on {:?} needs --baseline FILE, with the memory results of an earlier run, which `stackline \
                 memory INPUT --format json -o FILE` writes",
                args.fail_on[at]
            )));
        }
        let baseline = args.baseline.as_deref().map(Baseline::read).transpose()?;
        let sources = comment_sources(&args.comments, inputs)?;
        let suppressions = Suppressions::read(args.ignore.as_deref(), sources, Vec::new())?;
        Ok(Self { conditions, baseline, suppressions })
    }

    /// Check if the options request output that needs memory findings, in addition to the tables.
    pub(super) fn is_requested(&self, args: &MemoryGateArgs) -> bool {
        args.document.is_some() || args.ignore.is_some() || self.baseline.is_some() || !self.conditions.is_empty()
    }

    /// Search a memory trace for findings, compare them with the baseline, and evaluate the `--fail-on` conditions.
    pub(super) fn judge(self, args: &MemoryArgs, analysis: &MemoryAnalysis<'_>) -> Result<Judged> {
        let keep = |finding: &Finding| self.suppressions.suppression_of(finding).is_none();
        let mut found = Findings::from_memory(memory_findings(analysis, args.gate.min_gain(), &keep));
        let (listed, gone) = {
            let before = self.baseline.as_ref().map(|baseline| &baseline.findings);
            found.notes.extend(before.and_then(|baseline| baseline.note()));
            let (listed, gone) = compared(&found, before);
            (listed.into_iter().map(|(_, change)| change).collect::<Vec<_>>(), gone)
        };
        let mut judged = Judged {
            changes: listed,
            gone,
            held: Vec::new(),
            guesses: 0,
            before: self.baseline.map(|b| b.peaks),
            suppressions: self.suppressions,
            found,
        };
        let held = {
            let listed = judged.listed();
            let (peaks, before, guesses) = (&judged.found.peaks[..], judged.before.as_ref(), args.gate.fail_on_guesses);
            let looked = JudgedData { peaks, listed: &listed, before, guesses };
            self.conditions.iter().map(|condition| condition.holds(&looked)).collect::<Result<Vec<_>>>()?
        };
        judged.held = held.into_iter().flatten().collect();
        let left_out = !args.gate.fail_on_guesses && self.conditions.iter().any(Condition::leaves_out_guesses);
        judged.guesses =
            if left_out { judged.found.findings.iter().filter(|finding| finding.is_unsure()).count() } else { 0 };
        Ok(judged)
    }
}

/// Memory findings with their changes from the baseline, and the `--fail-on` conditions that hold.
pub(super) struct Judged {
    found: Findings,
    /// Change of each finding from the baseline.
    changes: Vec<Option<Change>>,
    gone: Vec<String>,
    held: Vec<String>,
    /// Findings that are but a guess, which conditions that were asked for leave out.
    guesses: usize,
    /// The baseline's peaks by device.
    before: Option<BTreeMap<String, u64>>,
    suppressions: Suppressions,
}

impl Judged {
    fn listed(&self) -> Vec<(&Finding, Option<Change>)> {
        self.found.findings.iter().zip(self.changes.iter().copied()).collect()
    }

    fn suppressed(&self) -> Vec<(&Finding, IgnoreLocation)> {
        self.found
            .ignored
            .iter()
            .filter_map(|finding| Some((finding, self.suppressions.suppression_of(finding)?)))
            .collect()
    }

    /// Tables of findings and of rules that were not checked.
    pub(super) fn tables(&self) -> Vec<Table> {
        tables(&self.found, &self.listed())
    }

    fn shown<T>(&self, with: impl FnOnce(&Shown<'_>) -> T) -> T {
        let (listed, suppressed) = (self.listed(), self.suppressed());
        with(&Shown { found: &self.found, listed: &listed, gone: &self.gone, suppressed: &suppressed, more: 0 })
    }

    /// Keys that memory findings add to JSON documents: peaks, omitted findings, and conditions that hold.
    pub(super) fn keys(&self) -> Vec<(&'static str, Value)> {
        let before = |peak: &DevicePeak| self.before.as_ref().and_then(|before| before.get(&peak.device)).copied();
        let peak = |device_peak: &DevicePeak| json!({"device": device_peak.device, "bytes": device_peak.bytes, "mended_bytes": device_peak.mended_bytes, "before_bytes": before(device_peak)});
        let peaks = json!(self.found.peaks.iter().map(peak).collect::<Vec<_>>());
        let keys = [("peaks", peaks), ("left_out", json!(self.found.small.len()))];
        keys.into_iter().chain(self.shown(|shown| outcome_keys(shown, &self.held))).collect()
    }

    /// Text below the tables: changes of peaks, new, gone and ignored findings, and notes.
    pub(super) fn text(&self) -> String {
        let mut lines = Vec::new();
        for peak in self.found.peaks.iter().filter(|_| self.before.is_some()) {
            lines.push(peak_change(peak, self.before.as_ref().and_then(|before| before.get(&peak.device)).copied()));
        }
        let at = |finding: &Finding| Some(finding.place.text()).filter(|place| !place.is_empty());
        let at = |finding: &Finding| at(finding).map_or_else(String::new, |place| format!(" at {place}"));
        for (finding, change) in self.listed() {
            if change == Some(Change::New) {
                lines.push(format!("New: {} {}{}", finding.rule.code, finding.title, at(finding)));
            }
        }
        lines.extend(self.gone.iter().map(|title| format!("Gone: {title}")));
        for (finding, by) in self.suppressed() {
            lines.push(format!("Ignored: {} {}{} ({by})", finding.rule.code, finding.title, at(finding)));
        }
        lines.extend(self.found.notes.iter().map(|note| format!("Note: {note}.")));
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Write memory findings as a document for other tools, such as SARIF or Markdown.
    pub(super) fn write(
        &self,
        document: Document,
        args: &MemoryArgs,
        common: &Common,
        trace: &MemoryTrace,
    ) -> Result<()> {
        let text = self.shown(|shown| for_tools(document, shown, args.inputs.first().map(PathBuf::as_path)))?;
        to_output(common, |out| out.write_all(text.as_bytes()))?;
        print_read_report(&session(common, trace).set)
    }

    /// Print warnings and the `--fail-on` conditions that hold, after all other output; return true if any holds.
    /// `written` is the result of the other output.
    pub(super) fn end(&self, written: Result<()>) -> Result<bool> {
        match written {
            // The exit code depends on the conditions, even if the reader closes the pipe early.
            Err(error) if !self.held.is_empty() && is_closed_pipe(&error) => {}
            other => other?,
        }
        self.suppressions.warnings().iter().try_for_each(|text| print_message(text))?;
        if self.guesses > 0 {
            let findings =
                if self.guesses == 1 { "1 finding".to_owned() } else { format!("{} findings", self.guesses) };
            print_message(&format!(
                "--fail-on: the conditions 'waste' and 'new' exclude {findings} of low confidence, and the condition \
                 'count' includes them. Add --fail-on-guesses to include them in all conditions"
            ))?;
        }
        self.held.iter().try_for_each(|text| print_message(&format!("--fail-on: {text}")))?;
        Ok(!self.held.is_empty())
    }
}

fn peak_change(peak: &DevicePeak, before: Option<u64>) -> String {
    let (device, now) = (&peak.device, bytes(peak.bytes));
    let Some(before) = before else {
        return format!("The memory peak of {device} is {now}; the baseline has no memory data of this device.");
    };
    let more = 100.0 * (peak.bytes as f64 - before as f64) / before.max(1) as f64;
    format!("The memory peak of {device} is {now}, {more:+.1} % relative to the baseline's {}.", bytes(before))
}
