//! Table of the kinds of damage: names, rows, expectations. The sibling modules have the functions.

use super::Kept::{All, Nothing, Others, Prefix};
use super::{Kind, content, cut, ids, syntax, times};

macro_rules! kinds {
    ($($row:literal { $($name:literal $kept:ident $reported:literal $act:path: $expects:literal),* $(,)? })*) => {
        &[$($(Kind { name: $name, row: $row, expects: $expects, kept: $kept, reported: $reported, act: $act },)*)*]
    };
}

/// All kinds of damage. `true` after [`super::Kept`] means that the read report must list the damage.
pub(super) const KINDS: &[Kind] = kinds! {
    "bare quote in event names" {
        "bare-quote-in-name" Others true syntax::bare_quote: "resync at the next event, keep the rest",
    }
    "unescaped backslash" {
        "bare-backslash" All true syntax::bare_backslash: "read as a literal backslash",
        "bad-unicode-escape" All true syntax::bad_unicode_escape: "read as a literal backslash; no event is lost",
    }
    "raw newline or control character in a string" {
        "control-character" All false syntax::control_character: "accept",
    }
    "invalid UTF-8 in names or args" {
        "invalid-utf8" All true syntax::invalid_utf8: "lossy decode, flag",
        "lone-surrogate" All true syntax::lone_surrogate: "lossy decode, flag",
    }
    "inf, nan, N/A, unquoted identifiers as values" {
        "bare-word-argument" All true syntax::bare_word_argument: "null with a count",
        "non-finite-duration" All true syntax::non_finite_duration: "null with a count: the event stays, without a duration",
    }
    "log lines spliced into the JSON, empty metadata" {
        "log-line-between-events" All true syntax::log_line_between_events: "skip to the next event",
        "log-line-between-keys" Others true syntax::log_line_between_keys: "skip to the next key",
        "empty-metadata" All true syntax::empty_metadata: "skip to the next key",
    }
    "missing quote before a key, trailing or leading comma" {
        "missing-key-quote" Others true syntax::missing_key_quote: "tolerate",
        "trailing-comma" All true syntax::trailing_comma: "tolerate",
        "leading-comma" All true syntax::leading_comma: "tolerate",
        "missing-comma" All true syntax::missing_comma: "tolerate",
    }
    "truncated file or gzip, unterminated string, no closing, two documents" {
        "truncated-text" Prefix true cut::truncated_text: "keep the complete events, report the byte position at which \
             the file ends",
        "truncated-in-string" Prefix true cut::truncated_in_string: "keep the complete events, report the byte \
             position at which the file ends",
        "unterminated-string" Others true cut::unterminated_string: "resync at the next event, keep the rest",
        "missing-close" All true cut::missing_close: "keep all events; the Chrome format allows a missing ]",
        "truncated-gzip" Nothing true cut::truncated_gzip: "keep the decompressed part, report the byte position at \
             which the file ends",
        "corrupt-gzip" Nothing true cut::corrupt_gzip: "keep the part decompressed before the damage, report its position",
        "two-documents" All true cut::two_documents: "keep the first document, report that more data follow",
        "empty-file" Nothing true cut::empty_file: "a message of one line",
        "binary-tail" All true cut::binary_tail: "keep the document, report that other data follow",
    }
    "integer above int64; baseTimeNanoseconds above 2^53" {
        "integer-above-int64" All false ids::integer_above_int64: "exact, as an unsigned or wider integer or as text, never a float",
        "odd-base-time" All false times::odd_base_time: "exact: all 19 digits of the base count",
    }
    "ts as string, integer, float; absolute or relative" {
        "time-as-text" All false times::time_as_text: "exact ns from the text",
        "time-with-exponent" All false times::time_with_exponent: "exact ns",
        "time-with-many-decimals" All false times::time_with_many_decimals: "exact ns; digits below a nanosecond are dropped",
        "time-absolute" All false times::time_absolute: "exact ns, normalized by the base",
    }
    "displayTimeUnit that contradicts the data" {
        "wrong-display-unit" All false content::wrong_display_unit: "ignore it for arithmetic",
    }
    "ts 0 or dur 0 GPU records, time before the window, kernel before its launch" {
        "gpu-time-zero" All true times::gpu_time_zero: "exclude from spans, report",
        "time-before-window" All true times::time_before_window: "exclude from spans, report",
        "kernel-before-launch" All true times::kernel_before_launch: "report; keep the times",
    }
    "negative duration, missing dur, end before start" {
        "negative-duration" All true times::negative_duration: "clamp and count",
        "missing-duration" All true times::missing_duration: "clamp and count",
        "end-before-start" All true times::end_before_start: "clamp and count",
        "overflowing-time" Others true times::overflowing_time: "a value outside the clock's range is counted, never wrapped",
    }
    "same-stream overlap, ties at the boundary, durations flushed late" {
        "stream-overlap" All false times::stream_overlap: "keep the times; distinguish programmatic launch, noise and overflow",
        "boundary-tie" All false times::boundary_tie: "no overlap, no gap",
        "late-flush" All true times::late_flush: "keep the original, offer clipping, report",
    }
    "crossing or never-closed Python frames" {
        "crossing-frame" All true times::crossing_frame: "clamp to the parent; keep the original",
        "never-closed-frame" All true times::never_closed_frame: "clamp to the parent; keep the original",
    }
    "clock skew between CPU and GPU" {
        "gpu-clock-skew" All true times::gpu_clock_skew: "estimate the offset from launch to start causality",
    }
    "duplicate keys, duplicate correlation ids" {
        "duplicate-header-key" All true content::duplicate_header_key: "last wins, warn",
        "duplicate-event-key" All true content::duplicate_event_key: "last wins, warn",
        "duplicate-correlation" All true ids::duplicate_correlation: "scope ids by process and device; warn",
    }
    "correlation to no launch, launch to no kernel, flow f without s" {
        "orphan-kernel" All false ids::orphan_kernel: "keep as unlinked",
        "orphan-launch" All false ids::orphan_launch: "keep as unlinked",
        "orphan-flow" All false ids::orphan_flow: "keep as unlinked",
    }
    "negative or INT64_MIN thread ids, string pid and tid, GPU pid equal to a CPU pid" {
        "odd-thread-id" All false ids::odd_thread_id: "key by type and value",
        "text-thread-id" All false ids::text_thread_id: "key by type and value",
        "colliding-process-id" All false ids::colliding_process_id: "key by type and value",
    }
    "category renames" {
        "old-categories" All false content::old_categories: "alias table",
        "other-vendor-categories" All false content::other_vendor_categories: "alias table",
        "unknown-category" All false content::unknown_category: "unknown kept",
    }
    "legacy autograd export" {
        "legacy-array" All false content::legacy_array: "accept",
    }
    "ROCm copies as kernels; device = agent id; NCCL kernel renames" {
        "copies-as-kernels" All false content::copies_as_kernels: "name rules as data: still memory traffic",
        "agent-id-device" All false ids::agent_id_device: "accept any device number",
        "renamed-collectives" All false content::renamed_collectives: "name rules as data: still communication",
    }
    "graph replay with no per-kernel op" {
        "graph-replay" All false ids::graph_replay: "show the coverage with each number",
    }
    "split sizes cut, Process Group fields missing" {
        "cut-split-sizes" All false content::cut_split_sizes: "omit the metric, report that it is unavailable",
        "missing-group-fields" All false content::missing_group_fields: "omit the metric, report that it is unavailable",
    }
    "damaged by text handling" {
        "gzip-through-text" Nothing true cut::gzip_through_text: "recognize the pattern, explain it",
    }
    "environment dumps and host names in headers" {
        "environment-dump" All false content::environment_dump: "redact on export",
    }
};
