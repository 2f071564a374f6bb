/** Arrows from what launched to what was launched. */

import type { Box } from "../draw/boxes";
import type { Brief } from "../types";
import type { Stretch } from "./view";

/** A box of the timeline, the event that it shows, and where it stands in its answer. */
export type EventBox = Box & { readonly event: number; readonly at: number };

/** Draws those whose both ends are drawn as boxes of their own. */
export function drawArrows(
  context: CanvasRenderingContext2D,
  arrows: ReadonlyArray<readonly [from: Brief, to: Brief]>,
  boxes: readonly EventBox[],
  stretch: Stretch,
  width: number,
  ink: { readonly mark: string },
): void {
  if (arrows.length === 0) return;
  const rows = new Map(boxes.map((box) => [box.event, box.y + box.height / 2]));
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
