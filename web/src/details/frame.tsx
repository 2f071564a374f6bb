/** Details of a frame of the flame graph. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { useAnswer } from "../answers";
import { frameIn } from "../flame/chosen";
import { type Tree, treeOf } from "../flame/layout";
import { type Args, flameArgs, fromHere, HERE } from "../flame/question";
import { isAll, labelOf, selectedNode } from "../flame/messages";
import { useFindings } from "../findings";
import { amount, counted, percent } from "../format";
import { isAbout } from "../flame/coloring";
import { otherLine } from "../flame/named";
import { marked } from "../parts/report-limits";
import { Copy } from "../parts/copy";
import { Around } from "../parts/excerpt";
import { Shown } from "../parts/notice";
import { Name } from "../parts/name";
import { change, rank, selection, state } from "../state";
import type { FrameDetail, Label } from "../generated/answers";
import { frameText, labelsTo, titleOf } from "./text";

export function FrameDetails() {
  const args = flameArgs();
  const whole = useAnswer("calls", args);
  // What is zoomed to may have frames that are too narrow in the whole.
  const { root } = state.value;
  const zoomed = useAnswer(root === undefined ? undefined : "calls", { ...args, root });
  const trees = useMemo(() => [zoomed, whole].flatMap((query) => (query.state === "ok" ? [treeOf(query.answer)] : [])), [whole, zoomed]);
  for (const tree of trees) {
    const node = selectedNode(tree);
    if (node !== undefined) return <Known tree={tree} node={node} args={args} />;
  }
  return <Shown query={whole}>{() => <FrameNotShown />}</Shown>;
}

/** Notice for a frame without a box in this view. */
function FrameNotShown() {
  const frame = frameIn(selection.value);
  if (!frame) return <p class="quiet">The selected frame is too narrow in this view: zoom in to see it.</p>;
  const label: Label = ["", frame.name, "", frame.file ?? "", 0, frame.name];
  return (
    <>
      <h3><Name text={frame.name} lines={6} /></h3>
      <p class="quiet">This view does not draw the selected frame: it is too narrow, or outside the selected steps and filters. Open the frame in a separate view:</p>
      <p class="bar"><FromHere label={label} /></p>
    </>
  );
}

/** Ways to look from a frame. */
const FromHere = ({ label }: { label: Label }) => <>{HERE.map(([shape, title]) => <button type="button" key={shape} {...marked()} onClick={() => fromHere(shape, label)}>{title}</button>)}</>;

/** Delay before all metrics of a selected frame are queried, in ms. */
const PAUSE_MS = 150;

/** A value, once it has stayed the same for some time. */
function useDebounced(value: number, pause: number): number | undefined {
  const [debounced, setDebounced] = useState<number>();
  useEffect(() => {
    const timer = setTimeout(() => setDebounced(value), pause);
    return () => clearTimeout(timer);
  }, [value]);
  return debounced;
}

interface Props {
  readonly tree: Tree;
  readonly node: number;
  readonly args: Args;
}

function Known({ tree, node, args }: Props) {
  const row = tree.row[node]!;
  // Who goes from frame to frame does not want to know all of each.
  const debounced = useDebounced(row, PAUSE_MS);
  const query = useAnswer(debounced === row ? "frame" : undefined, { ...args, root: row });
  const detail = query.state === "ok" ? query.answer.document : undefined;
  const label = labelOf(tree, node);
  const [, , , file, line] = label;
  return (
    <>
      <h3 class="long"><Name text={isAll(tree, node) ? "all" : label[5]} lines={8} /></h3>
      <p class="bar">
        {!isAll(tree, node) && <FromHere label={label} />}
        <Copy text={() => frameText(tree, node, detail)} />
      </p>
      <Metrics tree={tree} node={node} detail={detail} />
      {tree.document.guessed && label[0].startsWith("python") && line > 0 && tree.exclusive[node]! > 0 && (
        <p class="quiet">The self time of this line is estimated: the time between two calls is divided between the lines of these two calls.</p>
      )}
      {file !== "" && line > 0 && <Around file={file} line={line} isNative={label[0] === "native"} />}
      {file !== "" && line === 0 && <p class="quiet long">{file}</p>}
      {!isAll(tree, node) && <About label={label} />}
      <Path labels={detail?.path ?? labelsTo(tree, node)} />
    </>
  );
}

function Metrics({ tree, node, detail }: Omit<Props, "args"> & { detail: FrameDetail | undefined }) {
  const { title, unit, total } = tree.document;
  const ownMetric = { name: title, title, unit, total, inclusive: tree.inclusive[node]!, exclusive: tree.exclusive[node]! };
  const calls = detail ? detail.calls : tree.calls[node];
  return (
    <>
    <table>
      <caption class="visually-hidden">Metrics</caption>
      <thead>
        <tr><th scope="col">Metric</th><th scope="col" class="number">Inclusive</th><th scope="col" class="number">Self</th></tr>
      </thead>
      <tbody>
        {(detail?.metrics ?? [ownMetric]).map((one) => (
          <tr key={one.name}>
            <th scope="row">{one.title}</th>
            <td class="number">{one.inclusive === null ? LITTLE : <>{amount(one.inclusive, one.unit)} <small>{percent(one.inclusive, one.total)}</small></>}</td>
            <td class="number">{one.exclusive === null ? LITTLE : amount(one.exclusive, one.unit)}</td>
          </tr>
        ))}
      </tbody>
    </table>
    {calls ? <p class="quiet">Called {counted(calls, "time")}.</p> : null}
    </>
  );
}

/** Placeholder for a value too small to show. */
const LITTLE = "–";

/** Findings about this frame; of other lines of its function with their line. */
function About({ label }: { label: Label }) {
  const query = useFindings(rank.value);
  if (query.state !== "ok") return null;
  const rows = query.answer.document.tables.findings.rows;
  const about = rows.map((row, at) => [row, at, otherLine(row, label)] as const).filter(([row]) => isAbout(row, label));
  if (about.length === 0) return null;
  // Those of this very line first.
  const sorted = about.toSorted(([, , a], [, , b]) => Number(a !== undefined) - Number(b !== undefined));
  return (
    <>
      <h3>Findings</h3>
      <ul class="events">
        {sorted.map(([row, at, line]) => (
          <li key={at}>{line !== undefined && `Line ${line} of the function: `}<button type="button" class="link" onClick={() => change({ page: "issues", sel: `finding:${at}` })}>{row.code} {row.title}</button></li>
        ))}
      </ul>
    </>
  );
}

function Path({ labels }: { labels: readonly Label[] }) {
  const { shape } = state.value;
  const isFromHere = HERE.some(([name]) => name === shape);
  // A view from a frame does not tell what else leads there.
  if (labels.length === 0 || (isFromHere && labels.length === 1)) return null;
  return (
    <details open>
      <summary>{shape === "bottom-up" || shape === "callers" ? "Callers, innermost first" : isFromHere ? "Call path from the root frame of this view" : "Call path"}</summary>
      <ol class="events">
        {labels.map((label, at) => <li key={at} class="long">{titleOf(label)}</li>)}
      </ol>
    </details>
  );
}
