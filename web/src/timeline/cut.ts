/** End of a truncated trace, shown by stripes since later records are missing. */

import type { ReadReport } from "../generated/answers";
import { scaleOf } from "./paint";
import type { TimeRange } from "./view";

/** Codes of diagnostics for a truncated file or recording. */
const BREAKS_OFF = new Set(["truncated", "too_damaged", "damaged_compression", "oversized_entry", "cut_stream", "not_written", "process_killed"]);

export const breaksOff = (report: ReadReport | undefined): boolean => report?.problems.some(({ code }) => BREAKS_OFF.has(code)) ?? false;

/** Width in pixels of the stripes before the end of known data, which may be the edge of the plot. */
const WIDE = 14;
const STRIPE_DISTANCE = 6;

/** Draw stripes after a time, and slightly before it. */
export function drawCut(context: CanvasRenderingContext2D, end: number, range: TimeRange, width: number, top: number, high: number, ink: { readonly mark: string; readonly paper: string }): void {
  const x = scaleOf(range, width)(end) - WIDE;
  if (x >= width) return;
  context.save();
  context.beginPath();
  context.rect(Math.max(x, 0), top, width - Math.max(x, 0), high - top);
  context.clip();
  context.fillStyle = ink.paper;
  context.fillRect(x, top, width - x, high - top);
  context.strokeStyle = ink.mark;
  context.lineWidth = 1;
  context.beginPath();
  for (let at = x - (high - top); at < width; at += STRIPE_DISTANCE) {
    context.moveTo(at, high);
    context.lineTo(at + (high - top), top);
  }
  context.stroke();
  context.restore();
}
