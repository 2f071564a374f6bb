/** Selected frame, independent of the view: rows differ between views, names of frames do not. */

import type { EventDetail, Label } from "../generated/answers";
import type { Tree } from "./layout";

/** A frame by its name, at any position. */
export interface Frame {
  readonly name: string;
  readonly file?: string;
  readonly line?: number;
}

const PREFIX = "frame:";
/** Separator, which no name contains. */
const BETWEEN = "\t";

/** A frame in the form that the URL uses for selections. */
export const selOf = ({ name, file = "", line = 0 }: Frame): string => `${PREFIX}${[name, ...(file === "" ? [] : [file, ...(line > 0 ? [line] : [])])].join(BETWEEN)}`;

/** Selected frame of the URL, if any. */
export function frameIn(sel: string): Frame | undefined {
  if (!sel.startsWith(PREFIX)) return undefined;
  const [name, file, line] = sel.slice(PREFIX.length).split(BETWEEN);
  return name ? { name, file: file ?? "", line: Number(line ?? 0) } : undefined;
}

export const frameOf = ([, name, , file, line]: Label): Frame => ({ name, file, line });

const STEP = "ProfilerStep";

/** The frame that an event counts at: see `call_frame` in crates/calls. */
export function frameOfName(name: string): Frame {
  const python = /^([^]*)\((\d+)\): ([^]*)$/.exec(name);
  if (python) return { name: python[3]!, file: python[1]!, line: Number(python[2]) };
  if (name.startsWith(`${STEP}#`)) return { name: STEP };
  const module = /^nn\.Module: *([^]*)$/.exec(name);
  if (module) return { name: module[1]! };
  const [method, address] = name.split(" at 0x");
  return { name: address === undefined ? name : `${method}>` };
}

/** Names of the enclosing and launching events of an event. */
export const callersOf = ({ enclosing, callers, launch, operator }: EventDetail): string[] =>
  [...enclosing, ...callers, ...[launch, operator].flatMap((brief) => (brief ? [brief] : []))].map(({ name }) => frameOfName(name).name);

/** Traces name files from where the program ran, the tree of its recording in full. */
const isSameFile = (a: string, b: string) => a === "" || a === b || `/${a}`.endsWith(`/${b}`) || `/${b}`.endsWith(`/${a}`);

/** Node of a frame: best at the same line, then below the same callers, then the widest. */
export function nodeOf(tree: Tree, { name, file = "", line = 0 }: Frame, around: readonly string[]): number | undefined {
  const labels = tree.document.labels.map(([, other, , where]) => other === name && (file === "" || (where !== "" && isSameFile(where, file))));
  const known = new Set(around);
  let [best, most]: [number | undefined, readonly number[]] = [undefined, []];
  for (let node = 0; node < tree.parent.length; node += 1) {
    if (!labels[tree.label[node]!] || tree.row[node] === 0) continue;
    const score = [line > 0 && tree.document.labels[tree.label[node]!]![4] === line ? 1 : 0, shared(tree, node, known), tree.width[node]!];
    const at = score.findIndex((value, index) => value !== most[index]);
    if (best === undefined || (at >= 0 && score[at]! > most[at]!)) [best, most] = [node, score];
  }
  return best;
}

/** Number of a node's callers whose names are in a list. */
function shared(tree: Tree, node: number, names: ReadonlySet<string>): number {
  let count = 0;
  for (let at = node; at > 0 && names.size > 0; at = tree.parent[at]!) count += names.has(tree.document.labels[tree.label[tree.parent[at]!]!]![1]) ? 1 : 0;
  return count;
}

/** A frame of this part of the picture can be seen; one that is narrower is zoomed to, until it has that other part of it. */
const SEEN = 1 / 40;
const CLEAR = 1 / 8;

/** Node to zoom to so that a node is visible, with as much context as possible; 0 without need. */
export function zoomTarget(tree: Tree, node: number): number {
  const width = tree.width[node]!;
  if (width >= tree.width[0]! * SEEN || width === 0) return 0;
  let top = node;
  while (top > 0 && width >= tree.width[tree.parent[top]!]! * CLEAR) top = tree.parent[top]!;
  return top;
}
