//! Errors that queries of a run return.

/// Error of a query.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// There is no such query.
    #[error("unknown query {name:?}")]
    NoQuery {
        /// Requested name.
        name: String,
    },
    /// A query has no such argument.
    #[error("{query} has no argument {name:?}; {}", in_words(known))]
    NoArgument {
        /// The query.
        query: &'static str,
        /// Requested name.
        name: String,
        /// Known arguments, in addition to `run`.
        known: &'static [&'static str],
    },
    /// An argument cannot be understood.
    #[error("argument {name}: {why}")]
    Argument {
        /// Name of the argument.
        name: &'static str,
        /// Description of the problem.
        why: String,
    },
    /// The run lacks the requested event, file or rank.
    #[error("{what}")]
    Missing {
        /// Description, as a sentence.
        what: String,
    },
    /// The run cannot answer this: it lacks data that the query needs.
    #[error("{why}")]
    Unavailable {
        /// Reason and remedy, as a sentence.
        why: String,
    },
}

impl QueryError {
    /// Create the error of a query whose data the run lacks.
    pub(crate) fn unavailable(why: impl ToString) -> Self {
        Self::Unavailable { why: why.to_string() }
    }

    /// Create the error for an event, file, rank or other item that the query names but the run lacks.
    pub(crate) fn missing(what: impl ToString) -> Self {
        Self::Missing { what: what.to_string() }
    }
}

/// List of the arguments that a query accepts, as part of an error message.
fn in_words(known: &[&str]) -> String {
    if known.is_empty() {
        "this query takes no arguments".to_owned()
    } else {
        format!("possible arguments are {}", known.join(", "))
    }
}
