//! What tests of sources share.

pub(crate) use stackline_testkit::corpus::file as corpus;
