/** Curves of counters and of memory below the lanes. */

import { type InkOf, LAYERS } from "../colors";
import { fitted } from "../draw/boxes";
import { fillColumns } from "../draw/columns";
import { bytes, significant } from "../format";
import type { AnswerTo } from "../transport";
import type { Columns, Counter } from "../generated/answers";
import type { VisibleRect } from "./boxes";
import { scaleOf } from "./paint";

/** Pixels of a curve, and of its head above it. */
const HIGH = 40;
const HEAD = 16;
const GAP = 6;
export const CURVE = HEAD + HIGH + GAP;


/** A value of a counter for people. */
export const valueOf = (counter: Counter, value: number): string => (counter.bytes ? bytes(value) : significant(value));

/** Draws the curves of an answer that are seen, one below the other, with so many pixels above the first. */
export function drawCurves(context: CanvasRenderingContext2D, { columns, document }: AnswerTo<"counters">, visible: VisibleRect, above: number, ink: InkOf): void {
  const { counter: of } = columns;
  let first = 0;
  document.counters.forEach((counter, at) => {
    let end = first;
    while (end < of.length && of[end] === at) end += 1;
    const top = above + at * CURVE;
    if (top + CURVE > visible.top && top < visible.top + visible.high) drawCurve(context, columns, [first, end], counter, visible, top, ink);
    first = end;
  });
}

function drawCurve(context: CanvasRenderingContext2D, { start, high, last }: Columns["counters"], [first, end]: [number, number], counter: Counter, { range, width }: VisibleRect, top: number, ink: InkOf): void {
  const least = Math.min(counter.least, 0);
  const valueRange = Math.max(counter.most, 0) - least || 1;
  const yOf = (value: number) => top + HEAD + HIGH * (1 - (value - least) / valueRange);
  const xOf = scaleOf(range, width);
  const floor = yOf(Math.max(least, 0));
  context.fillStyle = counter.bytes ? LAYERS.module.fill : LAYERS.operator.fill;
  const highest = fillColumns(context, { start, high, last, first, end }, { xOf, yOf, left: 0, right: width, floor });
  context.fillStyle = ink.line;
  context.fillRect(0, floor, width, 1);
  context.fillStyle = ink.quiet;
  const seen = highest === Number.NEGATIVE_INFINITY ? "no value in view" : `highest value in view: ${valueOf(counter, highest)}`;
  context.fillText(fitted(context, `${counter.name} · ${seen}, up to ${valueOf(counter, counter.most)} overall`, width - 8), 4, top + HEAD / 2);
}
