//! Training phases and their rules as data. [`BUILT_IN`] has the format of a user's rule file.

use crate::frame_names::frame;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use stackline_model::vocabulary::{FRAMEWORKS, PhaseSpan, TrainingPhase, matches, phase_of_code};
use stackline_model::{EventKind, StrId, Trace};
use std::cell::LazyCell;

/// Built-in rules for PyTorch and for spans of any program. Rules for frameworks on top of PyTorch come before them:
/// see [`stackline_model::vocabulary`].
pub const BUILT_IN: &str = include_str!("phase_rules.json");

/// Training phase (section 3.2.1 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Loading and preparing data.
    DataLoad,
    /// The forward pass.
    Forward,
    /// Computing the loss.
    Loss,
    /// The backward pass, including a repeated forward pass.
    Backward,
    /// Collectives and their preparation.
    Communication,
    /// The optimizer.
    Update,
    /// Not matched by any rule.
    Other,
}

impl Phase {
    /// All phases, in the order of training.
    pub const ALL: [Self; 7] =
        [Self::DataLoad, Self::Forward, Self::Loss, Self::Backward, Self::Communication, Self::Update, Self::Other];

    /// Name in files and tables, such as `data_load`.
    pub fn name(self) -> &'static str {
        match self {
            Self::DataLoad => "data_load",
            Self::Forward => "forward",
            Self::Loss => "loss",
            Self::Backward => "backward",
            Self::Communication => "communication",
            Self::Update => "update",
            Self::Other => "other",
        }
    }

    /// Convert a framework's phase to a training phase.
    fn from_framework(phase: TrainingPhase) -> Self {
        match phase {
            TrainingPhase::DataLoading => Self::DataLoad,
            TrainingPhase::Forward => Self::Forward,
            TrainingPhase::Backward => Self::Backward,
            TrainingPhase::Communication => Self::Communication,
            TrainingPhase::Optimizer => Self::Update,
        }
    }

    /// Phase that counts for an event of this phase inside an event of phase `outer`: one of these two.
    ///
    /// A forward pass inside the backward pass is activation checkpointing and belongs to the backward pass. A loss
    /// inside the optimizer (LBFGS) belongs to the optimizer.
    pub fn inside(self, outer: Self) -> Self {
        match (self, outer) {
            (Self::Forward | Self::Loss, Self::Backward | Self::Update) => outer,
            // A forward function that a loss calls is part of the loss.
            (Self::Forward, Self::Loss) => outer,
            _ => self,
        }
    }
}

/// Kind of events that a phase rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleKind {
    /// A framework operator.
    Operator,
    /// A runtime or driver call.
    Runtime,
    /// A Python frame, `nn.Module` calls included.
    Python,
    /// A user annotation.
    Annotation,
}

impl RuleKind {
    /// Kind of rules that match events of a kind; `None` for events that no rule matches.
    fn from_event_kind(kind: EventKind) -> Option<Self> {
        match kind {
            // Older profilers wrote annotations and other records as operators.
            EventKind::Operator | EventKind::Other => Some(Self::Operator),
            EventKind::Runtime | EventKind::Driver => Some(Self::Runtime),
            EventKind::PythonFunction => Some(Self::Python),
            EventKind::Annotation => Some(Self::Annotation),
            _ => None,
        }
    }
}

/// Side of the link between an operator and its backward operator, which traces record by sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkSide {
    /// The operator has a backward operator in the trace.
    Forward,
    /// The operator is the backward operator of one in the trace.
    Backward,
}

/// Rule that assigns a phase to events that meet all its conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseRule {
    /// Assigned phase.
    pub phase: Phase,
    /// Kinds of events; any kind if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<RuleKind>,
    /// Pattern for the whole name, in which `*` matches any text, and an initial `*/` matches any folders or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Side of the link between forward and backward operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkSide>,
    /// True to assign the phase to the other work on the thread as well, if no other phase runs there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub autograd_thread: bool,
    /// True to assign the phase inside the optimizer as well, whose step calls such events as its closure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_closure: bool,
    /// Framework phase of the frame's function ([`phase_of_code`]); rule files have no such condition.
    #[serde(skip)]
    code: Option<TrainingPhase>,
}

impl PhaseRule {
    /// Phase that counts for an event of this rule inside phase `outer`: the rule's own in the optimizer if
    /// [`Self::in_closure`], otherwise by [`Phase::inside`].
    pub fn inside(&self, outer: Phase) -> Phase {
        if self.in_closure && outer == Phase::Update { self.phase } else { self.phase.inside(outer) }
    }

    /// Create the rule that assigns a phase to events whose name matches a pattern.
    fn for_name(phase: Phase, name: String) -> Self {
        let (kinds, link, code) = (Vec::new(), None, None);
        Self { phase, kinds, name: Some(name), link, autograd_thread: false, in_closure: false, code }
    }

    /// Create the rule that assigns a phase to a framework's span.
    fn for_span(span: &PhaseSpan) -> Self {
        let phase = span.phase.map_or(Phase::Other, Phase::from_framework);
        Self { in_closure: span.in_closure, ..Self::for_name(phase, span.name.to_owned()) }
    }

    /// Create the rule that assigns a phase to the Python functions that framework vocabularies list for this phase.
    fn for_code(phase: TrainingPhase) -> Self {
        let kinds = vec![RuleKind::Python];
        Self { kinds, name: None, code: Some(phase), ..Self::for_name(Phase::from_framework(phase), String::new()) }
    }

    /// Test if the rule matches a name and kind, without links; `code` returns the framework phase of a Python frame.
    fn matches_kind_and_name(&self, name: &str, kind: RuleKind, code: impl FnOnce() -> Option<TrainingPhase>) -> bool {
        let of_kind = self.kinds.is_empty() || self.kinds.contains(&kind);
        of_kind
            && match (&self.name, self.code) {
                (Some(pattern), _) => matches_pattern(pattern, name),
                (None, Some(phase)) => code() == Some(phase),
                (None, None) => false,
            }
    }
}

/// Test if a name matches a rule's pattern. An initial `*/` matches any folders or none.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    matches(pattern, name) || pattern.strip_prefix("*/").is_some_and(|rest| matches(rest, name))
}

/// Phase of a Python frame, by the function of a known framework; `None` for other frames.
fn phase_of_frame(name: &str) -> Option<TrainingPhase> {
    let (file, _, function) = frame(name)?;
    phase_of_code(file, function)
}

/// Ordered phase rules (the first match wins), and name patterns of Python frames that wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseRules {
    /// Phase rules.
    #[serde(default)]
    pub rules: Vec<PhaseRule>,
    /// Patterns of Python frames that wait for another thread or process. Such frames count only where no other work
    /// runs.
    #[serde(default)]
    pub waits: Vec<String>,
}

/// Error in a text of phase rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid phase rules: {reason}")]
pub struct InvalidPhaseRules {
    /// The fault, with its line or rule.
    pub reason: String,
}

impl Default for PhaseRules {
    fn default() -> Self {
        // A test parses the built-in text, so the empty set never occurs.
        let general = serde_json::from_str(BUILT_IN).unwrap_or(Self { rules: Vec::new(), waits: Vec::new() });
        let spans = FRAMEWORKS.iter().flat_map(|framework| framework.spans).map(PhaseRule::for_span);
        let code = TrainingPhase::ALL.into_iter().map(PhaseRule::for_code);
        Self { rules: spans.chain(code).chain(general.rules).collect(), ..general }
    }
}

impl PhaseRules {
    /// First rule that matches a name and kind, without links.
    pub fn rule_for_name(&self, name: &str, kind: RuleKind) -> Option<&PhaseRule> {
        let code = LazyCell::new(|| phase_of_frame(name));
        self.rules.iter().find(|rule| rule.matches_kind_and_name(name, kind, || *code))
    }

    /// First rule that matches a name for events of every kind. Such rules cover names from PyTorch's libraries and
    /// from frameworks, because the names of a program's own spans are arbitrary.
    pub fn rule_for_library_name(&self, name: &str) -> Option<&PhaseRule> {
        let fits = |rule: &&PhaseRule| {
            rule.kinds.is_empty() && rule.name.as_ref().is_some_and(|pattern| matches_pattern(pattern, name))
        };
        self.rules.iter().find(fits)
    }

    /// Combine the rules of a JSON text with the built-in ones. The text's rules come first.
    ///
    /// # Errors
    /// Returns an error with the line if the text is not a valid set of rules.
    pub fn extended_by(text: &str) -> Result<Self, InvalidPhaseRules> {
        let invalid = |reason: String| InvalidPhaseRules { reason };
        let own: Self = serde_json::from_str(text).map_err(|e| invalid(e.to_string()))?;
        if let Some(at) = own.rules.iter().position(|r| r.name.is_some() == r.link.is_some()) {
            return Err(invalid(format!("rule {} must have either `name` or `link`, not both", at + 1)));
        }
        let built_in = Self::default();
        let rules = own.rules.into_iter().chain(built_in.rules).collect();
        Ok(Self { rules, waits: own.waits.into_iter().chain(built_in.waits).collect() })
    }
}

/// Phase rules applied to one trace, with a cache per name.
pub struct PhaseRuleCache<'a> {
    trace: &'a Trace,
    rules: &'a PhaseRules,
    /// First rule that matches by name alone, per name and kind.
    by_name: FxHashMap<(StrId, RuleKind), Option<usize>>,
    /// First rules for the two sides of a link.
    by_link: [Option<usize>; 2],
    waits: FxHashMap<StrId, bool>,
}

impl<'a> PhaseRuleCache<'a> {
    /// Apply phase rules to a trace, with an empty cache.
    pub fn new(trace: &'a Trace, rules: &'a PhaseRules) -> Self {
        let first = |side| rules.rules.iter().position(|r| r.link == Some(side) && r.name.is_none());
        let by_link = [first(LinkSide::Forward), first(LinkSide::Backward)];
        Self { trace, rules, by_name: FxHashMap::default(), by_link, waits: FxHashMap::default() }
    }

    /// Find the first rule for an event's own name, kind and link, independent of enclosing events.
    pub fn rule_for(&mut self, name: StrId, kind: EventKind, link: Option<LinkSide>) -> Option<&'a PhaseRule> {
        let kind = RuleKind::from_event_kind(kind)?;
        let (trace, rules) = (self.trace, self.rules);
        let named = *self.by_name.entry((name, kind)).or_insert_with(|| {
            let text = trace.strings.get(name);
            let code = LazyCell::new(|| phase_of_frame(text));
            rules.rules.iter().position(|rule| rule.link.is_none() && rule.matches_kind_and_name(text, kind, || *code))
        });
        let linked = link.and_then(|side| self.by_link[side as usize]);
        let best = match (named, linked) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        best.and_then(|at| rules.rules.get(at))
    }

    /// Test if a Python frame of this name waits for another thread or process.
    pub fn waits(&mut self, name: StrId) -> bool {
        let (trace, rules) = (self.trace, self.rules);
        *self.waits.entry(name).or_insert_with(|| {
            let text = trace.strings.get(name);
            rules.waits.iter().any(|pattern| matches_pattern(pattern, text))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_rules_parse_and_cover_all_phases() {
        let rules: PhaseRules = serde_json::from_str(BUILT_IN).unwrap();
        for phase in Phase::ALL.into_iter().filter(|&p| p != Phase::Other) {
            assert!(rules.rules.iter().any(|r| r.phase == phase), "{} has no rule", phase.name());
        }
        assert!(!rules.waits.is_empty());
    }

    #[test]
    fn user_rules_take_precedence_and_errors_name_their_line() {
        let own = PhaseRules::extended_by(r#"{"rules":[{"phase":"loss","name":"my_*"}]}"#).unwrap();
        assert_eq!((own.rules[0].phase, own.rules.len()), (Phase::Loss, PhaseRules::default().rules.len() + 1));
        for (text, part) in [
            ("{\n \"rules\": [\n {\"phase\": \"los\", \"name\": \"x\"}]}", "line 3"),
            ("{\"rules\": [{\"phase\": \"loss\", \"nam\": \"x\"}]}", "line 1"),
            ("{\n\"rules\": [", "line 2"),
            ("{\"rules\": [{\"phase\": \"loss\"}]}", "rule 1 must have either `name` or `link`"),
        ] {
            let error = PhaseRules::extended_by(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn framework_rules_precede_generic_span_rules() {
        let rules = PhaseRules::default();
        let phase = |name: &str, kind| rules.rule_for_name(name, kind).map(|rule| rule.phase);
        let part = |part: &str| format!("megatron.core.pipeline_parallel.schedules.forward_backward_pipelining.{part}");
        let (warmup, steady) = (part("warmup"), part("steady"));
        let spans: [(&str, Phase); 6] = [
            ("megatron.core.pipeline_parallel.p2p_communication.send_forward_recv_backward", Phase::Communication),
            (&warmup, Phase::Forward),
            (&steady, Phase::Other),
            ("DeepSpeedEngine.backward", Phase::Backward),
            ("[pl][profile][_EvaluationLoop].val_next", Phase::DataLoad),
            // Arbitrary names that a program may give its spans.
            ("my_backward", Phase::Backward),
        ];
        for (name, expected) in spans {
            assert_eq!(phase(name, RuleKind::Annotation), Some(expected), "{name}");
        }
        for (frame, expected) in [
            ("deepspeed/comm/comm.py(220): all_reduce", Phase::Communication),
            ("/opt/DeepSpeed/deepspeed/runtime/engine.py(3567): DeepSpeedEngine.step", Phase::Update),
            ("megatron/core/pipeline_parallel/schedules.py(311): forward_step", Phase::Forward),
            ("megatron/core/distributed/finalize_model_grads.py(396): finalize_model_grads", Phase::Communication),
            ("accelerate/accelerator.py(2829): backward", Phase::Backward),
            ("torch/optim/adam.py(226): step", Phase::Update),
        ] {
            assert_eq!(phase(frame, RuleKind::Python), Some(expected), "{frame}");
        }
        for frame in [
            "deepspeed/runtime/engine.py(1): train",
            // Folders of a user with the name of a package, or with such an ending.
            "/data/me/optax/train.py(3): main",
            "mydeepspeed/runtime/engine.py(9): step",
            "mytorch/optim/adam.py(226): step",
        ] {
            assert_eq!(phase(frame, RuleKind::Python), None, "{frame}");
        }
        assert_eq!(phase("/v/site-packages/torch/optim/adam.py(226): step", RuleKind::Python), Some(Phase::Update));
        let optax = "/v/site-packages/optax/_src/transform.py(7): update_fn";
        assert_eq!(phase(optax, RuleKind::Python), Some(Phase::Update));
    }

    #[test]
    fn closure_in_optimizer_step_has_its_own_phase() {
        let rules = PhaseRules::default();
        let inside = |name: &str, outer| rules.rule_for_name(name, RuleKind::Annotation).map(|rule| rule.inside(outer));
        assert_eq!(inside("[pl][profile][Strategy]DDPStrategy.training_step", Phase::Update), Some(Phase::Forward));
        assert_eq!(inside("my forward", Phase::Update), Some(Phase::Update));
    }
}
