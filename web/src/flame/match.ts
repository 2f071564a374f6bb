/** Search in the flame graph, and steps between matches. */

import { isAll, matcher } from "./messages";
import type { Tree } from "./layout";

/** Predicate of nodes with a text in their name, file, or `file:line`; undefined without a text. */
export function finder(tree: Tree, text: string | undefined): ((node: number) => boolean) | undefined {
  const holds = matcher(text);
  if (!holds) return undefined;
  const found = tree.document.labels.map(([, name, , file, line]) => holds(name) || holds(line > 0 ? `${file}:${line}` : file));
  return (node) => !isAll(tree, node) && found[tree.label[node]!]!;
}

/** Share of the zoomed frame that is half a pixel wide in a typical plot. */
const NARROW = 1 / 2000;

/** Predicate of nodes with a box at this zoom. In a flat list, nodes without self time have none. */
export const drawnIn = (tree: Pick<Tree, "width">, root: number) => (node: number): boolean => tree.width[node]! > 0 && tree.width[node]! >= tree.width[root]! * NARROW;

/** Next or previous match below a root, in a cycle. */
export function nextMatch(tree: Tree, root: number, from: number, isFound: (node: number) => boolean, step: 1 | -1): number | undefined {
  let end = root + 1;
  while (end < tree.parent.length && tree.depth[end]! > tree.depth[root]!) end += 1;
  const count = end - root;
  for (let far = 1; far <= count; far += 1) {
    const at = root + ((((from - root + far * step) % count) + count) % count);
    if (isFound(at)) return at;
  }
  return undefined;
}

