/** Flame graph page: a call tree in any direction and from any frame. */

import { useEffect, useMemo } from "preact/hooks";
import { useAnswer, useLast } from "../answers";
import { run } from "../filter";
import { useFindings } from "../findings";
import { Bar } from "../flame/bar";
import { zoomTarget, callersOf, frameOf, frameOfName, nodeOf, selOf } from "../flame/chosen";
import { type Tree, treeOf } from "../flame/layout";
import { framesOfFindings } from "../flame/named";
import { Notes } from "../flame/notes";
import { Picture, select } from "../flame/picture";
import { drawnIn, finder, nextMatch } from "../flame/match";
import { type Args, escaped, flameArgs } from "../flame/question";
import { TreeTable } from "../flame/table";
import { TooNarrowMatches } from "../flame/undrawn";
import { captionOf, labelOf, pathOf, selectedNode } from "../flame/messages";
import { Nearest } from "../parts/nearest";
import { Shown } from "../parts/notice";
import { change, changeCallView, selectedFrame, rank, selection, state } from "../state";
import { useKeys } from "../timeline/keys";
import type { AnswerTo } from "../transport";
import type { Row } from "../generated/answers";

export function Flame() {
  const meta = run.value;
  const hasCalls = meta?.has.events || meta?.recording != null;
  return hasCalls ? <CallGraph /> : (
    <section aria-labelledby="flame-title">
      <h1 id="flame-title">Flame graph</h1>
      <p class="notice">This run has no measured calls, so there is no call tree to draw.</p>
    </section>
  );
}

function CallGraph() {
  const args = flameArgs();
  const query = useAnswer("calls", args);
  const last = useLast(query);
  return (
    <section aria-labelledby="flame-title">
      <h1 id="flame-title">{state.value.baseline ? "Differential flame graph" : "Flame graph"}</h1>
      {last && <Bar calls={last.document} />}
      {last && <p class="paper">{captionOf(last.document.title, { ...args, of: args.of && (state.value.here ?? args.of), find: state.value.find })}</p>}
      {query.state === "refused" || last === undefined ? (
        <>
          <Shown query={query}>{() => null}</Shown>
          {query.state === "refused" && last === undefined && state.value.metric && (
            <button type="button" onClick={() => changeCallView({ metric: "" })}>Show the default metric</button>
          )}
        </>
      ) : (
        <div aria-busy={query.state === "loading"}>
          <Graph answer={last} isFlat={args.shape === "flat"} args={args} />
        </div>
      )}
    </section>
  );
}

const NO_ROWS: readonly Row[] = [];

function Graph({ answer, isFlat, args }: { answer: AnswerTo<"calls">; isFlat: boolean; args: Args }) {
  const showsRemoved = state.value.removed === "1";
  const whole = useMemo(() => treeOf(answer, isFlat, showsRemoved), [answer, isFlat, showsRemoved]);
  const rootRow = Number(state.value.root ?? 0);
  // The part that is zoomed to has more boxes than the whole has room for.
  const detail = useAnswer(rootRow > 0 && whole.document.left_out > 0 ? "calls" : undefined, { ...args, root: rootRow });
  const [tree, root] = useMemo(() => {
    if (rootRow > 0 && detail.state === "ok") return [treeOf(detail.answer, isFlat, showsRemoved), 0] as const;
    return [whole, Math.max(whole.row.indexOf(rootRow), 0)] as const;
  }, [whole, rootRow, detail, isFlat, showsRemoved]);
  const selected = useSelected(whole, tree);
  useMatches(tree, root, selected);
  const query = useFindings(rank.value);
  const findings = state.value.color === "finding" && query.state === "ok" ? query.answer.document.tables.findings.rows : NO_ROWS;
  const named = useMemo(() => framesOfFindings(tree, findings, args.shape === "top-down"), [tree, findings, args.shape]);
  const isEmpty = tree.parent.length === 1;
  return (
    <>
      <Path tree={tree} root={root} />
      {isEmpty && (
        <p class="notice">
          {state.value.focus && !state.value.hide
            ? <>No call path in the selection has a frame with {state.value.focus} in its name.<Nearest text={state.value.focus} choose={(name) => changeCallView({ focus: escaped(name) })} /></>
            : "The selection has no measurements: select other steps, another metric, or fewer filters."}
        </p>
      )}
      <NotFound tree={tree} root={root} />
      {state.value.as === "table" ? (
        <TreeTable tree={tree} root={root} selected={selected} />
      ) : (
        <Picture {...{ tree, root, named, selected }} />
      )}
      {!isEmpty && <Notes {...{ tree, findings, named }} />}
    </>
  );
}

/** Selected node, by row or name, or the node of the selected event. A node too narrow to see is zoomed to. */
function useSelected(whole: Tree, tree: Tree): number | undefined {
  const sel = selection.value;
  const event = sel.startsWith("event:") ? sel.slice("event:".length) : undefined;
  const query = useAnswer(event === undefined ? undefined : "event", { event, rank: rank.value });
  const detail = event !== undefined && query.state === "ok" ? query.answer.document : undefined;
  const within = (one: Tree) => (detail ? nodeOf(one, frameOfName(detail.event.name), callersOf(detail)) : selectedNode(one));
  const selected = useMemo(() => within(tree), [tree, sel, detail]);
  useEffect(() => {
    if (sel.startsWith("node:") || state.value.root) return;
    const node = within(whole);
    const top = node === undefined ? 0 : zoomTarget(whole, node);
    if (top > 0) change({ root: `${whole.row[top]}` }, "replace");
  }, [whole, sel, detail]);
  if (selected !== undefined && selected > 0 && event === undefined) {
    const around = namesTo(tree, tree.parent[selected]!);
    Object.assign(selectedFrame, { sel, frame: selOf(frameOf(labelOf(tree, selected))), around });
  }
  return selected;
}

/** Names from the root of the view to a node. */
function namesTo(tree: Tree, node: number): string[] {
  const names: string[] = tree.document.path.map(([, name]) => name);
  for (let at = node; at > 0; at = tree.parent[at]!) names.push(labelOf(tree, at)[1]);
  return names;
}

/** N goes to the next frame that is found and drawn, and Shift+N to the one before, wherever the focus is. */
function useMatches(tree: Tree, root: number, selected: number | undefined): void {
  useKeys((key) => {
    const step = { n: 1, N: -1 }[key] as 1 | -1 | undefined;
    const isFound = step && finder(tree, state.value.find);
    if (!isFound) return false;
    const isDrawn = drawnIn(tree, root);
    const next = nextMatch(tree, root, selected ?? root, (node) => isFound(node) && isDrawn(node), step);
    select(tree, next);
    return next !== undefined;
  });
}

/** Notice that no visible frame matches the search. */
function NotFound({ tree, root }: { tree: Tree; root: number }) {
  const { find } = state.value;
  const isMissed = useMemo(() => {
    const [isFound, isDrawn] = [finder(tree, find), drawnIn(tree, root)];
    return isFound !== undefined && tree.parent.length > 1 && nextMatch(tree, root, root, (node) => isFound(node) && isDrawn(node), 1) === undefined;
  }, [tree, root, find]);
  if (!find || !isMissed) return null;
  return (
    <p class="notice" aria-live="polite">
      No visible frame has {find} in its name. <TooNarrowMatches text={find} document={tree.document} />
    </p>
  );
}

function Path({ tree, root }: { tree: Tree; root: number }) {
  return (
    <nav class="path" aria-label="Call path to the zoomed frame">
      <button type="button" onClick={() => change({ root: "" })}>all</button>
      {pathOf(tree, root).map(([row, name]) => (
        <span key={row}>
          {" › "}
          <button type="button" onClick={() => change({ root: `${row}` })}>{name}</button>
        </span>
      ))}
    </nav>
  );
}
