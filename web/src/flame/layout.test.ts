import fc from "fast-check";
import { expect, test } from "vitest";
import type { AnswerTo } from "../transport";
import { removedTotal, lefts, nodeAt, step, type Tree, treeOf, visible } from "./layout";

/** A tree in the order callers first, with whole numbers; some room of each is its own or was left out. */
const trees = fc.array(fc.tuple(fc.nat(1000), fc.nat(20)), { minLength: 1, maxLength: 60 }).map((seeds) => {
  const parent = [0];
  const depth = [0];
  for (const [seed] of seeds) {
    // A child of the node before it or of one of its callers: so the order is callers first.
    let caller = parent.length - 1;
    for (let up = seed % (depth[caller]! + 1); up > 0; up -= 1) caller = parent[caller]!;
    parent.push(caller);
    depth.push(depth[caller]! + 1);
  }
  const exclusive = [0, ...seeds.map(([, own]) => own)];
  const inclusive = exclusive.slice();
  for (let node = parent.length - 1; node > 0; node -= 1) inclusive[parent[node]!]! += inclusive[node]!;
  const columns = {
    parent: Uint32Array.from(parent),
    depth: Uint32Array.from(depth),
    inclusive: Float64Array.from(inclusive),
    exclusive: Float64Array.from(exclusive),
  };
  return { ...columns, width: columns.inclusive, left: lefts(columns.parent, columns.inclusive) } as unknown as Tree;
});

test("children lie within their caller and do not overlap", () => {
  fc.assert(
    fc.property(trees, (tree) => {
      const end = (node: number) => tree.left[node]! + tree.inclusive[node]!;
      for (let node = 1; node < tree.parent.length; node += 1) {
        const caller = tree.parent[node]!;
        expect(tree.left[node]).toBeGreaterThanOrEqual(tree.left[caller]!);
        expect(end(node)).toBeLessThanOrEqual(end(caller));
        for (let other = node + 1; other < tree.parent.length; other += 1) {
          if (tree.parent[other] === caller) expect(tree.left[other]).toBeGreaterThanOrEqual(end(node));
        }
      }
    }),
  );
});

test("hit testing finds the node drawn at a position", () => {
  fc.assert(
    fc.property(trees, (tree) => {
      const width = 1000;
      const scale = width / (tree.inclusive[0]! || 1);
      for (const box of visible(tree, 0, width, [0, 100])) {
        const middle = (box.x + box.width / 2) / scale;
        expect(nodeAt(tree, 0, tree.depth[box.node]!, middle)).toBe(box.node);
      }
    }),
  );
});

test("arrow keys", () => {
  //  0 ─ 1 ─ 2
  //   \ 3
  const tree = { parent: Uint32Array.of(0, 0, 1, 0), depth: Uint32Array.of(0, 1, 2, 1) } as unknown as Tree;
  expect([step(tree, 1, "down"), step(tree, 2, "up"), step(tree, 1, "right"), step(tree, 3, "left"), step(tree, 3, "down")]).toEqual([2, 1, 3, 1, 3]);
});

test("a flat list is as wide as its root", () => {
  const columns = { parent: Uint32Array.of(0, 0, 0), depth: Uint32Array.of(0, 1, 1), inclusive: Float64Array.of(10, 10, 8), exclusive: Float64Array.of(0, 2, 8) };
  const tree = treeOf({ document: {}, columns } as unknown as AnswerTo<"calls">, true);
  expect([...tree.width]).toEqual([10, 2, 8]);
  expect([...tree.left]).toEqual([0, 0, 2]);
});

test("removed frames keep their width and are listed once", () => {
  //  0 ─ 1 item (removed) ─ 2 wait (removed)
  //   \ 3 mm
  const columns = { parent: Uint32Array.of(0, 0, 1, 0), depth: Uint32Array.of(0, 1, 2, 1), inclusive: Float64Array.of(10, 0, 0, 10), exclusive: Float64Array.of(0, 0, 0, 10), before: Float64Array.of(14, 6, 5, 8) };
  const answer = { document: {}, columns } as unknown as AnswerTo<"calls">;
  expect([...treeOf(answer).width]).toEqual([10, 0, 0, 10]);
  const tree = treeOf(answer, false, true);
  expect([...tree.width]).toEqual([16, 6, 5, 10]);
  expect([...tree.left]).toEqual([0, 0, 0, 6]);
  expect(removedTotal(tree)).toBe(6);
});
