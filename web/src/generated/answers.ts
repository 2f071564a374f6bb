/**
 * Answers of queries. Generated from crates/query; to regenerate:
 * STACKLINE_UPDATE_TYPES=1 cargo test -p stackline-query typescript_types
 */

import type { Column } from "../transport/decode";

/** Access of a memory call to an object. */
export type Access = {
  readonly object: number;
  readonly name: string;
  readonly bytes: number;
  readonly mode: string;
  readonly evidence: string;
};

/** Access of a call to the memory object. */
export type AccessBy = {
  readonly call: CallBrief;
  readonly mode: string;
  readonly evidence: string;
};

/** Time after the last step, in ns, and where most of it is spent. */
export type AfterStepsTime = {
  readonly after_ns: number;
  readonly mostly: string | null;
};

/** Segments and blocks of the caching allocator. */
export type AllocatorDocument = {
  readonly schema: string;
  readonly traces: ReadonlyArray<TraceInfo>;
  readonly tables: AllocatorTables;
  readonly read_report: ReadonlyArray<TraceReport>;
  readonly memory: MemorySummary;
  readonly page: AllocatorPage;
};

/** Segments of the caching allocator; their blocks are in the columns. */
export type AllocatorPage = {
  readonly segments: ReadonlyArray<Segment>;
  /** Segments that are left out: the smallest. */
  readonly left_out: number;
  /** Names of the states that the column `state` numbers. */
  readonly states: ReadonlyArray<string>;
};

export type AllocatorTables = {
  readonly memory_allocator: Table;
};

/** Tables of a document, by name. */
export type AnyTables = Readonly<Record<string, Table>>;

/** Memory in use if suggestions were followed. */
export type AppliedDocument = {
  readonly schema: string;
  readonly traces: ReadonlyArray<TraceInfo>;
  readonly tables: AppliedTables;
  readonly read_report: ReadonlyArray<TraceReport>;
  readonly memory: MemorySummary;
  readonly page: AppliedPage;
};

/** Predicted peaks with some suggestions applied; the predicted memory in use is in the columns. */
export type AppliedPage = {
  readonly device: number;
  /** Numbers of the suggestions, from 1. */
  readonly numbers: ReadonlyArray<number>;
  readonly peaks: ReadonlyArray<AtPeak>;
};

export type AppliedTables = {
  readonly memory_applied: Table;
};

/** Bytes in use at a memory peak, without and with suggestions applied. */
export type AtPeak = {
  readonly name: string;
  readonly device: number;
  readonly before: number;
  /** Below 0 if more is saved than there was. */
  readonly after: number;
};

/** Value of an argument of an event. */
export type Attribute = string | number | null;

/** Summary of an event; times in ns, `start` since the start of the trace. */
export type Brief = {
  readonly event: number;
  readonly name: string;
  readonly kind: string;
  readonly start: number;
  readonly dur: number;
  readonly track: number;
};

/** Summary of a memory call: its number, kind, name and source location. */
export type CallBrief = {
  readonly call: number;
  readonly kind: string;
  readonly name: string | null;
  readonly place: PlaceOf;
};

/** Everything known about one memory call. */
export type CallDetail = {
  readonly call: CallBrief;
  readonly stream: string;
  /** Start in ns since the first call; null without times. */
  readonly start: number | null;
  readonly duration: number;
  /** The call may access memory that is not listed. */
  readonly is_opaque: boolean;
  readonly object: CallObject | null;
  readonly accesses: ReadonlyArray<Access>;
  /** Accesses that are left out. */
  readonly left_out: number;
  readonly path: ReadonlyArray<MemoryFrame>;
};

/** The object that a call allocates or frees: its number, name and bytes. */
export type CallObject = readonly [number, string, number];

/** Call tree view by one metric, below one row; the boxes are in the columns. */
export type Calls = {
  /** Name of the metric. */
  readonly metric: string;
  /** Name of the metric for people. */
  readonly title: string;
  /** Unit of its sums. */
  readonly unit: string;
  /** Sum over the whole run or the chosen part of it. */
  readonly total: number;
  /** In a comparison, the sum of the baseline. */
  readonly before: number | null;
  /** Nodes of the whole view. */
  readonly nodes: number;
  /** Nodes below the root that are too narrow to have a box. */
  readonly left_out: number;
  /** Name and title of each metric that was measured. */
  readonly metrics: ReadonlyArray<readonly [string, string]>;
  /** Self time of functions is split over lines by estimate. */
  readonly guessed: boolean;
  /** In a comparison, how many steps each side covers; 0 where it has no steps. */
  readonly steps: ComparedSteps | null;
  /** Row and name of each frame from below the root of the view to the root of this answer. */
  readonly path: ReadonlyArray<readonly [number, string]>;
  readonly labels: ReadonlyArray<Label>;
};

/** Lookup tables for the columns of memory calls. */
export type CallsDocument = {
  /** Level of the boxes. */
  readonly level: number;
  /** Names that the column `name` numbers. */
  readonly texts: ReadonlyArray<string>;
};

/** Clock offset of a device: bounds of the required shift of its times, and the applied shift. */
export type Clock = {
  readonly device: number;
  readonly least_ns: number | null;
  readonly most_ns: number | null;
  readonly shift_ns: number | null;
  readonly applied_ns: number;
  readonly contradictory: boolean;
  readonly early: number;
  readonly late: number;
};

/** Peak memory of a device in bytes; null where a run has no data about the device. */
export type ComparedPeak = {
  readonly device: string;
  readonly before: number | null;
  readonly after: number | null;
};

/** Number of steps that each side of a comparison covers. */
export type ComparedSteps = {
  readonly before: number;
  readonly after: number;
};

/** Output of `stackline diff --format json`. */
export type Comparison = {
  readonly schema: string;
  readonly traces: ReadonlyArray<TraceInfo>;
  readonly tables: AnyTables;
  readonly read_report: ReadonlyArray<TraceReport>;
  readonly before: readonly [string];
  readonly after: readonly [string];
  readonly method: string;
  /** Unit of times: per `step`, per `run` without steps, or per `call` if runs without steps have different numbers of calls. */
  readonly per: string;
  /** Share of false alarms that is accepted, in percent. */
  readonly level_percent: number;
  readonly kernels_by: string;
  readonly confidence: string;
  /** Sentences on lost and untested times, and on limits of the comparison. */
  readonly warnings: ReadonlyArray<string>;
  readonly notes: ReadonlyArray<string>;
};

/** Description of a counter: its name, if it counts bytes, and its range of values over the whole trace. */
export type Counter = {
  readonly name: string;
  readonly bytes: boolean;
  readonly least: number;
  readonly most: number;
};

/** The counters of a trace; their values are in the columns. */
export type CounterDocument = {
  readonly counters: ReadonlyArray<Counter>;
  /** Counters that are left out. */
  readonly more: number;
  /** Values of the listed counters that are left out. */
  readonly left_out: number;
};

/** JSON document of one trace's critical path by both methods (exact and HTA's), and of the times before and after the steps. */
export type CriticalPath = {
  readonly rank: number;
  readonly exact: ExactSummary;
  readonly start_up?: StartUpTime;
  readonly after_steps?: AfterStepsTime;
};

/** Memory curves of a device over the calls; the values are in the columns. */
export type CurveDocument = {
  readonly device: number;
  /** Names of the curves that the column `curve` numbers. */
  readonly curves: ReadonlyArray<string>;
  /** The highest value of each curve. */
  readonly most: ReadonlyArray<number>;
  readonly has_reserved: boolean;
};

/** Device of a memory trace; `total_bytes` is its capacity, 0 if unknown. */
export type Device = {
  readonly device: number;
  readonly name: string;
  readonly total_bytes: number;
};

/** Peak memory of a device in bytes, now and with all suggestions applied; null if unknown. */
export type DevicePeak = {
  readonly device: string;
  readonly bytes: number;
  readonly mended_bytes: number | null;
};

/** Everything known about one event. */
export type EventDetail = {
  readonly event: Brief;
  readonly category: string;
  readonly track: number;
  /** Number of the step in which the event begins. */
  readonly step: number | null;
  readonly place: EventPlace;
  /** Name and value of each argument. */
  readonly arguments: ReadonlyArray<readonly [string, Attribute]>;
  /** Events around it on its track, the innermost first. */
  readonly enclosing: ReadonlyArray<Brief>;
  /** Of work on a GPU, the call that launched it. */
  readonly launch: Brief | null;
  /** Of work on a GPU, the operator that it belongs to. */
  readonly operator: Brief | null;
  /** Work on GPUs that the event launched. */
  readonly launched: ReadonlyArray<Brief>;
  /** Of work on a GPU, its launch (or else its operator) is called from these, the innermost first. */
  readonly callers: ReadonlyArray<Brief>;
};

/** Source location of an event. */
export type EventPlace = {
  readonly file: string | null;
  readonly line: number | null;
  readonly function: string | null;
  readonly module: string | null;
  readonly operator: string | null;
  /** All of it for people. */
  readonly text: string;
};

/** An event: its number, name, kind, start in ns since the start of the trace, and duration in ns. */
export type EventRow = readonly [number, string, string, number, number];

/** JSON document of the exact critical path, or the error if there is none. */
export type ExactSummary = FoundPath | { error: string };

/** Code before and after the change that a rule suggests. */
export type Example = {
  readonly before: string;
  readonly after: string;
};

/** Source lines around one line of a file; without lines if the file cannot be read. */
export type Excerpt = {
  readonly file: string;
  readonly line: number;
  /** Number of the first of the lines. */
  readonly first?: number;
  readonly lines?: ReadonlyArray<string>;
  readonly missing: boolean;
  /** The file was written after the recording; null if unknown. */
  readonly changed?: boolean | null;
};

/** A check that failed, as `stackline check` names it. */
export type FailedCheck = {
  /** Name of the check. */
  readonly check: string;
  /** Number of events that violate it. */
  readonly count: number;
  /** Consequence for results. */
  readonly consequence: string;
};

/** Source file with its exclusive sums, in the order of the metrics. */
export type FileCost = {
  readonly file: string;
  readonly exclusive: ReadonlyArray<number>;
};

/** Lines of a file with a nonzero cost by one metric. */
export type FileLines = {
  readonly metric: Metric;
  readonly lines: ReadonlyArray<LineCost>;
};

/** One finding with its evidence and its source. */
export type FindingDetail = {
  /** Position in the list of findings. */
  readonly at: number;
  /** Of several ranks, the one whose events are listed. */
  readonly rank: number | null;
  readonly code: string;
  readonly about: string;
  readonly why: string;
  /** Documentation of the rule, as Markdown; null for Python rules. */
  readonly page: string | null;
  readonly example: Example | null;
  /** Name, value and unit of each supporting fact. */
  readonly facts: ReadonlyArray<readonly [string, number, string]>;
  readonly events: ReadonlyArray<EventRow>;
  readonly events_total: number;
  readonly excerpt: Excerpt | null;
};

/** Output of `stackline findings --format json`, with additional keys for the page. */
export type Findings = {
  readonly schema: string;
  readonly traces: ReadonlyArray<TraceInfo>;
  readonly tables: FindingsTables;
  readonly read_report: ReadonlyArray<TraceReport>;
  /** Length of a step in ns. */
  readonly step_ns: number;
  /** Number of analyzed steps. */
  readonly steps: number;
  /** Part of `step_ns` between steps; null without steps, or if it is little. */
  readonly between_ns: number | null;
  /** Window of the findings as text; null without a trace. */
  readonly window: string | null;
  /** Combined gain of all findings per step. */
  readonly combined: Gain | null;
  /** Ranks that were analyzed together; empty for one rank. */
  readonly ranks: ReadonlyArray<RankTimes>;
  readonly peaks: ReadonlyArray<DevicePeak>;
  readonly uncovered: Uncovered;
  /** Candidates whose gain is too small for a finding. */
  readonly left_out: number;
  readonly notes: ReadonlyArray<string>;
  /** The rules that could be checked. */
  readonly rules: ReadonlyArray<Rule>;
  /** Findings with a gain below the limit, largest first. */
  readonly nearest: ReadonlyArray<NearMiss>;
  /** Uncovered time as text: a sentence before the groups of a rank or of several, and a line for each group (`- `). */
  readonly uncovered_text: ReadonlyArray<string>;
  /** Steps end when their launched GPU work ends. */
  readonly with_gpu_work: boolean;
  /** Of call trees: times are those of one thread. */
  readonly is_of_calls: boolean;
  /** The overhead of recording is subtracted from the step length. */
  readonly subtracts_recording: boolean;
};

export type FindingsTables = {
  readonly findings: Table;
  readonly not_checked: Table;
};

/** Found frame of the call tree, with its inclusive sum of the first metric. */
export type FoundFrame = {
  readonly kind: string;
  readonly name: string;
  readonly file: string;
  readonly inclusive: number;
  readonly unit: string;
};

/** Found event name: number and total time (ns) of its events, and the first event with its start since the start of the trace. */
export type FoundName = {
  readonly name: string;
  readonly kind: string;
  readonly count: number;
  readonly ns: number;
  readonly event: number;
  readonly start: number;
  readonly dur: number;
};

/** JSON summary of a critical path: window, length and causes of its time. */
export type FoundPath = {
  /** Window of the path as text: `steps 3 to 9`, `the inferred steps`, `the whole trace`. */
  readonly window: string;
  readonly window_ns: number;
  /** Notes on excluded parts of the window and on inferred steps. */
  readonly window_notes: ReadonlyArray<string>;
  readonly path_ns: number;
  readonly path_events: number;
  /** Percent of the window by cause; causes without time are left out. */
  readonly bound_by: Readonly<Record<string, number>>;
  /** The same in ns. */
  readonly bound_by_ns: Readonly<Record<string, number>>;
  /** Time in ns whose cause is inferred, not recorded. */
  readonly inferred_ns: number;
  readonly warnings: ReadonlyArray<{ readonly code: string; readonly count: number }>;
  readonly large_calls: ReadonlyArray<LargeCallShare>;
};

/** Details of a frame in a call tree view: its path, and its sums by every metric. */
export type FrameDetail = {
  /** Frames from below the root of the view to the node. */
  readonly path: ReadonlyArray<Label>;
  /** Number of calls of the frame; null if not counted. */
  readonly calls: number | null;
  readonly metrics: ReadonlyArray<FrameMetric>;
};

/** Sums of one metric at a node of the call tree; null for callers below the depth of the view. */
export type FrameMetric = {
  readonly name: string;
  readonly title: string;
  readonly unit: string;
  readonly total: number;
  readonly inclusive: number | null;
  readonly exclusive: number | null;
};

/** An estimated gain in ns with its bounds. */
export type Gain = {
  readonly ns: number;
  readonly low_ns: number;
  readonly high_ns: number;
};

/** A GPU, as the file describes it. */
export type Gpu = {
  readonly id: number | null;
  readonly name: string | null;
  readonly memory_bytes: number | null;
  readonly multiprocessors: number | null;
};

/** GPU work during a group of waits: its share of their time in percent, and the names with most of it. */
export type GpuWorkMeanwhile = {
  readonly percent: number;
  readonly longest: ReadonlyArray<Meanwhile>;
};

/** Flags for the kinds of data that the run has. */
export type Has = {
  readonly timeline: boolean;
  readonly events: boolean;
  readonly steps: boolean;
  readonly gpu: boolean;
  readonly python: boolean;
  readonly memory: boolean;
};

/** Live memory at each peak by owner. */
export type HoldersDocument = {
  readonly schema: string;
  readonly traces: ReadonlyArray<TraceInfo>;
  readonly tables: HoldersTables;
  readonly read_report: ReadonlyArray<TraceReport>;
  readonly memory: MemorySummary;
  readonly page: HoldersPage;
};

/** Additional JSON keys of the memory owners: the selectable groupings. */
export type HoldersPage = {
  readonly by: ReadonlyArray<string>;
};

export type HoldersTables = {
  readonly memory_at_peak: Table;
};

/** A frame: its kind, name, tensor inputs, file, line (0 without one) and short name. */
export type Label = readonly [string, string, string, string, number, string];

/** Timeline lane of a track with events, and its number of rows; only streams have a device and a stream number. */
export type Lane = {
  readonly track: number;
  readonly kind: string;
  readonly process: string;
  readonly process_name: string;
  readonly thread: string;
  readonly name: string;
  readonly device: number | null;
  readonly stream: number | null;
  readonly events: number;
  readonly rows: number;
};

/** Timeline lanes of a trace, with the origin of times and the size of tiles. */
export type Lanes = {
  /** Start of the trace in ns since 1970, or in its own time base, as text. All other times count from here. */
  readonly origin: string;
  /** Length of the trace in ns. */
  readonly length: number;
  /** Buckets of a tile. */
  readonly buckets: number;
  /** Names of the kinds that the column `kind` of `tiles` numbers. */
  readonly kinds: ReadonlyArray<string>;
  readonly whole: Whole;
  /** True if the trace has imports of modules, of which `imports=all` shows all frames. */
  readonly has_imports: boolean;
  readonly lanes: ReadonlyArray<Lane>;
};

/** Large calls of one name: their number, and their share of the window and of the critical path, in percent. */
export type LargeCallShare = {
  readonly name: string;
  readonly count: number;
  readonly percent: number;
  readonly path_percent: number;
};

/** Group of events of one name that take much time and that no finding covers. */
export type LargeGroup = {
  readonly kind: string;
  readonly rank: number | null;
  readonly name: string;
  readonly file: string | null;
  readonly line: number | null;
  readonly function: string | null;
  readonly place_percent: number | null;
  readonly count: number;
  readonly percent: number;
  readonly path_percent: number;
  readonly wait_percent: number;
  readonly meanwhile: Meanwhile | null;
  /** Of waits the GPU work that runs for most of their time. */
  readonly gpu_work: GpuWorkMeanwhile | null;
  /** Of time without recorded calls its longest gap, in ns, if that is most of several. */
  readonly longest_gap_ns: number | null;
  readonly advice: string;
  readonly gain: Gain | null;
  readonly edits: ReadonlyArray<string>;
};

/** Costs of a source line: line number, function, inclusive sum, exclusive sum, and estimated part of the exclusive sum. */
export type LineCost = readonly [number, string, number, number, number];

/** Number of dropped records of one kind. */
export type Lost = {
  readonly what: string;
  readonly count: number;
};

/** Concurrent work during a group of events, and its share of their time in percent. */
export type Meanwhile = {
  readonly name: string;
  readonly percent: number;
};

/** Measured values of a matched pattern, by kind of pattern. */
export type MeasureOf = { touched: number, largest_hole: number, fragmentation: number } | { variation: number, histogram: ReadonlyArray<readonly [number, number]> } | { left_in: number, rounds: number, per_round: number | null, round: string | null } | { slices: number, largest: number };

/** Description of a run that is only a memory file: its label and missing records. */
export type MemoryFile = {
  readonly label: string;
  readonly report: ReadReport;
};

/** A frame of a call path: its function, file and line (0 without one). */
export type MemoryFrame = readonly [string | null, string | null, number];

/** Devices, peaks and waste of memory. */
export type MemoryOverview = {
  readonly schema: string;
  readonly traces: ReadonlyArray<TraceInfo>;
  readonly tables: MemoryTables;
  readonly read_report: ReadonlyArray<TraceReport>;
  readonly memory: MemorySummary;
  readonly page: MemoryPage;
};

/** Data of the Memory page: devices, peaks, streams, phases and numbers of items. */
export type MemoryPage = {
  /** Number of calls: where curves and lives end. */
  readonly end: number;
  readonly whole: Whole;
  /** Buckets of a tile. */
  readonly buckets: number;
  /** Calls have times. */
  readonly has_times: boolean;
  /** Names of the kinds of calls that the column `kind` of `memory-calls` numbers. */
  readonly kinds: ReadonlyArray<string>;
  /** Names of the reasons that the column `waste_why` of `memory-objects` numbers. */
  readonly why: ReadonlyArray<string>;
  readonly devices: ReadonlyArray<Device>;
  readonly peaks: ReadonlyArray<Peak>;
  readonly lanes: ReadonlyArray<StreamLane>;
  readonly streams_left_out: number;
  readonly calls_left_out: number;
  readonly phases: ReadonlyArray<Phase>;
  /** Number of suggestions to show. */
  readonly suggestions: number;
  readonly has_segments: boolean;
  /** Requests that failed for lack of memory. */
  readonly out_of_memory: number;
};

/** Peak memory of each device, in both runs. */
export type MemoryPeaks = {
  readonly devices: ReadonlyArray<ComparedPeak>;
};

/** Summary of a memory trace: devices, and numbers of calls, objects, accesses and segments. */
export type MemorySummary = {
  readonly label: string;
  readonly devices: ReadonlyArray<string>;
  readonly calls: number;
  readonly objects: number;
  readonly accesses: number;
  readonly segments: number;
  readonly has_accesses: boolean;
  readonly saw_end: boolean;
};

export type MemoryTables = {
  readonly memory_peaks: Table;
  readonly memory_composition?: Table;
  readonly memory_out_of_memory?: Table;
  readonly memory_waste?: Table;
};

/** Description of the run: its traces, recording, memory file, kinds of data and possible queries. */
export type Meta = {
  readonly name: string;
  /** Identity of the content: answers are kept by it. */
  readonly hash: string;
  readonly version: string;
  readonly traces: ReadonlyArray<TraceMeta>;
  readonly recording: RecordingMeta | null;
  /** A file of memory data alone. */
  readonly memory: MemoryFile | null;
  readonly has: Has;
  /** Working directory of the server, the base of relative paths. */
  readonly folder: string | null;
  /** Name of the run that it is compared with. */
  readonly baseline: string | null;
  readonly queries: ReadonlyArray<QueryMeta>;
};

/** Metric of the call tree: its name, its title for readers, and the unit of its sums. */
export type Metric = {
  readonly name: string;
  readonly title: string;
  readonly unit: string;
};

/** Candidate whose gain is too small for a finding, in percent of a step or of a device's peak memory. */
export type NearMiss = {
  readonly code: string;
  readonly title: string;
  readonly place: string;
  readonly percent: number;
};

/** Details of one memory object: allocation, free, accesses, waste and suggestions. */
export type ObjectDetail = {
  readonly object: number;
  readonly name: string;
  readonly bytes: number;
  readonly requested: number;
  readonly device: string;
  readonly stream: string;
  readonly kind: string;
  readonly module: string | null;
  readonly operator: string | null;
  readonly dtype: string | null;
  readonly shape: string | null;
  readonly pool: string | null;
  readonly allocated: CallBrief | null;
  readonly freed: CallBrief | null;
  readonly first_use: CallBrief | null;
  readonly last_use: CallBrief | null;
  readonly uses: number;
  readonly fills: number;
  readonly evidence: string;
  readonly has_accesses: boolean;
  readonly saw_end: boolean;
  /** First call, and the one after the last, at which it takes memory. */
  readonly life: readonly [number, number];
  readonly place: PlaceOf;
  readonly path: ReadonlyArray<MemoryFrame>;
  readonly patterns: ReadonlyArray<PatternOf>;
  readonly waste: ReadonlyArray<WasteOf>;
  readonly waste_all: number;
  readonly suggestions: ReadonlyArray<SuggestionOf>;
  readonly accesses: ReadonlyArray<AccessBy>;
  readonly accesses_all: number;
};

/** Memory objects of a device; objects with rows, their accesses and their waste are in the columns. */
export type ObjectsDocument = {
  readonly device: number;
  /** Names that the columns `name` and `place` number. */
  readonly texts: ReadonlyArray<string>;
  readonly objects: number;
  readonly bytes: number;
  /** Objects without a row of their own. */
  readonly folded: number;
  readonly folded_bytes: number;
  /** Objects without a row of their own by size, the largest first. */
  readonly classes: ReadonlyArray<SizeClass>;
  readonly has_accesses: boolean;
  /** Unit of the column `wasted`. */
  readonly wasted_in: string;
};

/** Another memory object that a pattern involves: its number and name. */
export type OtherObject = readonly [number, string];

/** Output of `stackline report --format json`. */
export type Overview = {
  readonly schema: string;
  readonly traces: ReadonlyArray<TraceInfo>;
  readonly tables: AnyTables;
  readonly read_report: ReadonlyArray<TraceReport>;
  /** Critical path of each trace; absent with `only=first`. */
  readonly critical_path?: ReadonlyArray<CriticalPath>;
  /** Failed checks on which tables and findings depend; absent with `only=first`. */
  readonly failed_checks?: ReadonlyArray<FailedCheck>;
  /** Reason why the traces are not ranks of one job; absent without a contradiction, and with `only=first`. */
  readonly rank_conflict?: string;
};

/** Critical path in a window: time by cause; the segments are in the columns. */
export type PathDocument = {
  /** Window of the path as text: `steps 3 to 9`, `the inferred steps`, `the whole trace`. */
  readonly window: string;
  /** Notes on excluded parts of the window and on inferred steps. */
  readonly notes: ReadonlyArray<string>;
  /** Start and end of the window in ns since the start of the trace. */
  readonly start: number;
  readonly end: number;
  /** Time in ns whose cause is inferred, not recorded. */
  readonly inferred: number;
  /** Cause and ns, for each cause. */
  readonly categories: ReadonlyArray<readonly [string, number]>;
  /** Names of the causes that the column `category` numbers. */
  readonly causes: ReadonlyArray<string>;
  /** Names that the column `name` numbers. */
  readonly texts: ReadonlyArray<string>;
  /** Segments of the whole path. */
  readonly segments: number;
  /** Segments that are left out: the shortest. */
  readonly left_out: number;
};

/** Pattern of inefficient memory use that the object matches. */
export type PatternOf = {
  readonly pattern: string;
  readonly short: string;
  readonly certainty: string;
  readonly kernels: number;
  readonly distance: number | null;
  readonly times: number;
  readonly bytes: number;
  /** Calls between which memory is wasted. */
  readonly from: number | null;
  readonly to: number | null;
  readonly other: OtherObject | null;
  readonly measure: MeasureOf | null;
};

/** Peak of the memory in use: bytes, and the call that reaches it. */
export type Peak = {
  readonly name: string;
  readonly device: number;
  readonly call: number;
  readonly bytes: number;
};

/** Phase of the program in a memory trace: first call, and the call after the last. */
export type Phase = {
  readonly name: string | null;
  readonly first: number;
  readonly end: number;
};

/** Source location of a memory call: the most informative frame of its call path. */
export type PlaceOf = {
  readonly text: string;
  readonly file: string | null;
  readonly line: number | null;
};

/** Diagnostic of reading a trace: repaired, skipped or lost records of one kind. */
export type Problem = {
  readonly code: string;
  readonly severity: Severity;
  readonly message: string;
  readonly count: number;
  /** Offsets of the first occurrences in bytes. */
  readonly offsets: ReadonlyArray<number>;
  readonly example: string;
  readonly more?: ReadonlyArray<string>;
};

/** Description of a process of a recording. */
export type Process = {
  readonly pid: number;
  readonly role: string;
  readonly rank: number | null;
  readonly lasted_ns: number | null;
  readonly command: ReadonlyArray<string>;
  readonly python: string;
  readonly torch: string;
  readonly sources: ReadonlyArray<RecordedSource>;
  readonly lost: ReadonlyArray<Lost>;
};

/** Description of a query that the page can ask: name, purpose and arguments. */
export type QueryMeta = {
  readonly name: string;
  readonly about: string;
  readonly arguments: ReadonlyArray<string>;
};

/** Events in a time range, by track and by name. */
export type Range = {
  readonly tracks: ReadonlyArray<RangeTrack>;
  /** Names with most time, the longest first. */
  readonly names: ReadonlyArray<RangeName>;
  /** Names that `name` numbers. */
  readonly texts: ReadonlyArray<string>;
  /** Names that are left out. */
  readonly left_out: number;
};

/** Events of one name in a time range, on GPUs or elsewhere. */
export type RangeName = {
  readonly name: number;
  readonly gpu: boolean;
  readonly count: number;
  readonly ns: number;
};

/** A track in a time range: ns in which any of its events runs, and how many there are. */
export type RangeTrack = {
  readonly track: number;
  readonly busy: number;
  readonly events: number;
};

/** Times of a rank: length of a step in ns, number of steps, and ns per step in which only collectives run. */
export type RankTimes = {
  readonly rank: number;
  readonly step_ns: number;
  readonly steps: number;
  readonly collectives_alone_ns: number | null;
};

/** Repaired, skipped and lost records. */
export type ReadReport = {
  readonly bytes: number;
  readonly records: number;
  readonly events: number;
  readonly problems: ReadonlyArray<Problem>;
};

/** Data source of a recording: if it was active, and details or the reason. */
export type RecordedSource = {
  readonly name: string;
  readonly on: boolean;
  readonly detail: string;
};

/** Cost to record an operator, as measured during the recording. */
export type RecordingCost = {
  readonly operator_ns: number;
  readonly torch_ns: number | null;
  readonly measured: number;
  readonly operators: number;
};

/** Description of a recording of totals per call path. */
export type RecordingMeta = {
  readonly processes: ReadonlyArray<Process>;
  readonly threads: number;
  readonly nodes: number;
  readonly report: ReadReport;
};

/** Row of a table: values by column name. */
export type Row = Readonly<Record<string, string | number | boolean | null>>;

/** Description of a checked rule, with its thresholds for `--set`: name, value, meaning. */
export type Rule = {
  readonly code: string;
  readonly name: string;
  readonly about: string;
  readonly thresholds: ReadonlyArray<readonly [string, number, string]>;
};

/** The documentation of a rule, as Markdown. */
export type RulePage = {
  readonly code: string;
  readonly page: string;
};

/** Names of events, frames and source files that contain a text. */
export type SearchAnswer = {
  readonly text: string;
  readonly names: ReadonlyArray<FoundName>;
  /** Names of events that are left out. */
  readonly left_out: number;
  readonly frames: ReadonlyArray<FoundFrame>;
  readonly files: ReadonlyArray<string>;
  /** Similar names, where none contains the text. */
  readonly nearest: ReadonlyArray<string>;
};

/** A segment of the caching allocator. */
export type Segment = {
  readonly address: string;
  readonly bytes: number;
  readonly small: boolean;
  readonly expandable: boolean;
  readonly stream: string;
  readonly pool: string | null;
  readonly device: number;
};

export type Severity = "note" | "repaired" | "skipped" | "lost";

/** Number and bytes of the objects in a size class, from `from` bytes to less than twice as many. */
export type SizeClass = {
  readonly from: number;
  readonly objects: number;
  readonly bytes: number;
};

/** Answer to the source query: all source files, or one of them with the costs of its lines. */
export type Source = SourceFiles | SourceFile;

/** A source file with the costs of its lines. */
export type SourceFile = {
  readonly file: string;
  readonly text: string | null;
  readonly missing: boolean;
  /** The file was written after the recording; null if unknown. */
  readonly changed: boolean | null;
  readonly costs: ReadonlyArray<FileLines>;
};

/** Source files of a run, with the exclusive sum of each metric over their lines. */
export type SourceFiles = {
  readonly metrics: ReadonlyArray<Metric>;
  readonly files: ReadonlyArray<FileCost>;
};

/** Time before the first step, and the part of it in imports, in ns. */
export type StartUpTime = {
  readonly before_ns: number;
  readonly imports_ns: number | null;
};

/** Stream of a memory trace with its number of calls, in total and of each kind. */
export type StreamLane = {
  readonly stream: number;
  readonly name: string;
  readonly calls: number;
  readonly kinds: ReadonlyArray<number>;
};

/** Suggestion for one memory object, with the number of the suggestion that includes it. */
export type SuggestionOf = {
  readonly number: number;
  readonly what: string;
  readonly action: string;
  readonly against: string | null;
  readonly bytes: number;
  readonly certainty: string;
  readonly copy_ns: number;
  readonly cost_ns: number | null;
  readonly peaks: ReadonlyArray<AtPeak>;
  /** Objects that the whole suggestion is about. */
  readonly shared: number;
};

/** Suggested changes with their savings. */
export type SuggestionsDocument = {
  readonly schema: string;
  readonly traces: ReadonlyArray<TraceInfo>;
  readonly tables: SuggestionsTables;
  readonly read_report: ReadonlyArray<TraceReport>;
  readonly memory: MemorySummary;
  readonly page: SuggestionsPage;
};

/** Additional JSON keys of the list of memory suggestions; the suggestions are rows of the table. */
export type SuggestionsPage = {
  /** Number of suggestions to show. */
  readonly all: number;
  /** Suggestions that save nothing. */
  readonly nothing: number;
  /** Numbers of those that together lower the peak most. */
  readonly combination: ReadonlyArray<number>;
  /** Objects of each row. */
  readonly objects: ReadonlyArray<ReadonlyArray<number>>;
};

export type SuggestionsTables = {
  readonly memory_suggestions: Table;
};

/** A table of an analysis. */
export type Table = {
  readonly title: string;
  readonly columns: ReadonlyArray<TableColumn>;
  readonly rows: ReadonlyArray<Row>;
  readonly notes: ReadonlyArray<string>;
};

/** A column of a table: its name, and the unit of its numbers. */
export type TableColumn = {
  readonly name: string;
  readonly unit: string;
};

/** Lookup tables for the columns of tiles. */
export type TileDocument = {
  /** Names that the column `name` numbers. */
  readonly texts: ReadonlyArray<string>;
  /** Level of the boxes. */
  readonly level: number;
  /** Boxes that are left out. */
  readonly left_out: number;
};

/** Identity and size of a trace. */
export type TraceInfo = {
  readonly name: string;
  readonly format: string;
  readonly rank: number;
  /** The file contains the rank; otherwise it is the position among the inputs. */
  readonly rank_from_file: boolean;
  readonly world_size: number | null;
  readonly events: number;
  readonly gpu_operations: number;
  readonly steps: number;
  /** Time in ns since 1970 from which `start_ns` and `end_ns` count; 0 if the file has none. */
  readonly base_ns: number;
  readonly start_ns: number | null;
  readonly end_ns: number | null;
  readonly gpus: ReadonlyArray<Gpu>;
};

/** Description of one trace of the run: steps, environment, clocks and missing records. */
export type TraceMeta = {
  readonly info: TraceInfo;
  /** Number, start and end of each step, in ns since the start of the trace. */
  readonly steps: ReadonlyArray<readonly [number, number, number]>;
  /** First and last of the steps that findings look at: all but first ones that warm up. */
  readonly chosen: readonly [number, number] | null;
  /** Key and value. */
  readonly environment: ReadonlyArray<readonly [string, string]>;
  readonly clocks: ReadonlyArray<Clock>;
  readonly recording_cost: RecordingCost | null;
  readonly report: ReadReport;
};

/** Repaired, skipped and lost records of one trace. */
export type TraceReport = {
  readonly trace: string;
  readonly bytes: number;
  readonly records: number;
  readonly events: number;
  readonly problems: ReadonlyArray<Problem>;
};

/** Time that no finding covers: percent that findings cover, and the largest groups of uncovered events. */
export type Uncovered = {
  readonly covered_percent: number | null;
  readonly groups: ReadonlyArray<LargeGroup>;
};

/** Wasted range of an object's lifetime: reason, first call, and the call after the last. */
export type WasteOf = readonly [string, number, number];

/** Level and tile range of the query for all tiles of a timeline, which a report embeds. */
export type Whole = {
  readonly level: number;
  readonly first: number;
  readonly last: number;
};

/** The document of each query. */
export interface Answers {
  readonly "calls": Calls;
  readonly "compare": Comparison;
  readonly "compare-memory": MemoryPeaks;
  readonly "counters": CounterDocument;
  readonly "event": EventDetail;
  readonly "excerpt": Excerpt;
  readonly "finding": FindingDetail;
  readonly "findings": Findings;
  readonly "frame": FrameDetail;
  readonly "lanes": Lanes;
  readonly "memory": MemoryOverview;
  readonly "memory-allocator": AllocatorDocument;
  readonly "memory-apply": AppliedDocument;
  readonly "memory-call": CallDetail;
  readonly "memory-calls": CallsDocument;
  readonly "memory-curve": CurveDocument;
  readonly "memory-holders": HoldersDocument;
  readonly "memory-object": ObjectDetail;
  readonly "memory-objects": ObjectsDocument;
  readonly "memory-suggestions": SuggestionsDocument;
  readonly "meta": Meta;
  readonly "overview": Overview;
  readonly "path": PathDocument;
  readonly "range": Range;
  readonly "rule": RulePage;
  readonly "search": SearchAnswer;
  readonly "source": Source;
  readonly "tiles": TileDocument;
}

/** The columns of the queries that have any: each comes as the smallest type that holds its numbers. */
export type Columns = {
  readonly "calls": { readonly row: Column; readonly parent: Column; readonly depth: Column; readonly label: Column; readonly inclusive: Column; readonly exclusive: Column; readonly calls: Column; readonly before?: Column };
  readonly "counters": { readonly counter: Column; readonly start: Column; readonly low: Column; readonly high: Column; readonly last: Column };
  readonly "memory-allocator": { readonly segment: Column; readonly offset: Column; readonly bytes: Column; readonly state: Column; readonly object: Column };
  readonly "memory-apply": { readonly curve: Column; readonly start: Column; readonly low: Column; readonly high: Column; readonly last: Column };
  readonly "memory-calls": { readonly lane: Column; readonly kind: Column; readonly start: Column; readonly length: Column; readonly count: Column; readonly name: Column };
  readonly "memory-curve": { readonly curve: Column; readonly start: Column; readonly low: Column; readonly high: Column; readonly last: Column };
  readonly "memory-objects": { readonly object: Column; readonly bytes: Column; readonly from: Column; readonly to: Column; readonly open: Column; readonly kind: Column; readonly uses: Column; readonly wasted: Column; readonly name: Column; readonly place: Column; readonly tick_lane: Column; readonly tick_at: Column; readonly tick_mode: Column; readonly tick_count: Column; readonly waste_lane: Column; readonly waste_from: Column; readonly waste_to: Column; readonly waste_why: Column };
  readonly "path": { readonly start: Column; readonly end: Column; readonly category: Column; readonly track: Column; readonly event: Column; readonly name: Column };
  readonly "tiles": { readonly track: Column; readonly depth: Column; readonly start: Column; readonly length: Column; readonly busy: Column; readonly event: Column; readonly count: Column; readonly name: Column; readonly kind: Column };
};
