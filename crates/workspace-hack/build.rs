//! Its dependencies are all that counts: they give those of other build scripts and procedural macros their features.

fn main() {}
