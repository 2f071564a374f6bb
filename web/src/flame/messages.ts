/** Texts about frames of the flame graph. */

import { GROUPS, stepsText, parsed } from "../filter";
import { amount, counted, percent } from "../format";
import { selectedFrame, state } from "../state";
import type { Label } from "../generated/answers";
import { frameIn, nodeOf } from "./chosen";
import type { Tree } from "./layout";
import { type Args, HERE, SHAPES } from "./question";

export const labelOf = (tree: Tree, node: number): Label => tree.document.labels[tree.label[node]!]!;

/** Check for the root node, which has no frame. */
export const isAll = (tree: Tree, node: number) => tree.row[node] === 0;

/** Rows and names from the root of the view to a node. */
export function pathOf(tree: Tree, node: number): Array<[number, string]> {
  const path: Array<[number, string]> = [];
  for (let at = node; at > 0; at = tree.parent[at]!) path.unshift([tree.row[at]!, labelOf(tree, at)[5]]);
  return [...tree.document.path.map(([row, name]): [number, string] => [row, name]), ...path];
}

/** Number of calls of a frame as text; empty if not counted. */
export const timesOf = (calls: number | null | undefined): string => (calls ? `, called ${counted(calls, "time")}` : "");

/** Description of a node, also for screen readers. */
export function ariaText(tree: Tree, node: number): string {
  const { unit, total, title } = tree.document;
  const name = isAll(tree, node) ? "all" : labelOf(tree, node)[5];
  const all = tree.inclusive[node]!;
  const before = tree.before ? `, ${amount(tree.before[node]!, unit)} in A (the baseline)` : "";
  return `${name}: ${amount(all, unit)} (${percent(all, total)} of ${title})${before}, self ${amount(tree.exclusive[node]!, unit)}${timesOf(tree.calls[node]!)}`;
}

/** The node that is selected, as a row or as a frame, if this tree has it. */
export function selectedNode(tree: Tree): number | undefined {
  const { sel = "" } = state.value;
  const frame = frameIn(sel);
  if (frame) return nodeOf(tree, frame, selectedFrame.frame === sel ? selectedFrame.around : []);
  const [kind, row] = sel.split(":");
  if (kind !== "node") return undefined;
  const node = tree.row.indexOf(Number(row));
  return node < 0 ? undefined : node;
}

/** Caption of a printed plot, which has no controls. */
export function captionOf(title: string, { shape, steps = "", of, focus, hide, find, merge, recursion, rank, ...groups }: Args): string {
  const view = [...SHAPES, ...HERE].find(([name]) => name === shape)?.[1] ?? "";
  const chosen = parsed(steps);
  const parts: Array<readonly [text: string | undefined, description: string]> = [
    [of, `from ${of}`],
    ...GROUPS.map((group) => [groups[group], `${group}: ${groups[group]}`] as const),
    [focus, `only call paths with a frame that matches ${focus}`],
    [hide, `without frames that match ${hide}`],
    [find, `frames that match ${find} are highlighted`],
    [merge, "merged by name"],
    [recursion, "recursion collapsed"],
    [rank, `rank ${rank}`],
  ];
  return [view, title, chosen ? stepsText(chosen) : "the whole run", ...parts.flatMap(([text, description]) => (text ? [description] : []))].join(", ");
}

/** Predicate of names that contain a text; undefined without letters. */
export function matcher(text: string | undefined): ((name: string) => boolean) | undefined {
  const searchText = text?.trim().toLowerCase();
  return searchText ? (name) => name.toLowerCase().includes(searchText) : undefined;
}
