/** Layout of the drawing of memory: a gutter with names, the curve, streams, objects. Without drawing. */

import { type TimeRange, within } from "../timeline/view";
import type { Columns, Peak, Phase, StreamLane } from "../generated/answers";

export const RULER = 22;
export const PHASES = 16;
/** The curve, with room above it for names of peaks. */
export const CURVE = 142;
export const HEAD = 18;
export const KIND = 14;
export const LANE = 18;
const GAP = 6;

/** A row of boxes: the calls of one kind on one stream. */
export interface KindRow {
  readonly lane: number;
  readonly kind: number;
  readonly y: number;
}

export interface Layout {
  readonly gutter: number;
  readonly curve: number;
  /** Heads of streams. */
  readonly heads: ReadonlyArray<{ readonly title: string; readonly y: number }>;
  readonly rows: readonly KindRow[];
  /** The head of the objects, and the first of their lanes. */
  readonly objectsHead: number;
  readonly objects: number;
  readonly height: number;
}

/** Names take a part of the room, but never most of it. */
export const gutterOf = (width: number) => Math.round(Math.min(190, width * 0.3));

export function layoutOf(lanes: readonly StreamLane[], phases: readonly Phase[], objects: number, width: number): Layout {
  const curve = RULER + (phases.length > 0 ? PHASES : 0);
  let y = curve + CURVE + GAP;
  const heads: Array<{ title: string; y: number }> = [];
  const rows: KindRow[] = [];
  lanes.forEach((lane, at) => {
    heads.push({ title: lane.name, y });
    y += HEAD;
    lane.kinds.forEach((calls, kind) => {
      if (calls === 0) return;
      rows.push({ lane: at, kind, y });
      y += KIND;
    });
    y += GAP;
  });
  return { gutter: gutterOf(width), curve, heads, rows, objectsHead: y, objects: y + HEAD, height: y + HEAD + objects * LANE + GAP };
}

/** The x coordinate of a position, right of the gutter. */
export function scaleOf({ from, to }: TimeRange, gutter: number, width: number): (position: number) => number {
  const room = Math.max(width - gutter, 1);
  return (position) => gutter + ((position - from) / Math.max(to - from, 1e-9)) * room;
}

/** The position at an x coordinate. */
export function positionAt(x: number, { from, to }: TimeRange, gutter: number, width: number): number {
  return from + ((x - gutter) / Math.max(width - gutter, 1)) * (to - from);
}

/** Item at a position of the drawing. */
export type Hit = { readonly kind: "curve" } | { readonly kind: "row"; readonly row: KindRow } | { readonly kind: "object"; readonly at: number } | undefined;

export function hitAt(layout: Layout, objects: number, y: number): Hit {
  if (y >= layout.curve && y < layout.curve + CURVE) return { kind: "curve" };
  const row = layout.rows.find((one) => y >= one.y && y < one.y + KIND);
  if (row) return { kind: "row", row };
  const at = Math.floor((y - layout.objects) / LANE);
  return y >= layout.objects && at < objects ? { kind: "object", at } : undefined;
}

/** Phases that are not nested in another one, whose names would overlap. */
export function outermost(phases: readonly Phase[]): Phase[] {
  const sorted = phases.toSorted((a, b) => a.first - b.first || b.end - a.end);
  const taken: Phase[] = [];
  for (const phase of sorted) {
    const last = taken.at(-1);
    if (!last || phase.first >= last.end) taken.push(phase);
  }
  return taken;
}

/** The next or the previous of the lanes; the first or the last of them where none is selected. */
export function neighbor(objects: ArrayLike<number>, selected: number | undefined, step: 1 | -1): number | undefined {
  if (objects.length === 0) return undefined;
  const at = selected === undefined ? -1 : Array.prototype.indexOf.call(objects, selected);
  if (at < 0) return objects[step === 1 ? 0 : objects.length - 1];
  return objects[Math.min(Math.max(at + step, 0), objects.length - 1)];
}

/** The peak whose mark is within some pixels of an x coordinate. */
export function peakAt(peaks: readonly Peak[], x: number, xOf: (position: number) => number, reach = 8): Peak | undefined {
  const near = peaks.map((peak) => ({ peak, far: Math.abs(xOf(peak.call) - x) })).filter(({ far }) => far <= reach);
  return near.toSorted((a, b) => a.far - b.far)[0]?.peak;
}

/** A life with a tenth of it around it. */
export function rangeAround(from: number, to: number, all: TimeRange): TimeRange {
  const room = Math.max((to - from) / 10, 2);
  return within({ from: Math.floor(from - room), to: Math.ceil(to + room) }, all);
}

/** Position of the name of a peak. */
export interface Label {
  readonly left: number;
  readonly top: number;
  readonly wide: number;
}

/** Pixels that such a name is high. */
export const LABEL = 14;

/** Rows of names above the highest value: those of a device's peaks, so that none hides a part of the curve. */
export const LABELS = 2 * LABEL;

/** Positions of names with given widths, at the top of the curve: to the right of their mark, or to the left without room. */
export function namesOfPeaks(marks: ReadonlyArray<{ readonly x: number; readonly wide: number }>, width: number, top: number): Label[] {
  const taken: Label[] = [];
  return marks.map(({ x, wide }) => withoutOverlap({ left: x + 2 + wide <= width ? x + 2 : Math.max(x - 2 - wide, 0), top, wide }, taken));
}

/** The position of a name, moved down until it covers no earlier name; it is then added to these. */
export function withoutOverlap(label: Label, taken: Label[]): Label {
  let { top } = label;
  const meets = (other: Label) => label.left < other.left + other.wide && other.left < label.left + label.wide && Math.abs(top - other.top) < LABEL;
  while (taken.some(meets)) top += 1;
  const placed = { ...label, top };
  taken.push(placed);
  return placed;
}

/** Label of an object in its lane: its name, or else its source line. */
export function calledBy(name: string, sourceLocation: string): string {
  const isNamed = !/^object \d+$/.test(name);
  return isNamed || sourceLocation === "" ? name : `${name} · ${sourceLocation.slice(sourceLocation.lastIndexOf("/", sourceLocation.search(/:\d|$/)) + 1)}`;
}

/** A call by its kind and its name, which may be the same: `allocate`, `kernel gemm`. */
export const callTitle = (kind: string, name: string | null): string => (name === null || name === "" || name === kind ? kind : `${kind} ${name}`);

/** Numbers of suggestions as the address has them: `1,3`. */
export function numbersOf(text: string | undefined): number[] {
  const numbers = (text ?? "").split(",").map(Number).filter((number) => Number.isInteger(number) && number > 0);
  return [...new Set(numbers)];
}

/** The list with one number added or removed. */
export function toggled(numbers: readonly number[], number: number): string {
  const toggledNumbers = numbers.includes(number) ? numbers.filter((other) => other !== number) : [...numbers, number].toSorted((a, b) => a - b);
  return toggledNumbers.join(",");
}

/** Minimum and maximum of a curve in a range of positions. */
export function extent(columns: Readonly<Record<keyof Columns["memory-curve"], ArrayLike<number>>>, curve: number, range: TimeRange): { least: number; most: number } | undefined {
  const { curve: of, start, low, high, last } = columns;
  let found: { least: number; most: number } | undefined;
  const add = (least: number, most: number) => {
    found = { least: Math.min(found?.least ?? least, least), most: Math.max(found?.most ?? most, most) };
  };
  for (let at = 0; at < of.length; at += 1) {
    if (of[at] !== curve || start[at]! > range.to) continue;
    const until = of[at + 1] === curve ? start[at + 1]! : Number.POSITIVE_INFINITY;
    if (until <= range.from) continue;
    if (start[at]! >= range.from) add(low[at]!, high[at]!);
    else add(last[at]!, last[at]!);
  }
  return found;
}
