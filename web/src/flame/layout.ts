/** Layout of the flame graph: positions of boxes and hit testing, without drawing. */

import type { Calls, Columns } from "../generated/answers";
import type { AnswerTo } from "../transport";
import type { Column } from "../transport/decode";

/**
 * A tree of the query `calls`: its columns by node, each of the smallest type that holds its numbers. Callers come before their callees.
 * `row` identifies a node in queries, `calls` is 0 if calls were not counted, and `before` is of the baseline.
 */
export interface Tree extends TreeColumns {
  readonly document: Calls;
  /** Width of each box, in units of the metric: inclusive, but exclusive in a flat list, which then adds up. */
  readonly width: Column;
  /** Start of each box, in units of the metric from the left of the root. */
  readonly left: Float64Array;
}

type TreeColumns = Columns["calls"];

/** Tree of an answer. In a comparison, removed frames keep their width of the baseline. */
export function treeOf({ document, columns }: AnswerTo<"calls">, isFlat = false, showsRemoved = false): Tree {
  const { parent, inclusive, exclusive, before } = columns;
  const width =
    isFlat ? Float64Array.from(exclusive, (own, node) => (node === 0 ? inclusive[0]! : own))
    : showsRemoved && before ? larger({ parent, inclusive, before })
    : inclusive;
  return { ...columns, document, width, left: lefts(parent, width) };
}

/** The larger of both runs, and no less than the callees together: a frame that got shorter may have callees that got longer. */
function larger({ parent, inclusive, before }: Required<Pick<TreeColumns, "parent" | "inclusive" | "before">>): Float64Array {
  const width = new Float64Array(parent.length);
  const called = new Float64Array(parent.length);
  for (let node = parent.length - 1; node >= 0; node -= 1) {
    width[node] = Math.max(inclusive[node]!, before[node]!, called[node]!);
    if (node > 0) called[parent[node]!]! += width[node]!;
  }
  return width;
}

/** Total of the baseline in frames that this run lacks, each counted once. */
export function removedTotal({ parent, inclusive, before }: Pick<TreeColumns, "parent" | "inclusive" | "before">): number {
  let sum = 0;
  for (let node = 1; before && node < parent.length; node += 1) {
    const isRemoved = (one: number) => inclusive[one] === 0 && before[one]! > 0;
    if (isRemoved(node) && (parent[node] === 0 || !isRemoved(parent[node]!))) sum += before[node]!;
  }
  return sum;
}

/** Children are placed from the left of their caller; omitted ones leave space at its right. */
export function lefts(parent: Column, width: Column): Float64Array {
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

/** The nodes that are at least half a pixel wide in a view, with their positions in pixels. */
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

/** The node at a position, by depth and distance from the root's left in units of the metric. */
export function nodeAt(tree: Tree, root: number, level: number, at: number): number | undefined {
  const depth = tree.depth[root]! + level;
  for (let node = root; node < tree.parent.length; node += 1) {
    if (node > root && tree.depth[node]! <= tree.depth[root]!) break;
    const left = tree.left[node]! - tree.left[root]!;
    if (tree.depth[node] === depth && at >= left && at < left + tree.width[node]!) return node;
  }
  return undefined;
}

/** Depth of the tree below a node. */
export function deepest(tree: Tree, root: number): number {
  let most = 0;
  for (let node = root + 1; node < tree.parent.length && tree.depth[node]! > tree.depth[root]!; node += 1) {
    most = Math.max(most, tree.depth[node]! - tree.depth[root]!);
  }
  return most;
}

/** Target of an arrow key: up to the caller, down to the widest callee, left and right to neighbors. */
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
