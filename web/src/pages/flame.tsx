/** The flame graph: a tree of calls, in any direction and from any frame. */

import { useMemo } from "preact/hooks";
import { useAnswer, useLast } from "../answers";
import { run } from "../filter";
import { useFindings } from "../findings";
import { Bar } from "../flame/bar";
import { type Tree, treeOf } from "../flame/layout";
import { Notes } from "../flame/notes";
import { Picture } from "../flame/picture";
import { finder } from "../flame/match";
import { type Args, escaped, flameArgs } from "../flame/question";
import { TreeTable } from "../flame/table";
import { pathOf } from "../flame/words";
import { Nearest } from "../parts/nearest";
import { Shown } from "../parts/notice";
import { change, lookAt, rank, state } from "../state";
import type { Answer } from "../transport/decode";
import type { Calls } from "../types";

export function Flame() {
  const meta = run.value;
  const hasCalls = meta?.has.events || meta?.recording != null;
  return hasCalls ? <CallGraph /> : (
    <section aria-labelledby="flame-title">
      <h1 id="flame-title">Flame graph</h1>
      <p class="notice">Nothing was measured at any call: there is no tree to draw.</p>
    </section>
  );
}

function CallGraph() {
  const args = flameArgs();
  const asked = useAnswer<Calls>("calls", args);
  const last = useLast(asked);
  return (
    <section aria-labelledby="flame-title">
      <h1 id="flame-title">Flame graph</h1>
      {last && <Bar calls={last.document} />}
      {asked.state === "refused" || last === undefined ? (
        <>
          <Shown asked={asked}>{() => null}</Shown>
          {asked.state === "refused" && last === undefined && state.value.metric && (
            <button type="button" onClick={() => lookAt({ metric: "" })}>By the first metric</button>
          )}
        </>
      ) : (
        <div aria-busy={asked.state === "loading"}>
          <Graph answer={last} isFlat={args.shape === "flat"} args={args} />
        </div>
      )}
    </section>
  );
}

function Graph({ answer, isFlat, args }: { answer: Answer<Calls>; isFlat: boolean; args: Args }) {
  const whole = useMemo(() => treeOf(answer, isFlat), [answer, isFlat]);
  const wanted = Number(state.value.root ?? 0);
  // The part that is zoomed to has more boxes than the whole has room for.
  const detail = useAnswer<Calls>(wanted > 0 && whole.document.left_out > 0 ? "calls" : undefined, { ...args, root: wanted });
  const [tree, root] = useMemo(() => {
    if (wanted > 0 && detail.state === "ok") return [treeOf(detail.answer, isFlat), 0] as const;
    return [whole, Math.max(whole.row.indexOf(wanted), 0)] as const;
  }, [whole, wanted, detail, isFlat]);
  const asked = useFindings(rank.value);
  const findings = state.value.colour === "finding" && asked.state === "ok" ? asked.answer.document.tables.findings.rows : [];
  const isEmpty = tree.parent.length === 1;
  return (
    <>
      <Path tree={tree} root={root} />
      {isEmpty && (
        <p class="notice">
          Nothing was measured in what is chosen here: choose other steps, another metric, or fewer filters.
          {state.value.focus && <Nearest text={state.value.focus} choose={(name) => lookAt({ focus: escaped(name) })} />}
        </p>
      )}
      <NotFound tree={tree} />
      {state.value.as === "table" ? (
        <TreeTable tree={tree} root={root} />
      ) : (
        <Picture tree={tree} root={root} findings={findings} />
      )}
      <Notes tree={tree} findings={findings} />
    </>
  );
}

/** That no frame has what is looked for. */
function NotFound({ tree }: { tree: Tree }) {
  const { find } = state.value;
  const isFound = finder(tree, find);
  const isMissed = useMemo(() => isFound !== undefined && tree.parent.length > 1 && !tree.row.some((_, node) => isFound(node)), [tree, find]);
  if (!find || !isMissed) return null;
  return (
    <p class="notice" aria-live="polite">
      No frame that is drawn has {find} in its name.<Nearest text={find} choose={(name) => change({ find: name }, "replace")} />
    </p>
  );
}

function Path({ tree, root }: { tree: Tree; root: number }) {
  return (
    <nav class="path" aria-label="Path to what is shown">
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
