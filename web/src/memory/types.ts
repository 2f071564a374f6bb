/** What the queries about memory answer: see crates/query/src/queries/memory. Positions are numbers of calls, from 0. */

import type { Answer } from "../transport/decode";
import type { ReadReport, Table } from "../types";

export interface Peak {
  readonly name: string;
  readonly device: number;
  readonly call: number;
  readonly bytes: number;
}

export interface StreamLane {
  readonly stream: number;
  readonly name: string;
  readonly calls: number;
  /** How many of each kind. */
  readonly kinds: readonly number[];
}

export interface Phase {
  readonly name: string | null;
  readonly first: number;
  readonly end: number;
}

export interface MemoryOverview {
  readonly memory: {
    readonly label: string;
    readonly devices: readonly string[];
    readonly calls: number;
    readonly objects: number;
    readonly accesses: number;
    readonly segments: number;
    readonly has_accesses: boolean;
    readonly saw_end: boolean;
  };
  readonly page: {
    readonly end: number;
    /** The question for everything, which a report has the answer to. */
    readonly whole: Readonly<Record<"level" | "first" | "last", number>>;
    readonly buckets: number;
    readonly has_times: boolean;
    readonly kinds: readonly string[];
    readonly why: readonly string[];
    readonly devices: ReadonlyArray<{ device: number; name: string; total_bytes: number }>;
    readonly peaks: readonly Peak[];
    readonly lanes: readonly StreamLane[];
    readonly streams_left_out: number;
    readonly calls_left_out: number;
    readonly phases: readonly Phase[];
    readonly suggestions: number;
    readonly has_segments: boolean;
    readonly out_of_memory: number;
  };
  readonly tables: { readonly memory_peaks: Table; readonly memory_composition?: Table; readonly memory_waste?: Table; readonly memory_out_of_memory?: Table };
  readonly read_report: ReadonlyArray<{ readonly report?: ReadReport } & Partial<ReadReport>>;
}

export interface CurveDocument {
  readonly device: number;
  readonly curves: readonly string[];
  readonly most: readonly number[];
  readonly has_reserved: boolean;
}

export interface CallsDocument {
  readonly level: number;
  readonly texts: readonly string[];
}

export interface ObjectsDocument {
  readonly device: number;
  readonly texts: readonly string[];
  readonly objects: number;
  readonly bytes: number;
  readonly folded: number;
  readonly folded_bytes: number;
  readonly classes: ReadonlyArray<{ from: number; objects: number; bytes: number }>;
  readonly has_accesses: boolean;
  readonly wasted_in: string;
}

export interface AtPeak {
  readonly name: string;
  readonly device: number;
  readonly before: number;
  readonly after: number;
}

export interface AppliedDocument {
  readonly page: { readonly device: number; readonly numbers: readonly number[]; readonly peaks: readonly AtPeak[] };
  readonly tables: { readonly memory_applied: Table };
}

export interface SuggestionsDocument {
  readonly page: { readonly all: number; readonly nothing: number; readonly combination: readonly number[]; readonly objects: ReadonlyArray<readonly number[]> };
  readonly tables: { readonly memory_suggestions: Table };
}

export interface HoldersDocument {
  readonly page: { readonly by: readonly string[] };
  readonly tables: { readonly memory_at_peak: Table };
}

export interface AllocatorDocument {
  readonly page: {
    readonly segments: ReadonlyArray<{ address: string; bytes: number; small: boolean; expandable: boolean; stream: string; pool: string | null }>;
    readonly left_out: number;
    readonly states: readonly string[];
  };
  readonly tables: { readonly memory_allocator: Table };
}

export interface PlaceOf {
  readonly text: string;
  readonly file: string | null;
  readonly line: number | null;
}

export interface CallBrief {
  readonly call: number;
  readonly kind: string;
  readonly name: string | null;
  readonly place: PlaceOf;
}

type Frame = readonly [fn: string | null, file: string | null, line: number];

export interface ObjectDetail {
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
  readonly life: readonly [from: number, to: number];
  readonly place: PlaceOf;
  readonly path: readonly Frame[];
  readonly patterns: ReadonlyArray<{
    pattern: string;
    certainty: string;
    kernels: number;
    distance: number | null;
    times: number;
    bytes: number;
    from: number | null;
    to: number | null;
    other: readonly [object: number, name: string] | null;
  }>;
  readonly waste: ReadonlyArray<readonly [why: string, from: number, to: number]>;
  readonly waste_all: number;
  readonly suggestions: ReadonlyArray<{ number: number; what: string; action: string; bytes: number; certainty: string; copy_ns: number; cost_ns: number | null; peaks: readonly AtPeak[]; shared: number }>;
  readonly accesses: ReadonlyArray<{ call: CallBrief; mode: string; evidence: string }>;
  readonly accesses_all: number;
}

export interface CallDetail {
  readonly call: CallBrief;
  readonly stream: string;
  readonly start: number | null;
  readonly duration: number;
  readonly is_opaque: boolean;
  readonly object: readonly [object: number, name: string, bytes: number] | null;
  readonly accesses: ReadonlyArray<{ object: number; name: string; bytes: number; mode: string; evidence: string }>;
  readonly left_out: number;
  readonly path: readonly Frame[];
}

/** What the drawing and its tables show. */
export interface Shown {
  readonly overview: MemoryOverview;
  readonly curve: Answer<CurveDocument> | undefined;
  readonly applied: Answer<AppliedDocument> | undefined;
  readonly calls: Answer<CallsDocument> | undefined;
  readonly objects: Answer<ObjectsDocument> | undefined;
}
