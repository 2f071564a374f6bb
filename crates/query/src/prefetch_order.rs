//! Queries of the web page to answer in advance, in order: the content of a one-file report. Each query lists its own
//! arguments and order ([`crate::Query`]); this module has only the order of the page's parts.

use crate::memory::Memory;
use crate::prefetch::Stage;
use crate::stage_questions::{Question, stage_questions};
use crate::{Arguments, OpenRun, prefetch_later};

/// Parts of the page that are seen before the memory of a run.
const OPENING: [Stage; 5] = [Stage::Opening, Stage::Findings, Stage::Code, Stage::Timeline, Stage::Comparison];
/// Later parts.
const DETAILS: [Stage; 4] = [Stage::Evidence, Stage::Excerpts, Stage::Unchosen, Stage::Groups];

impl OpenRun {
    /// Queries that the page asks first, to compute their answers before it asks.
    pub fn urgent_questions(&self) -> Vec<(&'static str, Arguments)> {
        stage_questions(self, Stage::Urgent)
    }

    /// Queries that a one-file report embeds, with their arguments, most important first.
    pub fn first_questions(&self) -> Vec<(&'static str, Arguments)> {
        questions(self)
    }
}

/// Prefetched queries of all parts of the page with their arguments, the most important first.
fn questions(opened: &OpenRun) -> Vec<Question> {
    if opened.is_memory_alone() {
        let findings = [Stage::FindingsOfMemory, Stage::Findings].map(|stage| stage_questions(opened, stage)).concat();
        return [stage_questions(opened, Stage::OpeningOfMemory), memory(opened), findings].concat();
    }
    let mut all: Vec<Question> = OPENING.into_iter().flat_map(|stage| stage_questions(opened, stage)).collect();
    if opened.has_memory() {
        all.extend(memory(opened));
    }
    all.extend(DETAILS.into_iter().flat_map(|stage| stage_questions(opened, stage)));
    all.extend(prefetch_later::questions(opened));
    all
}

/// Prefetched queries of the Memory page, for each device with memory.
fn memory(opened: &OpenRun) -> Vec<Question> {
    let mut all = stage_questions(opened, Stage::Memory);
    for device in opened.memory(None).map_or_else(|_| Vec::new(), Memory::devices) {
        all.extend(stage_questions(opened, Stage::MemoryOf(device)));
    }
    all.extend(stage_questions(opened, Stage::Holders));
    all.extend(stage_questions(opened, Stage::Objects));
    all
}
