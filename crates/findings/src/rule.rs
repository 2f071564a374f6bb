//! Built-in rules: metadata, advice and check.

use super::finding::{Candidate, CandidateKind};
use super::gain_method::GainMethod;
use super::requirement::Requirement;
use super::rule_context::RuleContext;
use super::rule_info::{Area, RuleInfo};
use super::settings::{DeclaredSettings, Setting, Settings};
use std::sync::Arc;

/// Condition on the analyzed program under which a variant of advice applies.
#[derive(Clone, Copy)]
pub enum ProgramCondition {
    /// All programs.
    Any,
    /// Programs that use JAX.
    Jax,
    /// Programs without a GPU.
    WithoutGpu,
    /// Programs that a predicate recognizes by their trace.
    Where(fn(&RuleContext<'_>) -> bool),
}

impl ProgramCondition {
    /// Test if the analyzed program meets the condition.
    fn applies(self, context: &RuleContext<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Jax => context.uses_jax(),
            Self::WithoutGpu => !context.uses_gpu(),
            Self::Where(is_one) => is_one(context),
        }
    }
}

/// Variant of a rule's advice for a kind of program.
#[derive(Clone, Copy)]
pub struct AdviceVariant {
    /// Kind of program, as a continuation of "in".
    pub programs: &'static str,
    /// Kind of program, as a condition.
    pub condition: ProgramCondition,
    /// Kind of the candidates; none for all candidates of the rule.
    pub kind: Option<CandidateKind>,
    /// Advice.
    pub advice: &'static str,
    /// Example code before and after the change.
    pub example: (&'static str, &'static str),
}

impl AdviceVariant {
    /// Advice variant for candidate findings of one kind, in all programs.
    pub(super) const fn for_all(
        programs: &'static str,
        kind: CandidateKind,
        advice: &'static str,
        example: (&'static str, &'static str),
    ) -> Self {
        Self { programs, condition: ProgramCondition::Any, kind: Some(kind), advice, example }
    }

    /// Advice variant for programs that use JAX, where advice on PyTorch does not apply.
    pub(super) const fn for_jax(advice: &'static str, example: (&'static str, &'static str)) -> Self {
        Self { programs: "programs that use JAX", condition: ProgramCondition::Jax, kind: None, advice, example }
    }

    /// Advice variant for programs without a GPU.
    pub(super) const fn without_gpu(advice: &'static str, example: (&'static str, &'static str)) -> Self {
        Self {
            programs: "programs without a GPU",
            condition: ProgramCondition::WithoutGpu,
            kind: None,
            advice,
            example,
        }
    }
}

/// Property of all findings of a rule, on which the processing of findings depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleProperty {
    /// The fix is an argument of a constructor, whose call is the fix location.
    Constructor {
        /// Name parts of the constructor's frames.
        frame: &'static [&'static str],
        /// File or folder of the constructor's library.
        library: &'static str,
    },
    /// The findings are collectives, which last until the last rank arrives.
    Collectives,
    /// The findings are waits for other ranks.
    WaitsForRanks,
    /// The findings are slow functions, without the cause of their time and without their callees.
    SlowFunctions,
}

/// Built-in rule: metadata, requirements, thresholds, advice and check.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Stable code, such as `SL001`.
    pub code: &'static str,
    /// Stable name in words, such as `hotspot`.
    pub name: &'static str,
    /// Area.
    pub area: Area,
    /// Summary in one line.
    pub about: &'static str,
    /// Reason why the problem costs time.
    pub why: &'static str,
    /// Methods of the gain estimates; a finding has one of them.
    pub gain_methods: &'static [GainMethod],
    /// Description of the gain estimate: measured and changed times, with the edits.
    pub gain_text: &'static str,
    /// Advice.
    pub advice: &'static str,
    /// Example code before and after the change.
    pub example: (&'static str, &'static str),
    /// Cost of the change.
    pub cost: &'static str,
    /// False positives.
    pub false_positives: &'static str,
    /// Source: a paper with section, or common practice.
    pub source: &'static str,
    /// Requirements.
    pub needs: &'static [Requirement],
    /// Thresholds.
    pub settings: &'static [Setting],
    /// Advice for kinds of programs; the first that applies is used.
    pub advice_variants: &'static [AdviceVariant],
    /// Properties that the fix location, the merge of ranks and the list of uncovered time depend on.
    pub properties: &'static [RuleProperty],
    /// Check of a trace.
    pub check: fn(&RuleContext<'_>) -> Vec<Candidate>,
}

impl Rule {
    /// True for rules on memory traces, whose findings save bytes instead of time.
    pub fn is_of_memory(&self) -> bool {
        self.needs.contains(&Requirement::Memory)
    }

    /// Path of the page in the repository: `docs/findings/SL001-hotspot.md`.
    pub(crate) fn page_path(&self) -> String {
        format!("docs/findings/{}", self.page_file())
    }

    /// File name of the rule's documentation page, such as `SL001-name.md`.
    pub fn page_file(&self) -> String {
        format!("{}-{}.md", self.code, self.name)
    }

    /// Code and settings of the rule, by which its context looks up their values.
    pub(super) fn declared_settings(&self) -> DeclaredSettings {
        DeclaredSettings { code: self.code, settings: self.settings }
    }

    /// Copy of the rule's metadata for output, without its check.
    pub fn info(&self) -> Arc<RuleInfo> {
        Arc::new(RuleInfo {
            code: self.code.to_owned(),
            name: self.name.to_owned(),
            area: self.area,
            about: self.about.to_owned(),
            why: self.why.to_owned(),
            advice: self.advice.to_owned(),
            example: Some((self.example.0.to_owned(), self.example.1.to_owned())),
            cost: self.cost.to_owned(),
            page: Some(self.page_path()),
        })
    }

    /// Printable metadata with the advice variant for candidates of a kind in the analyzed program.
    pub(super) fn info_of(&self, context: &RuleContext<'_>, kind: Option<CandidateKind>) -> Arc<RuleInfo> {
        self.info_where(kind, |programs| programs.applies(context))
    }

    /// Printable metadata with the advice variant for candidates of a kind; `holds` tests if its condition on programs
    /// holds.
    pub(super) fn info_where(
        &self,
        kind: Option<CandidateKind>,
        holds: impl Fn(ProgramCondition) -> bool,
    ) -> Arc<RuleInfo> {
        let info = self.info();
        let is_for_kind = |other: &AdviceVariant| other.kind.is_none() || other.kind == kind;
        let applies_to = |other: &&AdviceVariant| is_for_kind(other) && holds(other.condition);
        let Some(other) = self.advice_variants.iter().find(applies_to) else { return info };
        let (before, after) = other.example;
        let example = Some((before.to_owned(), after.to_owned()));
        Arc::new(RuleInfo { advice: other.advice.to_owned(), example, ..(*info).clone() })
    }
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rule({} {})", self.code, self.name)
    }
}

impl Settings {
    /// Value of a rule's setting, as set by the user or else the default; 0 for an unknown name.
    pub fn get(&self, rule: &Rule, name: &str) -> f64 {
        self.value(rule.declared_settings(), name)
    }
}

impl RuleContext<'_> {
    /// Value of a setting of another rule, whose findings this rule excludes.
    pub(crate) fn setting_of(&self, rule: &Rule, name: &str) -> f64 {
        self.settings().get(rule, name)
    }
}
