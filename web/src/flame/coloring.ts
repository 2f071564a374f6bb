/** Color schemes of the flame graph. */

import { area, LAYERS, layerOf } from "../colors";
import type { Label, Row } from "../generated/answers";
import type { Tree } from "./layout";
import { isOfFunction, type Named } from "./named";

export const COLORS = [
  ["layer", "layer of the stack"],
  ["finding", "findings"],
  ["module", "module"],
  ["heat", "self time"],
  ["file", "file or library"],
] as const;

/** The color of a box, and that of a stripe at its foot. */
export interface Color {
  readonly fill: string;
  readonly stripe?: string;
}

/** The color of a node. */
export type Coloring = (node: number) => Color;

const PALE = "#e4e4ea";
/** Colors from pale to hot, in distinct steps. */
export const HEAT = ["#f3efe6", "#f9e0a8", "#f5c069", "#ee964b", "#e0693a"];
/** Okabe and Ito's, lightened so that dark text can be read on them. */
const FILES = ["#8cc4ee", "#f3c06b", "#6fcfae", "#f3e98a", "#9fb3f0", "#f0925b", "#e0a3c8", "#c9c2b4"];

export function coloring(by: string, tree: Tree, named: Named): Coloring {
  const label = (node: number) => tree.document.labels[tree.label[node]!]!;
  switch (by) {
    case "finding":
      return byFinding(tree, named);
    case "module": {
      const modules = modulesOf(tree);
      return (node) => ({ fill: modules[node] === -1 ? PALE : oneOf(tree.document.labels[modules[node]!]![1]) });
    }
    case "heat": {
      let most = 1;
      for (const own of tree.exclusive) most = Math.max(most, own);
      return (node) => ({ fill: HEAT[Math.min(Math.floor((tree.exclusive[node]! / most) ** 0.5 * HEAT.length), HEAT.length - 1)]! });
    }
    case "change":
      return (node) => ({ fill: changeColor((tree.inclusive[node]! - tree.before![node]!) / Math.max(tree.document.total, tree.document.before ?? 0, 1)) });
    case "file":
      return (node) => ({ fill: oneOf(label(node)[3] || label(node)[0]) });
    default:
      return (node) => ({ fill: LAYERS[layerOf(label(node)[0])].fill });
  }
}

/** Frames of findings have the color of their area; their callers have a stripe of it. */
function byFinding(tree: Tree, { of }: Named): Coloring {
  const stripes: Array<string | undefined> = Array.from(tree.parent, () => undefined);
  for (let node = tree.parent.length - 1; node > 0; node -= 1) {
    const own = of[node];
    const color = own ? area(`${own.area}`).fill : stripes[node];
    if (color !== undefined) stripes[tree.parent[node]!] ??= color;
  }
  return (node) => {
    const own = of[node];
    if (own) return { fill: area(`${own.area}`).fill };
    return stripes[node] === undefined ? { fill: PALE } : { fill: PALE, stripe: stripes[node] };
  };
}

/** For each node the label of the module around it; -1 where there is none. */
export function modulesOf(tree: Pick<Tree, "parent" | "label" | "document">): Int32Array {
  const modules = new Int32Array(tree.parent.length).fill(-1);
  for (let node = 1; node < modules.length; node += 1) {
    const isModule = tree.document.labels[tree.label[node]!]![0] === "module";
    modules[node] = isModule ? tree.label[node]! : modules[tree.parent[node]!]!;
  }
  return modules;
}

/** Colors from blue (less) over pale to orange (more), by share of the total change: distinct with any color vision. */
const LESS = ["#cfe3f3", "#9fcbea", "#6fb1de"];
const MORE = ["#f9ddc6", "#f3b98a", "#e8935b"];

function changeColor(part: number): string {
  const size = Math.abs(part);
  if (size < 0.002) return PALE;
  return (part < 0 ? LESS : MORE)[size < 0.01 ? 0 : size < 0.05 ? 1 : 2]!;
}

/** Check if a finding refers to a frame: the function in its file, or the operator. */
export function isAbout(finding: Row, label: Label): boolean {
  if (finding.function && finding.file) return isOfFunction(finding, label);
  return finding.operator !== null && finding.operator === label[1];
}

const oneOf = (text: string) => FILES[hash(text) % FILES.length]!;

function hash(text: string): number {
  let value = 7;
  for (const character of text) value = (value * 31 + character.codePointAt(0)!) >>> 0;
  return value;
}
