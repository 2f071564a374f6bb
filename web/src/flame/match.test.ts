import { expect, test } from "vitest";
import type { Label } from "../generated/answers";
import type { Tree } from "./layout";
import { drawnIn, finder, nextMatch } from "./match";

const label = (name: string, file = "", line = 0): Label => ["python", name, "", file, line, name];

const tree = {
  document: { labels: [label(""), label("main", "train.py", 3), label("step", "train.py", 12), label("aten::mm")] },
  row: Uint32Array.of(0, 1, 2, 3, 4),
  parent: Uint32Array.of(0, 0, 1, 2, 1),
  depth: Uint32Array.of(0, 1, 2, 3, 2),
  label: Uint32Array.of(0, 1, 2, 3, 3),
} as unknown as Tree;

test("frames are found by name, by file, and by line", () => {
  const all = (text: string) => [1, 2, 3, 4].filter(finder(tree, text)!);
  expect([all("MM"), all("train.py"), all("train.py:12"), all("nothing")]).toEqual([[3, 4], [1, 2], [2], []]);
  expect(finder(tree, " ")).toBeUndefined();
  expect(finder(tree, "")).toBeUndefined();
});

test("matches below the zoomed frame are visited in a cycle", () => {
  const isFound = finder(tree, "aten")!;
  expect([nextMatch(tree, 0, 0, isFound, 1), nextMatch(tree, 0, 3, isFound, 1), nextMatch(tree, 0, 4, isFound, 1), nextMatch(tree, 0, 3, isFound, -1)]).toEqual([3, 4, 3, 4]);
  expect([nextMatch(tree, 2, 2, isFound, 1), nextMatch(tree, 2, 3, isFound, 1)]).toEqual([3, 3]);
  expect(nextMatch(tree, 0, 0, () => false, 1)).toBeUndefined();
});

test("matches without a box are skipped: too narrow, or in a flat list without self time", () => {
  const wide = { ...tree, width: Float64Array.of(10_000, 10_000, 9000, 2, 0) } as Tree;
  const all = [1, 2, 3, 4];
  expect([all.filter(drawnIn(wide, 0)), all.filter(drawnIn(wide, 3))]).toEqual([[1, 2], [1, 2, 3]]);
  const isFound = finder(wide, "aten")!;
  const isSeen = (root: number) => (node: number) => isFound(node) && drawnIn(wide, root)(node);
  expect([nextMatch(wide, 0, 0, isSeen(0), 1), nextMatch(wide, 3, 3, isSeen(3), 1)]).toEqual([undefined, 3]);
});
