/** Drawing of a timeline: lanes with boxes, curves below them, and pointer actions. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { InkOf } from "../colors";
import { labelBoxes } from "../draw/boxes";
import { Canvas } from "../draw/canvas";
import type { AnswerTo } from "../transport";
import type { Brief, Lanes } from "../generated/answers";
import { drawArrows } from "./arrows";
import { boxAt, countIn, boxLayout, layersOf, paint, boxText } from "./boxes";
import { CURVE, drawCurves } from "./curves";
import { drawCut } from "./cut";
import { levelsOf, type Outer } from "./levels";
import { drawGrid, drawHeads, drawMarked, drawRuler, drawSteps, RULER, scaleOf, type Step, STEPS, ticksOf } from "./paint";
import { drawPath } from "./path";
import { HEAD, type Opened, place, type Placed, sorted, type TimeRange, turned, zoomed } from "./view";

interface Props {
  readonly label: string;
  readonly lanes: Lanes;
  readonly range: TimeRange;
  readonly all: TimeRange;
  /** Origin of the ruler. */
  readonly zero: number;
  readonly steps: readonly Step[];
  /** First and last of the selected steps. */
  readonly chosen?: readonly [first: number, last: number] | undefined;
  readonly answer: AnswerTo<"tiles"> | undefined;
  readonly counters: AnswerTo<"counters"> | undefined;
  readonly critical?: AnswerTo<"path"> | undefined;
  /** Predicate of names that match the search. */
  readonly isFound?: ((name: string) => boolean) | undefined;
  readonly arrows?: ReadonlyArray<readonly [from: Brief, to: Brief]>;
  readonly selected: number | undefined;
  readonly mark?: TimeRange | undefined;
  /** Time at which the trace breaks off, if it does. */
  readonly cut?: number | undefined;
  readonly width: number;
  readonly setWidth: (width: number) => void;
  readonly opened: Opened;
  readonly setOpened: (opened: Opened) => void;
  /** Outer levels of lanes that are hidden where not all have room. */
  readonly outer?: Outer | undefined;
  /** The `id` of the element that describes the drawing. */
  readonly describedBy?: string | undefined;
  readonly onRange: (range: TimeRange) => void;
  readonly onEvent: (event: number) => void;
  readonly onMark?: (mark: TimeRange) => void;
}

/** Pixels that a pointer moves at least until it drags. */
const DRAG = 4;

export function LaneCanvas(props: Props) {
  const { label, range, all, answer, width, setWidth, onRange, steps } = props;
  const [drag, setDrag] = useState<{ from: number; to: number }>();
  const scroll = useRef(0);
  const { placed, laid, offset, bottom, height } = useScene(props);
  useShown(props, placed);
  const draw = (context: CanvasRenderingContext2D, wide: number, high: number, top: number, ink: InkOf) => {
    context.fillStyle = ink.paper;
    context.fillRect(0, 0, wide, high);
    const ticks = ticksOf(range, props.zero, wide);
    drawGrid(context, ticks, high, ink);
    context.translate(0, -top);
    drawHeads(context, placed, offset, wide, HEAD, ink);
    const named = laid ? paint(context, laid, { range, width: wide, top, high }, props.selected) : [];
    if (props.critical) drawPath(context, props.critical, placed, range, wide, offset, ink);
    labelBoxes(context, named, ink);
    if (props.counters) drawCurves(context, props.counters, { range, width: wide, top, high }, bottom, ink);
    if (laid) drawArrows(context, props.arrows ?? [], laid, range, wide, ink);
    context.translate(0, top);
    if (props.cut !== undefined) drawCut(context, props.cut, range, wide, RULER, high, ink);
    drawRuler(context, ticks, wide, ink);
    if (steps.length > 0) drawSteps(context, steps, props.chosen, range, wide, ink);
    const xOf = scaleOf(range, wide);
    if (drag) drawMarked(context, drag.from, drag.to, high);
    else if (props.mark) drawMarked(context, xOf(props.mark.from), xOf(props.mark.to), high);
  };
  const timeAt = (x: number) => range.from + (x / Math.max(width, 1)) * (range.to - range.from);
  const clicked = (x: number, top: number) => {
    const y = top + scroll.current;
    const step = top >= RULER && top < offset ? steps.find(([, start, end]) => timeAt(x) >= start && timeAt(x) <= end) : undefined;
    if (step) return props.onMark?.({ from: step[1], to: step[2] });
    const hit = laid && boxAt(laid, { range, width }, x, y);
    if (laid && hit !== undefined) return props.onEvent(laid.answer.columns.event[hit]!);
    const head = placed.find((here) => y >= offset + here.top && y < offset + here.top + HEAD);
    if (head) props.setOpened(turned(props.opened, head));
  };
  const release = (event: MouseEvent) => {
    if (event.button !== 0) return;
    const from = drag?.from ?? event.offsetX;
    setDrag(undefined);
    if (Math.abs(event.offsetX - from) <= DRAG || !props.onMark) return clicked(event.offsetX, event.offsetY);
    const [a, b] = [timeAt(from), timeAt(event.offsetX)].toSorted((one, other) => one - other) as [number, number];
    props.onMark({ from: a, to: b });
  };
  return (
    <div class="canvas tall">
      <Canvas
        label={label}
        aria-describedby={props.describedBy}
        height={height}
        scroll={scroll}
        draw={draw}
        onWidth={setWidth}
        data-boxes={laid ? countIn(laid, range) : 0}
        data-cut={props.cut}
        data-left={answer ? Math.round(range.from - props.zero) : undefined}
        onWheel={(event: WheelEvent) => {
          if (!event.ctrlKey && !event.metaKey) return;
          event.preventDefault();
          onRange(zoomed(range, event.deltaY > 0 ? 1.2 : 1 / 1.2, event.offsetX / Math.max(width, 1), all));
        }}
        onMouseDown={(event: MouseEvent) => event.button === 0 && setDrag({ from: event.offsetX, to: event.offsetX })}
        onMouseMove={(event: MouseEvent) => {
          if (drag) return setDrag({ ...drag, to: event.offsetX });
          // Set at the element alone: nothing is drawn anew for it.
          const hit = laid && boxAt(laid, { range, width }, event.offsetX, event.offsetY + scroll.current);
          (event.currentTarget as HTMLElement).title = laid && hit !== undefined ? boxText(laid.answer, hit) : "";
        }}
        onMouseLeave={() => setDrag(undefined)}
        onMouseUp={release}
      />
    </div>
  );
}

/** Open the lane of the selection once if its level is hidden, so that users can close it again. */
function useShown({ answer, selected, opened, setOpened }: Props, placed: readonly Placed[]): void {
  const shown = useRef<number>(undefined);
  useEffect(() => {
    if (!answer || selected === undefined || shown.current === selected) return;
    for (const [track, level] of levelsOf(answer, [selected])) {
      shown.current = selected;
      const here = placed.find(({ lane }) => lane.track === track);
      if (here && (level < here.outer || level >= here.outer + here.rows)) setOpened(new Map(opened).set(track, "all"));
    }
  }, [answer, selected]);
}

/** Layout of the drawing. */
function useScene({ lanes, opened, outer, answer, critical, steps, counters, isFound }: Props) {
  const list = useMemo(() => sorted(lanes.lanes), [lanes]);
  const layers = useMemo(() => layersOf(lanes), [lanes]);
  const { placed, height } = useMemo(() => place(list, opened, outer), [list, opened, outer]);
  const onPath = useMemo(() => critical && new Set(critical.columns.event), [critical]);
  const offset = RULER + (steps.length > 0 ? STEPS : 0);
  const laid = useMemo(() => answer && boxLayout(answer, layers, { placed, offset, onPath, isFound }), [answer, layers, placed, offset, onPath, isFound]);
  const bottom = offset + height;
  return { placed, laid, offset, bottom, height: bottom + (counters?.document.counters.length ?? 0) * CURVE };
}
