/** Critical path merged into segments: adjacent parts with one cause are one segment. */

import type { AnswerTo } from "../transport";
import type { TimeRange } from "./view";

/** Marker of path parts without an event, such as a gap or wait. */
export const NO_EVENT = 0xffff_ffff;

export interface Segment {
  /** Number of its cause. */
  readonly cause: number;
  readonly from: number;
  readonly to: number;
  /** First part, and the one after the last. */
  readonly first: number;
  readonly end: number;
}

/** Segments of a path: adjacent parts with one cause and lane, without a gap. Of long paths the shortest parts may be missing. */
export function segmentsOf({ columns }: AnswerTo<"path">): Segment[] {
  const { start, end, category, track } = columns;
  const all: Segment[] = [];
  for (let part = 0; part < start.length; part += 1) {
    const last = all.at(-1);
    const continues = last?.cause === category[part] && last!.to === start[part] && track[part] === track[part - 1];
    if (continues) all[all.length - 1] = { ...last!, to: end[part]!, end: part + 1 };
    else all.push({ cause: category[part]!, from: start[part]!, to: end[part]!, first: part, end: part + 1 });
  }
  return all;
}

/** The event of a segment that is on the path longest. */
export function longestEvent({ document, columns }: AnswerTo<"path">, { first, end: segmentEnd }: Segment): { event: number; name: string } | undefined {
  const { start, end, event, name } = columns;
  let best: number | undefined;
  for (let part = first; part < segmentEnd; part += 1) {
    if (event[part] === NO_EVENT) continue;
    if (best === undefined || end[part]! - start[part]! > end[best]! - start[best]!) best = part;
  }
  return best === undefined ? undefined : { event: event[best]!, name: document.texts[name[best]!] ?? "" };
}

/** Position on the path: the segment reached by keys, as long as its event stays selected. */
export interface Reached {
  readonly segment: number;
  readonly event: number;
}

/** Next or previous segment with an event, and with the selected cause if any. The start is the reached segment, else the selected event, else the visible range. */
export function nextSegment(
  path: AnswerTo<"path">,
  segments: readonly Segment[],
  { reached, selected, range, only }: { readonly reached?: Reached | undefined; readonly selected: number | undefined; readonly range: TimeRange; readonly only?: number },
  step: 1 | -1,
): Reached | undefined {
  for (let at = startOf(path, segments, reached?.event === selected ? reached : undefined, selected, range, step) + step; at >= 0 && at < segments.length; at += step) {
    if (only !== undefined && segments[at]!.cause !== only) continue;
    const event = longestEvent(path, segments[at]!)?.event;
    if (event !== undefined) return { segment: at, event };
  }
  return undefined;
}

/** The segment to go on from, which is not gone to itself. */
function startOf({ columns }: AnswerTo<"path">, segments: readonly Segment[], reached: Reached | undefined, selected: number | undefined, { from, to }: TimeRange, step: 1 | -1): number {
  if (reached) return reached.segment;
  const part = selected === undefined ? -1 : Array.prototype.indexOf.call(columns.event, selected);
  if (part >= 0) return segments.findIndex(({ end }) => part < end);
  if (step === 1) {
    const first = segments.findIndex((one) => one.to > from);
    return first < 0 ? segments.length : first - 1;
  }
  return segments.findLastIndex((one) => one.from < to) + 1;
}
