/** Boxes of the timeline, with hit testing. */

import { LAYERS, type Layer, layerOf } from "../colors";
import { type Box, FADED, NARROWEST } from "../draw/boxes";
import { duration } from "../format";
import type { Answer } from "../transport/decode";
import type { Lanes } from "../generated/answers";
import type { AnswerTo } from "../transport";
import { HEAD, type Placed, ROW, type TimeRange } from "./view";


/** Boxes of an answer, independent of the visible range and computed once. */
export interface BoxLayout {
  readonly answer: AnswerTo<"tiles">;
  /** Indices of boxes with a lane, by color, since color changes are expensive. Highlighted ones come first. */
  readonly groups: ReadonlyArray<{ readonly fill: string; readonly faded: boolean; readonly at: readonly number[] }>;
  /** Start and end of each, in one kind of list: answers have them in many, and code that meets many is slow. */
  readonly start: Float64Array;
  readonly end: Float64Array;
  /** The upper edge of each. */
  readonly y: Float64Array;
}

export interface LanePlacement {
  readonly placed: readonly Placed[];
  /** Pixels above the first lane. */
  readonly offset: number;
  /** Highlighted events, if any. */
  readonly onPath: ReadonlySet<number> | undefined;
  /** Predicate of highlighted names, if any. */
  readonly isFound: ((name: string) => boolean) | undefined;
}

/** The layer of each kind that a column of kinds may name. */
export const layersOf = (lanes: Lanes): Layer[] => lanes.kinds.map(layerOf);

const boxLayouts = new WeakMap<Answer, { readonly inputs: readonly unknown[]; readonly layout: BoxLayout }>();

/** Boxes of an answer in their lanes, cached, since panning back and forth sees few answers. */
export function boxLayout(answer: AnswerTo<"tiles">, layers: readonly Layer[], place: LanePlacement): BoxLayout {
  const inputs = [layers, place.placed, place.offset, place.onPath, place.isFound];
  const before = boxLayouts.get(answer);
  if (before && before.inputs.every((value, at) => value === inputs[at])) return before.layout;
  const result = placeBoxes(answer, layers, place);
  boxLayouts.set(answer, { inputs, layout: result });
  return result;
}

/** Puts the boxes of an answer into their lanes. */
function placeBoxes(answer: AnswerTo<"tiles">, layers: readonly Layer[], { placed, offset, onPath, isFound }: LanePlacement): BoxLayout {
  const { columns, document } = answer;
  const { track, depth, start, length, event, name, kind } = columns;
  const found = isFound && document.texts.map(isFound);
  const byTrack = new Map(placed.map((here) => [here.lane.track, here]));
  const y = new Float64Array(track.length);
  const groups = new Map<string, { fill: string; faded: boolean; at: number[] }>();
  for (let at = 0; at < track.length; at += 1) {
    const here = byTrack.get(track[at]!);
    const level = depth[at]!;
    if (!here || level < here.outer || level >= here.outer + here.rows) continue;
    y[at] = offset + here.top + HEAD + (level - here.outer) * ROW;
    const { fill } = LAYERS[layers[kind[at]!] ?? "span"];
    const faded = (onPath !== undefined && !onPath.has(event[at]!)) || found?.[name[at]!] === false;
    const key = `${faded} ${fill}`;
    const group = groups.get(key);
    if (group) group.at.push(at);
    else groups.set(key, { fill, faded, at: [at] });
  }
  const end = Float64Array.from(start, (begins, at) => begins + length[at]!);
  return { answer, start: new Float64Array(start), end, y, groups: [...groups.values()].toSorted((a, b) => Number(a.faded) - Number(b.faded)) };
}

/** Visible part of the boxes: a time range at a width, between two heights. */
export interface VisibleRect {
  readonly range: TimeRange;
  readonly width: number;
  readonly top: number;
  readonly high: number;
}

/** Number of boxes in a time range. */
export function countIn({ start, end, groups }: BoxLayout, { from, to }: TimeRange): number {
  let many = 0;
  for (const { at: indexes } of groups) {
    for (const at of indexes) if (start[at]! <= to && end[at]! >= from) many += 1;
  }
  return many;
}

/** Width and distance in pixels below which boxes are drawn as one. */
const NARROW = 3;
const CLOSE = 0.25;

/** Draw the visible boxes, and return the selected ones and those with room for a name. */
export function paint(context: CanvasRenderingContext2D, { answer, groups, start, end, y }: BoxLayout, { range, width, top, high }: VisibleRect, selected: number | undefined): Box[] {
  const { columns, document } = answer;
  const { event, count: counts, name } = columns;
  const { from, to } = range;
  const scale = width / (to - from);
  const named: Box[] = [];
  for (const { fill, faded, at: indexes } of groups) {
    context.globalAlpha = faded ? FADED : 1;
    context.fillStyle = fill;
    // The rectangle that is not drawn yet, for the next one may join it.
    let [left, right, edge] = [0, 0, -1];
    for (const at of indexes) {
      const [begins, ends, above] = [start[at]!, end[at]!, y[at]!];
      if (begins > to || ends < from || above <= top - ROW || above >= top + high) continue;
      const x = (begins - from) * scale;
      const wide = Math.max((ends - begins) * scale, 0.5);
      if (wide <= NARROW && edge === above && x >= left && x - right <= CLOSE) {
        right = Math.max(right, x + wide);
        continue;
      }
      if (edge >= 0) context.fillRect(left, edge, right - left, ROW - 1);
      edge = -1;
      if (wide <= NARROW) [left, right, edge] = [x, x + wide, above];
      else context.fillRect(x, above, wide - 1, ROW - 1);
      const marked = event[at] === selected;
      if (wide >= NARROWEST || marked) {
        named.push({ x, y: above, width: wide, height: ROW, fill, label: wide < NARROWEST ? "" : labelOf(document.texts[name[at]!] ?? "", counts[at]!), faded, marked });
      }
    }
    if (edge >= 0) context.fillRect(left, edge, right - left, ROW - 1);
  }
  context.globalAlpha = 1;
  return named;
}

const labelOf = (text: string, many: number) => (many > 1 ? `${many} events, longest ${text}` : text);

/** A box in words, for the pointer that rests on it. */
export function boxText({ columns, document }: AnswerTo<"tiles">, at: number): string {
  const { name, count: counts, busy } = columns;
  return `${labelOf(document.texts[name[at]!] ?? "", counts[at]!)}: ${duration(busy[at]!)}`;
}

/** The box at a position, by its index in the answer. */
export function boxAt({ groups, start, end, y }: BoxLayout, { range, width }: Pick<VisibleRect, "range" | "width">, x: number, down: number): number | undefined {
  const scale = width / (range.to - range.from);
  // A box may be narrower than a pointer is exact.
  const hit = (at: number, slack: number) => {
    if (down < y[at]! || down >= y[at]! + ROW) return false;
    const left = (start[at]! - range.from) * scale;
    return x >= left - slack && x < left + Math.max((end[at]! - start[at]!) * scale, 0.5) + slack;
  };
  const first = (slack: number) => {
    let best: number | undefined;
    for (const { at: indexes } of groups) {
      const found = indexes.find((at) => hit(at, slack));
      if (found !== undefined && (best === undefined || found < best)) best = found;
    }
    return best;
  };
  return first(0) ?? first(2);
}

const kinds = new WeakMap<Answer, readonly number[]>();

/** The values of a column. Neighbors are mostly alike. */
function distinct(column: ArrayLike<number>): number[] {
  const found = new Set<number>();
  for (let at = 0; at < column.length; at += 1) if (at === 0 || column[at] !== column[at - 1]) found.add(column[at]!);
  return [...found];
}

/** The layers that an answer has any event of, for the legend. */
export function layersIn(answer: AnswerTo<"tiles">, layers: readonly Layer[]): Layer[] {
  const known = kinds.get(answer) ?? distinct(answer.columns.kind);
  kinds.set(answer, known);
  const found = new Set(known.map((kind) => layers[kind] ?? "span"));
  return (Object.keys(LAYERS) as Layer[]).filter((layer) => found.has(layer));
}
