//! Presenters.
