/** Answers as boxes, and which of them is below a pointer. */

import { LAYERS, type Layer, layerOf } from "../colors";
import { NARROWEST } from "../draw/boxes";
import { duration } from "../format";
import type { Answer } from "../transport/decode";
import type { Lanes, TileDocument } from "../types";
import type { EventBox } from "./arrows";
import { HEAD, type Placed, ROW, type Stretch } from "./view";

type Numbers = Record<string, Uint8Array | Uint16Array | Uint32Array | Float64Array>;

export interface Seen {
  readonly placed: readonly Placed[];
  /** Pixels above the first lane. */
  readonly offset: number;
  readonly stretch: Stretch;
  readonly width: number;
  readonly selected: number | undefined;
  /** Events that stand out, if some do. */
  readonly onPath: ReadonlySet<number> | undefined;
  /** Tells names that stand out, if some do. */
  readonly isFound: ((name: string) => boolean) | undefined;
}

/** The layer of each kind that a column of kinds may name. */
export const layersOf = (lanes: Lanes): Layer[] => lanes.kinds.map(layerOf);

/** The boxes that are seen. Only those that are wide enough for it have a label. */
export function boxesOf({ columns, document }: Answer<TileDocument>, layers: readonly Layer[], seen: Seen): EventBox[] {
  const { track, depth, start, length, event, count: counts, name, kind } = columns as Numbers;
  const { placed, offset, stretch, width, selected, onPath, isFound } = seen;
  const found = isFound && document.texts.map(isFound);
  const byTrack = new Map(placed.map((here) => [here.lane.track, here]));
  const scale = width / (stretch.to - stretch.from);
  const boxes: EventBox[] = [];
  for (let at = 0; at < track!.length; at += 1) {
    const [from, long, level] = [start![at]!, length![at]!, depth![at]!];
    if (from > stretch.to || from + long < stretch.from) continue;
    const here = byTrack.get(track![at]!);
    if (!here || level >= here.rows) continue;
    const wide = Math.max(long * scale, 0.5);
    boxes.push({
      event: event![at]!,
      at,
      x: (from - stretch.from) * scale,
      y: offset + here.top + HEAD + level * ROW,
      width: wide,
      height: ROW,
      fill: LAYERS[layers[kind![at]!] ?? "span"].fill,
      label: wide < NARROWEST ? "" : labelOf(document.texts[name![at]!] ?? "", counts![at]!),
      faded: (onPath !== undefined && !onPath.has(event![at]!)) || found?.[name![at]!] === false,
      marked: event![at] === selected,
    });
  }
  return boxes;
}

const labelOf = (text: string, many: number) => (many > 1 ? `${many} events, longest ${text}` : text);

/** A box in words, for the pointer that rests on it. */
export function wordsOf({ columns, document }: Answer<TileDocument>, { at }: EventBox): string {
  const { name, count: counts, busy } = columns as Numbers;
  return `${labelOf(document.texts[name![at]!] ?? "", counts![at]!)}: ${duration(busy![at]!)}`;
}

/** The layers that an answer has any event of, for the legend. */
export function layersIn({ columns }: Answer<TileDocument>, layers: readonly Layer[]): Layer[] {
  const found = new Set(Array.from(new Set(columns.kind), (kind) => layers[kind] ?? "span"));
  return (Object.keys(LAYERS) as Layer[]).filter((layer) => found.has(layer));
}

/** The box at a place. */
export function boxAt(boxes: readonly EventBox[], x: number, y: number): EventBox | undefined {
  // A box may be narrower than a pointer is exact.
  const hit = (box: EventBox, slack: number) => y >= box.y && y < box.y + box.height && x >= box.x - slack && x < box.x + box.width + slack;
  return boxes.find((box) => hit(box, 0)) ?? boxes.find((box) => hit(box, 2));
}
