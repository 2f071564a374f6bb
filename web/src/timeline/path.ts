/** The critical path over the timeline: a line from hop to hop. */

import type { Answer } from "../transport/decode";
import type { PathDocument } from "../types";
import { HEAD, type Placed, ROW, type Stretch } from "./view";

export function drawPath(
  context: CanvasRenderingContext2D,
  { columns }: Answer<PathDocument>,
  placed: readonly Placed[],
  stretch: Stretch,
  width: number,
  offset: number,
  ink: { readonly mark: string },
): void {
  const { start, end, track } = columns as Record<string, Uint32Array | Float64Array>;
  const y = new Map(placed.map(({ lane, top }) => [lane.track, offset + top + HEAD + ROW / 2]));
  const scale = width / (stretch.to - stretch.from);
  context.strokeStyle = ink.mark;
  context.lineWidth = 1.5;
  context.beginPath();
  let last: number | undefined;
  for (let hop = 0; hop < start!.length; hop += 1) {
    const row = y.get(track![hop]!);
    if (row === undefined || end![hop]! < stretch.from || start![hop]! > stretch.to) {
      last = undefined;
      continue;
    }
    const [x0, x1] = [(start![hop]! - stretch.from) * scale, (end![hop]! - stretch.from) * scale];
    if (last === undefined) context.moveTo(x0, row);
    else if (last !== row) context.lineTo(x0, row);
    context.lineTo(x1, row);
    last = row;
  }
  context.stroke();
}

/** What has no event of its own on the path: a gap, a wait. */
const NO_EVENT = 0xffff_ffff;

/** The next hop with an event, forward or backward from the one of an event; the first one without. */
export function nextHop(
  { columns }: Answer<PathDocument>,
  from: number | undefined,
  step: number,
): (Stretch & { readonly event: number }) | undefined {
  const { start, end, event } = columns as Record<string, Uint32Array | Float64Array>;
  const here = from === undefined ? -1 : event!.indexOf(from as never);
  for (let hop = here + step; hop >= 0 && hop < event!.length; hop += step) {
    if (event![hop] !== NO_EVENT && event![hop] !== from) {
      return { event: event![hop]!, from: start![hop]!, to: end![hop]! };
    }
  }
  return undefined;
}
