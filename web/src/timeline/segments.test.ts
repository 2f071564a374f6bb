import { expect, test } from "vitest";
import type { Answer } from "../transport/decode";
import type { PathDocument } from "../types";
import { segmentsOf } from "./segments";

test("hops of one cause that follow each other are one segment, and all of the time is in one", () => {
  const columns = { start: Float64Array.of(0, 5, 9, 20), end: Float64Array.of(5, 9, 20, 30), category: Uint32Array.of(1, 1, 0, 1) };
  const segments = segmentsOf({ document: {}, columns } as unknown as Answer<PathDocument>);
  expect(segments).toEqual([
    { cause: 1, from: 0, to: 9, first: 0, end: 2 },
    { cause: 0, from: 9, to: 20, first: 2, end: 3 },
    { cause: 1, from: 20, to: 30, first: 3, end: 4 },
  ]);
  const gap = { start: Float64Array.of(0, 6), end: Float64Array.of(5, 9), category: Uint32Array.of(1, 1) };
  expect(segmentsOf({ document: {}, columns: gap } as unknown as Answer<PathDocument>)).toHaveLength(2);
  expect(segments.reduce((sum, { from, to }) => sum + to - from, 0)).toBe(30);
});
