//! Diagnostics of reading: a code, a severity and a sentence each.

use stackline_model::{ReadReport, Severity};

/// A kind of problem.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// Stable code.
    pub code: &'static str,
    /// How bad.
    pub severity: Severity,
    /// What was met and what was done.
    pub message: &'static str,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $code:literal $severity:ident $message:literal;)*) => {
        $($(#[$doc])* pub(crate) const $name: Code =
            Code { code: $code, severity: Severity::$severity, message: $message };)*

        /// Every code, for documentation and tests.
        pub const ALL: &[Code] = &[$($name),*];
    };
}

codes! {
    BARE_QUOTE "bare_quote" Repaired "a string held quotes that were not escaped; they were taken as text";
    BACKSLASH "backslash" Repaired "a backslash escaped nothing; it was taken as itself";
    CONTROL "control_character" Repaired "a string held raw line breaks or control characters; they were kept";
    INVALID_UTF8 "invalid_utf8" Repaired "bytes that are not UTF-8 were replaced by U+FFFD";
    ODD_VALUE "odd_value" Repaired "a value that is not JSON (nan, inf, N/A, an identifier) was read as null";
    MISSING_VALUE "missing_value" Repaired "a key had no value; it was read as null";
    NOT_JSON_ARG "malformed_argument" Repaired "an array or object is not JSON inside; it was kept as text";
    FOREIGN_TEXT "foreign_text" Skipped "text that does not belong (a log line?) was skipped up to the next key";
    MISSING_QUOTE "missing_quote" Repaired "a key lacked its opening quote";
    EXTRA_COMMA "extra_comma" Repaired "a comma too many was ignored";
    MISSING_COMMA "missing_comma" Repaired "a comma was missing between two records";
    DAMAGED_EVENT "damaged_event" Skipped "a record could not be read; reading went on at the next one";
    NOT_AN_EVENT "not_an_event" Skipped "an element of the event list is not an object";
    NO_PHASE "no_phase" Repaired "a record without phase but with a duration was read as a complete event";
    UNKNOWN_RECORD "unknown_record" Skipped "a record has neither a phase nor a duration";
    LAST_RECORD "last_record" Note "the last record that could be read, before the file breaks off";
    TRUNCATED "truncated" Lost "the file ends in the middle; everything before was kept";
    TOO_DAMAGED "too_damaged" Lost "so little of the text makes sense that reading stopped here; everything before was kept";
    UNCLOSED "unclosed_list" Note "the event list is not closed, as the format allows";
    DAMAGED_STREAM "damaged_compression" Lost "the compressed stream breaks off or is damaged; what came before was kept, near the damage it may be garbled";
    TRAILING "trailing_data" Skipped "there is more text behind the end of the document; it was not read";
    TOO_LARGE_ENTRY "oversized_entry" Lost "an entry of more than 512 MiB; reading stopped there";
    DAMAGED_HEADER "damaged_metadata" Skipped "a metadata entry of the file could not be read";
    SEVERAL_LISTS "several_event_lists" Repaired "the file has several event lists; all were read as one";
    DUPLICATE_KEY "duplicate_key" Repaired "a key occurs twice; the last value wins";
    BAD_TIME "bad_time" Skipped
        "a time or duration that is no number or absurdly large was left out; its record is kept and counts nowhere";
    BAD_BASE "bad_base_time" Skipped "the base time is no integer and was left out; times count from 0";
    NO_TIME "no_time" Skipped "a record has no time stamp; it stands at time 0 and counts nowhere";
    TIME_AS_TEXT "time_as_text" Repaired "times were written as text";
    TIME_IN_NS "time_in_ns" Repaired "times too large for microseconds were taken as nanoseconds";
    NO_NAME "no_name" Repaired "an event has a number for its name, and the file does not say which name that is";
    NO_DURATION "no_duration" Repaired "a complete event had no duration; it was read as 0; GPU work without one counts nowhere (`zero_duration`)";
    NEGATIVE_DURATION "negative_duration" Repaired "a negative duration was read as 0; GPU work with one counts nowhere (`zero_duration`)";
    UNMATCHED_END "unmatched_end" Skipped "an end record had no begin";
    UNFINISHED "unfinished" Repaired "a begin record had no end; the span was closed at the end of the trace";
    TABLE_FULL "table_full" Lost "more than 4 GiB of text or 2^32 values; what came later lost its text or arguments";
    ZERO_TIME "zero_time" Skipped
        "start times were never filled in (0, or one value far from all others): kept, but excluded from windows and totals";
    ZERO_DURATION "zero_duration" Skipped
        "durations were never filled in (0 where others of the kind or name are never so short, one absurd value, or none on a GPU): kept, but excluded from windows and totals";
    IMPLAUSIBLE_TIME "implausible_time" Skipped
        "GPU records before the recording, long after it or absurdly long were kept but count nowhere";
    ZERO_STEP "step_without_duration" Repaired
        "marks of steps have no duration: such a step lasts until the next one begins where marks follow one another, and is none elsewhere";
    OUT_OF_STREAM_ORDER "out_of_stream_order" Skipped
        "GPU operations start over a second before or after those of their stream that were launched next to them: kept, but count nowhere";
    REPEATED_STEP "repeated_step" Note
        "several steps have the same number: each counts as a step of its own, --steps takes all of them";
    REPEATED_MARK "step_mark_repeated" Note
        "marks of steps stand in the file more than once, with the same times: each counts once";
    RECORDING_PAUSED "recording_paused" Note
        "nothing was recorded between two steps of a profiler (ProfilerStep#n) for longer than steps take, as between two cycles of its schedule: what ran then is not known, and no window of steps spans it";
    NO_STEP_MATCHES "step_annotation_matches_nothing" Note
        "no span on a CPU thread, nor mark on a stream of a device, has a name that the pattern for steps matches, so there are no steps: check the pattern, or leave it out";
    STEP_WITHIN_ANOTHER "step_annotation_within_another" Note
        "spans that the pattern for steps matches lie within one of another thread, and are no steps of their own";
    CLOCK_SHIFTED "device_clock_shifted" Repaired
        "the clock of a device was off; its times were shifted as launches and waits allow, before anything was computed";
    CLOCK_UNKNOWN "device_clock_unknown" Repaired
        "the clock of a device was off and no launch of its work is recorded; its times were aligned by order, so idle time before its first operation is not known";
    CLOCK_CONTRADICTED "device_clock_contradicted" Note
        "no shift of a device's clock fits both its launches and the calls that waited for it (it may have jumped): its times stay as recorded, and steps and idle time near the jump are wrong";
    IMPLAUSIBLE_LENGTH "implausible_length" Skipped
        "GPU operations that last longer than many later ones of their own stream were kept but count nowhere";
    IMPLAUSIBLE_HOST_TIME "implausible_host_time" Skipped
        "host records that end outside of the recording or long after what called them were kept but count nowhere";
    GARBLED_TIME "garbled_time" Skipped
        "records with times far from all others, in text that damaged compression garbled, are kept but count nowhere";
    UNCERTAIN_WINDOW "uncertain_window" Note
        "most of what was read stands near or behind damage: do not trust the window, nor totals over it";
    DUPLICATE_CORRELATION "ambiguous_launch" Repaired
        "several calls share a GPU operation's correlation id; the nearest of the fitting process was taken";
    OVERLAP_NOISE "stream_overlap_noise" Note "operations of one stream overlap by less than 3 µs (clock noise)";
    OVERLAP_PDL "stream_overlap_dependent_launch" Note
        "kernels of one stream overlap on a GPU with programmatic dependent launch";
    OVERLAP "stream_overlap" Note "operations of one stream overlap by 3 µs or more: durations may be too long";
    CLIPPED "clipped_overlap" Repaired "a GPU operation's end was moved to the start of the next one of its stream";
    EARLY_KERNEL "kernel_before_launch" Note
        "GPU operations start before their launch call: CPU and GPU clocks differ by less than is corrected";
    LATE_KERNEL "kernel_after_wait" Note
        "calls return before the GPU operations that they wait for end: clocks differ by less than is corrected, or a record is wrong";
    NEVER_CLOSED "never_closed" Repaired
        "a frame without an end of its own ran on to the end of the recording; it was cut where its caller ends";
    CROSSING "crossing" Note "spans that cross the end of another of their thread were placed by their larger part";
    DANGLING_FLOW "dangling_flow" Note "flow arrows with only one end (usual in Kineto traces) were left out";
    NO_LAUNCH "no_launch" Note "GPU operations have no launch call in the trace";
    SEQUENCE_TWICE "sequence_number_twice" Note
        "backward operators have the sequence number of another one: their forward operator may be the wrong one";
    NO_DEVICE_RECORD "no_device_record" Note
        "launch calls have no GPU operation in the trace: the device's side was not recorded, or they were captured into a graph";
    AROUND_OTHERS "operation_around_others" Note
        "operations of a device hold others of their row within them, as loops and branches do: those within count, what is around them groups them";
    STEPS_OF_DEVICE "steps_of_device" Note
        "no thread of the host marks steps: they are those that the profiler shows on a device, by the device's clock";
    PROCESS_BY_CORRELATION "process_by_correlation" Note
        "GPU operations without a process, of several that could be theirs, were given to the only one with a call of their correlation id; clocks of devices are not compared with the host's then";
    PROCESS_UNKNOWN "process_unknown" Note
        "GPU operations without a process, which several processes of the file may have launched: they are a trace of their own, without launches";
    PROCESS_NOT_LISTED "process_not_listed" Note
        "processes are not in the file's list of processes: they were read, and have no name";
    ROWS_LEFT_OUT "rows_left_out" Skipped "rows with neither a process nor a time were left out";
    PROCESS_LEFT_OUT "process_left_out" Skipped
        "rows of processes that are not in the file's list of processes were left out: the file is damaged or breaks off, and they may be garbage";
    KERNELS_NOT_RECORDED "kernels_not_recorded" Note
        "launches of kernels have no GPU operation in the trace, beside others that have one: the GPU is busier than shown, and idle less";
    UNKNOWN_CATEGORY "unknown_category" Note "events of a category that we do not know were kept as other";
    SAME_PROFILE "same_profile" Note
        "the same profile lies there in another form, and was left out: what was read has as many events, or more";
    REPEATED_FILE "repeated_file" Note
        "a file of a run was given twice, or lies there plain and packed: it was read once";
    PART_NOT_GIVEN "part_not_given" Note
        "files of the same run lie beside those that were given, and were not read: give their folder, or all of them";
    RANK_FROM_NAME "rank_from_name" Note "the file does not tell its rank; it was taken from the file name";
    RANK_BY_DEVICE "rank_by_device" Note
        "the processes of the file do not tell their ranks: they are numbered from 0, in the order of their GPUs";
    RANK_BY_POSITION "rank_by_position" Note
        "inputs name no rank, or the same one twice: all are numbered by their position among the inputs, from 0";
    OLDER_CYCLE "older_cycle" Note
        "an older profiler cycle of the same process is left out, since cycles are no ranks; give its file alone to see it";
    UNREADABLE_STREAM "unreadable_stream" Lost "the stream of a process cannot be read; that process is left out";
    CUT_STREAM "cut_stream" Lost "the stream of a process breaks off; everything before was kept";
    DAMAGED_CHUNK "damaged_chunk" Lost
        "a part of the stream of a process is damaged and was skipped; reading went on at the next whole chunk";
    NOT_WRITTEN "not_written" Lost "the recorder could not write some of its records";
    WRITE_DELAYED "write_delayed" Note "the recorder could not write for a while; the records were written later";
    FOLDED_NAMES "folded_names" Note
        "spans whose names differ only in numbers or identifiers share one name, since there were too many of them";
    EMPTY_STREAM "empty_stream" Lost "the stream of a process breaks off before it says anything; that process is left out";
    DANGLING_RECORD "dangling_record" Skipped "a record of a stream refers to something that it does not define";
    UNKNOWN_STATEMENT "unknown_statement" Skipped "a newer recorder said something that this Stackline does not know";
    KILLED "process_killed" Lost
        "a process ended without saying so (it still runs, was killed, or its disk stayed full): its last half second, or what came since the disk was full, may be missing";
    ENDED_BY_PARENT "ended_by_parent" Note
        "a worker was ended by the process that made it, as loaders of data and pools end theirs: its last half second may be missing";
    AFTER_STEPS "after_last_step" Note "time after the last step, until the process was killed, is in no step";
    IN_FLIGHT "in_flight" Note
        "a call was running when the recording ended, and has no end of its own; of a killed process: up to half a second before, and in no count and no time";
    LAST_SEEN "last_seen" Note
        "where the newest sample found the main thread of a process that was killed, which ran no operator then";
    OS_EXIT "os_exit" Note
        "a process ended by os._exit: what its other threads did in the last moments may be missing";
    REPLACED "process_replaced" Note
        "a process was replaced by another program (exec), which is recorded as a process of its own if it is Python";
    TREE_FULL "tree_full" Lost
        "calls found no place in a full tree and were put into one node of their own; --max-nodes allows more";
    NOT_RECORDED "not_recorded" Lost "the recorder left something out";
    LIBRARY_CHANGED "library_changed" Skipped
        "a library is another one now than when it was recorded: its functions have no names";
    LIBRARY_MISSING "library_missing" Skipped "a library is not there any more: its functions have no names";
    LIBRARY_UNKNOWN "library_unknown" Skipped
        "nothing tells whether a library is the one that was recorded: its functions have no names";
    LIBRARY_UNREADABLE "library_unreadable" Skipped "a library cannot be read: its functions have no names";
    WITHOUT_RANK "without_rank" Note
        "a process without a rank, among some with ranks, called no operator; traces of the ranks leave its samples out";
    FREED_IN_USE "freed_in_use" Skipped
        "memory was freed before the operator ended that was called with it; that access is left out";
    MEMORY_UNKNOWN_FREE "free_without_allocation" Skipped "memory was freed where nothing lay; the call was kept";
    MEMORY_OVERLAP "overlapping_allocation" Repaired
        "memory was allocated where something else still lay: that was taken as freed just before";
    MEMORY_SAME_PLACE "same_addresses" Note
        "objects lie at addresses where another one is alive: their names tell them apart, and both count";
    MEMORY_HUGE "implausible_size" Note
        "an object has more than 1 PiB, as no device has; sums that find no room count as the largest number";
    MEMORY_CLOCK_BACK "memory_clock_back" Repaired "times of memory events go back; the order of the file was kept";
    MEMORY_OTHER_SIZE "freed_other_size" Note "memory was freed with another size than it was allocated with";
    MEMORY_LATE_FREE "free_before_records" Note "a free was completed that was asked for before the records begin";
    MEMORY_OLDER "older_than_records" Note
        "objects are older than the records: they count from the beginning, and where they come from may not be known";
    MEMORY_NO_HISTORY "no_memory_history" Note
        "the snapshot has no history of allocations: its peak and the call paths are not known; call torch.cuda.memory._record_memory_history() before the model is made, then _dump_snapshot()";
    MEMORY_NO_SEGMENTS "no_memory_segments" Note
        "the snapshot lists no segments: what was allocated before its history begins, and what the allocator holds unused, is not known";
    MEMORY_NO_BLOCK "object_without_block" Note
        "objects that the events leave alive have no block in the segments: their free was not recorded";
    MEMORY_NO_ADDRESS "without_addresses" Note
        "memory events without addresses: a free was taken to be of the youngest object of its size";
    MEMORY_TOTALS "totals_disagree" Note
        "the allocator's own total is not what its allocations and frees add up to: some were not recorded";
    MEMORY_NO_FREES "without_frees" Note
        "the source records no frees: memory counts from the operator that gives it to the last one that takes it";
    MEMORY_WINDOW "no_operators_recorded" Note
        "memory was allocated, but no operator ran while recording went on: it was for a part of the program only";
    MEMORY_PROCESSES "one_of_processes" Note
        "memory traces are here (of processes, ranks or files), and this is one of them: of a recording that with the highest peak; --process chooses";
    MEMORY_UNKNOWN_EVENT "unknown_memory_event" Skipped "a memory event of a kind that is not known";
    MEMORY_BAD_EVENT "damaged_memory_event" Skipped
        "a memory event lacks what it needs or says what cannot be; that was left out";
    MEMORY_BAD_TENSOR "damaged_tensor" Skipped
        "a tensor has a number that cannot be; its operator is kept without it";
    MEMORY_BAD_SEGMENT "damaged_segment" Skipped
        "a segment or block of the allocator lacks what it needs or says what cannot be; that was left out";
    TABLE_DAMAGED "damaged_table" Lost "a table of the file cannot be read to its end; its rows before that were kept";
    TABLE_MISSING "missing_table" Lost
        "the file lacks its table of texts: calls, kernels and ranges have no names";
    TABLE_VERSIONS "several_versions_of_a_table" Note
        "several versions of a table have rows: the one without a version behind its name was read, else the newest";
    TEXT_MISSING "missing_text" Lost
        "rows name a text by a number that the file's table of texts does not have: they were called after what they are";
    ROW_WITHOUT_NAME "row_without_name" Note "rows of the file name no text: they were called after what they are";
    NEGATIVE_VALUE "negative_value" Skipped "a value of a sample that is negative or no number was left out";
    HUGE_VALUE "value_out_of_range" Repaired
        "a value of a sample is larger than what can be counted, 2^63 of the smallest unit: that was taken instead";
    FRACTIONAL_VALUE "fractional_values" Repaired
        "values of samples have fractions: all values were read in thousandths";
    UNMERGED_LOG "unmerged_log" Lost
        "beside the database lies what was written to it last, which is not read: the export goes on still or was stopped; let it end, or export again";
    TABLE_NOT_READ "table_not_read" Note "tables of the file that this version does not read";
    OTHER_PROCESS "process_without_gpu_calls" Note
        "processes of the file that made no call of the GPU's interface are left out";
    GRAPHS_AS_WHOLE "graphs_as_a_whole" Note
        "launches of CUDA graphs were recorded as a whole: what their kernels took is not known; record with nsys profile --cuda-graph-trace=node";
    PROFILER_SAYS "profiler_says" Note "the profiler warned of something while it recorded";
    SKIPPED_FILE "skipped_file" Skipped "a file of the archive or directory is not a trace";
}

/// Notes that traces are numbered by position. For those who put several reads together.
pub fn note_rank_by_position(report: &mut ReadReport, traces: u64, example: &str) {
    RANK_BY_POSITION.count_many(report, traces, None, example);
    report.sort();
}

/// Notes that older profiler cycles of a process are left out. For those who put several reads together.
pub fn note_older_cycles(report: &mut ReadReport, cycles: u64, example: &str) {
    OLDER_CYCLE.count_many(report, cycles, None, example);
    report.sort();
}

/// How many older profiler cycles of processes were left out.
pub fn older_cycles(report: &ReadReport) -> u64 {
    report.count_of(OLDER_CYCLE.code)
}

/// What can keep a library's functions from being named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibraryProblem {
    /// It is another one now.
    Changed,
    /// It is not there.
    Missing,
    /// Nothing tells whether it is the same.
    Unknown,
    /// It cannot be read.
    Unreadable,
}

/// The code of [`note_one_of_processes`].
pub const ONE_OF_PROCESSES: &str = "one_of_processes";

/// Says that a recording holds memory of so many processes, one of which this is. For those who choose.
pub fn note_one_of_processes(report: &mut ReadReport, processes: u64) {
    MEMORY_PROCESSES.count_many(report, processes, None, "");
}

/// Of how many processes the one that was read was chosen; 0 if there was no choice.
pub fn processes_of(report: &ReadReport) -> u64 {
    report.count_of(ONE_OF_PROCESSES)
}

/// Counts a library whose functions have no names. For those who name them.
pub fn count_library(report: &mut ReadReport, problem: LibraryProblem, path: &str) {
    let code = match problem {
        LibraryProblem::Changed => LIBRARY_CHANGED,
        LibraryProblem::Missing => LIBRARY_MISSING,
        LibraryProblem::Unknown => LIBRARY_UNKNOWN,
        LibraryProblem::Unreadable => LIBRARY_UNREADABLE,
    };
    code.count(report, None, path);
}

/// Counts an input that is no trace, or cannot be read, among others that are. For those who put several reads together.
pub fn note_skipped_input(report: &mut ReadReport, example: &str) {
    SKIPPED_FILE.count(report, None, example);
    report.sort();
}

/// Whether a report says already that its trace is numbered by position.
pub fn is_rank_by_position(report: &ReadReport) -> bool {
    report.count_of(RANK_BY_POSITION.code) > 0
}

/// Whether a memory snapshot has no history of allocations.
pub fn has_no_history(report: &ReadReport) -> bool {
    report.count_of(MEMORY_NO_HISTORY.code) > 0
}

/// Whether a recording of memory has no operators because it was of a part of the program in which none ran.
pub fn is_outside_window(report: &ReadReport) -> bool {
    report.count_of(MEMORY_WINDOW.code) > 0
}

impl Code {
    /// Counts one occurrence.
    pub(crate) fn count(self, report: &mut ReadReport, offset: Option<u64>, example: &str) {
        report.count(self.code, self.severity, self.message, offset, example);
    }

    /// Counts several occurrences.
    pub(crate) fn count_many(self, report: &mut ReadReport, count: u64, offset: Option<u64>, example: &str) {
        report.count_many(self.code, self.severity, self.message, count, offset, example);
    }
}
