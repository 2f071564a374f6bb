/** Drawing of memory: curves with their peaks, calls per stream, and lifetimes of objects, hatched while wasted. */

import { fitted } from "../draw/boxes";
import { fillColumns } from "../draw/columns";
import { bytes, count } from "../format";
import type { InkOf } from "../colors";
import { type TimeRange, ticks } from "../timeline/view";
import type { AnswerTo } from "../transport";
import { calledBy, CURVE, HEAD, KIND, LABEL, LABELS, LANE, type Layout, namesOfPeaks, PHASES, RULER, scaleOf } from "./layout";
import type { Columns, Peak, Phase } from "../generated/answers";

const FONT = "11px system-ui, sans-serif";
/** Fills of bars: dark hatching and ticks are visible on each of them, in either theme. */
const LIVE = "#8cc4ee";
const WASTED = "#f7c59f";
/** Calls by their kind: see `MemoryCallKind`. */
export const KINDS = ["#66cca9", "#b7d7f4", "#d4b655", "#de8cb7", "#bb80d3", "#d6a4c4", "#ea8e5e", "#c3d2db", "#c3d2db", "#dcd3ca"] as const;

/** Context for drawing a part. */
export interface Scene {
  readonly context: CanvasRenderingContext2D;
  readonly layout: Layout;
  readonly range: TimeRange;
  readonly width: number;
  readonly ink: InkOf;
}

type CurveColumns = Columns["memory-curve"];
type ObjectColumns = Columns["memory-objects"];

const xOf = ({ range, layout, width }: Scene) => scaleOf(range, layout.gutter, width);

/** Clip the drawing to the right of the gutter. */
function clipped(scene: Scene, height: number, draw: () => void): void {
  const { context, layout, width } = scene;
  context.save();
  context.beginPath();
  context.rect(layout.gutter, 0, width - layout.gutter, height);
  context.clip();
  draw();
  context.restore();
}

function name(scene: Scene, text: string, y: number): void {
  scene.context.fillText(fitted(scene.context, text, scene.layout.gutter - 8), 4, y);
}

/** Pixels of a sample in the gutter. */
const SAMPLE = 10;

/** A name with a color sample of live bytes. */
function sampled(scene: Scene, text: string, y: number): void {
  const { context, ink } = scene;
  name(scene, text, y);
  const left = Math.round(4 + context.measureText(text).width + 6);
  context.fillStyle = LIVE;
  context.fillRect(left, y - SAMPLE / 2, SAMPLE, SAMPLE);
  context.fillStyle = ink.quiet;
}

export function drawRuler(scene: Scene, phases: readonly Phase[]): void {
  const { context, layout, range, width, ink } = scene;
  const place = xOf(scene);
  context.fillStyle = ink.paper;
  context.fillRect(0, 0, width, layout.curve);
  context.font = FONT;
  context.textBaseline = "middle";
  context.fillStyle = ink.quiet;
  name(scene, "call", RULER / 2);
  for (const at of ticks(range, (width - layout.gutter) / 110).at) {
    context.fillStyle = ink.line;
    context.fillRect(Math.round(place(at)), 0, 1, RULER);
    context.fillStyle = ink.quiet;
    context.fillText(count(at), place(at) + 4, RULER / 2);
  }
  clipped(scene, layout.curve, () => {
    for (const phase of phases) {
      const [from, to] = [Math.max(place(phase.first), layout.gutter), Math.min(place(phase.end), width)];
      if (to <= from) continue;
      context.strokeStyle = ink.quiet;
      context.lineWidth = 1;
      context.strokeRect(from + 0.5, RULER + 1.5, Math.max(to - from - 1, 1), PHASES - 4);
      context.fillStyle = ink.ink;
      if (to - from > 14) context.fillText(fitted(context, phase.name ?? "", to - from - 8), from + 4, RULER + PHASES / 2);
    }
  });
}

/** The curves: in use (filled), held (dashed), in use if suggestions were followed (a thick line). */
export function drawCurves(scene: Scene, curve: AnswerTo<"memory-curve">, applied: AnswerTo<"memory-apply"> | undefined, peaks: readonly Peak[]): void {
  const { context, layout, ink } = scene;
  const { most, has_reserved } = curve.document;
  const highest = Math.max(...most, 1);
  const floor = layout.curve + CURVE;
  const yOf = (value: number) => floor - ((CURVE - LABELS - 4) * value) / highest;
  context.font = FONT;
  context.textBaseline = "middle";
  context.fillStyle = ink.quiet;
  name(scene, bytes(highest), yOf(highest));
  sampled(scene, "live", floor - 44);
  if (has_reserved) name(scene, "reserved ┄", floor - 30);
  if (applied) name(scene, "with suggestions ━", floor - 16);
  clipped(scene, floor + 1, () => {
    fillCurve(scene, curve.columns, yOf, floor);
    if (has_reserved) strokeCurve(scene, curve.columns, 1, yOf, () => {
      context.strokeStyle = ink.quiet;
      context.lineWidth = 1;
      context.setLineDash([5, 4]);
    });
    if (applied) strokeCurve(scene, applied.columns, 0, yOf, () => {
      context.strokeStyle = ink.mark;
      context.lineWidth = 2.5;
      context.setLineDash([]);
    });
    context.setLineDash([]);
    drawPeaks(scene, peaks, floor);
  });
  context.fillStyle = ink.line;
  context.fillRect(0, floor, scene.width, 1);
}

function fillCurve(scene: Scene, { curve: curves, start, high, last }: CurveColumns, yOf: (value: number) => number, floor: number): void {
  const { context, width, layout } = scene;
  context.fillStyle = LIVE;
  let end = 0;
  while (end < curves.length && curves[end] === 0) end += 1;
  fillColumns(context, { start, high, last, first: 0, end }, { xOf: xOf(scene), yOf, left: layout.gutter, right: width, floor });
}

function strokeCurve(scene: Scene, { curve: curves, start, high, last }: CurveColumns, curveNumber: number, yOf: (value: number) => number, style: () => void): void {
  const { context, width } = scene;
  const place = xOf(scene);
  style();
  context.beginPath();
  let isFirst = true;
  for (let at = 0; at < curves.length; at += 1) {
    if (curves[at] !== curveNumber) continue;
    const [from, to] = [place(start[at]!), curves[at + 1] === curveNumber ? place(start[at + 1]!) : width];
    if (isFirst) context.moveTo(from, yOf(high[at]!));
    isFirst = false;
    context.lineTo(from, yOf(high[at]!));
    context.lineTo(Math.min(from + 1, to), yOf(last[at]!));
    context.lineTo(to, yOf(last[at]!));
  }
  context.stroke();
}

/** Marks at the peaks, and their names above the highest value. */
function drawPeaks(scene: Scene, peaks: readonly Peak[], floor: number): void {
  const { context, layout, width, ink } = scene;
  const place = xOf(scene);
  context.font = `bold ${FONT}`;
  const seen = peaks.map((peak) => ({ x: place(peak.call), text: `${peak.name} ${bytes(peak.bytes)}` })).filter(({ x }) => x >= layout.gutter && x <= width);
  context.fillStyle = ink.mark;
  for (const { x } of seen) context.fillRect(Math.round(x), layout.curve, 1.5, floor - layout.curve);
  const names = namesOfPeaks(seen.map(({ x, text }) => ({ x, wide: context.measureText(text).width + 8 })), width, layout.curve);
  names.forEach(({ left, top, wide }, at) => {
    context.fillStyle = ink.paper;
    context.fillRect(left, top, wide, LABEL);
    context.fillStyle = ink.ink;
    context.fillText(seen[at]!.text, left + 4, top + LABEL / 2);
  });
  context.font = FONT;
}

/** Calls of each stream, a row for each kind. */
export function drawCalls(scene: Scene, calls: AnswerTo<"memory-calls">, kinds: readonly string[], selected: number | undefined): void {
  const { context, layout, width, ink } = scene;
  const place = xOf(scene);
  const { lane, kind, start, length } = calls.columns;
  const rows = new Map(layout.rows.map((row) => [row.lane * KINDS.length + row.kind, row]));
  context.font = FONT;
  context.textBaseline = "middle";
  for (const head of layout.heads) {
    context.fillStyle = ink.ink;
    context.fillText(fitted(context, head.title, width - 8), 4, head.y + HEAD / 2);
  }
  context.fillStyle = ink.quiet;
  for (const row of layout.rows) name(scene, `  ${kinds[row.kind]}`, row.y + KIND / 2);
  clipped(scene, layout.height, () => {
    for (let at = 0; at < lane.length; at += 1) {
      const row = rows.get(lane[at]! * KINDS.length + kind[at]!);
      const [from, to] = [place(start[at]!), place(start[at]! + length[at]!)];
      if (!row || to < layout.gutter || from > width) continue;
      context.fillStyle = KINDS[kind[at]!]!;
      const wide = Math.max(to - from - (to - from > 3 ? 1 : 0), 1);
      context.fillRect(from, row.y + 1, wide, KIND - 3);
      if (selected !== undefined && selected >= start[at]! && selected < start[at]! + length[at]!) outline(scene, from, row.y, wide, KIND - 1);
    }
  });
}

function outline({ context, ink }: Scene, x: number, y: number, width: number, height: number): void {
  context.strokeStyle = ink.mark;
  context.lineWidth = 2;
  context.strokeRect(x, y, Math.max(width, 2), height);
}

/** The lanes of objects that are seen. */
export function drawObjects(scene: Scene, objects: AnswerTo<"memory-objects">, selected: number | undefined, [first, last]: readonly [number, number]): void {
  const { context, layout, width, ink } = scene;
  const place = xOf(scene);
  const { object, bytes: size, from, to, open, name: names, place: sourceLocations } = objects.columns;
  const { texts } = objects.document;
  context.font = FONT;
  context.textBaseline = "middle";
  for (let at = first; at < Math.min(last, object.length); at += 1) {
    const y = layout.objects + at * LANE;
    const isSelected = object[at] === selected;
    context.fillStyle = isSelected ? ink.ink : ink.quiet;
    name(scene, `${bytes(size[at]!)}  ${calledBy(texts[names[at]!] ?? "", texts[sourceLocations[at]!] ?? "")}`, y + LANE / 2);
    const [left, right] = [place(from[at]!), place(to[at]!)];
    // Where it is, if it is out of sight.
    if (right < layout.gutter) context.fillText("◂", layout.gutter + 2, y + LANE / 2);
    if (left > width) context.fillText("▸", width - 12, y + LANE / 2);
    clipped(scene, layout.height, () => {
      context.fillStyle = LIVE;
      context.fillRect(left, y + 4, Math.max(right - left, 1), LANE - 7);
      context.fillStyle = ink.ink;
      // A life that is cut by the records has no end there.
      if ((open[at]! & 1) === 0) context.fillRect(left, y + 2, 1.5, LANE - 3);
      if ((open[at]! & 2) === 0) context.fillRect(right - 1, y + 2, 1.5, LANE - 3);
      if (isSelected) outline(scene, Math.max(left, layout.gutter), y + 1, Math.min(right, width) - Math.max(left, layout.gutter), LANE - 2);
    });
  }
  clipped(scene, layout.height, () => {
    drawWaste(scene, objects.columns, [first, last]);
    drawTicks(scene, objects.columns, [first, last]);
  });
}

function drawWaste(scene: Scene, { waste_lane, waste_from, waste_to, waste_why }: ObjectColumns, [first, last]: readonly [number, number]): void {
  const { context, layout, width } = scene;
  const place = xOf(scene);
  for (let at = 0; at < waste_lane.length; at += 1) {
    const lane = waste_lane[at]!;
    if (lane < first || lane >= last) continue;
    const [left, right] = [Math.max(place(waste_from[at]!), layout.gutter), Math.min(place(waste_to[at]!), width)];
    if (right <= left) continue;
    const y = layout.objects + lane * LANE + 4;
    context.fillStyle = WASTED;
    context.fillRect(left, y, right - left, LANE - 7);
    hatch(context, left, y, right - left, LANE - 7, waste_why[at]!);
  }
}

/** Hatching whose direction shows the reason of waste: see `Why` of crates/query. Lines have fixed positions, so that they do not move with the view. */
export function hatch(context: CanvasRenderingContext2D, x: number, y: number, width: number, height: number, why: number): void {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = "#14171b";
  context.lineWidth = 1;
  context.beginPath();
  const [isRising, isFalling] = [why === 0 || why === 2, why === 1 || why === 2];
  for (let at = Math.floor((x - height) / HATCH_DISTANCE) * HATCH_DISTANCE; at < x + width + height; at += HATCH_DISTANCE) {
    if (isRising) line(context, at, y + height, at + height, y);
    if (isFalling) line(context, at, y, at + height, y + height);
    if (why === 4) line(context, at + 0.5, y, at + 0.5, y + height);
  }
  if (why === 3) for (let at = 2; at < height; at += 3) line(context, x, y + at + 0.5, x + width, y + at + 0.5);
  context.stroke();
  context.restore();
}

/** Pixels between lines. */
const HATCH_DISTANCE = 6;

function line(context: CanvasRenderingContext2D, x: number, y: number, toX: number, toY: number): void {
  context.moveTo(x, y);
  context.lineTo(toX, toY);
}

/** Accesses: reads below, writes above, both over all of the bar. */
function drawTicks(scene: Scene, { tick_lane, tick_at, tick_mode }: ObjectColumns, [first, last]: readonly [number, number]): void {
  const { context, layout, width } = scene;
  const place = xOf(scene);
  const high = LANE - 7;
  context.fillStyle = "#14171b";
  for (let at = 0; at < tick_lane.length; at += 1) {
    const lane = tick_lane[at]!;
    const x = place(tick_at[at]! + 0.5);
    if (lane < first || lane >= last || x < layout.gutter || x > width) continue;
    const y = layout.objects + lane * LANE + 4;
    const [top, tall] = [[high / 2, high / 2], [0, high / 2], [0, high], [0, high]][tick_mode[at]!] ?? [0, high];
    context.fillRect(x - 1, y + top!, 2, tall!);
  }
}
