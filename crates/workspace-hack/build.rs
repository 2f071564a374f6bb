//! Empty build script. Only its dependencies matter: they give those of other build scripts and procedural macros their
//! features.

fn main() {}
