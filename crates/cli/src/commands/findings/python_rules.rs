//! Execution of the user's Python rules: an interpreter runs them and reports each finding as a line of JSON.
//!
//! Python enforces the time limit of rules. This module detects rules that block in native code or end the interpreter,
//! reports them, and restarts the interpreter with the remaining rules.

use super::worker::{Worker, WorkerEvent};
use crate::args::{Common, FindingsArgs};
use crate::failure::wrong_use;
use crate::output::print_message;
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use stackline_findings::{ExternalRules, Message, RuleInfo, rules};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Stands for the rules of installed packages.
const ENTRY_POINTS: &str = "entry-points";
/// Names the interpreter.
const PYTHON_VARIABLE: &str = "STACKLINE_PYTHON";
/// Version of the lines, as the package has it.
const PROTOCOL: u32 = 2;
/// Delay of the limit here after the limit in Python.
const GRACE: Duration = Duration::from_secs(2);

/// A run of the user's Python rules in an interpreter process.
pub(super) struct PythonRules {
    python: OsString,
    request: Value,
    limit: Duration,
    worker: Worker,
    others: ExternalRules,
    /// Codes of rules that have looked, or never will.
    done: BTreeSet<String>,
}

impl PythonRules {
    /// Start an interpreter that loads the Python rules of `--rules`, and read their metadata; `None` without the
    /// option.
    ///
    /// # Errors
    /// If there is no interpreter with the package, or a file of rules makes no sense.
    pub(super) fn start(args: &FindingsArgs, common: &Common) -> Result<Option<Self>> {
        if args.rules.is_empty() {
            return Ok(None);
        }
        for path in args.rules.iter().filter(|path| path.as_os_str() != ENTRY_POINTS && path.as_os_str() != "-") {
            if !path.exists() {
                return Err(wrong_use(format!("{}: rule file not found", path.display())));
            }
        }
        if let Some(steps) = common.steps.filter(|steps| steps.cycle.is_some()) {
            return Err(wrong_use(format!(
                "--steps {steps} cannot be combined with --rules: Python rules cannot select a profiler cycle (@)"
            )));
        }
        let given = args.python.clone().map(PathBuf::into_os_string);
        let named = given.or_else(|| std::env::var_os(PYTHON_VARIABLE).filter(|name| !name.is_empty()));
        let python = named.unwrap_or_else(|| "python3".into());
        let request = json!({
            "inputs": args.inputs.inputs.iter().map(|path| text(path)).collect::<Result<Vec<_>>>()?,
            "rules": without_duplicates(&args.rules)?.into_iter().map(text).collect::<Result<Vec<_>>>()?,
            "rank": common.rank,
            "steps": common.steps.map(|range| (range.first, range.last)),
            "threads": common.threads,
            "timeout": args.rule_timeout,
            "settings": python_rule_settings(args).collect::<Vec<_>>(),
            "skip": [],
        });
        let limit = Duration::from_secs_f64(args.rule_timeout) + GRACE;
        let worker = Worker::start(&python, &request)?;
        let (others, done) = (ExternalRules::default(), BTreeSet::new());
        let mut own = Self { python, request, limit, worker, others, done };
        own.load()?;
        Ok(Some(own))
    }

    /// Metadata of all Python rules that the interpreter loaded.
    pub(super) fn rules(&self) -> Vec<Arc<RuleInfo>> {
        self.others.rules().cloned().collect()
    }

    /// Documentation page of a Python rule as Markdown.
    pub(super) fn page(&self, code: &str) -> Option<String> {
        self.others.page(code)
    }

    /// Read messages of the interpreter until all Python rules are loaded.
    fn load(&mut self) -> Result<()> {
        let mut loading: Option<(String, Instant)> = None;
        loop {
            let deadline = loading.as_ref().map(|(_, since)| *since + self.limit);
            match self.worker.next(deadline)? {
                WorkerEvent::Message(Message::Loaded) => return Ok(()),
                WorkerEvent::Message(Message::Hello { protocol, version }) => check_version(protocol, &version)?,
                WorkerEvent::Message(Message::Loading { source }) => loading = Some((source, Instant::now())),
                WorkerEvent::Message(Message::Refused { reason, .. }) => return Err(wrong_use(reason)),
                WorkerEvent::Message(Message::Rule(rule))
                    if self.rules().iter().any(|known| known.code == rule.code) && !self.done.is_empty() => {}
                WorkerEvent::Message(message) => self.others.add(message).map_err(wrong_use)?,
                WorkerEvent::TimedOut => {
                    let source = loading.map_or_else(String::new, |(source, _)| source);
                    return Err(wrong_use(format!(
                        "loading the Python rules of {source} took more than {} s, the limit of --rule-timeout",
                        self.seconds()
                    )));
                }
                WorkerEvent::Ended(how) => {
                    return Err(anyhow!("the Python interpreter that runs rules exited unexpectedly ({how})"));
                }
            }
        }
    }

    /// Time limit of a rule in seconds, as `--rule-timeout` gives it.
    fn seconds(&self) -> f64 {
        (self.limit - GRACE).as_secs_f64()
    }

    /// Wait until all Python rules have ended, and return their findings. After a rule that blocks or crashes, a new
    /// interpreter runs the others.
    ///
    /// # Errors
    /// If the interpreter cannot read the input, or sends an invalid message.
    pub(super) fn finish(mut self) -> Result<ExternalRules> {
        while let Some(unfinished) = self.run()? {
            self.done.insert(unfinished);
            if self.rules().iter().all(|rule| self.done.contains(&rule.code)) {
                break;
            }
            self.request["skip"] = json!(self.done);
            self.worker = Worker::start(&self.python, &self.request)?;
            self.load()?;
        }
        Ok(self.others)
    }

    /// Read messages of the interpreter until all Python rules have run. Returns the code of a rule that exceeds its
    /// time limit or ends the interpreter.
    fn run(&mut self) -> Result<Option<String>> {
        let mut current: Option<(String, Instant)> = None;
        loop {
            let deadline = current.as_ref().map(|(_, since)| *since + self.limit);
            let failed = match self.worker.next(deadline)? {
                WorkerEvent::Message(Message::Begin { code }) => {
                    current = Some((code, Instant::now()));
                    continue;
                }
                WorkerEvent::Message(Message::End { code }) => {
                    current = None;
                    self.done.insert(code);
                    // Threads that a rule started and did not end would keep the interpreter alive.
                    if self.rules().iter().all(|rule| self.done.contains(&rule.code)) {
                        return Ok(None);
                    }
                    continue;
                }
                WorkerEvent::Message(Message::Refused { reason, .. }) => {
                    return Err(anyhow!("the Python rules cannot be run: {reason}"));
                }
                WorkerEvent::Message(message) => {
                    self.others
                        .add(message)
                        .map_err(|reason| anyhow!("a Python rule returned an invalid result: {reason}"))?;
                    continue;
                }
                WorkerEvent::TimedOut => {
                    format!(
                        "the rule did not end within {} s, the limit of --rule-timeout, so its Python process was \
                         killed",
                        self.seconds()
                    )
                }
                WorkerEvent::Ended(how) if current.is_some() => {
                    format!("the rule ended the Python interpreter that ran it ({how})")
                }
                WorkerEvent::Ended(_) if self.rules().iter().all(|rule| self.done.contains(&rule.code)) => {
                    return Ok(None);
                }
                WorkerEvent::Ended(how) => {
                    return Err(anyhow!("the Python interpreter that runs rules exited unexpectedly ({how})"));
                }
            };
            let code = current.map_or_else(String::new, |(code, _)| code);
            let failed = Message::Failed { code: code.clone(), reason: failed, traceback: None };
            self.others.add(failed).map_err(|reason| anyhow!(reason))?;
            return Ok(Some(code));
        }
    }
}

/// Settings of rules of the user's own: those whose code no built-in rule has.
fn python_rule_settings(args: &FindingsArgs) -> impl Iterator<Item = &String> {
    args.set.iter().filter(|text| is_own(text))
}

/// Check if the code in a setting such as `MY001.most=5` is none of a built-in rule, so that it belongs to a Python
/// rule.
pub(super) fn is_own(setting: &str) -> bool {
    let code = setting.split_once('=').and_then(|(name, _)| name.trim().split_once('.')).map(|(code, _)| code);
    let is_ours = |code: &str| {
        let number = code.get(..2).filter(|start| start.eq_ignore_ascii_case("SL")).map(|_| &code[2..]);
        rules::find(code).is_some() || number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    code.is_some_and(|code| !code.is_empty() && !is_ours(code))
}

/// Rule files of `--rules`, each once. Duplicates are reported on standard error.
fn without_duplicates(given: &[PathBuf]) -> Result<Vec<&Path>> {
    let mut once: Vec<&Path> = Vec::new();
    let same = |a: &Path, b: &Path| a == b || a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b));
    for path in given {
        match once.iter().any(|known| same(known, path)) {
            true => print_message(&format!("--rules {}: given twice, but loaded only once", path.display()))?,
            false => once.push(path),
        }
    }
    Ok(once)
}

/// Return an error if the Python package and this program have different protocol versions.
fn check_version(protocol: u32, version: &str) -> Result<()> {
    if protocol == PROTOCOL {
        return Ok(());
    }
    Err(wrong_use(format!(
        "the Python package stackline has version {version}, and this program has version {}: Python rules need equal \
         versions",
        env!("CARGO_PKG_VERSION")
    )))
}

/// Text of a path for the request to the interpreter. Error for standard input, and for names that are not UTF-8.
fn text(path: &Path) -> Result<&str> {
    if path == Path::new("-") {
        return Err(wrong_use(
            "with --rules, give rules and inputs as files, because standard input can be read only once",
        ));
    }
    path.to_str().ok_or_else(|| {
        wrong_use(format!(
            "{}: this file name is not valid UTF-8, which --rules requires of rule files and inputs",
            path.display()
        ))
    })
}
