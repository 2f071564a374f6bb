//! Arguments of queries: names with texts, as in a URL.

use crate::QueryError;
use regex_lite::Regex;
use stackline_calls::TimeRange;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Arguments of a query: texts by name, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arguments(BTreeMap<String, String>);

/// Longest text of an argument, in bytes.
const LONGEST: usize = 4096;

impl Arguments {
    /// Create query arguments from names and texts; the last one of a name counts.
    pub fn new<N: Into<String>, T: Into<String>>(pairs: impl IntoIterator<Item = (N, T)>) -> Self {
        Self(pairs.into_iter().map(|(name, text)| (name.into(), text.into())).collect())
    }

    /// Names of the query arguments with a text; arguments with an empty text are skipped.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, text)| !text.is_empty()).map(|(name, _)| name.as_str())
    }

    /// Text of a query argument; `None` if the argument is missing or empty.
    pub(crate) fn text(&self, name: &'static str) -> Result<Option<&str>, QueryError> {
        match self.0.get(name) {
            Some(text) if text.len() > LONGEST => {
                Err(QueryError::Argument { name, why: format!("the value is longer than {LONGEST} bytes") })
            }
            other => Ok(other.map(String::as_str).filter(|text| !text.is_empty())),
        }
    }

    /// Parse a query argument as a number; `None` if the argument is missing.
    pub(crate) fn number<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, QueryError> {
        let parse = |text: &str| {
            text.parse().map_err(|_| QueryError::Argument { name, why: format!("{text:?} is not a valid number") })
        };
        self.text(name)?.map(parse).transpose()
    }

    /// Parse a required query argument as a number.
    pub(crate) fn needed<T: FromStr>(&self, name: &'static str) -> Result<T, QueryError> {
        self.number(name)?.ok_or_else(|| QueryError::Argument { name, why: "is missing".to_owned() })
    }

    /// Parse a query argument as a list of numbers separated by commas; empty if the argument is missing.
    pub(crate) fn numbers<T: FromStr>(&self, name: &'static str) -> Result<Vec<T>, QueryError> {
        let parse = |text: &str| {
            text.parse().map_err(|_| QueryError::Argument { name, why: format!("{text:?} is not a valid number") })
        };
        self.text(name)?.map_or(Ok(Vec::new()), |list| list.split(',').map(parse).collect())
    }

    /// Parse the argument `steps` as a time range: `whole`, a step such as `5`, or steps such as `5..8` with
    /// both ends included. Without it, the default steps.
    pub(crate) fn part(&self) -> Result<TimeRange, QueryError> {
        const NAME: &str = "steps";
        let Some(text) = self.text(NAME)? else { return Ok(TimeRange::Chosen) };
        if text == "whole" {
            return Ok(TimeRange::Whole);
        }
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(TimeRange::Steps(first, last)),
            _ => Err(QueryError::Argument {
                name: NAME,
                why: format!("{text:?} is not valid; give a step such as 5, a range such as 5..8, or `whole`"),
            }),
        }
    }

    /// Compile a query argument as a regular expression; `None` if the argument is missing.
    pub(crate) fn pattern(&self, name: &'static str) -> Result<Option<Regex>, QueryError> {
        let compile = |text: &str| {
            Regex::new(text).map_err(|error| QueryError::Argument {
                name,
                why: format!("the value is not a regular expression: {error}"),
            })
        };
        self.text(name)?.map(compile).transpose()
    }

    /// Value of a query argument that must be one of several words; `None` if the argument is missing.
    pub(crate) fn choice<T: Copy>(&self, name: &'static str, choices: &[(&str, T)]) -> Result<Option<T>, QueryError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let words = || choices.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        found.map(Some).ok_or_else(|| QueryError::Argument { name, why: format!("{text:?} is not one of {}", words()) })
    }

    /// Copy the query arguments, except those with one of the given names.
    pub(crate) fn without(&self, names: &[&str]) -> Self {
        Self(
            self.0
                .iter()
                .filter(|(name, _)| !names.contains(&name.as_str()))
                .map(|(n, t)| (n.clone(), t.clone()))
                .collect(),
        )
    }

    /// Add a query argument, or replace the one of the same name.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, text: &str) -> Self {
        self.0.insert(name.to_owned(), text.to_owned());
        self
    }

    /// Cache key of a query's arguments: their names and texts in canonical order.
    pub fn key(&self) -> String {
        self.0.iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| format!("{name}={text}\n")).collect()
    }
}
