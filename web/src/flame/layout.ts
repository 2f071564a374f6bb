/** Where the boxes of a tree stand, and which of them is where: apart from drawing, so that it can be checked. */

import type { Calls } from "../generated/answers";
import type { AnswerTo } from "../transport";

/** A tree of the query `calls`: columns by node, callers before what they call. */
export interface Tree {
  readonly document: Calls;
  /** By which each is asked for. */
  readonly row: Uint32Array | Float64Array;
  readonly parent: Uint32Array;
  readonly depth: Uint32Array;
  readonly label: Uint32Array;
  readonly inclusive: Float64Array;
  readonly exclusive: Float64Array;
  /** How often its frame was called; 0 where that was not counted. */
  readonly calls: Float64Array;
  /** The same of the run that it is compared with. */
  readonly before: Float64Array | undefined;
  /** How wide each box is, in units of the metric: with what it calls, but of a flat list itself alone, which adds up. */
  readonly width: Float64Array;
  /** Where each box begins, in units of the metric from the root's left. */
  readonly left: Float64Array;
}

/** The tree of an answer; beside another run, with what is gone as wide as it was there. */
export function treeOf({ document, columns }: AnswerTo<"calls">, isFlat = false, hasGone = false): Tree {
  const { row, parent, depth, label, inclusive, exclusive, calls, before } = columns;
  const tree = { document, row, parent, depth, label, inclusive, exclusive, calls, before } as unknown as Omit<Tree, "left" | "width">;
  const width =
    isFlat ? Float64Array.from(tree.exclusive, (own, node) => (node === 0 ? tree.inclusive[0]! : own))
    : hasGone && tree.before ? larger(tree)
    : tree.inclusive;
  return { ...tree, width, left: lefts(tree.parent, width) };
}

/** The larger of both runs, and no less than what is called has together: what became shorter here may hold what became longer. */
function larger({ parent, inclusive, before }: Pick<Tree, "parent" | "inclusive" | "before">): Float64Array {
  const width = new Float64Array(parent.length);
  const called = new Float64Array(parent.length);
  for (let node = parent.length - 1; node >= 0; node -= 1) {
    width[node] = Math.max(inclusive[node]!, before![node]!, called[node]!);
    if (node > 0) called[parent[node]!]! += width[node]!;
  }
  return width;
}

/** How much of the run before is in frames that this one lacks, each told once. */
export function goneIn({ parent, inclusive, before }: Pick<Tree, "parent" | "inclusive" | "before">): number {
  let sum = 0;
  for (let node = 1; before && node < parent.length; node += 1) {
    const isGone = (one: number) => inclusive[one] === 0 && before[one]! > 0;
    if (isGone(node) && (parent[node] === 0 || !isGone(parent[node]!))) sum += before[node]!;
  }
  return sum;
}

/** Children stand side by side from their caller's left; what was left out is the room at its right. */
export function lefts(parent: Uint32Array, width: Float64Array): Float64Array {
  const left = new Float64Array(parent.length);
  const next = new Float64Array(parent.length);
  for (let node = 1; node < parent.length; node += 1) {
    const caller = parent[node]!;
    left[node] = next[caller]!;
    next[node] = left[node]!;
    next[caller] = left[node]! + width[node]!;
  }
  return left;
}

export interface Visible {
  readonly node: number;
  readonly x: number;
  readonly width: number;
}

/** The nodes that are at least half a pixel wide in a view, with their places in pixels. */
export function visible(tree: Tree, root: number, width: number, rows: readonly [first: number, last: number]): Visible[] {
  const shown: Visible[] = [];
  const scale = width / (tree.width[root]! || 1);
  const from = tree.left[root]!;
  const depth = tree.depth[root]!;
  for (let node = root; node < tree.parent.length; node += 1) {
    const level = tree.depth[node]! - depth;
    if (node > root && level <= 0) break;
    const wide = tree.width[node]! * scale;
    if (wide >= 0.5 && level >= rows[0] && level <= rows[1]) {
      shown.push({ node, x: (tree.left[node]! - from) * scale, width: wide });
    }
  }
  return shown;
}

/** The node at a place, by depth and distance from the root's left in units of the metric. */
export function nodeAt(tree: Tree, root: number, level: number, at: number): number | undefined {
  const depth = tree.depth[root]! + level;
  for (let node = root; node < tree.parent.length; node += 1) {
    if (node > root && tree.depth[node]! <= tree.depth[root]!) break;
    const left = tree.left[node]! - tree.left[root]!;
    if (tree.depth[node] === depth && at >= left && at < left + tree.width[node]!) return node;
  }
  return undefined;
}

/** How deep the tree goes below a node. */
export function deepest(tree: Tree, root: number): number {
  let most = 0;
  for (let node = root + 1; node < tree.parent.length && tree.depth[node]! > tree.depth[root]!; node += 1) {
    most = Math.max(most, tree.depth[node]! - tree.depth[root]!);
  }
  return most;
}

/** Where an arrow key leads: up to the caller, down to the widest called, left and right to neighbours. */
export function step(tree: Tree, node: number, key: "up" | "down" | "left" | "right"): number {
  const { parent, depth } = tree;
  if (key === "up") return parent[node]!;
  if (key === "down") return depth[node + 1] === depth[node]! + 1 ? node + 1 : node;
  const forward = key === "right" ? 1 : -1;
  for (let other = node + forward; other > 0 && other < parent.length && depth[other]! >= depth[node]!; other += forward) {
    if (depth[other] === depth[node]) return other;
  }
  return node;
}
