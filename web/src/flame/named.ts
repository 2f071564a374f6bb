/** Frames of findings: an operator, a call or a kernel below the source location, or else the location itself. */

import type { Label, Row } from "../generated/answers";
import type { Tree } from "./layout";

/** Frames that findings name. */
export interface Named {
  /** For each node the finding that names it: of several the first. */
  readonly of: ReadonlyArray<Row | undefined>;
  /** Findings without a frame in this tree. */
  readonly without: ReadonlySet<Row>;
}

/** Names that are longer are cut by the server, and end with this. */
const CUT = "…";
const isCalled = (name: string, whole: string) => name === whole || (name.endsWith(CUT) && whole.startsWith(name.slice(0, -CUT.length)));

/** Name in a finding in addition to its line: its operator, or the one wait or kernel of its edit. */
function thingOf({ operator, edit_labels: edits }: Row): string | undefined {
  if (operator) return `${operator}`;
  return /\b(?:wait|kernel|collective):([^~;][^;]*?)(?: [\d.]+)?(?:;|$)/.exec(`${edits ?? ""}`)?.[1];
}

/** Check if a frame belongs to the function of a finding, at any line. */
export const isOfFunction = (finding: Row, [, name, , file]: Label): boolean =>
  // Traces name files from where the program ran, the tree of its recording in full.
  Boolean(finding.function && finding.file) && finding.function === name && `/${file}`.endsWith(`/${finding.file}`);

/** The line of a finding about a frame, where it is another one of the same function; nothing where it is the frame's, or either is not known. */
export function otherLine(finding: Row, [, , , , line]: Label): number | undefined {
  const otherLineNumber = typeof finding.line === "number" ? finding.line : 0;
  return otherLineNumber > 0 && line > 0 && otherLineNumber !== line ? otherLineNumber : undefined;
}

const isAtSourceLocation = (finding: Row, label: Label) => isOfFunction(finding, label) && otherLine(finding, label) === undefined;

/** Frames of a tree that findings name; `isTopDown` means that callees are below callers. */
export function framesOfFindings(tree: Tree, findings: readonly Row[], isTopDown: boolean): Named {
  const of: Array<Row | undefined> = Array.from(tree.parent, () => undefined);
  const without = new Set<Row>();
  for (const finding of findings) {
    const nodes = nodesOf(tree, finding, isTopDown);
    if (nodes.length === 0) without.add(finding);
    for (const node of nodes) of[node] ??= finding;
  }
  return { of, without };
}

function nodesOf(tree: Tree, finding: Row, isTopDown: boolean): number[] {
  const { labels } = tree.document;
  const [thing, sourceLocations] = [thingOf(finding), labels.map((label) => isAtSourceLocation(finding, label))];
  const things = labels.map(([, name]) => thing !== undefined && isCalled(name, thing));
  const isWithin = isTopDown && finding.function ? below(tree, sourceLocations, isZoomedTo(tree, finding)) : undefined;
  const [found, placed]: [number[], number[]] = [[], []];
  for (let node = 0; node < tree.parent.length; node += 1) {
    const label = tree.label[node]!;
    if (things[label] && isWithin?.[node] !== 0) found.push(node);
    if (sourceLocations[label]) placed.push(node);
  }
  return found.length > 0 ? found : placed;
}

/** Check if a finding's function calls the whole zoomed part. */
const isZoomedTo = ({ document }: Tree, { function: name, file }: Row) => document.path.some(([, short]) => short.startsWith(`${name} ${`${file}`.split("/").at(-1)}`));

/** For each node whether it is one of those with such labels, or below one. */
function below({ parent, label }: Tree, labels: readonly boolean[], isAll: boolean): Uint8Array {
  const within = new Uint8Array(parent.length);
  for (let node = 0; node < within.length; node += 1) within[node] = isAll || labels[label[node]!] || (node > 0 && within[parent[node]!]) ? 1 : 0;
  return within;
}
