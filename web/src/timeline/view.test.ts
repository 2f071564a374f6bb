import fc from "fast-check";
import { expect, test } from "vitest";
import type { Lane } from "../generated/answers";
import { headOf, laneName, panned, place, sorted, tickLabel, ticks, tilesOf, turned, zoomed } from "./view";

const all = { from: 0, to: 1e9 };

test("zoom keeps the place under the pointer, and never leaves the trace", () => {
  fc.assert(
    fc.property(fc.double({ min: 0.01, max: 10, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }), (factor, placeAround) => {
      const next = zoomed({ from: 4e8, to: 5e8 }, factor, placeAround, all);
      expect(next.from).toBeGreaterThanOrEqual(all.from);
      expect(next.to).toBeLessThanOrEqual(all.to + 1e-6);
      if (factor < 1) expect(next.from + (next.to - next.from) * placeAround).toBeCloseTo(4e8 + 1e8 * placeAround, 3);
    }),
  );
  expect(panned({ from: 0, to: 10 }, -1, all)).toEqual({ from: 0, to: 10 });
});

test("tiles cover the time range with buckets of at most two pixels", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 1e9 }), fc.integer({ min: 1, max: 1e9 }), fc.integer({ min: 100, max: 4000 }), (from, length, width) => {
      const { level, first, last } = tilesOf({ from, to: from + length }, width, 512);
      const span = 512 * 2 ** level;
      expect(first * span).toBeLessThanOrEqual(from);
      expect((last + 1) * span).toBeGreaterThan(from + length);
      expect(2 ** level).toBeLessThan(Math.max((2 * length) / width, 1.001));
      expect(last - first).toBeLessThan(width / 512 + 2);
    }),
  );
});

const lane = (track: number, kind: string, events: number, rows: number) =>
  ({ track, kind, process: "1", process_name: "", thread: "", name: "", device: null, stream: null, events, rows }) satisfies Lane;

test("rows are stacked", () => {
  const lanes = sorted([lane(1, "stream", 9, 1), lane(2, "thread", 1, 40), lane(3, "thread", 5, 2)]);
  expect(lanes.map((l) => l.track)).toEqual([3, 2, 1]);
  const main = { ...lane(4, "thread", 1, 1), thread: "1" };
  expect(sorted([...lanes, main]).map((l) => l.track)).toEqual([4, 3, 2, 1]);
  const { placed, height } = place(lanes, new Map([[2, "all"]]));
  expect(placed.map((p) => p.rows)).toEqual([2, 40, 1]);
  expect(placed[1]!.top).toBeGreaterThan(placed[0]!.top);
  expect(height).toBeGreaterThan(placed[2]!.top);
});

test("the innermost levels are hidden without room, with a note, and can all be shown", () => {
  const lanes = [lane(1, "thread", 9000, 50), lane(2, "thread", 10, 40), lane(3, "async", 500, 2)];
  const { placed } = place(lanes, new Map());
  expect(placed.map((p) => p.rows)).toEqual([50, 8, 2]);
  expect(headOf(placed[1]!)).toContain("32 of 40 levels hidden");
  expect(headOf(placed[0]!)).not.toContain("hidden");
  const opened = turned(new Map(), placed[1]!);
  expect(place(lanes, opened).placed.map((p) => p.rows)).toEqual([50, 40, 2]);
  expect(place(lanes, turned(opened, place(lanes, opened).placed[1]!)).placed[1]!.rows).toBe(6);
});

test("where there are streams, deep threads leave them room, and hide outer levels that say little", () => {
  const lanes = [lane(1, "thread", 9000, 50), lane(2, "thread", 10, 40), lane(3, "thread", 5, 4), lane(4, "stream", 500, 2)];
  const { placed } = place(lanes, new Map(), new Map([[1, 20], [2, 39], [3, 2]]));
  expect(placed.map((p) => p.rows)).toEqual([6, 6, 4, 2]);
  expect(placed.map((p) => p.outer)).toEqual([20, 34, 0, 0]);
  expect(headOf(placed[0]!)).toContain("44 of 50 levels hidden (20 outer levels, 24 inner levels)");
  expect(headOf(placed[1]!)).toContain("34 of 40 levels hidden (34 outer levels, 0 inner levels)");
  expect(place([lanes[0]!, lanes[3]!], new Map()).placed[0]!.rows).toBe(12);
  const all = place(lanes, new Map([[1, "all"]]), new Map([[1, 20]])).placed[0]!;
  expect([all.rows, all.outer]).toEqual([50, 0]);
});

test("no two ticks have the same label, however close they are", () => {
  fc.assert(
    fc.property(fc.integer({ min: -1e12, max: 1e13 }), fc.integer({ min: 20, max: 1e12 }), (from, length) => {
      const { at, unit } = ticks({ from, to: from + length }, 12);
      const labels = at.map((tick) => tickLabel(tick, unit, Math.max(Math.abs(from), Math.abs(from + length))));
      expect(new Set(labels).size).toBe(labels.length);
    }),
  );
  expect(tickLabel(1_234_567_000, 1000, 1_234_600_000)).toBe("1.234567 s");
  expect(tickLabel(2_000_000, 1_000_000, 9_000_000)).toBe("2 ms");
});

test("ticks have simple values and are few", () => {
  expect(ticks({ from: 0, to: 100 }, 5).at).toEqual([0, 20, 40, 60, 80, 100]);
  expect(ticks({ from: 1.6e18, to: 1.6e18 + 256 }, 10).at.length).toBeLessThanOrEqual(12);
  expect(ticks({ from: 5, to: 5 }, 5).at.length).toBeLessThanOrEqual(6);
});

test("lanes without a stream do not show the number that -1 becomes", () => {
  const lane = { track: 1, kind: "stream", process: "0", process_name: "", thread: "4294967295", name: "stream 4294967295", device: 0, stream: 2 ** 32 - 1, events: 1, rows: 1 };
  expect([laneName(lane), laneName({ ...lane, stream: 7, name: "stream 7" })]).toEqual(["no stream · GPU 0", "stream 7 · GPU 0"]);
  const thread = { ...lane, kind: "thread", device: null, stream: null, thread: "-549452224", name: "" };
  const named = (name: string) => laneName({ ...thread, name });
  expect([named(""), named("thread -549452224 (python)"), named("thread 7 (-3)"), named("loader -1")]).toEqual([
    "thread 3745515072 · process 0", "thread 3745515072 (python) · process 0", "thread 7 (-3) · process 0", "loader -1 · process 0",
  ]);
});
