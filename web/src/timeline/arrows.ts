/** Arrows from launching to launched events. */

import type { Brief } from "../generated/answers";
import type { BoxLayout } from "./boxes";
import { ROW, type TimeRange } from "./view";

/** Draw arrows that end at a visible box and start at one, or at the nearest visible enclosing box: launches are on inner levels, which are hidden first. */
export function drawArrows(
  context: CanvasRenderingContext2D,
  arrows: ReadonlyArray<readonly [from: Brief, to: Brief]>,
  laid: BoxLayout,
  range: TimeRange,
  width: number,
  ink: { readonly mark: string },
): void {
  if (arrows.length === 0) return;
  const rows = rowsOf(laid, new Set(arrows.flat().map(({ event }) => event)));
  for (const [from] of arrows) if (!rows.has(from.event)) rows.set(from.event, rowAround(laid, from));
  const scale = width / (range.to - range.from);
  context.strokeStyle = ink.mark;
  context.fillStyle = ink.mark;
  context.lineWidth = 1;
  for (const [from, to] of arrows) {
    const [y0, y1] = [rows.get(from.event), rows.get(to.event)];
    if (y0 === undefined || y1 === undefined) continue;
    const x0 = (from.start + from.dur - range.from) * scale;
    const x1 = (to.start - range.from) * scale;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
    context.stroke();
    context.fillRect(x1 - 2, y1 - 2, 4, 4);
  }
}

/** The middle of the innermost row that is drawn with a box around an event, where an arrow begins; none if there is no such row. */
export function rowAround({ answer, groups, y }: BoxLayout, { track, start, dur }: Brief): number | undefined {
  const { columns } = answer;
  let innermost: number | undefined;
  for (const at of groups.flatMap((group) => group.at)) {
    const isAround = columns.track[at] === track && columns.start[at]! <= start && columns.start[at]! + columns.length[at]! >= start + dur;
    if (isAround && (innermost === undefined || y[at]! > y[innermost]!)) innermost = at;
  }
  return innermost === undefined ? undefined : y[innermost]! + ROW / 2;
}

/** Vertical center of the rows of events. */
function rowsOf({ answer, groups, y }: BoxLayout, events: ReadonlySet<number>): Map<number, number | undefined> {
  const rows = new Map<number, number | undefined>();
  const { event } = answer.columns;
  for (const { at: indexes } of groups) {
    for (const at of indexes) if (events.has(event[at]!)) rows.set(event[at]!, y[at]! + ROW / 2);
  }
  return rows;
}
