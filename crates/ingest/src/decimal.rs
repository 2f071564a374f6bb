//! Exact decimal text to integer nanoseconds.
