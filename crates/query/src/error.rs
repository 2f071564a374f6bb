//! Why a query has no answer.

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// There is no such query.
    #[error("unknown query {name:?}")]
    NoQuery {
        /// What was asked for.
        name: String,
    },
    /// A query has no such argument.
    #[error("{query} has no argument {name:?}: {}", in_words(known))]
    NoArgument {
        /// The query.
        query: &'static str,
        /// What was asked for.
        name: String,
        /// What there is, beside `run`.
        known: &'static [&'static str],
    },
    /// An argument cannot be understood.
    #[error("argument {name}: {why}")]
    Argument {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// What was asked for is not in the run: an event, a file, a rank.
    #[error("{what}")]
    Missing {
        /// What, as a sentence.
        what: String,
    },
    /// The run cannot answer this: it lacks what the query needs.
    #[error("{why}")]
    Unavailable {
        /// Why, and what would help, as a sentence.
        why: String,
    },
}

impl QueryError {
    /// The run lacks what a query needs.
    pub(crate) fn unavailable(why: impl ToString) -> Self {
        Self::Unavailable { why: why.to_string() }
    }

    /// There is no such thing in the run.
    pub(crate) fn missing(what: impl ToString) -> Self {
        Self::Missing { what: what.to_string() }
    }
}

fn in_words(known: &[&str]) -> String {
    if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) }
}
