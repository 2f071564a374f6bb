/** Drawing of memory, with pointer and keyboard actions. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { InkOf } from "../colors";
import { Canvas } from "../draw/canvas";
import { bytes, count, counted } from "../format";
import type { Columns } from "../generated/answers";
import { drawMarked } from "../timeline/paint";
import { type TimeRange, within, zoomed } from "../timeline/view";
import { drawCalls, drawCurves, drawObjects, drawRuler } from "./draw";
import { hitAt, LANE, layoutOf, outermost, peakAt, positionAt, scaleOf } from "./layout";
import type { Shown } from "./shown";

interface Props {
  readonly shown: Shown;
  readonly device: number;
  readonly range: TimeRange;
  readonly all: TimeRange;
  readonly width: number;
  readonly setWidth: (width: number) => void;
  readonly selectedObject: number | undefined;
  readonly selectedCall: number | undefined;
  readonly onRange: (range: TimeRange) => void;
  readonly onObject: (object: number) => void;
  readonly onCall: (call: number) => void;
  readonly onPeak: (name: string) => void;
}

/** Pixels that a pointer moves at least until it drags; and calls that are seen at least. */
const DRAG = 4;
const FEWEST = 4;

export function MemoryCanvas(props: Props) {
  const { shown, device, range, all, width, setWidth, selectedObject, selectedCall } = props;
  const { overview, curve, applied, calls, objects } = shown;
  const [drag, setDrag] = useState<{ from: number; to: number }>();
  const scroll = useRef(0);
  const phases = useMemo(() => outermost(overview.page.phases), [overview]);
  const lanes = objects?.columns.object?.length ?? 0;
  const layout = useMemo(() => layoutOf(overview.page.lanes, phases, lanes, width), [overview, phases, lanes, width]);
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const at = selectedObject === undefined ? -1 : Array.prototype.indexOf.call(objects?.columns.object ?? [], selectedObject);
    if (frame.current && at >= 0) bringIntoSight(frame.current, layout.objects + at * LANE, layout.curve);
    // Only then: whoever scrolls on stays where they are, though answers come.
  }, [selectedObject, lanes]);
  const peaks = overview.page.peaks.filter((peak) => peak.device === device);
  const place = scaleOf(range, layout.gutter, width);
  const draw = (context: CanvasRenderingContext2D, wide: number, high: number, top: number, ink: InkOf) => {
    const scene = { context, layout, range, width: wide, ink };
    context.fillStyle = ink.paper;
    context.fillRect(0, 0, wide, high);
    context.translate(0, -top);
    if (curve) drawCurves(scene, curve, applied, peaks);
    if (calls) drawCalls(scene, calls, overview.page.kinds, selectedCall);
    context.fillStyle = ink.ink;
    if (objects) context.fillText(`Objects: ${count(lanes)} of ${count(objects.document.objects)} drawn`, 4, layout.objectsHead + LANE / 2);
    const seen = [Math.max(Math.floor((top - layout.objects) / LANE), 0), Math.ceil((top + high - layout.objects) / LANE)] as const;
    if (objects) drawObjects(scene, objects, selectedObject, seen);
    context.translate(0, top);
    drawRuler(scene, phases);
    if (drag) drawMarked(context, drag.from, drag.to, high);
  };
  const clicked = (x: number, y: number) => {
    const hit = hitAt(layout, lanes, y);
    if (hit?.kind === "object" && objects) return props.onObject(objects.columns.object[hit.at]!);
    if (hit?.kind === "curve") {
      const peak = peakAt(peaks, x, place);
      return peak && props.onPeak(peak.name);
    }
    const box = hit?.kind === "row" && calls ? boxAt(calls.columns, hit.row, positionAt(x, range, layout.gutter, width), place) : undefined;
    if (box === undefined) return;
    if (box.count === 1) return props.onCall(box.start);
    props.onRange(within({ from: box.start - 1, to: Math.max(box.start + box.length + 1, box.start + FEWEST) }, all));
  };
  const release = (event: MouseEvent) => {
    if (event.button !== 0) return;
    const from = drag?.from ?? event.offsetX;
    setDrag(undefined);
    if (Math.abs(event.offsetX - from) <= DRAG) return clicked(event.offsetX, event.offsetY + scroll.current);
    const [a, b] = [from, event.offsetX].map((x) => positionAt(x, range, layout.gutter, width)).toSorted((one, other) => one - other) as [number, number];
    props.onRange(within({ from: Math.floor(a), to: Math.max(Math.ceil(b), Math.floor(a) + FEWEST) }, all));
  };
  return (
    <div class="canvas tall" ref={frame}>
      <Canvas
        label={`Memory: curve of the live bytes, ${counted(overview.page.lanes.length, "stream")}, ${counted(lanes, "object")}; the button Table shows this data as tables`}
        height={layout.height}
        scroll={scroll}
        draw={draw}
        onWidth={setWidth}
        data-objects={lanes}
        data-boxes={calls?.columns.lane?.length ?? 0}
        data-top={layout.objects}
        onWheel={(event: WheelEvent) => {
          if (!event.ctrlKey && !event.metaKey) return;
          event.preventDefault();
          const center = (event.offsetX - layout.gutter) / Math.max(width - layout.gutter, 1);
          props.onRange(zoomed(range, event.deltaY > 0 ? 1.2 : 1 / 1.2, Math.min(Math.max(center, 0), 1), all));
        }}
        onMouseDown={(event: MouseEvent) => event.button === 0 && setDrag({ from: event.offsetX, to: event.offsetX })}
        onMouseMove={(event: MouseEvent) => {
          if (drag) return setDrag({ ...drag, to: event.offsetX });
          // Set at the element alone: nothing is drawn anew for it.
          const hit = hitAt(layout, lanes, event.offsetY + scroll.current);
          (event.currentTarget as HTMLElement).title = hit?.kind === "object" && objects ? titleOf(objects, hit.at) : "";
        }}
        onMouseLeave={() => setDrag(undefined)}
        onMouseUp={release}
      />
    </div>
  );
}

/** Scroll until a lane is visible; the ruler covers the uppermost ones. */
function bringIntoSight(frame: HTMLElement, y: number, ruler: number): void {
  const isSeen = y >= frame.scrollTop + ruler && y + LANE <= frame.scrollTop + frame.clientHeight;
  if (!isSeen) frame.scrollTop = y - frame.clientHeight / 2;
}

/** Description of an object, for its tooltip. */
export function titleOf(objects: NonNullable<Shown["objects"]>, at: number): string {
  const { bytes: size, name, place, from, to } = objects.columns;
  const { texts } = objects.document;
  const where = texts[place[at]!];
  return `${texts[name[at]!]}: ${bytes(size[at]!)}, calls ${count(from[at]!)} to ${count(to[at]!)}${where ? `, ${where}` : ""}`;
}

interface BoxOf {
  readonly start: number;
  readonly length: number;
  readonly count: number;
}

/** The box of a row at a position, or within two pixels of it. */
function boxAt(columns: Columns["memory-calls"], row: { lane: number; kind: number }, position: number, place: (position: number) => number): BoxOf | undefined {
  const { lane, kind, start, length, count: counts } = columns;
  let best: { far: number; box: BoxOf } | undefined;
  for (let at = 0; at < lane.length; at += 1) {
    if (lane[at] !== row.lane || kind[at] !== row.kind) continue;
    const [from, to] = [start[at]!, start[at]! + length[at]!];
    const far = position >= from && position < to ? 0 : Math.min(Math.abs(place(from) - place(position)), Math.abs(place(to) - place(position)));
    if (far <= 2 && (best === undefined || far < best.far)) best = { far, box: { start: from, length: length[at]!, count: counts[at]! } };
  }
  return best?.box;
}
