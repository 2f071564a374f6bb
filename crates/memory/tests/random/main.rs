//! Random programs against definitions taken literally.

mod order;
mod patterns;
mod program;
mod replay;
