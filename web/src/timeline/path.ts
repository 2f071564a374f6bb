/** Drawing of the critical path over the timeline: a line along the upper edge of lanes. */

import type { AnswerTo } from "../transport";
import { scaleOf } from "./paint";
import { HEAD, type Placed, type TimeRange } from "./view";

/** Pixels above the first row of a lane, between its head and its boxes, without names. */
const ABOVE = 2;
/** A change of lane this close to the last one that was drawn is not drawn: many would only be a gray area. */
const CLOSE = 3;

export function drawPath(
  context: CanvasRenderingContext2D,
  { columns }: AnswerTo<"path">,
  placed: readonly Placed[],
  range: TimeRange,
  width: number,
  offset: number,
  ink: { readonly mark: string },
): void {
  const { start, end, track } = columns;
  const y = new Map(placed.map(({ lane, top }) => [lane.track, offset + top + HEAD - ABOVE]));
  const xOf = scaleOf(range, width);
  context.strokeStyle = ink.mark;
  const along = new Path2D();
  const across = new Path2D();
  let last: number | undefined;
  let crossed = Number.NEGATIVE_INFINITY;
  for (let part = 0; part < start.length; part += 1) {
    const row = y.get(track[part]!);
    if (row === undefined || end[part]! < range.from || start[part]! > range.to) {
      last = undefined;
      continue;
    }
    const [x0, x1] = [xOf(start[part]!), xOf(end[part]!)];
    along.moveTo(x0, row);
    along.lineTo(Math.max(x1, x0 + 1), row);
    if (last !== undefined && last !== row && x0 - crossed >= CLOSE) {
      across.moveTo(x0, last);
      across.lineTo(x0, row);
      crossed = x0;
    }
    last = row;
  }
  context.lineWidth = 3;
  context.stroke(along);
  context.lineWidth = 1;
  context.stroke(across);
}
