import { expect, test } from "vitest";
import { fillColumns } from "./columns";

/** Filled areas of a curve: from, to, height. */
function filled(start: number[], high: number[], last: number[], scale: number, width: number): { seen: Array<[number, number, number]>; highest: number } {
  const seen: Array<[number, number, number]> = [];
  const context = { fillRect: (x: number, _: number, wide: number, high: number) => void seen.push([x, x + wide, high]) };
  const frame = { xOf: (at: number) => at * scale, yOf: (value: number) => 100 - value, left: 0, right: width, floor: 100 };
  return { highest: fillColumns(context, { start, high, last, first: 0, end: start.length }, frame), seen };
}

test("each part has its highest value for a pixel, then the one that it holds", () => {
  const { seen, highest } = filled([0, 10], [7, 9], [3, 2], 1, 20);
  expect(seen).toEqual([[0, 1, 7], [1, 10, 3], [10, 11, 9], [11, 20, 2]]);
  expect(highest).toBe(9);
});

test("parts that begin in one pixel are one column, as high as the highest of them", () => {
  const { seen } = filled([0, 1, 2, 100], [5, 50, 6, 1], [5, 4, 3, 1], 0.1, 20);
  expect(seen).toEqual([[0, 1, 50], [1, 10, 3], [10, 20, 1]]);
});

test("columns of equal height are merged, others stay", () => {
  const { seen } = filled([0, 10, 20, 30], [5, 5, 5.05, 8], [5, 5, 5.05, 8], 1, 40);
  expect(seen).toEqual([[0, 30, 5], [30, 40, 8]]);
});

test("thousands of parts are no more columns than there are pixels, and what is elsewhere is none", () => {
  const start = Array.from({ length: 5000 }, (_, at) => at);
  const { seen, highest } = filled(start, start, start, 0.01, 25);
  expect(seen.length).toBeLessThanOrEqual(2 * 26);
  expect(highest).toBe(2500);
});
