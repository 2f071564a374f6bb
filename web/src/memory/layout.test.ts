import { expect, test } from "vitest";
import { withoutOverlap, rangeAround, calledBy, callTitle, CURVE, extent, hitAt, KIND, LABEL, LABELS, LANE, layoutOf, namesOfPeaks, neighbor, numbersOf, outermost, peakAt, positionAt, scaleOf, toggled } from "./layout";

const lane = (kinds: number[]) => ({ stream: 0, name: "stream 0", calls: 3, kinds });

test("rows are stacked: the curve, the kinds of calls present, the objects", () => {
  const layout = layoutOf([lane([2, 0, 1]), lane([0, 1])], [], 3, 1000);
  expect(layout.rows.map(({ lane, kind }) => [lane, kind])).toEqual([[0, 0], [0, 2], [1, 1]]);
  expect(hitAt(layout, 3, layout.curve + CURVE - 1)).toEqual({ kind: "curve" });
  expect(hitAt(layout, 3, layout.rows[1]!.y + KIND - 1)).toEqual({ kind: "row", row: layout.rows[1] });
  expect(hitAt(layout, 3, layout.objects + 2 * LANE)).toEqual({ kind: "object", at: 2 });
  expect(hitAt(layout, 3, layout.objects + 3 * LANE)).toBeUndefined();
  expect(layout.height).toBeGreaterThanOrEqual(layout.objects + 3 * LANE);
});

test("a position and its place belong together", () => {
  const [range, gutter, width] = [{ from: 10, to: 30 }, 100, 500];
  const xOf = scaleOf(range, gutter, width);
  expect([xOf(10), xOf(30)]).toEqual([100, 500]);
  expect(positionAt(xOf(17), range, gutter, width)).toBeCloseTo(17);
  const peaks = [{ name: "P1", device: 0, call: 20, bytes: 1 }, { name: "P2", device: 0, call: 21, bytes: 1 }];
  expect(peakAt(peaks, xOf(20) + 3, xOf)?.name).toBe("P1");
  expect(peakAt(peaks, xOf(25), xOf)).toBeUndefined();
});

test("phases within others are left out, and keys go along lanes", () => {
  const phases = [{ name: "inner", first: 2, end: 3 }, { name: "a", first: 0, end: 5 }, { name: "b", first: 5, end: 9 }];
  expect(outermost(phases).map(({ name }) => name)).toEqual(["a", "b"]);
  expect([neighbor([7, 8, 9], undefined, 1), neighbor([7, 8, 9], undefined, -1), neighbor([7, 8, 9], 8, 1), neighbor([7, 8, 9], 9, 1), neighbor([], 1, 1)]).toEqual([7, 9, 9, 9, undefined]);
});

test("suggestions are put in and taken out by their numbers", () => {
  expect(numbersOf("3,1,3,x,-1,0,1.5")).toEqual([3, 1]);
  expect(toggled([1, 3], 2)).toBe("1,2,3");
  expect(toggled([1, 3], 3)).toBe("1");
});

test("a curve's least and highest value in a time range: the last earlier value still holds", () => {
  const columns = { curve: [0, 0, 0, 1], start: [0, 10, 20, 0], low: [1, 5, 2, 9], high: [4, 8, 3, 9], last: [4, 6, 2, 9] };
  expect(extent(columns, 0, { from: 5, to: 15 })).toEqual({ least: 4, most: 8 });
  expect(extent(columns, 0, { from: 30, to: 40 })).toEqual({ least: 2, most: 2 });
  expect(extent(columns, 2, { from: 0, to: 40 })).toBeUndefined();
});

test("names of close peaks do not overlap", () => {
  const taken = [{ left: 0, top: 10, wide: 50 }];
  expect(withoutOverlap({ left: 40, top: 12, wide: 50 }, taken).top).toBe(24);
  expect(withoutOverlap({ left: 90, top: 12, wide: 50 }, taken).top).toBe(12);
  expect(taken).toHaveLength(3);
});

test("an object without a name is labeled by its line", () => {
  expect(calledBy("weights", "a/train.py:3 f")).toBe("weights");
  expect(calledBy("object 7", "/a/b/train.py:3 Layer.forward")).toBe("object 7 · train.py:3 Layer.forward");
  expect(calledBy("object 7", "train.py:3 f")).toBe("object 7 · train.py:3 f");
  expect(calledBy("object 7", "")).toBe("object 7");
});

test("a life is shown with some room around it, within all there is", () => {
  expect(rangeAround(100, 200, { from: 0, to: 1000 })).toEqual({ from: 90, to: 210 });
  expect(rangeAround(0, 10, { from: 0, to: 1000 })).toEqual({ from: 0, to: 14 });
  expect(rangeAround(0, 10, { from: 0, to: 10 })).toEqual({ from: 0, to: 10 });
});

test("names of peaks are above the curve, each at its mark, without overlap", () => {
  const names = namesOfPeaks([{ x: 700, wide: 80 }, { x: 720, wide: 80 }], 740, 30);
  expect(names.map(({ left }) => left)).toEqual([618, 638]);
  expect(names[1]!.top - names[0]!.top).toBeGreaterThanOrEqual(LABEL);
  for (const { top } of names) expect(top + LABEL).toBeLessThanOrEqual(30 + LABELS);
  expect(namesOfPeaks([{ x: 100, wide: 80 }, { x: 400, wide: 80 }], 740, 30).map(({ left, top }) => [left, top])).toEqual([[102, 30], [402, 30]]);
});

test("a call is called by its kind once", () => {
  expect([callTitle("allocate", "allocate"), callTitle("free", null), callTitle("free", ""), callTitle("kernel", "gemm")]).toEqual(["allocate", "free", "free", "kernel gemm"]);
});
