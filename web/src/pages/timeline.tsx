/** The timeline: threads and streams, as boxes that are merged where they are narrow. */

import { useMemo, useRef, useState } from "preact/hooks";
import { type Asked, useAnswer, useLast } from "../answers";
import { canvas, LAYERS, layerOf } from "../colors";
import { drawBoxes } from "../draw/boxes";
import { Canvas } from "../draw/canvas";
import { count, duration } from "../format";
import { Shown } from "../parts/notice";
import { change, rank, selection, state, transport } from "../state";
import { HEAD, laneTitle, panned, place, type Placed, ROW, sorted, type Stretch, ticks, tilesOf, within, zoomed } from "../timeline/view";
import { drawArrows, type EventBox } from "../timeline/arrows";
import { drawPath, nextHop } from "../timeline/path";
import { marked, RangeSummary } from "../timeline/range";
import { EventTable } from "../timeline/table";
import type { Answer } from "../transport/decode";
import type { Brief, EventDetail, Lanes, PathDocument, TileDocument } from "../types";

const RULER = 22;

export function Timeline() {
  const lanes = useAnswer<Lanes>("lanes", { rank: rank.value });
  return (
    <section aria-labelledby="timeline-title">
      <h1 id="timeline-title">Timeline</h1>
      <Shown asked={lanes}>{({ document }) => <View lanes={document} />}</Shown>
    </section>
  );
}

/** The stretch that is seen: that of the address, or all. */
function seen(all: Stretch): Stretch {
  const [from, to] = [Number(state.value.from), Number(state.value.to)];
  const given = state.value.from !== undefined && Number.isFinite(from) && Number.isFinite(to) && to > from;
  return given ? within({ from, to }, all) : all;
}

function selectedEvent(): number | undefined {
  const [kind, number] = selection.value.split(":");
  return kind === "event" ? Number(number) : undefined;
}

/** What launched what, as far as it is known of the event that is selected. */
function arrowsOf(detail: EventDetail): Array<readonly [Brief, Brief]> {
  const launched = detail.launched.map((to) => [detail.event, to] as const);
  return detail.launch ? [[detail.launch, detail.event], ...launched] : launched;
}

/** A hop of the path as parts of the address: moved into sight if it is out of it. */
function inSight(hop: Stretch, stretch: Stretch, all: Stretch): Record<string, string> {
  if (hop.from >= stretch.from && hop.to <= stretch.to) return {};
  const middle = (hop.from + hop.to) / 2;
  const half = Math.max((stretch.to - stretch.from) / 2, hop.to - hop.from);
  const next = within({ from: middle - half, to: middle + half }, all);
  return { from: `${Math.floor(next.from)}`, to: `${Math.ceil(next.to)}` };
}

const show = ({ from, to }: Stretch) => change({ from: `${Math.floor(from)}`, to: `${Math.ceil(to)}` }, "replace");

function View({ lanes }: { lanes: Lanes }) {
  const [width, setWidth] = useState(0);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const all = { from: 0, to: Math.max(lanes.length, 1) };
  const stretch = seen(all);
  const list = useMemo(() => sorted(lanes.lanes), [lanes]);
  const { placed, height } = useMemo(() => place(list, open), [list, open]);
  const { level, first, last } = tilesOf(stretch, width, lanes.buckets);
  const question = transport.kind === "report" ? lanes.whole : { level, first, last };
  const tiles = useAnswer<TileDocument>(width > 0 ? "tiles" : undefined, { ...question, rank: rank.value });
  const selected = selectedEvent();
  const detail = useAnswer<EventDetail>(selected === undefined ? undefined : "event", { event: selected, rank: rank.value });
  const arrows = detail.state === "ok" ? arrowsOf(detail.answer.document) : [];
  const path = useAnswer<PathDocument>(state.value.cp === "1" ? "path" : undefined, { rank: rank.value });
  const answer = useLast(tiles);
  const critical = path.state === "ok" ? path.answer : undefined;
  return (
    <>
      <Bar all={all} />
      <p class="told" aria-live="polite">
        {duration(stretch.to - stretch.from)} of {duration(all.to - all.from)}. W and S zoom, A and D pan, 0 shows all; drag marks a stretch{critical && "; J and K go along the critical path"}.
      </p>
      <PathNote asked={path} />
      {tiles.state === "loading" && answer === undefined && <p class="quiet" role="status">Working it out …</p>}
      {answer && answer.document.left_out > 0 && <p class="notice">{count(answer.document.left_out)} boxes of the deepest rows are left out: zoom in to see them.</p>}
      {tiles.state === "refused" && <p class="notice" role="alert">{tiles.error.message}</p>}
      {state.value.as === "table" && answer ? (
        <EventTable answer={answer} lanes={lanes} />
      ) : (
        <Drawing {...{ lanes, placed, height, stretch, all, answer, critical, arrows, setWidth, width, open, setOpen }} />
      )}
      <RangeSummary />
    </>
  );
}

function Bar({ all }: { all: Stretch }) {
  const { cp, as } = state.value;
  return (
    <div class="bar" role="toolbar" aria-label="Timeline">
      <button type="button" onClick={() => show(zoomed(seen(all), 0.5, 0.5, all))}>Zoom in</button>
      <button type="button" onClick={() => show(zoomed(seen(all), 2, 0.5, all))}>Zoom out</button>
      <button type="button" onClick={() => change({ from: "", to: "" }, "replace")}>All</button>
      <button type="button" aria-pressed={cp === "1"} onClick={() => change({ cp: cp === "1" ? "" : "1" })}>Critical path</button>
      <button type="button" aria-pressed={as === "table"} onClick={() => change({ as: as === "table" ? "" : "table" })}>Table</button>
    </div>
  );
}

function PathNote({ asked }: { asked: Asked<PathDocument> }) {
  if (state.value.cp !== "1") return null;
  return (
    <Shown asked={asked}>
      {({ document }) => (
        <p class="quiet">
          Critical path: {count(document.hops)} hops, {duration(document.end - document.start)}, of which {duration(document.inferred)} inferred or unknown.
        </p>
      )}
    </Shown>
  );
}

interface DrawingProps {
  readonly lanes: Lanes;
  readonly placed: readonly Placed[];
  readonly height: number;
  readonly stretch: Stretch;
  readonly all: Stretch;
  readonly answer: Answer<TileDocument> | undefined;
  readonly critical: Answer<PathDocument> | undefined;
  readonly arrows: ReadonlyArray<readonly [from: Brief, to: Brief]>;
  readonly width: number;
  readonly setWidth: (width: number) => void;
  readonly open: ReadonlySet<number>;
  readonly setOpen: (open: ReadonlySet<number>) => void;
}

function Drawing(props: DrawingProps) {
  const { lanes, placed, height, stretch, all, answer, critical, arrows, width, setWidth, open, setOpen } = props;
  const [drag, setDrag] = useState<{ from: number; to: number }>();
  const ink = canvas.value;
  const boxes = useMemo(() => (answer ? boxesOf(answer, lanes, placed, stretch, width, critical) : []), [answer, lanes, placed, stretch.from, stretch.to, width, critical, selection.value]);
  const scroll = useRef(0);
  const draw = (context: CanvasRenderingContext2D, wide: number, high: number, top: number) => {
    context.fillStyle = ink.paper;
    context.fillRect(0, 0, wide, high);
    context.translate(0, -top);
    drawHeads(context, placed, ink);
    drawBoxes(context, boxes.filter((box) => box.y > top - ROW && box.y < top + high), ink);
    if (critical) drawPath(context, critical, placed, stretch, wide, RULER, ink);
    drawArrows(context, arrows, boxes, stretch, wide, ink);
    context.translate(0, top);
    drawRuler(context, stretch, wide, high, ink);
    if (drag) drawMarked(context, drag, high);
    const mark = marked();
    const xAt = (ns: number) => ((ns - stretch.from) / (stretch.to - stretch.from)) * wide;
    if (mark && !drag) drawMarked(context, { from: xAt(mark.from), to: xAt(mark.to) }, high);
  };
  const timeAt = (x: number) => stretch.from + (x / Math.max(width, 1)) * (stretch.to - stretch.from);
  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves: Readonly<Record<string, () => Stretch>> = {
      w: () => zoomed(stretch, 0.7, 0.5, all),
      s: () => zoomed(stretch, 1 / 0.7, 0.5, all),
      a: () => panned(stretch, -0.2, all),
      d: () => panned(stretch, 0.2, all),
      ArrowLeft: () => panned(stretch, -0.2, all),
      ArrowRight: () => panned(stretch, 0.2, all),
      "0": () => all,
    };
    const hops = { j: 1, k: -1 }[event.key];
    const hop = hops !== undefined && critical ? nextHop(critical, selectedEvent(), hops) : undefined;
    if (hop) change({ sel: `event:${hop.event}`, ...inSight(hop, stretch, all) }, "replace");
    const move = moves[event.key];
    if (move) {
      event.preventDefault();
      show(move());
    }
  };
  const release = (event: MouseEvent) => {
    if (event.button !== 0) return;
    const from = drag?.from ?? event.offsetX;
    setDrag(undefined);
    if (Math.abs(event.offsetX - from) > 4) {
      const [a, b] = [timeAt(from), timeAt(event.offsetX)].toSorted((one, other) => one - other) as [number, number];
      change({ mark: `${Math.floor(a)}-${Math.ceil(b)}` });
      return;
    }
    const y = event.offsetY + scroll.current;
    const hit = boxAt(boxes, event.offsetX, y);
    if (hit) return change({ sel: `event:${hit.event}` }, "replace");
    const head = placed.find(({ top }) => y >= RULER + top && y < RULER + top + HEAD);
    if (head) {
      const next = new Set(open);
      if (!next.delete(head.lane.track)) next.add(head.lane.track);
      setOpen(next);
    }
  };
  return (
    <div class="canvas tall">
      <Canvas
        label={`Timeline of ${placed.length} lanes; the button Table shows the same as a table`}
        height={RULER + height}
        scroll={scroll}
        draw={draw}
        onWidth={setWidth}
        data-boxes={boxes.length}
        onKeyDown={key}
        onWheel={(event: WheelEvent) => {
          if (!event.ctrlKey && !event.metaKey) return;
          event.preventDefault();
          show(zoomed(stretch, event.deltaY > 0 ? 1.2 : 1 / 1.2, event.offsetX / Math.max(width, 1), all));
        }}
        onMouseDown={(event: MouseEvent) => event.button === 0 && setDrag({ from: event.offsetX, to: event.offsetX })}
        onMouseMove={(event: MouseEvent) => drag && setDrag({ ...drag, to: event.offsetX })}
        onMouseLeave={() => setDrag(undefined)}
        onMouseUp={release}
      />
    </div>
  );
}

function boxesOf(answer: Answer<TileDocument>, lanes: Lanes, placed: readonly Placed[], stretch: Stretch, width: number, critical: Answer<PathDocument> | undefined): EventBox[] {
  const { track, depth, start, end, event, count: counts, name, kind } = answer.columns as Record<string, Uint32Array | Float64Array>;
  const byTrack = new Map(placed.map((here) => [here.lane.track, here]));
  const onPath = critical && new Set(critical.columns.event);
  const scale = width / (stretch.to - stretch.from);
  const selected = selectedEvent();
  const boxes: EventBox[] = [];
  for (let at = 0; at < track!.length; at += 1) {
    const here = byTrack.get(track![at]!);
    const level = depth![at]!;
    if (!here || level >= here.rows || end![at]! < stretch.from || start![at]! > stretch.to) continue;
    const x = (start![at]! - stretch.from) * scale;
    const many = counts![at]!;
    const text = answer.document.texts[name![at]!] ?? "";
    boxes.push({
      event: event![at]!,
      x,
      y: RULER + here.top + HEAD + level * ROW,
      width: Math.max((end![at]! - start![at]!) * scale, 0.5),
      height: ROW,
      fill: LAYERS[layerOf(lanes.kinds[kind![at]!] ?? "")].fill,
      label: many > 1 ? `${many} events, longest ${text}` : text,
      faded: onPath !== undefined && !onPath.has(event![at]!),
      marked: event![at] === selected,
    });
  }
  return boxes;
}

function boxAt(boxes: readonly EventBox[], x: number, y: number): EventBox | undefined {
  // A box may be narrower than a pointer is exact.
  const hit = (box: EventBox, slack: number) => y >= box.y && y < box.y + box.height && x >= box.x - slack && x < box.x + box.width + slack;
  return boxes.find((box) => hit(box, 0)) ?? boxes.find((box) => hit(box, 2));
}

type InkOf = typeof canvas.value;

function drawRuler(context: CanvasRenderingContext2D, stretch: Stretch, width: number, height: number, ink: InkOf): void {
  context.fillStyle = ink.paper;
  context.fillRect(0, 0, width, RULER);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (const tick of ticks(stretch, width / 110)) {
    const x = ((tick - stretch.from) / (stretch.to - stretch.from)) * width;
    context.fillStyle = ink.line;
    context.fillRect(Math.round(x), 0, 1, height);
    context.fillStyle = ink.quiet;
    context.fillText(duration(tick), x + 4, RULER / 2);
  }
}

function drawHeads(context: CanvasRenderingContext2D, placed: readonly Placed[], ink: InkOf): void {
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (const { lane, top, rows } of placed) {
    context.fillStyle = ink.quiet;
    const more = lane.rows > rows ? ` · ${lane.rows - rows} more rows, click` : "";
    context.fillText(`${laneTitle(lane)}${more}`, 4, RULER + top + HEAD / 2);
  }
}

function drawMarked(context: CanvasRenderingContext2D, { from, to }: { from: number; to: number }, height: number): void {
  context.globalAlpha = 0.25;
  context.fillStyle = "#5b9bd5";
  context.fillRect(Math.min(from, to), 0, Math.abs(to - from), height);
  context.globalAlpha = 1;
}
