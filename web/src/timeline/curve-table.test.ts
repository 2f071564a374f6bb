import { expect, test } from "vitest";
import type { AnswerTo } from "../transport";
import { spans } from "./curve-table";

test("a value holds until the next: the last one before a time range counts, later ones do not", () => {
  const answer = {
    document: { counters: [{}, {}] },
    columns: {
      counter: Uint32Array.of(0, 0, 0, 1),
      start: Float64Array.of(0, 10, 50, 90),
      low: Float64Array.of(1, 4, 0, 7),
      high: Float64Array.of(9, 6, 20, 8),
      last: Float64Array.of(2, 5, 3, 8),
    },
  } as unknown as AnswerTo<"counters">;
  expect(spans(answer, { from: 5, to: 20 })).toEqual([{ least: 2, most: 6 }, undefined]);
  expect(spans(answer, { from: 20, to: 30 })).toEqual([{ least: 5, most: 5 }, undefined]);
  expect(spans(answer, { from: 40, to: 200 })).toEqual([{ least: 0, most: 20 }, { least: 7, most: 8 }]);
});
