/** Curves as columns of pixels: one path of thousands of rectangles takes a browser without a GPU longer than all else of a frame. */

/** A curve that is highest at the beginning of each of its parts, and then holds a value until the next begins. */
export interface Steps {
  /** Starts of its parts, ascending. */
  readonly start: ArrayLike<number>;
  readonly high: ArrayLike<number>;
  readonly last: ArrayLike<number>;
  /** First part, and the one after the last. */
  readonly first: number;
  readonly end: number;
}

/** Coordinate transform and limits of the plot. */
export interface Frame {
  readonly xOf: (at: number) => number;
  readonly yOf: (value: number) => number;
  readonly left: number;
  readonly right: number;
  /** Baseline of the columns. */
  readonly floor: number;
}

/** Difference in pixels that is not visible. */
const MAX_MERGED_DIFFERENCE = 0.1;

/** Fills the columns of pixels below a curve, each part of which has a pixel at least for its highest value; gives the highest that is seen. */
export function fillColumns(context: Pick<CanvasRenderingContext2D, "fillRect">, { start, high, last, first, end }: Steps, { xOf, yOf, left, right, floor }: Frame): number {
  let highest = Number.NEGATIVE_INFINITY;
  // Of parts that begin in one column of pixels.
  let peak = Number.NEGATIVE_INFINITY;
  // The column that is not filled yet, for the next one may be as high.
  let [wide, begun, top] = [0, 0, floor];
  const column = (from: number, to: number, value: number) => {
    if (to <= from) return;
    const y = yOf(value);
    if (from === begun + wide && Math.abs(y - top) < MAX_MERGED_DIFFERENCE) {
      wide += to - from;
      return;
    }
    if (wide > 0) context.fillRect(begun, top, wide, floor - top);
    [wide, begun, top] = [to - from, from, y];
  };
  let columnEnd = first < end ? xOf(start[first]!) : right;
  for (let at = first; at < end; at += 1) {
    const begins = columnEnd;
    if (begins > right) break;
    columnEnd = at + 1 < end ? xOf(start[at + 1]!) : right;
    if (columnEnd < left) continue;
    const from = Math.round(Math.max(begins, left));
    const to = Math.round(Math.min(columnEnd, right));
    highest = Math.max(highest, high[at]!);
    peak = Math.max(peak, high[at]!);
    // The last one that is seen has a pixel, too.
    if (to === from && at + 1 < end) continue;
    column(from, from + 1, peak);
    column(from + 1, to, last[at]!);
    peak = Number.NEGATIVE_INFINITY;
  }
  if (wide > 0) context.fillRect(begun, top, wide, floor - top);
  return highest;
}
