/** The flame graph: a tree of calls in four directions. */

import { useMemo, useRef, useState } from "preact/hooks";
import { useAnswer, useLast } from "../answers";
import { canvas, LAYERS, type Layer, layerOf } from "../colors";
import { COLOURS, type Colouring, colouring } from "../flame/colouring";
import { type Box, drawBoxes } from "../draw/boxes";
import { Canvas } from "../draw/canvas";
import { deepest, nodeAt, step, type Tree, treeOf, visible } from "../flame/layout";
import { TreeTable } from "../flame/table";
import { amount, count, percent } from "../format";
import { Shown } from "../parts/notice";
import { change, lookAt, rank, state } from "../state";
import type { Answer } from "../transport/decode";
import type { Calls, Findings } from "../types";

const ROW = 18;
const SHAPES = [
  ["top-down", "Top-down"],
  ["bottom-up", "Bottom-up"],
  ["flat", "Flat"],
] as const;

export function Flame() {
  const { shape = "top-down", metric, focus, hide, beside } = state.value;
  const args = { shape, metric, focus, hide, beside, rank: rank.value };
  const asked = useAnswer<Calls>("calls", args);
  const last = useLast(asked);
  return (
    <section aria-labelledby="flame-title">
      <h1 id="flame-title">Flame graph</h1>
      {last && <Bar calls={last.document} />}
      {asked.state === "refused" || last === undefined ? (
        <Shown asked={asked}>{() => null}</Shown>
      ) : (
        <div aria-busy={asked.state === "loading"}>
          <Graph answer={last} isFlat={shape === "flat"} args={args} />
        </div>
      )}
    </section>
  );
}

type Args = Readonly<Record<string, string | undefined>>;

function Graph({ answer, isFlat, args }: { answer: Answer<Calls>; isFlat: boolean; args: Args }) {
  const whole = useMemo(() => treeOf(answer, isFlat), [answer, isFlat]);
  const wanted = Number(state.value.root ?? 0);
  // The part that is zoomed to has more boxes than the whole has room for.
  const detail = useAnswer<Calls>(wanted > 0 && whole.document.left_out > 0 ? "calls" : undefined, { ...args, root: wanted });
  const [tree, root] = useMemo(() => {
    if (wanted > 0 && detail.state === "ok") return [treeOf(detail.answer, isFlat), 0] as const;
    return [whole, Math.max(whole.row.indexOf(wanted), 0)] as const;
  }, [whole, wanted, detail, isFlat]);
  return (
    <>
      <Path tree={tree} root={root} />
      {state.value.as === "table" ? <TreeTable tree={tree} root={root} /> : <Picture key={`${tree.document.metric} ${tree.row[root]} ${tree.parent.length}`} tree={tree} root={root} />}
      <Notes tree={tree} />
    </>
  );
}

function Bar({ calls }: { calls: Calls }) {
  const { shape = "top-down", as } = state.value;
  return (
    <form class="bar" onSubmit={(event) => event.preventDefault()}>
      <label>
        View{" "}
        <select value={shape} onChange={(event) => lookAt({ shape: event.currentTarget.value })}>
          {SHAPES.map(([value, title]) => (
            <option key={value} value={value}>{title}</option>
          ))}
        </select>
      </label>
      <label>
        Metric{" "}
        <select value={calls.metric} onChange={(event) => lookAt({ metric: event.currentTarget.value })}>
          {calls.metrics.map(([value, title]) => (
            <option key={value} value={value}>{title}</option>
          ))}
        </select>
      </label>
      <label hidden={state.value.beside !== undefined}>
        Colour{" "}
        <select value={state.value.colour ?? "layer"} onChange={(event) => change({ colour: event.currentTarget.value })}>
          {COLOURS.map(([value, title]) => (
            <option key={value} value={value}>{title}</option>
          ))}
        </select>
      </label>
      <Pattern name="find" title="Search" />
      <Pattern name="focus" title="Only paths with" />
      <Pattern name="hide" title="Hide frames" />
      <button type="button" aria-pressed={as === "table"} onClick={() => change({ as: as === "table" ? "" : "table" })}>
        Table
      </button>
      {state.value.beside && (
        <button type="button" onClick={() => lookAt({ beside: "" })}>This run alone</button>
      )}
    </form>
  );
}

function Pattern({ name, title }: { name: string; title: string }) {
  return (
    <label>
      {title}{" "}
      <input type="search" data-field={name} value={state.value[name] ?? ""} size={14} onInput={(event) => name === "find" && change({ find: event.currentTarget.value }, "replace")} onChange={(event) => name !== "find" && lookAt({ [name]: event.currentTarget.value })} />
    </label>
  );
}

function Path({ tree, root }: { tree: Tree; root: number }) {
  const steps = tree.document.path.length > 0 ? [...tree.document.path] : pathOf(tree, root);
  return (
    <nav class="path" aria-label="Path to what is shown">
      <button type="button" onClick={() => change({ root: "" })}>all</button>
      {steps.map(([row, name]) => (
        <span key={row}>
          {" › "}
          <button type="button" onClick={() => change({ root: `${row}` })}>{name}</button>
        </span>
      ))}
    </nav>
  );
}

function pathOf(tree: Tree, node: number): Array<[number, string]> {
  const path: Array<[number, string]> = [];
  for (let at = node; at > 0; at = tree.parent[at]!) path.unshift([tree.row[at]!, labelOf(tree, at)[5]]);
  return path;
}

const labelOf = (tree: Tree, node: number) => tree.document.labels[tree.label[node]!]!;

/** What a node says of itself, for people and for screen readers. */
export function spoken(tree: Tree, node: number): string {
  const { unit, total, title } = tree.document;
  const name = node === 0 && tree.row[0] === 0 ? "all" : labelOf(tree, node)[5];
  const all = tree.inclusive[node]!;
  const before = tree.before ? `, before ${amount(tree.before[node]!, unit)}` : "";
  return `${name}: ${amount(all, unit)} (${percent(all, total)} of ${title})${before}, itself ${amount(tree.exclusive[node]!, unit)}, ${count(tree.count[node]!)} times`;
}

function Picture({ tree, root }: { tree: Tree; root: number }) {
  const [width, setWidth] = useState(0);
  const [hovered, setHovered] = useState<number>();
  const selected = selectedNode(tree);
  const rows = deepest(tree, root) + 1;
  const found = matcher(state.value.find);
  const findings = useAnswer<Findings>(state.value.colour === "finding" ? "findings" : undefined, { rank: rank.value });
  const fill: Colouring = colouring(tree.before ? "change" : (state.value.colour ?? "layer"), tree, findings.state === "ok" ? findings.answer.document.tables.findings.rows : []);
  const boxes = useMemo(() => visible(tree, root, width, [0, rows]), [tree, root, width, rows]);
  const scroll = useRef(0);
  const ink = canvas.value;
  const draw = (context: CanvasRenderingContext2D, wide: number, high: number, top: number) => {
    context.fillStyle = ink.paper;
    context.fillRect(0, 0, wide, high);
    const seen = boxes.filter(({ node }) => {
      const y = (tree.depth[node]! - tree.depth[root]!) * ROW - top;
      return y > -ROW && y < high;
    });
    const list: Box[] = seen.map(({ node, x, width: boxWidth }) => {
      const label = labelOf(tree, node);
      const isRoot = tree.row[node] === 0;
      const y = (tree.depth[node]! - tree.depth[root]!) * ROW - top;
      const name = isRoot ? `all ${amount(tree.inclusive[node]!, tree.document.unit)}` : label[5];
      const faded = found !== undefined && !found(label[1]) && !found(label[3]);
      return { x, y, width: boxWidth, height: ROW, fill: isRoot ? "#d7d7df" : fill(node), label: name, faded, marked: node === selected };
    });
    drawBoxes(context, list, ink);
  };
  const at = (event: MouseEvent) => {
    const level = Math.floor((event.offsetY + scroll.current) / ROW);
    return nodeAt(tree, root, level, (event.offsetX / Math.max(width, 1)) * tree.width[root]!);
  };
  const select = (node: number | undefined) => node !== undefined && change({ sel: `node:${tree.row[node]}` }, "replace");
  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrows = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" } as const;
    const node = selected ?? root;
    if (event.key in arrows) {
      event.preventDefault();
      select(step(tree, node, arrows[event.key as keyof typeof arrows]));
    } else if (event.key === "f" || event.key === "Enter") {
      change({ root: `${tree.row[node]}` });
    } else if (event.key === "0") {
      change({ root: "" });
    } else if (event.key === "i") {
      const shapes = SHAPES.map(([value]) => value as string);
      lookAt({ shape: shapes[(shapes.indexOf(state.value.shape ?? "top-down") + 1) % shapes.length]! });
    } else if (event.key === "c") {
      const names = COLOURS.map(([value]) => value as string);
      change({ colour: names[(names.indexOf(state.value.colour ?? "layer") + 1) % names.length]! });
    }
  };
  // The pointer may still stand on a box of a tree that is gone.
  const told = hovered !== undefined && hovered < tree.parent.length ? hovered : selected;
  return (
    <>
      <p class="told" aria-live="polite">{told === undefined ? "Click selects, a second click zooms; arrows move, F zooms, 0 shows all, I turns it round, C colours it by something else." : spoken(tree, told)}</p>
      <div class="canvas">
        <Canvas
          label={`Flame graph of ${tree.document.title}, ${count(boxes.length)} boxes; the button Table shows the same as a table`}
          height={Math.max(rows, 1) * ROW}
          scroll={scroll}
          draw={draw}
          onWidth={setWidth}
          data-boxes={boxes.length}
          onMouseMove={(event: MouseEvent) => setHovered(at(event))}
          onMouseLeave={() => setHovered(undefined)}
          onClick={(event: MouseEvent) => {
            const node = at(event);
            if (node !== undefined && node === selected) change({ root: `${tree.row[node]}` });
            else select(node);
          }}
          onKeyDown={key}
        />
      </div>
    </>
  );
}

/** The node that is selected, if this tree has it. */
export function selectedNode(tree: Tree): number | undefined {
  const [kind, row] = (state.value.sel ?? "").split(":");
  if (kind !== "node") return undefined;
  const node = tree.row.indexOf(Number(row));
  return node < 0 ? undefined : node;
}

/** Tells what holds a text; a text of no letters finds nothing. */
export function matcher(text: string | undefined): ((name: string) => boolean) | undefined {
  const wanted = text?.trim().toLowerCase();
  return wanted ? (name) => name.toLowerCase().includes(wanted) : undefined;
}

function Notes({ tree }: { tree: Tree }) {
  const used = new Set<Layer>(tree.document.labels.map((label) => layerOf(label[0])));
  return (
    <>
      {tree.before && <p class="quiet">Width: this run. Blue: less time than before; orange: more; the paler, the smaller the change.</p>}
      <ul class="legend" aria-label="Colours">
        {(tree.before ? [] : [...used]).map((layer) => (
          <li key={layer}>
            <i style={{ background: LAYERS[layer].fill }} /> {LAYERS[layer].title}
          </li>
        ))}
      </ul>
      {tree.document.left_out > 0 && (
        <p class="quiet">{count(tree.document.left_out)} frames are too narrow to be drawn; their time is the free room in their caller. Zoom in to see them.</p>
      )}
    </>
  );
}
