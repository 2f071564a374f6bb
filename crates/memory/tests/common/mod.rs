//! Helpers for tests of sources.

pub(crate) use stackline_testkit::corpus::file as corpus;
