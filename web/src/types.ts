/** What the queries answer: see crates/query. */

export interface TraceInfo {
  readonly name: string;
  readonly format: string;
  readonly rank: number;
  readonly events: number;
  readonly gpu_operations: number;
  readonly steps: number;
  readonly start_ns: number | null;
  readonly end_ns: number | null;
  readonly gpus: ReadonlyArray<{ id: number | null; name: string | null; memory_bytes: number | null }>;
}

/** What reading had to repair, skip or lose. */
export interface ReadReport {
  readonly problems: ReadonlyArray<{ code: string; severity: "note" | "repaired" | "skipped" | "lost"; message: string; count: number; example: string }>;
}

export interface Meta {
  readonly name: string;
  readonly hash: string;
  readonly version: string;
  readonly traces: ReadonlyArray<{
    readonly info: TraceInfo;
    readonly steps: ReadonlyArray<[number: number, start: number, end: number]>;
    /** The steps that findings look at: all but a first one that warms up. */
    readonly chosen: readonly [first: number, last: number] | null;
    readonly environment: ReadonlyArray<[key: string, value: string]>;
    /** How far the clocks of devices may be from the host's: what must be added to their times, between these two. */
    readonly clocks: ReadonlyArray<{ device: number; least_ns: number | null; most_ns: number | null; shift_ns: number | null; contradictory: boolean; early: number; late: number }>;
    /** What it cost to record an operator, as a recording measured it. */
    readonly recording_cost: null | { readonly operator_ns: number; readonly torch_ns: number | null; readonly measured: number; readonly operators: number };
    readonly report: ReadReport;
  }>;
  readonly recording: null | {
    readonly processes: ReadonlyArray<{
      pid: number;
      role: string;
      rank: number | null;
      lasted_ns: number | null;
      command: string[];
      python: string;
      torch: string;
      sources: ReadonlyArray<{ name: string; on: boolean; detail: string }>;
      lost: ReadonlyArray<{ what: string; count: number }>;
    }>;
    readonly threads: number;
    readonly nodes: number;
    readonly report: ReadReport;
  };
  /** A file of memory alone. */
  readonly memory: null | { readonly label: string; readonly report: ReadReport };
  /** The run that it is compared with. */
  readonly baseline: string | null;
  /** Where the server runs: paths that are relative count from there. */
  readonly folder: string | null;
  readonly has: { timeline: boolean; events: boolean; steps: boolean; gpu: boolean; python: boolean; memory: boolean };
}

export type Row = Readonly<Record<string, string | number | boolean | null>>;

export interface Table {
  readonly title: string;
  readonly columns: ReadonlyArray<{ name: string; unit: string }>;
  readonly rows: ReadonlyArray<Row>;
  readonly notes: ReadonlyArray<string>;
}

export interface Overview {
  readonly tables: Readonly<Record<string, Table>>;
  /** Not there yet in what an overview begins with. */
  readonly critical_path?: ReadonlyArray<{
    readonly rank: number;
    readonly exact?: { path_ns: number; window_ns: number; bound_by_ns: Record<string, number>; inferred_ns: number; error?: string };
  }>;
}

export interface Gain {
  readonly ns: number;
  readonly low_ns: number;
  readonly high_ns: number;
}

/** A rule that could look, and from what on it reports: name, value, meaning. */
export interface Rule {
  readonly code: string;
  readonly name: string;
  readonly about: string;
  readonly thresholds: ReadonlyArray<readonly [name: string, value: number, about: string]>;
}

export interface Findings {
  readonly step_ns: number;
  readonly steps: number;
  /** Whether steps take until the GPU work that they launched is done; reports of before do not say. */
  readonly with_gpu_work?: boolean;
  /** Of sums of calls: times are those of one thread. */
  readonly is_of_calls?: boolean;
  readonly together: Gain | null;
  readonly left_out: number;
  /** How high the memory of each device stands at most, as far as anything tells of it. */
  readonly peaks: ReadonlyArray<{ device: string; bytes: number; mended_bytes: number | null }>;
  readonly notes: ReadonlyArray<string>;
  /** What no finding is about: names that take most of the rest; reports of before have none. */
  readonly uncovered?: {
    readonly covered_percent: number | null;
    readonly groups: ReadonlyArray<{ name: string }>;
  };
  /** The same in sentences: one for all, and one for each group. */
  readonly uncovered_text?: ReadonlyArray<string>;
  /** The ranks that were looked at together; empty if there is one. */
  readonly ranks: ReadonlyArray<{ rank: number; step_ns: number; steps: number; collectives_alone_ns: number | null }>;
  /** What gains too little to be a finding: the largest first, by its part of a step or of a device's peak. */
  readonly nearest: ReadonlyArray<{ code: string; title: string; place: string | null; percent: number }>;
  /** The rules that could look. */
  readonly rules: ReadonlyArray<Rule>;
  readonly tables: { findings: Table; not_checked: Table };
}

/** Lines of source around one that matters. */
export interface Excerpt {
  readonly file: string;
  readonly line: number;
  readonly first?: number;
  readonly lines?: readonly string[];
  readonly missing: boolean;
  /** Whether the file was written after the run was recorded; none if nobody knows. */
  readonly changed?: boolean | null;
}

export interface FindingDetail {
  readonly at: number;
  /** Whose events they are, if there are several ranks. */
  readonly rank: number | null;
  readonly code: string;
  readonly about: string;
  readonly why: string;
  /** The page of the rule, as Markdown; none of rules of the user's own. */
  readonly page: string | null;
  readonly example: null | { before: string; after: string };
  readonly facts: ReadonlyArray<[name: string, value: number, unit: string]>;
  readonly events: ReadonlyArray<[event: number, name: string, kind: string, start: number, dur: number]>;
  readonly events_total: number;
  readonly excerpt: Excerpt | null;
}

export type Label = readonly [kind: string, name: string, inputs: string, file: string, line: number, short: string];

export interface Calls {
  readonly metric: string;
  readonly title: string;
  readonly unit: string;
  readonly total: number;
  readonly before: number | null;
  readonly nodes: number;
  readonly left_out: number;
  readonly metrics: ReadonlyArray<[name: string, title: string]>;
  /** Whether time of functions themselves was put at their lines by halves. */
  readonly guessed: boolean;
  /** In a comparison, how many steps each side is of; 0 where it is of none. */
  readonly steps: { readonly before: number; readonly after: number } | null;
  readonly path: ReadonlyArray<[row: number, name: string]>;
  readonly labels: ReadonlyArray<Label>;
}

/** A node of a view of calls by all that was measured. */
export interface FrameDetail {
  readonly path: ReadonlyArray<Label>;
  /** How often it was called; none where that was not counted. */
  readonly calls: number | null;
  readonly metrics: ReadonlyArray<{ name: string; title: string; unit: string; total: number; inclusive: number | null; exclusive: number | null }>;
}

export interface SearchAnswer {
  readonly names: ReadonlyArray<{ name: string; kind: string; count: number; ns: number; event: number; start: number; dur: number }>;
  readonly frames: ReadonlyArray<{ kind: string; name: string; file: string; inclusive: number; unit: string }>;
  readonly files: readonly string[];
  readonly left_out: number;
  /** Names that come near to the text, where none holds it. */
  readonly nearest: readonly string[];
}

export interface Lane {
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
}

export interface Lanes {
  /** When the trace begins, in ns since 1970 or whatever it counts from: all other times count from here. */
  readonly origin: string;
  readonly length: number;
  readonly buckets: number;
  /** The question for all lanes over all time, which a report has the answer to. */
  readonly whole: Readonly<Record<"level" | "first" | "last", number>>;
  readonly kinds: ReadonlyArray<string>;
  readonly lanes: ReadonlyArray<Lane>;
}

/** Values that change over time, and how many have no curve. */
export interface CounterDocument {
  readonly counters: ReadonlyArray<{ name: string; bytes: boolean; least: number; most: number }>;
  readonly more: number;
  readonly left_out: number;
}

/** What a text of an answer's column means, the level that the boxes are of, and how many had no room. */
export interface TileDocument {
  readonly level: number;
  readonly texts: readonly string[];
  readonly left_out: number;
}

export interface Brief {
  readonly event: number;
  readonly name: string;
  readonly kind: string;
  readonly start: number;
  readonly dur: number;
  readonly track: number;
}

export interface EventDetail {
  readonly event: Brief;
  readonly category: string;
  readonly track: number;
  readonly step: number | null;
  readonly place: {
    file: string | null;
    line: number | null;
    function: string | null;
    module: string | null;
    operator: string | null;
    text: string;
  };
  readonly arguments: ReadonlyArray<[key: string, value: string | number | null]>;
  readonly enclosing: ReadonlyArray<Brief>;
  readonly launch: Brief | null;
  readonly operator: Brief | null;
  readonly launched: ReadonlyArray<Brief>;
  /** Of work of a GPU: what its launch, or else its operator, was called from, the innermost first. */
  readonly callers: ReadonlyArray<Brief>;
}

export interface PathDocument {
  readonly start: number;
  readonly end: number;
  readonly inferred: number;
  readonly categories: ReadonlyArray<[name: string, ns: number]>;
  /** What a number in the column `category` means, and one in `name`. */
  readonly causes: readonly string[];
  readonly texts: readonly string[];
  readonly hops: number;
  readonly left_out: number;
}

/** What is measured: its name, for people, and the unit of its sums. */
export interface Metric {
  readonly name: string;
  readonly title: string;
  readonly unit: string;
}

export interface SourceFiles {
  readonly metrics: ReadonlyArray<Metric>;
  readonly files: ReadonlyArray<{ file: string; exclusive: number[] }>;
}

export interface SourceFile {
  readonly file: string;
  readonly text: string | null;
  readonly missing: boolean;
  readonly changed: boolean | null;
  readonly costs: ReadonlyArray<{ metric: Metric; lines: ReadonlyArray<[line: number, fn: string, inclusive: number, exclusive: number, guessed: number]> }>;
}
