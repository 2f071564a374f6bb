import { expect, test } from "vitest";
import type { AnswerTo } from "../transport";
import type { Brief, Lane } from "../generated/answers";
import { rowAround } from "./arrows";
import { boxLayout } from "./boxes";
import { HEAD, ROW } from "./view";

/** Three levels of a thread, the innermost a launch. */
const answer = {
  document: { level: 0, texts: ["step", "aten::mm", "cudaLaunchKernel"], left_out: 0 },
  columns: {
    event: Uint32Array.of(10, 11, 12),
    track: Uint8Array.of(0, 0, 0),
    depth: Uint8Array.of(0, 1, 2),
    start: Float64Array.of(0, 20, 30),
    length: Float64Array.of(100, 40, 10),
    name: Uint8Array.of(0, 1, 2),
    kind: Uint8Array.of(0, 0, 0),
  },
} as unknown as AnswerTo<"tiles">;

const shown = (rows: number) => boxLayout(answer, ["operator"], { placed: [{ lane: { track: 0, rows: 3 } as Lane, top: 0, rows, outer: 0 }], offset: 0, onPath: undefined, isFound: undefined });
const launch = { event: 12, start: 30, dur: 10, track: 0 } as Brief;

test("an arrow begins at the nearest level that is shown around what launched", () => {
  const row = (level: number) => HEAD + level * ROW + ROW / 2;
  expect([3, 2, 1].map((rows) => rowAround(shown(rows), launch))).toEqual([row(2), row(1), row(0)]);
  expect(rowAround(shown(3), { ...launch, track: 1 })).toBeUndefined();
  expect(rowAround(shown(3), { ...launch, start: 95 })).toBeUndefined();
});
