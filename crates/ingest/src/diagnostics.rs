//! Diagnostics of reading, each with a code, a severity and a message.

use stackline_model::{ReadReport, Severity};

/// A kind of diagnostic.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// Stable code, such as `bare_quote`.
    pub code: &'static str,
    /// Severity of each occurrence.
    pub severity: Severity,
    /// Cause and effect in one sentence, without a final period.
    pub message: &'static str,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $code:literal $severity:ident $message:literal;)*) => {
        $($(#[$doc])* pub(crate) const $name: Code =
            Code { code: $code, severity: Severity::$severity, message: $message };)*

        /// All codes, for documentation and tests.
        pub const ALL: &[Code] = &[$($name),*];
    };
}

codes! {
    BARE_QUOTE "bare_quote" Repaired "a string contains unescaped quotes, which were read as text";
    BACKSLASH "backslash" Repaired "an invalid escape sequence was read as a literal backslash";
    CONTROL "control_character" Repaired "a string contains raw line breaks or control characters, which were kept";
    INVALID_UTF8 "invalid_utf8" Repaired "bytes that are not UTF-8 were replaced by U+FFFD";
    ODD_VALUE "odd_value" Repaired "a value that is not JSON (nan, inf, N/A, an identifier) was read as null";
    MISSING_VALUE "missing_value" Repaired "a key without a value was read as null";
    NOT_JSON_ARG "malformed_argument" Repaired "an array or object is not valid JSON and was kept as text";
    FOREIGN_TEXT "foreign_text" Skipped
        "text that is not part of the document, such as a log line, was skipped up to the next key";
    MISSING_QUOTE "missing_quote" Repaired "a key lacks its opening quote";
    EXTRA_COMMA "extra_comma" Repaired "an extra comma was ignored";
    MISSING_COMMA "missing_comma" Repaired "the comma between two records is missing";
    DAMAGED_EVENT "damaged_event" Skipped "a record could not be read; reading continued at the next one";
    NOT_AN_EVENT "not_an_event" Skipped "an element of the event list is not an object and was skipped";
    NO_PHASE "no_phase" Repaired "a record without a phase but with a duration was read as a complete event";
    UNKNOWN_RECORD "unknown_record" Skipped "a record has neither a phase nor a duration and was skipped";
    LAST_RECORD "last_record" Note "the last readable record before the end of a truncated file";
    TRUNCATED "truncated" Lost "the file is truncated; everything before the cut was kept";
    TOO_DAMAGED "too_damaged" Lost "the text is too damaged to continue reading; everything before was kept";
    UNCLOSED "unclosed_list" Note "the event list has no closing bracket, which the format allows";
    DAMAGED_STREAM "damaged_compression" Lost
        "the compressed stream is truncated or damaged; data before the damage was kept and may be garbled near it";
    TRAILING "trailing_data" Skipped "text after the end of the document was not read";
    TOO_LARGE_ENTRY "oversized_entry" Lost "an entry is larger than 512 MiB; reading stopped there";
    DAMAGED_HEADER "damaged_metadata" Skipped "a metadata entry of the file could not be read";
    SEVERAL_LISTS "several_event_lists" Repaired "the file has several event lists, which were read as one";
    DUPLICATE_KEY "duplicate_key" Repaired "a key occurs twice; the last value was used";
    BAD_TIME "bad_time" Skipped
        "a time or duration is not a number or is out of range and was ignored; the record was kept but excluded from all totals";
    BAD_BASE "bad_base_time" Skipped "the base time is not an integer and was ignored; times start at 0";
    NO_TIME "no_time" Skipped "a record without a time stamp was placed at time 0 and excluded from all totals";
    TIME_AS_TEXT "time_as_text" Repaired "times are written as text and were read as numbers";
    TIME_IN_NS "time_in_ns" Repaired "times too large for microseconds were read as nanoseconds";
    NO_NAME "no_name" Repaired "an event refers to its name by a number that the file does not define";
    NO_DURATION "no_duration" Repaired
        "a complete event without a duration was read with duration 0; GPU work without a duration is excluded from all totals (`zero_duration`)";
    NEGATIVE_DURATION "negative_duration" Repaired
        "a negative duration was read as 0; GPU work with a negative duration is excluded from all totals (`zero_duration`)";
    UNMATCHED_END "unmatched_end" Skipped "an end record without a begin record was skipped";
    UNFINISHED "unfinished" Repaired "a begin record has no end record; the span was closed at the end of the trace";
    TABLE_FULL "table_full" Lost
        "the trace has more than 4 GiB of text or 2^32 values; later records lost their text or arguments";
    ZERO_TIME "zero_time" Skipped
        "start times were never filled in (0, or one value far from all others): kept, but excluded from windows and totals";
    ZERO_DURATION "zero_duration" Skipped
        "durations were never filled in (0 where such events are never that short, an absurd value, or missing on a GPU): kept, but excluded from windows and totals";
    IMPLAUSIBLE_TIME "implausible_time" Skipped
        "GPU records long before or after the recording, or absurdly long, were kept but excluded from all totals";
    ZERO_STEP "step_without_duration" Repaired
        "step marks have no duration: each such step lasts until the next one, or is ignored where marks are not consecutive";
    OUT_OF_STREAM_ORDER "out_of_stream_order" Skipped
        "GPU operations start more than 1 s before or after the operations of their stream that were launched next to them: kept, but excluded from all totals";
    REPEATED_STEP "repeated_step" Note
        "several steps have the same number: each counts as a separate step, and --steps selects all of them";
    REPEATED_MARK "step_mark_repeated" Note
        "the file contains the same step mark with the same or nearly the same times more than once: each counts once";
    RECORDING_PAUSED "recording_paused" Note
        "the profiler recorded nothing between two steps (ProfilerStep#n) for longer than a step, as between cycles of its schedule: activity in this gap is unknown, and no window of steps spans it";
    NO_STEP_MATCHES "step_annotation_matches_nothing" Note
        "no span on a CPU thread or device stream matches the step pattern, so the trace has no steps: correct the pattern or omit it";
    STEP_WITHIN_ANOTHER "step_annotation_within_another" Note
        "spans that match the step pattern lie within a matching span of another thread and were not taken as steps";
    CLOCK_SHIFTED "device_clock_shifted" Repaired
        "the clock of a device was off; its times were shifted before the analysis to match launches and waits";
    CLOCK_UNKNOWN "device_clock_unknown" Repaired
        "the clock of a device was off and no launch of its work is recorded; its times were aligned by order, so idle time before its first operation is unknown";
    CLOCK_CONTRADICTED "device_clock_contradicted" Note
        "no shift of a device's clock fits both its launches and its waits (the clock may have jumped): times were kept, but steps and idle time near the jump are wrong";
    IMPLAUSIBLE_LENGTH "implausible_length" Skipped
        "GPU operations that outlast many later ones of their stream were kept but excluded from all totals";
    IMPLAUSIBLE_HOST_TIME "implausible_host_time" Skipped
        "calls and operators of CPU threads end after the recording, or long after the call that contains them: their times are wrong, so they are excluded from all totals";
    GARBLED_TIME "garbled_time" Skipped
        "records with times far from all others, in text after damaged compression, were kept but excluded from all totals";
    UNCERTAIN_WINDOW "uncertain_window" Note
        "most of the data is near or after damage: do not trust the window or totals over it";
    DUPLICATE_CORRELATION "ambiguous_launch" Repaired
        "several calls share a GPU operation's correlation ID; the nearest call of the matching process was used";
    OVERLAP_NOISE "stream_overlap_noise" Note "operations of one stream overlap by less than 3 µs (clock noise)";
    OVERLAP_PDL "stream_overlap_dependent_launch" Note
        "kernels of one stream overlap on a GPU with programmatic dependent launch";
    OVERLAP "stream_overlap" Note "operations of one stream overlap by 3 µs or more: durations may be too long";
    CLIPPED "clipped_overlap" Repaired
        "the end of a GPU operation was moved to the start of the next one of its stream";
    EARLY_KERNEL "kernel_before_launch" Note
        "GPU operations start before their launch call: the clocks of CPU and GPU differ (differences under 1 ms are not corrected)";
    LATE_KERNEL "kernel_after_wait" Note
        "calls return before the end of the GPU operations that they wait for: the clocks of CPU and GPU differ (differences under 1 ms are not corrected), or a record is wrong";
    NEVER_CLOSED "never_closed" Repaired
        "a frame without a recorded end lasted to the end of the recording; it was cut at the end of its caller";
    CROSSING "crossing" Note
        "spans cross the end of another span of their thread; each was assigned to the parent that covers most of it";
    DANGLING_FLOW "dangling_flow" Note "flow arrows with only one end (common in Kineto traces) were skipped";
    NO_LAUNCH "no_launch" Note "GPU operations have no launch call in the trace";
    SEQUENCE_TWICE "sequence_number_twice" Note
        "backward operators share a sequence number: their forward operator may be wrong";
    NO_DEVICE_RECORD "no_device_record" Note
        "launch calls have no GPU operation in the trace: device activity was not recorded, or the calls were captured into a graph";
    AROUND_OTHERS "operation_around_others" Note
        "operations of a device contain others on the same row, as loops and branches do: only the inner operations count";
    STEPS_OF_DEVICE "steps_of_device" Note
        "no host thread marks steps: the steps of a device row were used, with the device's clock";
    PROCESS_BY_CORRELATION "process_by_correlation" Note
        "GPU operations without a process were assigned to the only process with a call of their correlation ID; device and host clocks are not compared";
    PROCESS_UNKNOWN "process_unknown" Note
        "GPU operations without a process, which several processes may have launched, form a separate trace without launches";
    PROCESS_NOT_LISTED "process_not_listed" Note
        "processes that are missing from the file's process list were read without a name";
    ROWS_LEFT_OUT "rows_left_out" Skipped "rows with neither a process nor a time were skipped";
    PROCESS_LEFT_OUT "process_left_out" Skipped
        "rows of processes that are missing from the file's process list were skipped: the file is damaged or truncated, and the rows may be garbage";
    KERNELS_NOT_RECORDED "kernels_not_recorded" Note
        "some kernel launches have no GPU operation in the trace: the GPU is busier than shown, with less idle time";
    UNKNOWN_CATEGORY "unknown_category" Note "events of an unknown category were kept as kind `other`";
    SAME_PROFILE "same_profile" Note
        "the directory contains the same profile in another form with at most as many events; that copy was skipped";
    REPEATED_FILE "repeated_file" Note "a file of a run occurs twice, or plain and compressed: it was read once";
    PART_NOT_GIVEN "part_not_given" Note
        "further files of the same run are in the same folder and were not read: give the folder or all files";
    RANK_FROM_NAME "rank_from_name" Note "the file does not contain its rank; the rank was taken from the file name";
    RANK_BY_DEVICE "rank_by_device" Note
        "the processes of the file have no ranks: they are numbered from 0 in the order of their GPUs";
    RANK_BY_POSITION "rank_by_position" Note
        "inputs have no rank or share one: all are numbered from 0 by their position among the inputs";
    OLDER_CYCLE "older_cycle" Note
        "an earlier profiler cycle of the same process was skipped, because cycles are not ranks; open its file alone to see it";
    EARLIER_PROCESS "earlier_process" Note
        "the trace of an earlier process of the same rank, as before a restart, was skipped; open its file alone to see it";
    UNREADABLE_STREAM "unreadable_stream" Lost "the stream of a process cannot be read; that process is missing";
    CUT_STREAM "cut_stream" Lost "the stream of a process is truncated; everything before the cut was kept";
    DAMAGED_CHUNK "damaged_chunk" Lost
        "a damaged part of the stream of a process was skipped; reading continued at the next intact chunk";
    NOT_WRITTEN "not_written" Lost "the recorder could not write some of its records";
    WRITE_DELAYED "write_delayed" Note "the recorder could not write for a while; the records were written later";
    FOLDED_NAMES "folded_names" Note
        "too many span names differ only in numbers or identifiers; they were merged into one name";
    EMPTY_STREAM "empty_stream" Lost "the stream of a process ends before its first record; that process is missing";
    DANGLING_RECORD "dangling_record" Skipped "a record of a stream refers to an undefined entry";
    UNKNOWN_STATEMENT "unknown_statement" Skipped
        "a record of a newer recorder is unknown to this version of Stackline";
    KILLED "process_killed" Lost
        "a process has no end record (still running, killed, or disk full): its last half second, or all data since the disk was full, may be missing";
    ENDED_BY_PARENT "ended_by_parent" Note
        "a worker was terminated by its parent, as data loaders and pools do: its last half second may be missing";
    AFTER_STEPS "after_last_step" Note "time between the last step and the kill of the process belongs to no step";
    IN_FLIGHT "in_flight" Note
        "a call was running when the recording ended and has no recorded end; in a killed process it was seen up to 0.5 s before the end and is excluded from counts and times";
    LAST_SEEN "last_seen" Note
        "call path of the last sample of a killed process's main thread, which ran no operator then";
    OS_EXIT "os_exit" Note "a process ended by os._exit: the last records of its other threads may be missing";
    REPLACED "process_replaced" Note
        "a process was replaced by another program (exec), which has its own recording if it is a Python program";
    TREE_FULL "tree_full" Lost
        "the call tree was full, so further calls were merged into one node; increase --max-nodes";
    NOT_RECORDED "not_recorded" Lost "the recorder dropped some data";
    LIBRARY_CHANGED "library_changed" Skipped "a library has changed since the recording: its functions have no names";
    LIBRARY_MISSING "library_missing" Skipped "a library no longer exists: its functions have no names";
    LIBRARY_UNKNOWN "library_unknown" Skipped
        "a library cannot be verified as the recorded one: its functions have no names";
    LIBRARY_UNREADABLE "library_unreadable" Skipped "a library cannot be read: its functions have no names";
    WITHOUT_RANK "without_rank" Note
        "a process without a rank ran no operators; traces of the ranks exclude its samples";
    FREED_IN_USE "freed_in_use" Skipped
        "memory was freed before the operator that uses it ended; that access was skipped";
    MEMORY_UNKNOWN_FREE "free_without_allocation" Skipped
        "memory was freed at an address without an allocation; the call was kept";
    MEMORY_OVERLAP "overlapping_allocation" Repaired
        "memory was allocated over a live object, which was taken as freed just before";
    MEMORY_SAME_PLACE "same_addresses" Note
        "objects share addresses with another live object: names distinguish them, and both count";
    MEMORY_HUGE "implausible_size" Note
        "an allocation is larger than 1 PiB, more memory than any device has; totals that contain it may reach the \
         limit of 64-bit numbers and stop there";
    MEMORY_CLOCK_BACK "memory_clock_back" Repaired "times of memory events decrease; the order of the file was kept";
    MEMORY_OTHER_SIZE "freed_other_size" Note "memory was freed with a different size than it was allocated with";
    MEMORY_LATE_FREE "free_before_records" Note "a free was completed that was requested before the first record";
    MEMORY_OLDER "older_than_records" Note
        "objects are older than the first record: they count from the beginning, and their origin may be unknown";
    MEMORY_NO_HISTORY "no_memory_history" Note
        "the snapshot has no allocation history, so its peak and call paths are unknown; call torch.cuda.memory._record_memory_history() before creating the model, then _dump_snapshot()";
    MEMORY_NO_SEGMENTS "no_memory_segments" Note
        "the snapshot lists no segments: allocations before its history and unused reserved memory are unknown";
    MEMORY_NO_BLOCK "object_without_block" Note
        "objects alive after the last event have no block in the segments: their free was not recorded";
    MEMORY_NO_ADDRESS "without_addresses" Note
        "memory events have no addresses: each free was matched to the youngest object of its size";
    MEMORY_TOTALS "totals_disagree" Note
        "the allocator's total differs from the sum of its allocations and frees: some were not recorded";
    MEMORY_NO_FREES "without_frees" Note
        "the source records no frees: an object is alive from the operator that returns it to the last one that takes it";
    MEMORY_WINDOW "no_operators_recorded" Note
        "memory was allocated, but no operator ran: the recording covered only a part of the program";
    MEMORY_PROCESSES "one_of_processes" Note
        "memory traces of several processes, ranks or files are available, and one was read (of a recording that with the highest peak); select another with --process";
    MEMORY_UNKNOWN_EVENT "unknown_memory_event" Skipped "a memory event of an unknown kind was skipped";
    MEMORY_BAD_EVENT "damaged_memory_event" Skipped
        "a memory event lacks a field or has an impossible value; it was skipped";
    MEMORY_BAD_TENSOR "damaged_tensor" Skipped "a tensor with an impossible value was skipped; its operator was kept";
    MEMORY_BAD_SEGMENT "damaged_segment" Skipped
        "a segment or block of the allocator lacks a field or has an impossible value; it was skipped";
    TABLE_DAMAGED "damaged_table" Lost
        "a table of the file cannot be read to its end; the rows before the damage were kept";
    TABLE_MISSING "missing_table" Lost "the file lacks its string table: calls, kernels and ranges have no names";
    TABLE_VERSIONS "several_versions_of_a_table" Note
        "several versions of a table have rows: the one without a version suffix was read, else the newest";
    TEXT_MISSING "missing_text" Lost
        "rows refer to a string that the file's string table lacks; they were named by their kind";
    ROW_WITHOUT_NAME "row_without_name" Note "rows of the file have no name; they were named by their kind";
    NEGATIVE_VALUE "negative_value" Skipped "a sample value that is negative or not a number was skipped";
    HUGE_VALUE "value_out_of_range" Repaired "a sample value exceeds 2^63 of the smallest unit and was capped";
    FRACTIONAL_VALUE "fractional_values" Repaired "sample values have fractions; all values were read in thousandths";
    UNMERGED_LOG "unmerged_log" Lost
        "the database has an unread write-ahead log: the export is still running or was stopped; wait until it ends, or export again";
    TABLE_NOT_READ "table_not_read" Note "tables of the file are not read by this version";
    OTHER_PROCESS "process_without_gpu_calls" Note "processes of the file without calls of the GPU API were skipped";
    GRAPHS_AS_WHOLE "graphs_as_a_whole" Note
        "launches of CUDA graphs were recorded as a whole, without times of their kernels; record with nsys profile --cuda-graph-trace=node";
    PROFILER_MESSAGE "profiler_says" Note "the profiler issued warnings during the recording";
    SKIPPED_FILE "skipped_file" Skipped "a file of the archive or directory is not a trace and was skipped";
}

/// Count traces that are numbered by position. Called where several reads are combined.
pub fn note_rank_by_position(report: &mut ReadReport, traces: u64, example: &str) {
    RANK_BY_POSITION.count_many(report, traces, None, example);
    report.sort();
}

/// Count skipped older profiler cycles of a process. Called where several reads are combined.
pub fn note_older_cycles(report: &mut ReadReport, cycles: u64, example: &str) {
    OLDER_CYCLE.count_many(report, cycles, None, example);
    report.sort();
}

/// Number of skipped older profiler cycles.
pub fn older_cycles(report: &ReadReport) -> u64 {
    report.count_of(OLDER_CYCLE.code)
}

/// Count skipped traces of earlier processes of a rank. Called where several reads are combined.
pub fn note_earlier_processes(report: &mut ReadReport, traces: u64, example: &str) {
    EARLIER_PROCESS.count_many(report, traces, None, example);
    report.sort();
}

/// Number of skipped traces of earlier processes of a rank.
pub fn earlier_processes(report: &ReadReport) -> u64 {
    report.count_of(EARLIER_PROCESS.code)
}

/// True if the rank of the trace is that of its file name.
pub fn is_rank_from_name(report: &ReadReport) -> bool {
    report.count_of(RANK_FROM_NAME.code) > 0
}

/// Reason why the functions of a library have no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibraryProblem {
    /// The library has changed since the recording.
    Changed,
    /// The library no longer exists.
    Missing,
    /// The identity of the library cannot be verified.
    Unknown,
    /// The library cannot be read.
    Unreadable,
}

/// Code of [`note_one_of_processes`].
pub const ONE_OF_PROCESSES: &str = "one_of_processes";

/// Record that the memory trace is one of several processes. Called where the process is selected.
pub fn note_one_of_processes(report: &mut ReadReport, processes: u64) {
    MEMORY_PROCESSES.count_many(report, processes, None, "");
}

/// Number of processes from which the memory trace was selected; 0 if there was no choice.
pub fn processes_of(report: &ReadReport) -> u64 {
    report.count_of(ONE_OF_PROCESSES)
}

/// Count a library whose functions have no names. Called by symbolization.
pub fn count_library(report: &mut ReadReport, problem: LibraryProblem, path: &str) {
    let code = match problem {
        LibraryProblem::Changed => LIBRARY_CHANGED,
        LibraryProblem::Missing => LIBRARY_MISSING,
        LibraryProblem::Unknown => LIBRARY_UNKNOWN,
        LibraryProblem::Unreadable => LIBRARY_UNREADABLE,
    };
    code.count(report, None, path);
}

/// Count an input that is not a trace or cannot be read, among others that are. Called where several reads are
/// combined.
pub fn note_skipped_input(report: &mut ReadReport, example: &str) {
    SKIPPED_FILE.count(report, None, example);
    report.sort();
}

/// True if the report already contains the numbering by position.
pub fn is_rank_by_position(report: &ReadReport) -> bool {
    report.count_of(RANK_BY_POSITION.code) > 0
}

/// True if a memory snapshot has no allocation history.
pub fn has_no_history(report: &ReadReport) -> bool {
    report.count_of(MEMORY_NO_HISTORY.code) > 0
}

/// True if a memory recording has no operators because it covered a part of the program that ran none.
pub fn is_outside_window(report: &ReadReport) -> bool {
    report.count_of(MEMORY_WINDOW.code) > 0
}

impl Code {
    /// Count one occurrence of this diagnostic in the read report.
    pub(crate) fn count(self, report: &mut ReadReport, offset: Option<u64>, example: &str) {
        report.count(self.code, self.severity, self.message, offset, example);
    }

    /// Count several occurrences of this diagnostic in the read report.
    pub(crate) fn count_many(self, report: &mut ReadReport, count: u64, offset: Option<u64>, example: &str) {
        report.count_many(self.code, self.severity, self.message, count, offset, example);
    }
}
