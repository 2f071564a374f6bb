/** Legend and notes of the flame graph. */

import { area, LAYERS, type Layer, layerOf } from "../colors";
import { amount, count, counted } from "../format";
import { state } from "../state";
import type { Row } from "../generated/answers";
import { removedTotal, type Tree } from "./layout";
import type { Named } from "./named";

interface Props {
  readonly tree: Tree;
  readonly findings: readonly Row[];
  readonly named: Named;
}

export function Notes({ tree, findings, named }: Props) {
  const { left_out } = tree.document;
  return (
    <>
      {tree.before && <Differences tree={tree} />}
      {!tree.before && <Legend {...{ tree, findings, named }} />}
      {hasBackward(tree) && (
        <p class="quiet">Backward work is shown under its forward operator, so the time of an operator includes its backward pass. The Timeline page and the tables on the Overview page show forward and backward work separately.</p>
      )}
      {left_out > 0 && (
        <p class="quiet">{count(left_out)} frames are too narrow to draw; their time is the empty space below their caller. Zoom in to see them.</p>
      )}
    </>
  );
}

/** Meaning of width and color in a comparison, and hidden differences. */
function Differences({ tree }: { tree: Tree }) {
  const { steps } = tree.document;
  const [removed, isShown] = [removedTotal(tree), state.value.removed === "1" && state.value.shape !== "flat"];
  return (
    <p class="quiet">
      {isShown ? "The width of a frame is the larger of its values in A and B." : "The width of a frame is its value in B (this run)."} Blue: less than in A (the baseline); orange: more than in A; pale: small change.
      {steps && steps.before > 0 && steps.after > 0 && steps.before !== steps.after && ` B has ${counted(steps.after, "step")} and A ${count(steps.before)}; values of A are scaled to the number of steps in B.`}
      {removed > 0 && !isShown && ` Frames that are missing in B account for ${amount(removed, tree.document.unit)} in A${state.value.shape === "flat" ? " (time of a frame is counted again in its callers). To see these frames, choose another view." : ". To see these frames, press the button “Removed frames”."}`}
    </p>
  );
}

/** Check for backward work below forward frames, whose time includes it. */
const hasBackward = (tree: Tree) => Array.from(tree.label).some((label, node) => tree.document.labels[label]![0] === "backward" && tree.depth[node]! > 1);

function Legend({ tree, findings, named }: Props) {
  const by = state.value.color ?? "layer";
  if (by === "layer") {
    const used = new Set<Layer>(tree.document.labels.map((label) => layerOf(label[0])));
    return <Colors entries={[...used].map((layer) => [LAYERS[layer].title, LAYERS[layer].fill])} />;
  }
  if (by === "finding") {
    const areas = [...new Set(findings.map((row) => `${row.area}`))];
    return (
      <>
        <Colors entries={areas.map((name) => [`${area(name).icon} ${name}${unseen(findings.filter((row) => row.area === name), named)}`, area(name).fill])} />
        <p class="quiet">Colored frames have findings; striped frames call frames with findings.</p>
      </>
    );
  }
  if (by === "module") return <p class="quiet">Each module and its callees have one color; frames outside of modules are pale.</p>;
  if (by === "heat") return <p class="quiet">Darker frames have more self time.</p>;
  return <p class="quiet">Each file or library has one color.</p>;
}

/** Number of findings of an area without a visible frame. */
export function unseen(findings: readonly Row[], { without }: Named): string {
  const many = findings.filter((row) => without.has(row)).length;
  if (many === 0) return "";
  return many === findings.length ? " (none of these findings has a frame in this view)" : ` (${many} of ${findings.length} findings ${many === 1 ? "has" : "have"} no frame in this view)`;
}

function Colors({ entries }: { entries: ReadonlyArray<readonly [title: string, fill: string]> }) {
  return (
    <ul class="legend" aria-label="Colors">
      {entries.map(([title, fill]) => (
        <li key={title}><i style={{ background: fill }} /> {title}</li>
      ))}
    </ul>
  );
}
