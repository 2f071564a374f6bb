import { expect, test } from "vitest";
import type { Columns, Lane } from "../generated/answers";
import { idleLevels, levelsOf, outerOf } from "./levels";

/** Track 0: ten levels, of which each of the outer eight is one box, except for very short events on the second; from level 8 on there are two. Track 1: a stream. */
const deep = Array.from({ length: 8 }, (_, level) => [0, level, level, 0, 1000]);
const rows = [...deep, [0, 1, 30, 1000, 5], [0, 8, 8, 100, 200], [0, 8, 9, 500, 200], [0, 9, 10, 120, 50], [1, 0, 20, 150, 30]];
const columns = Object.fromEntries(["track", "depth", "event", "start", "length"].map((name, at) => [name, Float64Array.from(rows, (row) => row[at]!)])) as Columns["tiles"];
const lane = (track: number, rows: number) => ({ track, rows }) as Lane;
const all = { from: 0, to: 1000 };

test("levels that are nearly one box are counted, of those that are seen", () => {
  expect(idleLevels({ columns }, all)).toEqual(new Map([[0, 7], [1, 0]]));
  // Here one event alone is seen of each level.
  expect(idleLevels({ columns }, { from: 0, to: 400 })).toEqual(new Map([[0, 9], [1, 0]]));
  expect(levelsOf({ columns }, [9, 20, 99])).toEqual(new Map([[0, 8], [1, 0]]));
});

test("an event is visible with its nearest callers and its callees, not with the outermost callers", () => {
  const hiddenLevelsOf = (events: number[], levels = 10) => outerOf({ columns }, [lane(0, levels), lane(1, 1)], events, all).get(0);
  expect([hiddenLevelsOf([9]), hiddenLevelsOf([8], 30), hiddenLevelsOf([3]), hiddenLevelsOf([0])]).toEqual([4, 4, 0, 0]);
  // No event of this lane: what is busy there.
  expect(hiddenLevelsOf([20])).toBe(7);
});
