//! Diagnostics of reading, each with a code, a severity and a message.

use stackline_model::{ReadReport, Severity};

/// Kind of reading diagnostic: a stable code with its severity and message.
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
    BARE_QUOTE "bare_quote" Repaired "a string contains unescaped quotes, which were read as part of the string";
    BACKSLASH "backslash" Repaired "an invalid escape sequence was read as a literal backslash";
    CONTROL "control_character" Repaired "a string contains raw line breaks or control characters, which were kept";
    INVALID_UTF8 "invalid_utf8" Repaired "bytes that are not UTF-8 were replaced by U+FFFD";
    ODD_VALUE "odd_value" Repaired "a value that is not JSON (nan, inf, N/A, an identifier) was read as null";
    MISSING_VALUE "missing_value" Repaired "a key without a value was read as null";
    NOT_JSON_ARG "malformed_argument" Repaired "an array or object is not valid JSON and was kept as text";
    FOREIGN_TEXT "foreign_text" Skipped
        "text that is not JSON, such as a log line, was found in the document and skipped";
    MISSING_QUOTE "missing_quote" Repaired "a key without an opening quote was read as if the quote were present";
    EXTRA_COMMA "extra_comma" Repaired "an extra comma was ignored";
    MISSING_COMMA "missing_comma" Repaired "the comma between two records is missing; both records were read";
    DAMAGED_EVENT "damaged_event" Skipped "a record could not be read; reading continued at the next one";
    NOT_AN_EVENT "not_an_event" Skipped "an element of the event list is not a JSON object and was skipped";
    NO_PHASE "no_phase" Repaired
        "an event has a duration but no phase (`ph`); it was read as a complete event (phase X)";
    UNKNOWN_RECORD "unknown_record" Skipped "an event has neither a phase (`ph`) nor a duration and was skipped";
    LAST_RECORD "last_record" Note "the file is truncated; the example names the last event that could be read";
    TRUNCATED "truncated" Lost "the file is truncated; only the part before the missing end was read";
    TOO_DAMAGED "too_damaged" Lost
        "the file is too damaged to continue reading; only the part before the damage was read";
    UNCLOSED "unclosed_list" Note "the event list has no closing bracket (]), which the Chrome trace format allows";
    DAMAGED_STREAM "damaged_compression" Lost
        "the compressed data is truncated or damaged; only the data before the damage was read, and the last events \
         before it may be wrong";
    TRAILING "trailing_data" Skipped "text after the end of the JSON document was not read";
    TOO_LARGE_ENTRY "oversized_entry" Lost
        "an entry of the JSON document is larger than 512 MiB; reading stopped there";
    LONG_LINE "oversized_line" Skipped
        "a line of collapsed stacks is longer than 8 MiB, or a row of a CSV table longer than 1 MiB; it was skipped";
    DAMAGED_HEADER "damaged_metadata" Skipped "a metadata entry of the file could not be read";
    SEVERAL_LISTS "several_event_lists" Repaired "the file has several event lists, which were read as one";
    DUPLICATE_KEY "duplicate_key" Repaired "a key occurs twice in the same JSON object; the last value was used";
    DUPLICATE_OPERATION "duplicate_operation" Repaired
        "records of GPU operations repeat an earlier record of their stream in name, times, correlation ID and all \
         other fields; each operation was counted once";
    BAD_TIME "bad_time" Skipped
        "a time or duration that is not a number, or is out of range, was ignored; its record was kept, but excluded \
         from all totals";
    BAD_BASE "bad_base_time" Skipped "the base time (`baseTimeNanoseconds`) is not an integer and was taken as 0";
    NO_TIME "no_time" Skipped "a record without a time stamp was placed at time 0 and excluded from all totals";
    TIME_AS_TEXT "time_as_text" Repaired "some times are written as strings and were read as numbers";
    TIME_IN_NS "time_in_ns" Repaired "some times are too large to be microseconds and were read as nanoseconds";
    NO_NAME "no_name" Repaired "the file's list of names lacks the name ID of an event; the event was named by that ID";
    NO_DURATION "no_duration" Repaired
        "a complete event without a duration was read with duration 0; GPU work without a duration is excluded from \
         all totals (see diagnostic `zero_duration`)";
    NEGATIVE_DURATION "negative_duration" Repaired
        "a negative duration was read as 0; GPU work with a negative duration is excluded from all totals (see \
         diagnostic `zero_duration`)";
    UNMATCHED_END "unmatched_end" Skipped "the end of a span was skipped, because the file lacks the start of that \
                                           span";
    UNFINISHED "unfinished" Repaired "a span has a start but no end; it was ended at the end of the trace";
    TABLE_FULL "table_full" Lost
        "the trace exceeds a limit of 4 GiB of text or 2^32 values; events beyond the limit were read without their \
         text or arguments";
    ZERO_TIME "zero_time" Skipped
        "the profiler did not set the start time of some events (it is 0, or a repeated value far from all other \
         times). These events were kept, but excluded from time windows and totals";
    ZERO_DURATION "zero_duration" Skipped
        "some events have an unusable duration: 0 where other events of that name take longer, impossibly long, or \
         missing for a GPU operation. These events were kept, but excluded from time windows and totals";
    IMPLAUSIBLE_TIME "implausible_time" Skipped
        "GPU operations are far outside the time range of the recording, or impossibly long; they were kept, but \
         excluded from all totals";
    ZERO_STEP "step_without_duration" Repaired
        "some step marks have no duration. Such a step lasts until the next step mark; it was ignored if no mark \
         follows, or if gaps separate the other steps";
    OUT_OF_STREAM_ORDER "out_of_stream_order" Skipped
        "GPU operations start more than 1 s too early or too late for the launch order of their stream. They were \
         kept, but excluded from all totals";
    REPEATED_STEP "repeated_step" Note
        "several steps have the same number: each counts as a separate step, and --steps with that number selects all \
         of them";
    MARK_OF_OTHER_THREAD "step_mark_of_other_thread" Note
        "several threads of a process mark the same step at different times: the step has the times of one of them, \
         and the time of the other marks outside of it is not in this step";
    REPEATED_MARK "step_mark_repeated" Note
        "the file contains the same step mark more than once, with the same or nearly the same times; it was counted \
         once";
    RECORDING_PAUSED "recording_paused" Note
        "two steps (ProfilerStep#n) are separated by a gap without records, as between two cycles of the profiler's \
         schedule. Activity in the gap is unknown; no analyzed time window includes steps from both sides of it";
    UNRECORDED_STEPS "unrecorded_steps" Note
        "steps were not recorded because of `record --every` or `--after`, so activity in the gaps between recorded \
         steps is unknown. No analyzed time window includes steps from both sides of such a gap";
    NO_STEP_MATCHES "step_annotation_matches_nothing" Note
        "no span on a CPU thread or device stream matches the step pattern (--step-annotation), so the trace has no \
         steps. Correct the pattern or omit it";
    STEP_WITHIN_ANOTHER "step_annotation_within_another" Note
        "spans match the step pattern (--step-annotation), but run during a step of another thread, so they were not \
         used as steps";
    CLOCK_SHIFTED "device_clock_shifted" Repaired
        "the clocks of a device and the host differ. The device's times were shifted so that its operations follow \
         their launches and end before the calls that wait for them";
    CLOCK_UNKNOWN "device_clock_unknown" Repaired
        "the clocks of a device and the host differ, and the trace does not link the device's operations to launch \
         calls. The operations were shifted to follow the host's launch calls, so idle time before the first operation \
         is unknown";
    CLOCK_CONTRADICTED "device_clock_contradicted" Note
        "no constant shift of a device's times agrees both with its launches and with the calls that wait for it; its \
         clock may have jumped. The jump was not corrected, so steps, idle time and critical paths near it are wrong";
    IMPLAUSIBLE_LENGTH "implausible_length" Skipped
        "GPU operations end after many later operations of their stream have ended, so their durations are wrong. They \
         were kept, but excluded from all totals";
    IMPLAUSIBLE_HOST_TIME "implausible_host_time" Skipped
        "calls and operators of CPU threads end after the recording, or long after the call that contains them. Their \
         times are wrong, so they are excluded from all totals";
    GARBLED_TIME "garbled_time" Skipped
        "events that were read after damaged compressed data have times far from all other events; they were kept, but \
         excluded from all totals";
    UNCERTAIN_WINDOW "uncertain_window" Note
        "most events were read near or after a damaged part of the file: the analyzed time window and all totals may \
         be wrong";
    DUPLICATE_CORRELATION "ambiguous_launch" Repaired
        "several calls have the correlation ID of one GPU operation. The last call before the operation was taken as \
         its launch; calls of the process that uses the GPU take precedence";
    OVERLAP_NOISE "stream_overlap_noise" Note
        "GPU operations of one stream overlap by less than 3 µs, which is within clock noise";
    OVERLAP_PDL "stream_overlap_dependent_launch" Note
        "kernels of one stream overlap, as programmatic dependent launch allows on this GPU";
    OVERLAP "stream_overlap" Note
        "GPU operations of one stream overlap by 3 µs or more, so their recorded durations may be too long";
    CLIPPED "clipped_overlap" Repaired
        "the end of a GPU operation was moved to the start of the next one on its stream (--clip-overlaps)";
    EARLY_KERNEL "kernel_before_launch" Note
        "GPU operations start before their launch call, so the clocks of CPU and GPU differ. A difference under 1 ms \
         is corrected only if several launches or waits confirm it";
    LATE_KERNEL "kernel_after_wait" Note
        "calls return before the end of the GPU operations that they wait for: the clocks of CPU and GPU differ, or a \
         record is wrong. A clock difference under 1 ms is corrected only if several launches or waits confirm it";
    NEVER_CLOSED "never_closed" Repaired
        "a stack frame lasts longer than its caller, because its end was not recorded; it was shortened to end \
         together with its caller";
    CROSSING "crossing" Note
        "spans only partly overlap another span of the same thread. The parent of such a span is the innermost span \
         that contains its start and at least half of it";
    DANGLING_FLOW "dangling_flow" Note "flow arrows with only one end (common in Kineto traces) were skipped";
    NO_LAUNCH "no_launch" Note "GPU operations have no launch call in the trace";
    SEQUENCE_TWICE "sequence_number_twice" Note
        "several backward operators have the same sequence number, so they may be linked to the wrong forward operator";
    NO_DEVICE_RECORD "no_device_record" Note
        "launch calls have no GPU operation in the trace: device activity was not recorded, the operations have no \
         correlation ID, or the calls were captured into a CUDA or HIP graph";
    AROUND_OTHERS "operation_around_others" Note
        "device operations contain other operations of the same device track, as loops and branches do; only the \
         contained operations count as GPU work";
    STEPS_OF_DEVICE "steps_of_device" Note
        "no host thread has step marks, so the step marks of a device track were used, with times of the device's \
         clock";
    PROCESS_BY_CORRELATION "process_by_correlation" Note
        "GPU operations without a process ID were assigned to the only process with a call of the same correlation ID. \
         A difference between device and host clocks is not detected for such operations";
    PROCESS_UNKNOWN "process_unknown" Note
        "GPU operations without a process ID, which several processes may have launched, were put into a separate \
         trace without launch calls";
    PROCESS_NOT_LISTED "process_not_listed" Note "processes have no name, because the file's process list lacks them";
    ROWS_LEFT_OUT "rows_left_out" Skipped "table rows with neither a process ID nor a time were skipped";
    PROCESS_LEFT_OUT "process_left_out" Skipped
        "rows of processes that are missing from the file's process list were skipped: the file is damaged or \
         truncated, and the rows may be garbage";
    KERNELS_NOT_RECORDED "kernels_not_recorded" Note
        "some kernel launches have no GPU operation in the trace: the true GPU busy time is longer, and the true idle \
         time shorter, than shown";
    UNKNOWN_CATEGORY "unknown_category" Note "events of an unknown category were kept as kind `other`";
    SAME_PROFILE "same_profile" Note
        "the directory contains the same profile in several formats; only the most complete copy was read";
    REPEATED_FILE "repeated_file" Note "a file of a run exists twice, for example uncompressed and compressed; it was \
                                        read once";
    PART_NOT_GIVEN "part_not_given" Note
        "the folder contains further files of the same run, which were not read: give the folder or all files";
    RANK_FROM_NAME "rank_from_name" Note "the file does not contain the rank of its process; the rank was taken from \
                                          the file name";
    RANK_BY_DEVICE "rank_by_device" Note
        "the processes in the file have no ranks, so they were numbered from 0 in the order of their GPUs";
    RANK_BY_POSITION "rank_by_position" Note
        "some inputs have no rank, or the same rank as another input: the ranks of all inputs were numbered from 0 in \
         input order";
    OLDER_CYCLE "older_cycle" Note
        "an earlier profiler cycle of the same process was skipped, because only one trace per rank is analyzed. To \
         see that cycle, open its file on its own";
    EARLIER_PROCESS "earlier_process" Note
        "an earlier process of the same rank, as before a restart, was skipped, because only one trace per rank is \
         analyzed. To see that process, open its file on its own";
    UNREADABLE_STREAM "unreadable_stream" Lost "the recorded data of a process cannot be read; that process is missing";
    CUT_STREAM "cut_stream" Lost
        "the recorded data of a process is truncated; only the part before the missing end was read";
    DAMAGED_CHUNK "damaged_chunk" Lost
        "a damaged part of the recorded data of a process was skipped; reading continued at the next intact part";
    NOT_WRITTEN "not_written" Lost "the recorder could not write some of its records, so they are missing";
    WRITE_DELAYED "write_delayed" Note
        "the recorder could not write for a while; it wrote all records of that time later, so none are missing";
    FOLDED_NAMES "folded_names" Note
        "too many span names differ only in numbers or identifiers; they were merged into one name";
    EMPTY_STREAM "empty_stream" Lost
        "the recorded data of a process ends before its first record; that process is missing";
    DANGLING_RECORD "dangling_record" Skipped
        "a record refers to an entry that the file lacks, such as a frame or stack; the record was used only in part \
         or not at all";
    UNKNOWN_STATEMENT "unknown_statement" Skipped
        "a newer version of Stackline wrote a record that this version does not know; update Stackline to read it";
    KILLED "process_killed" Lost
        "the recording of a process has no end: the process is still running, was killed, or the disk was full. Its \
         records of the last half second, or since the disk was full, may be missing";
    ENDED_BY_PARENT "ended_by_parent" Note
        "a parent process terminated a worker process, as data loaders and process pools do: the worker's records of \
         its last half second may be missing";
    AFTER_STEPS "after_last_step" Note
        "a process was killed after its last recorded step; the time from the end of that step to the end of the \
         process belongs to no step";
    IN_FLIGHT "in_flight" Note
        "a call was still running when the records of its process ended. Recordings exclude it from counts and times; \
         in other traces it counts until the last record. A killed process may lack records of its last 0.5 s, in \
         which the call may have returned";
    LAST_SEEN "last_seen" Note
        "the main thread of a killed process ran no operator when it was last sampled; the example is the call path of \
         that sample";
    OS_EXIT "os_exit" Note "a process ended by os._exit: the last records of its other threads may be missing";
    REPLACED "process_replaced" Note
        "a process was replaced by another program (exec), which has its own recording if it is a Python program";
    TREE_FULL "tree_full" Lost
        "the call tree reached its maximum number of nodes, so further calls were merged into one node; increase \
         --max-nodes";
    NOT_RECORDED "not_recorded" Lost "the recorder dropped or simplified some records; the example gives the reason";
    LIBRARY_CHANGED "library_changed" Skipped "a shared library has changed since the recording, so its functions have \
                                               no names";
    LIBRARY_MISSING "library_missing" Skipped "a shared library of the recorded process no longer exists, so its \
                                               functions have no names";
    LIBRARY_UNKNOWN "library_unknown" Skipped
        "Stackline cannot verify that a shared library is unchanged since the recording, so its functions have no \
         names";
    LIBRARY_UNREADABLE "library_unreadable" Skipped "a shared library cannot be read, so its functions have no names";
    WITHOUT_RANK "without_rank" Note
        "a process without a rank ran no operators, so its samples are not part of any rank's trace";
    FREED_IN_USE "freed_in_use" Skipped
        "memory was freed before the end of an operator that uses it; the operator's access to that memory was skipped";
    MEMORY_UNKNOWN_FREE "free_without_allocation" Skipped
        "memory was freed at an address without a known allocation; the free is listed without a memory object";
    MEMORY_OVERLAP "overlapping_allocation" Repaired
        "memory was allocated at the address of a live object; that object was assumed to have been freed just before";
    MEMORY_SAME_PLACE "same_addresses" Note
        "memory objects with different names are live at overlapping addresses; the bytes of all of them are counted";
    MEMORY_HUGE "implausible_size" Note
        "an allocation is larger than 1 PiB, more memory than any device has; totals that contain it may be capped at \
         the largest 64-bit number";
    MEMORY_CLOCK_BACK "memory_clock_back" Repaired
        "memory events are not in time order; the order of the file was used";
    MEMORY_NO_TIME "memory_without_time" Note
        "memory events have no valid time, so each counts as simultaneous with the event before it on its device, and \
         the order of events of several devices is unknown";
    MEMORY_OTHER_SIZE "freed_other_size" Note "memory was freed with a different size than it was allocated with";
    MEMORY_LATE_FREE "free_before_records" Note
        "the free of a block was completed during the recording, but was requested before the recording began";
    MEMORY_OLDER "older_than_records" Note
        "memory objects were allocated before the first record: they count as live from the beginning, and their call \
         paths may be unknown";
    MEMORY_NO_HISTORY "no_memory_history" Note
        "the snapshot has no allocation history, so its peak is unknown, and only blocks in use can have call paths. \
         Call torch.cuda.memory._record_memory_history() before creating the model, then _dump_snapshot()";
    MEMORY_NO_SEGMENTS "no_memory_segments" Note
        "the snapshot lists no segments, so two kinds of memory are unknown: allocations from before its recorded \
         history, and reserved but unused memory";
    MEMORY_NO_BLOCK "object_without_block" Note
        "memory objects have neither a recorded free nor a block in the snapshot's segments: they were freed, but the \
         free was not recorded";
    MEMORY_NEW_BLOCK "block_without_object" Note
        "a used block of the snapshot's segments overlaps a memory object of another address or size: the object's free \
         and the block's allocation were not recorded, so the block is part of no peak";
    MEMORY_NO_ADDRESS "without_addresses" Note
        "memory events have no addresses, so each free was matched to the most recent live allocation of the same size";
    MEMORY_TOTALS "totals_disagree" Note
        "the allocator's recorded total of bytes differs from the sum of the recorded allocations and frees, so some \
         of them were not recorded";
    MEMORY_NO_FREES "without_frees" Note
        "the file contains no frees, so each tensor counts as live from the operator that returns it to the last \
         operator that takes it as an input";
    MEMORY_WINDOW "no_operators_recorded" Note
        "operators were recorded only in a part of the program, and none ran in that part, so memory accesses are \
         unknown";
    MEMORY_PROCESSES "one_of_processes" Note
        "the input contains memory traces of several processes, ranks or files, but only one was read: in a recording, \
         the one with the highest peak. Select another with --process";
    MEMORY_RANKS "one_of_ranks" Note
        "the input contains memory events of several traces, such as ranks, but only those of the first trace were \
         read. Select another with --rank";
    MEMORY_UNKNOWN_EVENT "unknown_memory_event" Skipped "a memory event of an unknown kind was skipped";
    MEMORY_BAD_EVENT "damaged_memory_event" Skipped
        "a memory event lacks a field or has an impossible value; it was skipped";
    MEMORY_BAD_TENSOR "damaged_tensor" Skipped "a tensor with an impossible size, address or device was skipped; its operator was kept";
    MEMORY_BAD_SEGMENT "damaged_segment" Skipped
        "a segment or block of the allocator lacks a field or has an impossible value; it was skipped";
    TABLE_DAMAGED "damaged_table" Lost
        "a table of the file cannot be read to its end; the rows before the damage were kept";
    TABLE_MISSING "missing_table" Lost "the file lacks its string table: calls, kernels and ranges have no names";
    TABLE_VERSIONS "several_versions_of_a_table" Note
        "the file contains a table in several versions. Only one version was read: the one without a suffix in its \
         name, or else the newest";
    TEXT_MISSING "missing_text" Lost
        "rows refer to a string that the file's string table lacks; they are named by their type instead, such as \
         `kernel without a name`";
    ROW_WITHOUT_NAME "row_without_name" Note
        "rows of the file have no name; they are named by their type instead, such as `kernel without a name`";
    NEGATIVE_VALUE "negative_value" Skipped "a sample value that is negative or not a number was skipped";
    HUGE_VALUE "value_out_of_range" Repaired
        "a sample value exceeds the maximum of 2^63 (in ns, bytes or counts) and was reduced to the maximum";
    FRACTIONAL_VALUE "fractional_values" Repaired
        "sample values have fractions; all values were rounded to thousandths";
    UNMERGED_LOG "unmerged_log" Lost
        "the database has a write-ahead log (-wal file) with data that was not read: the export is still running or \
         was stopped. Wait until it ends, or export again";
    TABLE_NOT_READ "table_not_read" Note "this version of Stackline does not read some tables of the file";
    OTHER_PROCESS "process_without_gpu_calls" Note "processes of the file that call no GPU API were skipped";
    GRAPHS_AS_WHOLE "graphs_as_a_whole" Note
        "each launch of a CUDA graph was recorded as a whole, without the times of its kernels. To get them, record \
         with nsys profile --cuda-graph-trace=node";
    PROFILER_MESSAGE "profiler_says" Note "the profiler issued warnings during the recording";
    SKIPPED_FILE "skipped_file" Skipped "a file of the archive or directory is not a trace and was skipped";
}

/// Count traces whose ranks were numbered by input order. Called where several reads are combined.
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

/// True if the rank of the trace was taken from its file name.
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

/// Record that only one of several processes' memory traces was read. Called where the process is selected.
pub fn note_one_of_processes(report: &mut ReadReport, processes: u64) {
    MEMORY_PROCESSES.count_many(report, processes, None, "");
}

/// Code of [`note_one_of_ranks`].
pub const ONE_OF_RANKS: &str = "one_of_ranks";

/// Record that only the memory events of one of several traces were read. Called where the trace is selected.
pub fn note_one_of_ranks(report: &mut ReadReport, traces: u64) {
    MEMORY_RANKS.count_many(report, traces, None, "");
}

/// Number of traces from which the one with these memory events was selected; 0 if there was no choice.
pub fn ranks_of(report: &ReadReport) -> u64 {
    report.count_of(ONE_OF_RANKS)
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

/// Count a skipped input, which is not a trace or cannot be read, among inputs that were read. Called where several
/// reads are combined.
pub fn note_skipped_input(report: &mut ReadReport, example: &str) {
    SKIPPED_FILE.count(report, None, example);
    report.sort();
}

/// True if the report already states that ranks were numbered by input order.
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
