import { expect, test } from "vitest";
import type { AnswerTo } from "../transport";
import { neighbor, firstSeen, nextFound } from "./next";
import type { Placed } from "./view";

/** A row of two calls, the first of which has two within it; and a kernel elsewhere. */
const answer = {
  document: { level: 0, texts: ["outer", "inner", "gemm"], left_out: 0 },
  columns: {
    event: Uint32Array.of(10, 11, 12, 13, 20),
    track: Uint8Array.of(0, 0, 0, 0, 1),
    depth: Uint8Array.of(0, 1, 1, 0, 0),
    start: Float64Array.of(0, 10, 30, 100, 40),
    length: Float64Array.of(80, 10, 10, 20, 30),
    name: Uint8Array.of(0, 1, 1, 0, 2),
  },
} as unknown as AnswerTo<"tiles">;

test("arrows lead to adjacent, enclosing and enclosed events", () => {
  const lead = (event: number) => (["left", "right", "up", "down"] as const).map((arrow) => neighbor(answer, event, arrow));
  expect(lead(10)).toEqual([undefined, 13, undefined, 11]);
  expect(lead(11)).toEqual([undefined, 12, 10, undefined]);
  expect(lead(12)).toEqual([11, undefined, 10, undefined]);
  expect(lead(13)).toEqual([10, undefined, undefined, undefined]);
  expect(lead(99)).toEqual([undefined, undefined, undefined, undefined]);
});

test("visible events of a name are visited in order of time, in a cycle", () => {
  const all = { from: 0, to: 200 };
  const isInner = (name: string) => name === "inner";
  expect(nextFound(answer, undefined, isInner, all, 1)).toBe(11);
  expect(nextFound(answer, 11, isInner, all, 1)).toBe(12);
  expect(nextFound(answer, 12, isInner, all, 1)).toBe(11);
  expect(nextFound(answer, 11, isInner, all, -1)).toBe(12);
  expect(nextFound(answer, 20, isInner, all, 1)).toBe(11);
  expect(nextFound(answer, undefined, isInner, { from: 25, to: 60 }, 1)).toBe(12);
  expect(nextFound(answer, undefined, (name) => name === "nothing", all, 1)).toBeUndefined();
});

test("arrows begin at the first box of the first lane that has one where one looks, on a level that is seen", () => {
  const lanes = (...all: Array<[track: number, outer: number]>) => all.map(([track, outer]) => ({ lane: { track }, outer }) as Placed);
  const all = { from: 0, to: 200 };
  expect(firstSeen(answer, lanes([5, 0], [0, 0], [1, 0]), all)).toBe(10);
  expect(firstSeen(answer, lanes([0, 1], [1, 0]), all)).toBe(11);
  expect(firstSeen(answer, lanes([0, 2], [1, 0]), all)).toBe(20);
  expect(firstSeen(answer, lanes([0, 0], [1, 0]), { from: 85, to: 130 })).toBe(13);
  expect(firstSeen(answer, lanes([0, 0]), { from: 130, to: 140 })).toBeUndefined();
});
