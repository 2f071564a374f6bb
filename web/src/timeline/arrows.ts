/** Arrows from what launched to what was launched. */

import type { Brief } from "../types";
import type { Laid } from "./boxes";
import { ROW, type Stretch } from "./view";

/** Draws those whose both ends are drawn as boxes of their own. */
export function drawArrows(
  context: CanvasRenderingContext2D,
  arrows: ReadonlyArray<readonly [from: Brief, to: Brief]>,
  laid: Laid,
  stretch: Stretch,
  width: number,
  ink: { readonly mark: string },
): void {
  if (arrows.length === 0) return;
  const rows = rowsOf(laid, new Set(arrows.flat().map(({ event }) => event)));
  const scale = width / (stretch.to - stretch.from);
  context.strokeStyle = ink.mark;
  context.fillStyle = ink.mark;
  context.lineWidth = 1;
  for (const [from, to] of arrows) {
    const [y0, y1] = [rows.get(from.event), rows.get(to.event)];
    if (y0 === undefined || y1 === undefined) continue;
    const x0 = (from.start + from.dur - stretch.from) * scale;
    const x1 = (to.start - stretch.from) * scale;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
    context.stroke();
    context.fillRect(x1 - 2, y1 - 2, 4, 4);
  }
}

/** The middle of the rows that events stand in. */
function rowsOf({ answer, groups, y }: Laid, wanted: ReadonlySet<number>): Map<number, number> {
  const rows = new Map<number, number>();
  const { event } = answer.columns as Readonly<Record<string, ArrayLike<number>>>;
  for (const { at: places } of groups) {
    for (const at of places) if (wanted.has(event![at]!)) rows.set(event![at]!, y[at]! + ROW / 2);
  }
  return rows;
}
