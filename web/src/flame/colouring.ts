/** What the colour of a box means: a choice. */

import { LAYERS, layerOf } from "../colors";
import type { Row } from "../types";
import type { Tree } from "./layout";

export const COLOURS = [
  ["layer", "layer of the stack"],
  ["finding", "findings"],
  ["heat", "time in it itself"],
  ["file", "file or library"],
] as const;

/** The colour of a node. */
export type Colouring = (node: number) => string;

const PALE = "#e4e4ea";
const FOUND = "#e8743b";
/** From pale to hot, in steps that can be told apart. */
const HEAT = ["#f3efe6", "#f9e0a8", "#f5c069", "#ee964b", "#e0693a"];
/** Okabe and Ito's, lightened so that dark text can be read on them. */
const FILES = ["#8cc4ee", "#f3c06b", "#6fcfae", "#f3e98a", "#9fb3f0", "#f0925b", "#e0a3c8", "#c9c2b4"];

export function colouring(by: string, tree: Tree, findings: readonly Row[]): Colouring {
  const label = (node: number) => tree.document.labels[tree.label[node]!]!;
  switch (by) {
    case "finding": {
      const found = tree.document.labels.map((one) => findings.some((row) => isAt(row, one[1], one[3])));
      return (node) => (found[tree.label[node]!] ? FOUND : PALE);
    }
    case "heat": {
      const most = tree.exclusive.reduce((a, b) => Math.max(a, b), 1);
      return (node) => HEAT[Math.min(Math.floor((tree.exclusive[node]! / most) ** 0.5 * HEAT.length), HEAT.length - 1)]!;
    }
    case "change":
      return (node) => changeColour((tree.inclusive[node]! - tree.before![node]!) / Math.max(tree.document.total, tree.document.before ?? 0, 1));
    case "file":
      return (node) => FILES[hash(label(node)[3] || label(node)[0]) % FILES.length]!;
    default:
      return (node) => LAYERS[layerOf(label(node)[0])].fill;
  }
}

/** From blue (less) over pale to orange (more), by the part of the whole that changed: told apart with any colour vision. */
const LESS = ["#cfe3f3", "#9fcbea", "#6fb1de"];
const MORE = ["#f9ddc6", "#f3b98a", "#e8935b"];

function changeColour(part: number): string {
  const size = Math.abs(part);
  if (size < 0.002) return PALE;
  return (part < 0 ? LESS : MORE)[size < 0.01 ? 0 : size < 0.05 ? 1 : 2]!;
}

/** Whether a finding is about a frame: the function in its file, or the operator. */
function isAt(finding: Row, name: string, file: string): boolean {
  // Traces name files from where the program ran, the tree of its recording in full.
  if (finding.function && finding.file) return finding.function === name && `/${file}`.endsWith(`/${finding.file}`);
  return finding.operator !== null && finding.operator === name;
}

function hash(text: string): number {
  let value = 7;
  for (const character of text) value = (value * 31 + character.codePointAt(0)!) >>> 0;
  return value;
}
