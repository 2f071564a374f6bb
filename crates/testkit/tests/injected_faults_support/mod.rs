//! Results of rules on programs with an injected fault, compared with ground truth.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::print_stdout)]

use stackline_findings::{Finding, Findings, Options, find};
use stackline_testkit::simulator::Simulated;
use stackline_testkit::simulator::injected_faults::{InjectedFault, Kind};
use std::collections::BTreeMap;

/// Findings in a program; on one thread, for measurements of time.
pub fn found_in(simulated: &Simulated) -> Findings {
    let trace = stackline_ingest::read_bytes("planted.json", simulated.json().as_bytes(), &Default::default()).unwrap();
    find(&trace, &Options { threads: 1, ..Options::default() }).unwrap()
}

/// True if a finding states a problem: speculative findings and findings about the measurement do not.
pub fn is_alarm(finding: &Finding) -> bool {
    finding.is_repair() && finding.gain.is_some()
}

/// Detection results of one kind of fault.
#[derive(Clone, Default)]
pub struct Score {
    pub programs: usize,
    pub found: usize,
    /// Programs in which a rule fires without reason, by its code.
    pub alarms: BTreeMap<String, usize>,
    pub alarmed: usize,
    pub inside: usize,
    /// Programs that were drawn and rejected.
    pub refused: u64,
    /// Real gains in percent of the step.
    pub gains: Vec<f64>,
    /// Errors of the predicted gain in percent of the real gain.
    pub errors: Vec<f64>,
    /// Distance from the lower to the upper bound, in percent of the real gain.
    pub widths: Vec<f64>,
}

/// Percentile of a list.
pub fn at(list: &mut [f64], percent: usize) -> f64 {
    list.sort_by(f64::total_cmp);
    list.get(list.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0.0)
}

fn percent(part: usize, all: usize) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

impl Score {
    pub fn add(&mut self, mut other: Self) {
        self.programs += other.programs;
        self.found += other.found;
        self.alarmed += other.alarmed;
        self.inside += other.inside;
        self.refused += other.refused;
        for (code, count) in other.alarms {
            *self.alarms.entry(code).or_default() += count;
        }
        self.gains.append(&mut other.gains);
        self.errors.append(&mut other.errors);
        self.widths.append(&mut other.widths);
    }

    pub fn found_percent(&self) -> f64 {
        percent(self.found, self.programs)
    }

    pub fn alarmed_percent(&self) -> f64 {
        percent(self.alarmed, self.programs)
    }

    pub fn inside_percent(&self) -> f64 {
        percent(self.inside, self.errors.len())
    }

    /// True if a rule fires without reason.
    fn note_alarms(&mut self, findings: &Findings, known: impl Fn(&str) -> bool) -> bool {
        let mut codes: Vec<String> = findings
            .findings
            .iter()
            .filter(|f| is_alarm(f) && !known(&f.rule.code))
            .map(|f| f.rule.code.clone())
            .collect();
        codes.sort_unstable();
        codes.dedup();
        let is_alarmed = !codes.is_empty();
        self.alarmed += usize::from(is_alarmed);
        for code in codes {
            *self.alarms.entry(code).or_default() += 1;
        }
        is_alarmed
    }

    pub fn error(&mut self, percent: usize) -> f64 {
        at(&mut self.errors, percent)
    }

    pub fn width(&mut self, percent: usize) -> f64 {
        at(&mut self.widths, percent)
    }

    fn alarms(&self) -> String {
        let alarms: Vec<String> = self.alarms.iter().map(|(code, count)| format!("{code}: {count}")).collect();
        if alarms.is_empty() { String::new() } else { format!(" ({})", alarms.join(", ")) }
    }

    /// One row of the table in Markdown.
    fn row(&mut self, name: &str, kind: Option<&Kind>) -> String {
        let (code, repair) = kind.map_or(("", ""), |k| (k.code, if k.is_assumed { "as assumed" } else { "gone" }));
        let (found, alarms, inside) = (self.found_percent(), self.alarmed_percent(), self.inside_percent());
        let (programs, which, gain) = (self.programs, self.alarms(), at(&mut self.gains, 50));
        let (half, most, width) = (self.error(50), self.error(95), self.width(50));
        if self.errors.is_empty() {
            return format!("| {name} | {code} | none | {programs} | {found:.1} | {alarms:.1}{which} | | | | | |\n");
        }
        format!(
            "| {name} | {code} | {repair} | {programs} | {found:.1} | {alarms:.1}{which} | {gain:.1} | {half:.2} | {most:.1} | \
             {inside:.1} | {width:.1} |\n"
        )
    }
}

const HEAD: &str = "\
| problem | rule | repair | programs | found % | false alarms % | true gain, % of the step | median error, % of the gain | \
95th percentile | truth in bounds % | width of bounds, % of the gain |
|---|---|---|---|---|---|---|---|---|---|---|
";

/// Page with the table.
pub const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings-accuracy.md");
const BEGIN: &str = "<!-- table: begin -->";
const END: &str = "<!-- table: end -->";

/// A page with its table replaced.
pub fn put_into(page: &str, table: &str) -> String {
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    format!("{before}{BEGIN}\n\n{table}\n{END}{after}")
}

/// Print the table; with `STACKLINE_BLESS=1` it is also written into its page.
pub fn write_table(clean: &Score, table: &mut [(&'static Kind, Score)]) {
    let mut all = Score::default();
    let mut text = String::from(HEAD);
    let alarms = format!("{:.1}{}", clean.alarmed_percent(), clean.alarms());
    text.push_str(&format!("| none | | | {} | | {alarms} | | | | | |\n", clean.programs));
    for (kind, score) in table {
        text.push_str(&score.row(kind.name, Some(kind)));
        all.add(score.clone());
    }
    text.push_str(&all.row("**all with a problem**", None));
    println!("{text}");
    println!("{} programs were drawn in which the problem cost too little", all.refused);
    if std::env::var_os("STACKLINE_BLESS").is_some() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        std::fs::write(PAGE, put_into(&page, &text)).unwrap();
    }
}

/// Find issues in a program without faults.
pub fn try_clean(seed: u64, score: &mut Score) {
    let findings = found_in(&stackline_testkit::simulator::injected_faults::clean(seed));
    score.programs += 1;
    if score.note_alarms(&findings, |_| false) {
        show(seed, "none", &findings, None);
    }
}

/// Inject a fault, and find it.
pub fn try_kind(kind: &Kind, seed: u64, score: &mut Score) {
    let injected = kind.inject(seed).unwrap_or_else(|| panic!("{kind:?}: seed {seed}: never costs enough"));
    let findings = found_in(&injected.faulty);
    score.programs += 1;
    score.refused += injected.refused;
    let is_alarmed = score.note_alarms(&findings, |code| code == kind.code || kind.also.contains(&code));
    let own = findings.findings.iter().filter(|f| f.rule.code == kind.code);
    let Some(finding) = own.max_by_key(|f| f.gain_ns()) else {
        return show(seed, kind.name, &findings, None);
    };
    score.found += 1;
    if !kind.is_gain {
        return assert_eq!(finding.gain, None, "{kind:?}: seed {seed}");
    }
    let truth = truth(injected, &findings, finding).unwrap();
    let gain = finding.gain.unwrap();
    let is_inside = (gain.low_ns..=gain.high_ns).contains(&truth);
    let error = 100.0 * (gain.likely_ns - truth).abs() as f64 / truth.abs().max(1) as f64;
    score.inside += usize::from(is_inside);
    score.gains.push(100.0 * truth as f64 / findings.step_ns as f64);
    score.errors.push(error);
    score.widths.push(100.0 * (gain.high_ns - gain.low_ns) as f64 / truth.abs().max(1) as f64);
    if !is_inside || is_alarmed || error > 10.0 {
        show(seed, kind.name, &findings, Some(truth));
    }
}

/// Real gain per step in ns of the repair that the finding names; the steps are those of the finding.
fn truth(injected: InjectedFault, findings: &Findings, finding: &Finding) -> Option<i64> {
    let (first, last) = injected.faulty.step_numbers()?;
    let steps = findings.steps as i64;
    // The first step may be left out.
    let first = first.max(last + 1 - steps);
    let workers = finding.edits.iter().find_map(|edit| edit.strip_prefix("more-workers ")?.parse().ok());
    // Without workers the repair is that there are some, enough of them.
    let injected = match workers.filter(|_| injected.has_workers()) {
        Some(workers) => injected.with_workers(workers)?,
        None => injected,
    };
    Some(injected.gain_ns(first, last)? / steps)
}

fn show(seed: u64, name: &str, findings: &Findings, truth: Option<i64>) {
    if std::env::var("FAULTS_SHOW").is_err() {
        return;
    }
    println!("seed {seed}: {name}: step {} ns, true gain {truth:?}", findings.step_ns);
    println!("    {} too small; {:?}", findings.small.len(), findings.notes);
    for finding in &findings.findings {
        println!("    {} {:?} {} [{}]", finding.rule.code, finding.gain, finding.title, finding.edits.join("; "));
    }
}
