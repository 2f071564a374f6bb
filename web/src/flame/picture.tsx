/** Drawing of the flame graph. */

import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { InkOf } from "../colors";
import { type Box, drawBoxes } from "../draw/boxes";
import { Canvas } from "../draw/canvas";
import { amount, count } from "../format";
import { showDetails } from "../parts/details-focus";
import { change, state } from "../state";
import { COLORS, coloring } from "./coloring";
import { deepest, nodeAt, step, type Tree, visible, type Visible } from "./layout";
import type { Named } from "./named";
import { fromHere, nextColor, showNextShape } from "./question";
import { finder } from "./match";
import { isAll, labelOf, ariaText } from "./messages";

const ROW = 18;

interface Props {
  readonly tree: Tree;
  readonly root: number;
  readonly named: Named;
  /** The node that is selected. */
  readonly selected: number | undefined;
}

export function Picture({ tree, root, named, selected }: Props) {
  const [width, setWidth] = useState(0);
  const [hovered, setHovered] = useState<{ readonly tree: Tree; readonly node: number | undefined }>();
  const scroll = useRef(0);
  const frame = useRef<HTMLDivElement>(null);
  // What is zoomed to stands at the top. The drawing itself stays: it has the keyboard.
  useLayoutEffect(() => {
    if (frame.current) frame.current.scrollTop = 0;
  }, [tree.document.metric, tree.row[root]]);
  // What was selected elsewhere may stand below what is seen.
  useLayoutEffect(() => {
    const box = frame.current;
    if (!box || selected === undefined) return;
    const top = (tree.depth[selected]! - tree.depth[root]!) * ROW;
    if (top < box.scrollTop || top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 2;
  }, [tree, root, selected]);
  const rows = deepest(tree, root) + 1;
  const boxes = useMemo(() => visible(tree, root, width, [0, rows]), [tree, root, width, rows]);
  const at = (event: MouseEvent) => under(event, { tree, root, width, scroll });
  // The pointer may still be on a box of the previous tree.
  const describedNode = (hovered?.tree === tree ? hovered.node : undefined) ?? selected ?? root;
  return (
    <>
      <p class="status-line single" aria-live="polite">{ariaText(tree, describedNode)}</p>
      <div class="canvas" ref={frame}>
        <Canvas
          label={`Flame graph of ${tree.document.title}, ${count(boxes.length)} boxes; the button Table shows it as a table`}
          height={Math.max(rows, 1) * ROW}
          scroll={scroll}
          draw={painter({ tree, root, named, selected }, boxes)}
          onWidth={setWidth}
          data-boxes={boxes.length}
          data-selected={Math.round(boxes.find(({ node }) => node === selected)?.width ?? 0)}
          onMouseMove={(event: MouseEvent) => setHovered({ tree, node: at(event) })}
          onMouseLeave={() => setHovered(undefined)}
          onClick={(event: MouseEvent) => {
            const node = at(event);
            if (node !== undefined && node === selected) zoomTo(tree, node);
            else select(tree, node);
          }}
          onKeyDown={(event: KeyboardEvent) => press(event, tree, root, selected ?? root)}
        />
      </div>
    </>
  );
}

export const select = (tree: Tree, node: number | undefined) => node !== undefined && change({ sel: `node:${tree.row[node]}` }, "replace");
const zoomTo = (tree: Tree, node: number) => change({ root: `${tree.row[node]}` });

/** Zoom out to the caller of the zoomed frame. */
function zoomOut(tree: Tree, root: number): void {
  const callers = tree.document.path;
  const row = root > 0 ? tree.row[tree.parent[root]!]! : (callers.at(-2)?.[0] ?? 0);
  change({ root: row === 0 ? "" : `${row}` });
}

interface Below {
  readonly tree: Tree;
  readonly root: number;
  readonly width: number;
  readonly scroll: RefObject<number>;
}

/** The node below the pointer. */
function under(event: MouseEvent, { tree, root, width, scroll }: Below): number | undefined {
  const level = Math.floor((event.offsetY + (scroll.current ?? 0)) / ROW);
  return nodeAt(tree, root, level, (event.offsetX / Math.max(width, 1)) * tree.width[root]!);
}

const ARROWS = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right", a: "left", d: "right" } as const;

function press(event: KeyboardEvent, tree: Tree, root: number, node: number): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key in ARROWS) {
    event.preventDefault();
    select(tree, step(tree, node, ARROWS[event.key as keyof typeof ARROWS]));
    return;
  }
  const here = (shape: "callers" | "callees") => () => isAll(tree, node) || fromHere(shape, labelOf(tree, node));
  const keys: Readonly<Record<string, () => unknown>> = {
    f: () => zoomTo(tree, node),
    w: () => zoomTo(tree, node),
    s: () => zoomOut(tree, root),
    Enter: showDetails,
    "0": () => change({ root: "" }),
    i: showNextShape,
    u: here("callers"),
    g: here("callees"),
    c: () => nextColor(COLORS.map(([name]) => name)),
  };
  keys[event.key]?.();
}

/** Draw the visible boxes. */
function painter({ tree, root, named, selected }: Props, boxes: readonly Visible[]) {
  const isFound = finder(tree, state.value.find);
  const color = coloring(tree.before ? "change" : (state.value.color ?? "layer"), tree, named);
  const top = (node: number) => (tree.depth[node]! - tree.depth[root]!) * ROW;
  const boxOf = ({ node, x, width }: Visible, scrolled: number): Box => {
    const label = labelOf(tree, node);
    const name = isAll(tree, node) ? `all frames: ${amount(tree.inclusive[node]!, tree.document.unit)}` : label[5];
    const faded = isFound !== undefined && !isFound(node);
    const place = { x, y: top(node) - scrolled, width, height: ROW };
    return { ...place, ...(isAll(tree, node) ? { fill: "#d7d7df" } : color(node)), label: name, faded, marked: node === selected };
  };
  return (context: CanvasRenderingContext2D, wide: number, high: number, scrolled: number, ink: InkOf) => {
    context.fillStyle = ink.paper;
    context.fillRect(0, 0, wide, high);
    const seen = boxes.filter(({ node }) => top(node) - scrolled > -ROW && top(node) - scrolled < high);
    drawBoxes(context, seen.map((box) => boxOf(box, scrolled)), ink);
  };
}
