//! Random programs against definitions taken literally.

mod combine;
mod dead;
mod intra;
mod order;
mod patterns;
mod program;
mod replay;
mod training;
