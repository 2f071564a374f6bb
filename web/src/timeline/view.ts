/** Arithmetic of the timeline: visible range, tiles, positions of rows. Without drawing. */

import { counted } from "../format";
import type { Lane } from "../generated/answers";

/** A time range in ns. */
export interface TimeRange {
  readonly from: number;
  readonly to: number;
}

/** Shortest visible range. */
const SHORTEST = 20;

/** Zoom a time range around a position in it (0 to 1), within all data. */
export function zoomed({ from, to }: TimeRange, factor: number, around: number, all: TimeRange): TimeRange {
  const length = Math.min(Math.max((to - from) * factor, SHORTEST), all.to - all.from || SHORTEST);
  const center = from + (to - from) * around;
  return within({ from: center - length * around, to: center + length * (1 - around) }, all);
}

/** Shift a time range by a share of its length, within all data. */
export function panned({ from, to }: TimeRange, part: number, all: TimeRange): TimeRange {
  const by = (to - from) * part;
  return within({ from: from + by, to: to + by }, all);
}

/** The time range, shifted to lie within all data. */
export function within({ from, to }: TimeRange, all: TimeRange): TimeRange {
  const length = Math.min(to - from, all.to - all.from);
  const start = Math.min(Math.max(from, all.from), all.to - length);
  return { from: start, to: start + length };
}

/** Visible range after a key, if the key changes it. */
export function moved(key: string, range: TimeRange, all: TimeRange): TimeRange | undefined {
  switch (key) {
    case "w":
      return zoomed(range, 0.7, 0.5, all);
    case "s":
      return zoomed(range, 1 / 0.7, 0.5, all);
    case "a":
    case "ArrowLeft":
      return panned(range, -0.2, all);
    case "d":
    case "ArrowRight":
      return panned(range, 0.2, all);
    case "0":
      return all;
    default:
      return undefined;
  }
}

export interface Tiles {
  readonly level: number;
  readonly first: number;
  readonly last: number;
}

/** Boxes that are asked for at most: as many as can be drawn while one moves. More are merged. */
export const MOST_BOXES = 7000;

/** The tiles whose buckets are one to two pixels wide. */
export function tilesOf({ from, to }: TimeRange, width: number, buckets: number): Tiles {
  const level = Math.max(0, Math.ceil(Math.log2(Math.max((to - from) / Math.max(width, 1), 1))));
  const span = buckets * 2 ** level;
  return { level, first: Math.floor(from / span), last: Math.floor(to / span) };
}

export interface Placed {
  readonly lane: Lane;
  /** Position of the lane's head; its rows are below. */
  readonly top: number;
  readonly rows: number;
  /** Outer levels that are hidden, above those that are seen. */
  readonly outer: number;
}

/** Levels of a lane that the user chose: all, or few; default: as many as fit. */
export type Opened = ReadonlyMap<number, "all" | "few">;

export const HEAD = 18;
export const ROW = 14;
const GAP = 4;
/** Rows that a lane has at least, if it has as many; and those of all lanes together, unless some were opened. */
export const FEW = 6;
const ROOM = 60;
/** The same for threads if there are streams, so that GPU work is visible without scrolling. */
const ROOM_ABOVE = 16;
/** Rows that a deep lane has there at most. */
const DEEP = 12;

/** Stack lanes. Lanes with many events get more rows. Hidden are the named outer levels, then the innermost. */
export function place(lanes: readonly Lane[], opened: Opened, outer: ReadonlyMap<number, number> = new Map()): { placed: Placed[]; height: number } {
  const few = (lane: Lane) => Math.min(lane.rows, FEW);
  const isAbove = (lane: Lane) => lane.kind !== "stream" && lanes.some(({ kind }) => kind === "stream");
  const left = (room: number, some: readonly Lane[]) => Math.max(room - some.reduce((sum, lane) => sum + few(lane), 0), 0);
  let [room, above] = [left(ROOM, lanes), left(ROOM_ABOVE, lanes.filter(isAbove))];
  const rows = new Map<number, number>();
  for (const lane of lanes.toSorted((a, b) => b.events - a.events)) {
    const wish = opened.get(lane.track);
    const most = isAbove(lane) ? Math.min(room, above, DEEP - FEW) : room;
    const more = wish === undefined ? Math.min(lane.rows - few(lane), most) : 0;
    room -= more;
    if (isAbove(lane)) above -= more;
    rows.set(lane.track, wish === "all" ? lane.rows : few(lane) + more);
  }
  let top = 0;
  const placed = lanes.map((lane) => {
    const seen = rows.get(lane.track)!;
    const here = { lane, top, rows: seen, outer: Math.min(outer.get(lane.track) ?? 0, lane.rows - seen) };
    top += HEAD + here.rows * ROW + GAP;
    return here;
  });
  return { placed, height: top };
}

/** The lane with its levels the other way: all of them if some are hidden, else few. */
export function turned(opened: Opened, { lane, rows }: Placed): Opened {
  return new Map(opened).set(lane.track, rows < lane.rows ? "all" : "few");
}

/** Threads first, then streams; processes stay together, the busiest first, and each begins with the thread that it was started with. */
export function sorted(lanes: readonly Lane[]): Lane[] {
  const order = { thread: 0, stream: 1, async: 2, counter: 3 } as Readonly<Record<string, number>>;
  const busiest = new Map<string, number>();
  for (const { process, events } of lanes) busiest.set(process, Math.max(busiest.get(process) ?? 0, events));
  return lanes.toSorted(
    (a, b) =>
      (order[a.kind] ?? 4) - (order[b.kind] ?? 4) ||
      busiest.get(b.process)! - busiest.get(a.process)! ||
      (a.process < b.process ? -1 : a.process > b.process ? 1 : 0) ||
      Number(isMain(b)) - Number(isMain(a)) ||
      b.events - a.events ||
      a.track - b.track,
  );
}

/** On Linux the first thread of a process has its number. */
const isMain = ({ kind, process, thread }: Lane): boolean => kind === "thread" && process === thread;

/** Times with few digits for the ruler, at most so many, and their distance. */
export function ticks({ from, to }: TimeRange, most: number): { at: number[]; unit: number } {
  const length = Math.max(to - from, 1);
  const rough = Math.max(length / Math.max(most, 1), 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough) ?? 10 * power;
  const first = Math.ceil(from / unit);
  const count = Math.min(Math.floor(to / unit) - first, most + 1);
  return { at: Array.from({ length: Math.max(count + 1, 0) }, (_, at) => (first + at) * unit), unit };
}

const UNITS: ReadonlyArray<[ns: number, name: string]> = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

/** The label of a tick: as many decimals as tell it from its neighbors, in the unit that fits the largest of them. */
export function tickLabel(at: number, unit: number, largest: number): string {
  const [size, name] = UNITS.find(([ns]) => Math.abs(largest) >= ns) ?? UNITS[UNITS.length - 1]!;
  const decimals = Math.max(0, Math.ceil(Math.log10(size / unit) - 1e-9));
  return `${(at / size).toFixed(decimals)} ${name}`;
}

/** Stream number of records without a stream, such as a wait for all streams: -1, which some tools write unsigned. */
const NO_STREAM = 2 ** 32 - 1;

/** A number of a thread as people read it: handles of 32 bits that were written with a sign have none. */
const unsigned = (text: string) => text.replace(/^(thread )?(-\d+)(?=$| )/, (all, before = "", number) => (Number(number) >= -(2 ** 31) && Number(number) < -1 ? `${before}${Number(number) + 2 ** 32}` : all));

/** Name of a lane. */
export function laneName(lane: Lane): string {
  const stream = lane.stream === NO_STREAM ? "no stream" : undefined;
  const thread = stream ?? (unsigned(lane.name.trim()) || `${lane.kind} ${lane.stream ?? unsigned(lane.thread)}`);
  const where = lane.device === null ? lane.process_name || `process ${lane.process}` : `GPU ${lane.device}`;
  return `${thread} · ${where}`;
}

/** Name of a lane with its number of events. */
export const laneTitle = (lane: Lane): string => `${laneName(lane)} · ${counted(lane.events, "event")}`;

/** Head of a lane: its name, and its hidden levels. */
export function headOf({ lane, rows, outer }: Placed): string {
  const inner = lane.rows - rows - outer;
  const which = outer === 0 ? "" : ` (${outer} outer levels, ${inner} inner levels)`;
  if (rows < lane.rows) return `▸ ${laneTitle(lane)} · ${lane.rows - rows} of ${lane.rows} levels hidden${which}: click to show all levels`;
  return `${lane.rows > FEW ? "▾ " : ""}${laneTitle(lane)}`;
}

/** Time range with an event in its middle third. */
export function placeAround(start: number, dur: number): { from: string; to: string } {
  const room = Math.max(dur, 1000);
  return { from: `${Math.floor(start - room)}`, to: `${Math.ceil(start + dur + room)}` };
}
