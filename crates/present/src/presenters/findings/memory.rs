//! Texts on the memory that findings save at peaks.

use crate::presenters::human::bytes;
use stackline_findings::{DevicePeak, Findings, MemoryGain};

/// Text with the memory that a finding saves and its bounds: `12.0 MiB of the peak of cuda:0 (41.2 %)`. Where another
/// time is nearly as high, the text adds the effect on the peak.
#[must_use]
pub fn gain(saved: &MemoryGain) -> String {
    if saved.lowers_bytes < saved.bytes {
        let effect = match (saved.lowers_bytes, saved.low_bytes) {
            (0, _) => {
                "this change alone does not lower the peak, because as much memory is live at another time".to_owned()
            }
            (most, 0) => format!("this change alone lowers the peak by 0 to {}", bytes(most)),
            (most, low) if low < most => {
                format!("this change alone lowers the peak by {} to {}", bytes(low), bytes(most))
            }
            (most, _) => format!("this change alone lowers the peak by {}", bytes(most)),
        };
        let (saved_bytes, device, share) = (bytes(saved.bytes), device(&saved.device), saved.percent());
        return format!("{saved_bytes} at the peak of {device} ({share:.1} %); {effect}");
    }
    let percent = |bytes: u64| format!("{:.1} %", saved.percent_of(bytes));
    let bounds = match saved.low_bytes {
        low if low == saved.high_bytes => String::new(),
        0 => format!(", bounds 0 to {}", percent(saved.high_bytes)),
        low => format!(", bounds {} to {}", percent(low), percent(saved.high_bytes)),
    };
    let (saved_bytes, device, share) = (bytes(saved.bytes), device(&saved.device), percent(saved.bytes));
    format!("{saved_bytes} of the peak of {device} ({share}){bounds}")
}

fn device(name: &str) -> &str {
    if name.is_empty() { "the device" } else { name }
}

/// Sentence part on the memory peak: `memory peaks at 12.0 MiB on cuda:0`; `None` without memory data.
pub(super) fn peaks(found: &Findings) -> Option<String> {
    let one = |peak: &DevicePeak| format!("{} on {}", bytes(peak.bytes), device(&peak.device));
    let all: Vec<String> = found.peaks.iter().map(one).collect();
    (!all.is_empty()).then(|| format!("memory peaks at {}", all.join(", ")))
}

/// Combined savings of memory changes: a sentence for each device with savings.
#[must_use]
pub fn combined_gain(found: &Findings) -> Vec<String> {
    let helped = found.peaks.iter().filter_map(|peak| {
        let (after, share) = (peak.mended_bytes?, peak.saved_percent()?);
        (after < peak.bytes).then(|| {
            let (before, device) = (bytes(peak.bytes), device(&peak.device));
            format!(
                "All memory changes combined lower the peak of {device} from {before} to {} ({share:.1} % less).",
                bytes(after)
            )
        })
    });
    helped.collect()
}
