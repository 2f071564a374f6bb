/** Drawing of the timeline around its boxes: ruler with steps, lane heads, marks. */

import type { InkOf } from "../colors";
import { fitted } from "../draw/boxes";
import { headOf, type Placed, ROW, type TimeRange, tickLabel, ticks } from "./view";

/** A step of the program: its number, and when it starts and ends. */
export type Step = readonly [number: number, start: number, end: number];

/** Pixels of the ruler, and those of the row of steps below it. */
export const RULER = 22;
export const STEPS = 16;
const FONT = "11px system-ui, sans-serif";
/** Pixels between two ticks at least: as many as a label needs. */
const MIN_TICK_DISTANCE = 120;

export const scaleOf = (range: TimeRange, width: number) => (ns: number) => ((ns - range.from) / (range.to - range.from)) * width;

export type Ticks = ReadonlyArray<{ readonly x: number; readonly label: string }>;

/** Ticks of a ruler with origin `zero`: positions and labels. */
export function ticksOf(range: TimeRange, zero: number, width: number): Ticks {
  const shown = { from: range.from - zero, to: range.to - zero };
  const { at, unit } = ticks(shown, width / MIN_TICK_DISTANCE);
  const largest = Math.max(Math.abs(shown.from), Math.abs(shown.to));
  const xOf = scaleOf(shown, width);
  return at.map((tick) => ({ x: xOf(tick), label: tickLabel(tick, unit, largest) }));
}

/** Draw the lines of the ruler, below boxes and names. */
export function drawGrid(context: CanvasRenderingContext2D, ticks: Ticks, height: number, ink: InkOf): void {
  context.fillStyle = ink.line;
  for (const { x } of ticks) context.fillRect(Math.round(x), 0, 1, height);
}

/** Draws the ruler. */
export function drawRuler(context: CanvasRenderingContext2D, ticks: Ticks, width: number, ink: InkOf): void {
  context.fillStyle = ink.paper;
  context.fillRect(0, 0, width, RULER);
  context.font = FONT;
  context.textBaseline = "middle";
  for (const { x, label } of ticks) {
    context.fillStyle = ink.line;
    context.fillRect(Math.round(x), 0, 1, RULER);
    context.fillStyle = ink.quiet;
    // One that is cut could be read as another number.
    if (x + 4 + context.measureText(label).width <= width) context.fillText(label, x + 4, RULER / 2);
  }
}

/** Fill of selected steps, readable below any text in either theme. */
const CHOSEN = "rgba(91, 155, 213, 0.35)";

/** Width in pixels below which a step has only a line at its start, if there is room. */
const NARROW = 4;

/** Draws the steps as a row of boxes below the ruler; those that are chosen are filled. */
export function drawSteps(context: CanvasRenderingContext2D, steps: readonly Step[], chosen: readonly [number, number] | undefined, range: TimeRange, width: number, ink: InkOf): void {
  context.fillStyle = ink.paper;
  context.fillRect(0, RULER, width, STEPS);
  const xOf = scaleOf(range, width);
  context.font = FONT;
  context.textBaseline = "middle";
  const isChosen = (number: number) => chosen !== undefined && number >= chosen[0] && number <= chosen[1];
  let line = Number.NEGATIVE_INFINITY;
  for (let at = 0; at < steps.length; at += 1) {
    const step = steps[at]!;
    // Of thousands nearly all are elsewhere.
    if (step[2] < range.from || step[1] > range.to) continue;
    const [number, start, end] = step;
    const [from, to] = [Math.max(xOf(start), 0), Math.min(xOf(end), width)];
    if (to <= 0 || from >= width || to < from) continue;
    const wide = to - from;
    if (isChosen(number)) {
      context.fillStyle = CHOSEN;
      context.fillRect(from, RULER + 1, Math.max(wide, 1), STEPS - 3);
    }
    if (wide < NARROW) {
      // Thousands of frames around nothing are what takes longest to draw, and all that would be seen is grey.
      if (from - line < NARROW) continue;
      line = from;
      context.fillStyle = ink.quiet;
      context.fillRect(Math.round(from), RULER + 1, 1, STEPS - 3);
      continue;
    }
    context.strokeStyle = ink.quiet;
    context.lineWidth = 1;
    context.strokeRect(from + 0.5, RULER + 1.5, Math.max(wide - 1, 1), STEPS - 4);
    context.fillStyle = ink.ink;
    if (wide > 12) context.fillText(fitted(context, `step ${number}`, wide - 8), from + 4, RULER + STEPS / 2);
  }
}

/** Draw lane names, and lines at hidden levels. */
export function drawHeads(context: CanvasRenderingContext2D, placed: readonly Placed[], offset: number, width: number, headHeight: number, ink: InkOf): void {
  context.font = FONT;
  context.textBaseline = "middle";
  for (const here of placed) {
    context.fillStyle = ink.quiet;
    context.fillText(fitted(context, headOf(here), width - 8), 4, offset + here.top + headHeight / 2 - 1);
    if (here.outer > 0) drawHidden(context, offset + here.top + headHeight - 1.5, width, ink);
    if (here.outer + here.rows < here.lane.rows) drawHidden(context, Math.round(offset + here.top + headHeight + here.rows * ROW) + 1.5, width, ink);
  }
}

/** A line where levels are hidden. */
function drawHidden(context: CanvasRenderingContext2D, y: number, width: number, ink: InkOf): void {
  context.strokeStyle = ink.quiet;
  context.lineWidth = 1;
  context.setLineDash([6, 4]);
  context.beginPath();
  context.moveTo(0, y);
  context.lineTo(width, y);
  context.stroke();
  context.setLineDash([]);
}

/** Shade the marked range. */
export function drawMarked(context: CanvasRenderingContext2D, from: number, to: number, height: number): void {
  context.globalAlpha = 0.25;
  context.fillStyle = "#5b9bd5";
  context.fillRect(Math.min(from, to), 0, Math.abs(to - from), height);
  context.globalAlpha = 1;
}
