/** Boxes on a canvas, batched by color, with their names if there is room. */

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly fill: string;
  /** The color of a stripe at its foot. */
  readonly stripe?: string;
  readonly label: string;
  readonly faded?: boolean;
  readonly marked?: boolean;
}

export interface Ink {
  readonly paper: string;
  readonly label: string;
  readonly mark: string;
}

const FONT = "11px system-ui, sans-serif";
const PADDING = 4;
/** Narrower boxes have no name. */
export const NARROWEST = 28;
export const FADED = 0.35;
/** Height of a stripe at the foot of a box. */
const STRIPE = 3;

/** Draw all boxes, in coordinates of the page. */
export function drawBoxes(context: CanvasRenderingContext2D, boxes: readonly Box[], ink: Ink): void {
  fillBoxes(context, boxes);
  labelBoxes(context, boxes, ink);
}

/** Draws the boxes without their names. */
export function fillBoxes(context: CanvasRenderingContext2D, boxes: readonly Box[]): void {
  const groups = [new Map<string, Box[]>(), new Map<string, Box[]>()];
  for (const box of boxes) {
    const byFill = groups[box.faded ? 1 : 0]!;
    const group = byFill.get(box.fill);
    if (group === undefined) {
      byFill.set(box.fill, [box]);
    } else {
      group.push(box);
    }
  }
  for (const group of groups.flatMap((byFill) => [...byFill.values()])) {
    context.globalAlpha = group[0]!.faded ? FADED : 1;
    context.fillStyle = group[0]!.fill;
    for (const { x, y, width, height } of group) {
      context.fillRect(x, y, Math.max(width - (width > 3 ? 1 : 0), 0.5), height - 1);
    }
  }
  context.globalAlpha = 1;
  for (const { x, y, width, height, stripe } of boxes) {
    if (stripe === undefined) continue;
    context.fillStyle = stripe;
    context.fillRect(x, y + height - 1 - STRIPE, Math.max(width - (width > 3 ? 1 : 0), 0.5), STRIPE);
  }
}

/** Draws their names, and frames around those that are marked. */
export function labelBoxes(context: CanvasRenderingContext2D, boxes: readonly Box[], ink: Ink): void {
  context.font = FONT;
  context.textBaseline = "middle";
  for (const box of boxes) {
    if (box.width >= NARROWEST && box.label !== "") {
      // What is faded is nearly as dark, or as light, as the paper.
      context.fillStyle = box.faded ? ink.mark : ink.label;
      context.globalAlpha = box.faded ? 0.75 : 1;
      const left = Math.max(box.x, 0);
      const room = box.x + box.width - left - 2 * PADDING;
      context.fillText(fitted(context, box.label, room), left + PADDING, box.y + box.height / 2);
    }
  }
  context.globalAlpha = 1;
  context.strokeStyle = ink.mark;
  context.lineWidth = 2;
  for (const box of boxes) {
    if (box.marked) {
      context.strokeRect(box.x + 1, box.y + 1, Math.max(box.width - 3, 1), box.height - 3);
    }
  }
}

/** Text shortened to a width in pixels, cached. */
const fits = new Map<number, Map<string, string>>();
let cachedTexts = 0;

/** The text, or as much of it as fits, with an ellipsis. */
export function fitted(context: Pick<CanvasRenderingContext2D, "measureText">, text: string, room: number): string {
  if (room <= 0) return "";
  const whole = Math.floor(room);
  const known = fits.get(whole) ?? new Map<string, string>();
  fits.set(whole, known);
  let result = known.get(text);
  if (result === undefined) {
    result = fit(context, text, whole);
    cachedTexts += 1;
    if (cachedTexts > MAX_CACHED_TEXTS) {
      fits.clear();
      cachedTexts = 0;
    }
    known.set(text, result);
  }
  return result;
}

const MAX_CACHED_TEXTS = 20_000;

function fit(context: Pick<CanvasRenderingContext2D, "measureText">, text: string, room: number): string {
  // Nobody measures kilobytes of a template's name: more than this never fits.
  const most = Math.ceil(room / 3) + 1;
  const start = text.length > most ? text.slice(0, most) : text;
  if (start === text && widthOf(context, text) <= room) return text;
  let [low, high] = [0, start.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (widthOf(context, `${start.slice(0, middle)}…`) <= room) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? "" : `${start.slice(0, low)}…`;
}

const widths = new Map<string, number>();

function widthOf(context: Pick<CanvasRenderingContext2D, "measureText">, text: string): number {
  let width = widths.get(text);
  if (width === undefined) {
    width = context.measureText(text).width;
    if (widths.size > 20_000) widths.clear();
    widths.set(text, width);
  }
  return width;
}
