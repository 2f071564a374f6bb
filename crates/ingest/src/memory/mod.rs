//! Readers and writers of memory traces ([`stackline_model::MemoryTrace`]): one file or folder per format.

pub mod text;
