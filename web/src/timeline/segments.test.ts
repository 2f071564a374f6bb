import { expect, test } from "vitest";
import type { AnswerTo } from "../transport";
import { nextSegment, NO_EVENT, type Reached, segmentsOf } from "./segments";

test("adjacent parts of the path with one cause are one segment, and segments cover all of the time", () => {
  const columns = { start: Float64Array.of(0, 5, 9, 20), end: Float64Array.of(5, 9, 20, 30), category: Uint32Array.of(1, 1, 0, 1), track: Uint32Array.of(2, 2, 2, 2) };
  const segments = segmentsOf({ document: {}, columns } as unknown as AnswerTo<"path">);
  expect(segments).toEqual([
    { cause: 1, from: 0, to: 9, first: 0, end: 2 },
    { cause: 0, from: 9, to: 20, first: 2, end: 3 },
    { cause: 1, from: 20, to: 30, first: 3, end: 4 },
  ]);
  const gap = { start: Float64Array.of(0, 6), end: Float64Array.of(5, 9), category: Uint32Array.of(1, 1), track: Uint32Array.of(2, 2) };
  expect(segmentsOf({ document: {}, columns: gap } as unknown as AnswerTo<"path">)).toHaveLength(2);
  expect(segments.reduce((sum, { from, to }) => sum + to - from, 0)).toBe(30);
});

test("one goes on in time, though the same event is on the path again and again, and never to and fro", () => {
  // Event 7 is interrupted by 8 and 9 of another cause; then nothing; then it goes on, on another lane too.
  const parts = [[7, 1, 0], [5, 1, 0], [8, 0, 0], [7, 1, 0], [NO_EVENT, 2, 0], [9, 0, 0], [7, 1, 0], [6, 1, 4]];
  const columns = {
    event: Uint32Array.from(parts, ([event]) => event!),
    category: Uint32Array.from(parts, ([, cause]) => cause!),
    track: Uint32Array.from(parts, ([, , track]) => track!),
    start: Float64Array.from(parts, (_, at) => 10 * at),
    end: Float64Array.from(parts, (_, at) => 10 * at + 10),
    name: new Uint32Array(parts.length),
  };
  const path = { document: { texts: [""] }, columns } as unknown as AnswerTo<"path">;
  const segments = segmentsOf(path);
  expect(segments).toHaveLength(7);
  const walk = (step: 1 | -1, only?: number, reached?: Reached, range = { from: 0, to: 80 }) => {
    const seen: Array<[number, number]> = [];
    while (seen.length < 20) {
      const next = nextSegment(path, segments, { reached, selected: reached?.event, range, ...(only === undefined ? {} : { only }) }, step);
      if (!next) break;
      seen.push([segments[next.segment]!.from, next.event]);
      reached = next;
    }
    return seen;
  };
  const all = [[0, 7], [20, 8], [30, 7], [50, 9], [60, 7], [70, 6]];
  expect(walk(1)).toEqual(all);
  expect(walk(-1)).toEqual(all.toReversed());
  expect(walk(1, 0)).toEqual([[20, 8], [50, 9]]);
  // From what is seen, where nothing is selected; from the event, where one is.
  expect(walk(1, undefined, undefined, { from: 45, to: 80 })).toEqual(all.slice(3));
  const after = (selected: number) => nextSegment(path, segments, { selected, range: { from: 0, to: 80 } }, 1)?.event;
  expect([after(8), after(9), after(6)]).toEqual([7, 7, undefined]);
});
