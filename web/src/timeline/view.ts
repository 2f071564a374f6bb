/** Arithmetic of the timeline: which stretch is seen, which tiles hold it, where rows stand. Apart from drawing. */

import { count } from "../format";
import type { Lane } from "../types";

/** A stretch of time in ns. */
export interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** Nobody sees less than this much. */
const SHORTEST = 20;

/** Grows or shrinks a stretch around a place in it (0 to 1), within all there is. */
export function zoomed({ from, to }: Stretch, factor: number, around: number, all: Stretch): Stretch {
  const length = Math.min(Math.max((to - from) * factor, SHORTEST), all.to - all.from || SHORTEST);
  const center = from + (to - from) * around;
  return within({ from: center - length * around, to: center + length * (1 - around) }, all);
}

/** Moves a stretch by a part of its length, within all there is. */
export function panned({ from, to }: Stretch, part: number, all: Stretch): Stretch {
  const by = (to - from) * part;
  return within({ from: from + by, to: to + by }, all);
}

/** The stretch, moved so that it lies within all there is. */
export function within({ from, to }: Stretch, all: Stretch): Stretch {
  const length = Math.min(to - from, all.to - all.from);
  const start = Math.min(Math.max(from, all.from), all.to - length);
  return { from: start, to: start + length };
}

export interface Tiles {
  readonly level: number;
  readonly first: number;
  readonly last: number;
}

/** The tiles whose buckets are at most a pixel wide. */
export function tilesOf({ from, to }: Stretch, width: number, buckets: number): Tiles {
  const level = Math.max(0, Math.floor(Math.log2(Math.max((to - from) / Math.max(width, 1), 1))));
  const span = buckets * 2 ** level;
  return { level, first: Math.floor(from / span), last: Math.floor(to / span) };
}

export interface Placed {
  readonly lane: Lane;
  /** Where its head stands; its rows come below. */
  readonly top: number;
  readonly rows: number;
}

export const HEAD = 18;
export const ROW = 14;
const GAP = 4;
/** Rows of a lane that was not opened, and of the first one, which is the busiest. */
const FEW = 6;
const MANY = 30;

/** Lanes below each other; those that were opened with all of their rows. */
export function place(lanes: readonly Lane[], open: ReadonlySet<number>): { placed: Placed[]; height: number } {
  let top = 0;
  const placed = lanes.map((lane, at) => {
    const rows = open.has(lane.track) ? lane.rows : Math.min(lane.rows, at === 0 ? MANY : FEW);
    const here = { lane, top, rows };
    top += HEAD + rows * ROW + GAP;
    return here;
  });
  return { placed, height: top };
}

/** Threads first, then streams; processes stay together, the busiest first. */
export function sorted(lanes: readonly Lane[]): Lane[] {
  const order = { thread: 0, stream: 1, async: 2, counter: 3 } as Readonly<Record<string, number>>;
  const busiest = new Map<string, number>();
  for (const { process, events } of lanes) busiest.set(process, Math.max(busiest.get(process) ?? 0, events));
  return lanes.toSorted(
    (a, b) =>
      (order[a.kind] ?? 4) - (order[b.kind] ?? 4) ||
      busiest.get(b.process)! - busiest.get(a.process)! ||
      (a.process < b.process ? -1 : a.process > b.process ? 1 : 0) ||
      b.events - a.events ||
      a.track - b.track,
  );
}

/** Round times for the ruler, at most so many. */
export function ticks({ from, to }: Stretch, most: number): number[] {
  const length = Math.max(to - from, 1);
  const rough = length / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough) ?? 10 * power;
  const first = Math.ceil(from / unit);
  const count = Math.min(Math.floor(to / unit) - first, most + 1);
  return Array.from({ length: Math.max(count + 1, 0) }, (_, at) => (first + at) * unit);
}

/** A lane in words. */
export function laneTitle(lane: Lane): string {
  const thread = lane.name || `${lane.kind} ${lane.stream ?? lane.thread}`;
  const where = lane.device === null ? lane.process_name || `process ${lane.process}` : `GPU ${lane.device}`;
  return `${thread} · ${where} · ${count(lane.events)} events`;
}

/** A stretch with an event in its middle third. */
export function around(start: number, dur: number): { from: string; to: string } {
  const room = Math.max(dur, 1000);
  return { from: `${Math.floor(start - room)}`, to: `${Math.ceil(start + dur + room)}` };
}
