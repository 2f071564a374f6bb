/**
 * Answers of queries. Generated from crates/query; to regenerate:
 * STACKLINE_UPDATE_TYPES=1 cargo test -p stackline-query typescript_types
 */

import type { Column } from "../transport/decode";

/** An access of a call. */
export type Access = {
  readonly object: number;
  readonly name: string;
  readonly bytes: number;
  readonly mode: string;
  readonly evidence: string;
};

/** A call that accesses the object. */
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

/** Tables by their names. */
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

/** Effect of suggestions; the memory in use with them is in the columns. */
export type AppliedPage = {
  readonly device: number;
  /** Numbers of the suggestions, from 1. */
  readonly numbers: ReadonlyArray<number>;
  readonly peaks: ReadonlyArray<AtPeak>;
};

export type AppliedTables = {
  readonly memory_applied: Table;
};

/** Bytes in use at a peak, before and after a change. */
export type AtPeak = {
  readonly name: string;
  readonly device: number;
  readonly before: number;
  /** Below 0 if more is saved than there was. */
  readonly after: number;
};

/** Value of an argument. */
export type Attribute = string | number | null;

/** An event in short; times in ns, `start` since the start of the trace. */
export type Brief = {
  readonly event: number;
  readonly name: string;
  readonly kind: string;
  readonly start: number;
  readonly dur: number;
  readonly track: number;
};

/** A memory call in short. */
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

/** A view of the call tree; its boxes are in the columns. */
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

/** Clock offset of a device: lower and upper bound of the shift that its times need. */
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

/** Steps that both sides of a comparison cover. */
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

/** A counter: its name, whether it counts bytes, and its range over the whole trace. */
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

/** The critical path of one trace. */
export type CriticalPath = {
  readonly rank: number;
  readonly exact: ExactSummary;
  readonly start_up?: StartUpTime;
  readonly after_steps?: AfterStepsTime;
};

/** Memory of a device over the calls; the values are in the columns. */
export type CurveDocument = {
  readonly device: number;
  /** Names of the curves that the column `curve` numbers. */
  readonly curves: ReadonlyArray<string>;
  /** The highest value of each curve. */
  readonly most: ReadonlyArray<number>;
  readonly has_reserved: boolean;
};

/** A device; `total_bytes` is 0 where it is not known. */
export type Device = {
  readonly device: number;
  readonly name: string;
  readonly total_bytes: number;
};

/** Peak memory of a device, as it is and with all suggestions; null where that is not known. */
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

/** The path by the exact method, or why there is none. */
export type ExactSummary = FoundPath | { error: string };

/** Code before and after the change that a rule suggests. */
export type Example = {
  readonly before: string;
  readonly after: string;
};

/** The lines around one of a source file; without them, if the file cannot be read. */
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

/** A source file: exclusive sums, in the order of the metrics. */
export type FileCost = {
  readonly file: string;
  readonly exclusive: ReadonlyArray<number>;
};

/** Lines of a file that have any of a metric. */
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
  readonly together: Gain | null;
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

/** A frame of the call tree. */
export type FoundFrame = {
  readonly kind: string;
  readonly name: string;
  readonly file: string;
  readonly inclusive: number;
  readonly unit: string;
};

/** Events of one name: their number and time in ns, and the first of them with its start since the start of the trace. */
export type FoundName = {
  readonly name: string;
  readonly kind: string;
  readonly count: number;
  readonly ns: number;
  readonly event: number;
  readonly start: number;
  readonly dur: number;
};

/** A critical path in short. */
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

/** A node of a view of the call tree by every metric. */
export type FrameDetail = {
  /** Frames from below the root of the view to the node. */
  readonly path: ReadonlyArray<Label>;
  /** Number of calls of the frame; null if not counted. */
  readonly calls: number | null;
  readonly metrics: ReadonlyArray<FrameMetric>;
};

/** Sums of one metric at a node; null where the view does not go that deep. */
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

/** Kinds of data that the run has. */
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

/** Possible groupings of owners. */
export type HoldersPage = {
  readonly by: ReadonlyArray<string>;
};

export type HoldersTables = {
  readonly memory_at_peak: Table;
};

/** A frame: its kind, name, tensor inputs, file, line (0 without one) and short name. */
export type Label = readonly [string, string, string, string, number, string];

/** A track that has events, and how many rows they take; only streams have a device and a number. */
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

/** The lanes of the timeline. */
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
  readonly lanes: ReadonlyArray<Lane>;
};

/** Calls that take much of the window: their share of it and of the path, in percent. */
export type LargeCallShare = {
  readonly name: string;
  readonly count: number;
  readonly percent: number;
  readonly path_percent: number;
};

/** Events of one name that take much time and that no finding is about. */
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
  /** Of time without recorded calls its longest gap, in ns, if that is most of several. */
  readonly longest_gap_ns: number | null;
  readonly advice: string;
  readonly gain: Gain | null;
  readonly edits: ReadonlyArray<string>;
};

/** A line: its number, function, inclusive and exclusive sum, and how much of the exclusive one is an estimate. */
export type LineCost = readonly [number, string, number, number, number];

/** Records that were dropped, and how many. */
export type Lost = {
  readonly what: string;
  readonly count: number;
};

/** Concurrent work of another thread, and its share of the time. */
export type Meanwhile = {
  readonly name: string;
  readonly percent: number;
};

/** Measurement of a pattern. */
export type MeasureOf = { touched: number, largest_hole: number, fragmentation: number } | { variation: number, histogram: ReadonlyArray<readonly [number, number]> } | { left_in: number, rounds: number, per_round: number | null, round: string | null } | { slices: number, largest: number };

/** A file of memory data alone. */
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

/** Devices, peaks, streams and other facts about the memory of a run. */
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

/** Summary of a memory trace. */
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

/** Metadata and missing records of the run. */
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

/** A metric: its name, its name for people, and the unit of its sums. */
export type Metric = {
  readonly name: string;
  readonly title: string;
  readonly unit: string;
};

/** A candidate whose gain is too small for a finding, in percent of a step or of a device's peak memory. */
export type NearMiss = {
  readonly code: string;
  readonly title: string;
  readonly place: string;
  readonly percent: number;
};

/** Everything known about one object in memory. */
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

/** Objects in memory; those that are shown one by one, their accesses and their waste are in the columns. */
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

/** Another object: its number and name. */
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

/** The critical path; its segments are in the columns. */
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
  readonly hops: number;
  /** Segments that are left out: the shortest. */
  readonly left_out: number;
};

/** A pattern of inefficient use that the object matches. */
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

/** A peak of the memory in use, from a call on. */
export type Peak = {
  readonly name: string;
  readonly device: number;
  readonly call: number;
  readonly bytes: number;
};

/** A phase of the program: its first call, and the one after the last. */
export type Phase = {
  readonly name: string | null;
  readonly first: number;
  readonly end: number;
};

/** Source location: the frame of a call path that says most. */
export type PlaceOf = {
  readonly text: string;
  readonly file: string | null;
  readonly line: number | null;
};

/** A diagnostic of reading. */
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

/** A recorded process. */
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

/** A query that can be asked. */
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

/** A rank: the length of a step in ns, steps, and ns per step in which only collectives run. */
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

/** A source of a recording: whether it worked, and how, or why not. */
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

/** A recording of sums. */
export type RecordingMeta = {
  readonly processes: ReadonlyArray<Process>;
  readonly threads: number;
  readonly nodes: number;
  readonly report: ReadReport;
};

/** A row of a table by the names of its columns. */
export type Row = Readonly<Record<string, string | number | boolean | null>>;

/** A rule that could be checked, with its settings as `--set` changes them: name, value, meaning. */
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

/** Objects of at least so many bytes, and less than twice as many. */
export type SizeClass = {
  readonly from: number;
  readonly objects: number;
  readonly bytes: number;
};

/** The source files of a run, or one of them with the costs of its lines. */
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

/** The source files of a run, with the sum of each metric over their lines. */
export type SourceFiles = {
  readonly metrics: ReadonlyArray<Metric>;
  readonly files: ReadonlyArray<FileCost>;
};

/** Time before the first step, and the part of it in imports, in ns. */
export type StartUpTime = {
  readonly before_ns: number;
  readonly imports_ns: number | null;
};

/** A stream with its number of calls: all, and of each kind. */
export type StreamLane = {
  readonly stream: number;
  readonly name: string;
  readonly calls: number;
  readonly kinds: ReadonlyArray<number>;
};

/** A suggestion for the object alone, with the number of the one that it is part of. */
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

/** Suggestions to save memory; they are the rows of the table. */
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

/** A trace of the run. */
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

/** Time that no finding covers. */
export type Uncovered = {
  readonly covered_percent: number | null;
  readonly groups: ReadonlyArray<LargeGroup>;
};

/** A wasted part of a life: its reason, its first call, and the one after the last. */
export type WasteOf = readonly [string, number, number];

/** Arguments of the question for all tiles, which a report has the answer to. */
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
