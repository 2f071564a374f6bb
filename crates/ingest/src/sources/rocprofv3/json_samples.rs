//! Samples of instructions in a JSON document.

use super::instructions::Code;
use super::json::Correlation;
use super::samples::{RecordedSample, Samples};
use crate::sources::streamed_json::{Fields, Whole};
use serde::Deserialize;
use serde::de::SeqAccess;

/// Sample with the position of its instruction in the list of instructions, or -1.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SampleRecord {
    record: SampleFields,
    inst_index: Whole,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SampleFields {
    timestamp: Whole,
    dispatch_id: Whole,
    #[serde(alias = "correlation_id")]
    corr_id: Correlation,
    pc: ProgramCounter,
    wave_issued: Whole,
    inst_type: String,
    snapshot: Snapshot,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProgramCounter {
    code_object_id: Whole,
    code_object_offset: Whole,
}

/// State of the sampled wave.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Snapshot {
    stall_reason: String,
}

/// Samples are added one at a time, so those before damage are kept.
impl<'de> Fields<'de> for Samples {
    fn element<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        let Some(SampleRecord { record, inst_index }) = list.next_element()? else { return Ok(false) };
        let code = Code {
            instruction: inst_index.0.and_then(|index| index.try_into().ok()),
            object: record.pc.code_object_id.0,
            offset: record.pc.code_object_offset.0,
        };
        self.add(&RecordedSample {
            guid: "",
            dispatch: record.dispatch_id.0,
            correlation: record.corr_id.internal.0,
            time: record.timestamp.0,
            code,
            issued: record.wave_issued.0,
            instruction_type: &record.inst_type,
            stall_reason: &record.snapshot.stall_reason,
        });
        Ok(true)
    }
}
