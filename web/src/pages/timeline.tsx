/** Timeline page: threads and streams as boxes, merged if narrow, with counters below. */

import { useMemo, useRef, useState } from "preact/hooks";
import { type QueryState, useAnswer, useLast } from "../answers";
import { cause } from "../colors";
import { chosenSteps, named, parsed, run, steps as selectedSteps, rangeOfSteps, traceOf } from "../filter";
import { count, counted, duration, percent, sentence } from "../format";
import { matcher } from "../flame/messages";
import { AboutPicture } from "../parts/about-picture";
import { showDetails } from "../parts/details-focus";
import { HintButton } from "../parts/hint-button";
import { cut } from "../parts/name";
import { Nearest } from "../parts/nearest";
import { NoEvents, Shown } from "../parts/notice";
import { change, rank, selection, state, transport } from "../state";
import { useKeys } from "../timeline/keys";
import { CurveTable } from "../timeline/curve-table";
import { breaksOff } from "../timeline/cut";
import { SegmentList } from "../timeline/path-segments";
import { LaneCanvas } from "../timeline/lanes";
import { Legend } from "../timeline/legend";
import { PathBreakdown } from "../timeline/path-breakdown";
import { useOuter } from "../timeline/levels";
import { ARROWS, neighbor, firstSeen, nextFound } from "../timeline/next";
import { importFrames, limits, tilesQuestion } from "../timeline/question";
import { marked, RangeSummary } from "../timeline/range";
import type { Step } from "../timeline/paint";
import { nextSegment, type Reached, segmentsOf } from "../timeline/segments";
import { useSteps } from "../timeline/steps";
import { EventTable } from "../timeline/table";
import { laneName, laneTitle, moved, type Opened, place, type Placed, sorted, type TimeRange, within, zoomed } from "../timeline/view";
import type { Brief, EventDetail, Lanes } from "../generated/answers";
import type { AnswerTo } from "../transport";

export function Timeline() {
  const hasTimeline = run.value?.has.timeline === true;
  const lanes = useAnswer(hasTimeline ? "lanes" : undefined, { rank: rank.value, ...importFrames() });
  return (
    <section aria-labelledby="timeline-title">
      <h1 id="timeline-title">Timeline</h1>
      {hasTimeline ? (
        <Shown query={lanes}>{({ document }) => <View whole={document} />}</Shown>
      ) : (
        <p class="notice">This recording contains totals per call path, not individual calls. To get a timeline, record with <code>--mode trace</code>.</p>
      )}
    </section>
  );
}

/** Visible time range: from the URL, or the selected steps, or all. */
function seen(all: TimeRange): TimeRange {
  const [from, to] = [Number(state.value.from), Number(state.value.to)];
  const given = state.value.from !== undefined && Number.isFinite(from) && Number.isFinite(to) && to > from;
  if (given) return within({ from, to }, all);
  const [trace, chosen] = [traceOf(run.value), chosenSteps()];
  const ofSteps = trace && chosen && rangeOfSteps(trace.steps, chosen);
  return ofSteps ? within(ofSteps, all) : all;
}

function selectedEvent(): number | undefined {
  const [kind, number] = selection.value.split(":");
  return kind === "event" ? Number(number) : undefined;
}

/** Launch links of the selected event. */
function arrowsOf(detail: EventDetail): Array<readonly [Brief, Brief]> {
  const launched = detail.launched.map((to) => [detail.event, to] as const);
  return detail.launch ? [[detail.launch, detail.event], ...launched] : launched;
}

/** The steps whose critical path is shown: those that other pages look at, too. In a report only those that it was made for. */
function stepsOfPath(): string | undefined {
  const query = selectedSteps();
  if (transport.kind !== "report") return query;
  const chosen = traceOf(run.value)?.chosen;
  return chosen && query === named(chosen) ? query : undefined;
}

const address = ({ from, to }: TimeRange) => ({ from: `${Math.floor(from)}`, to: `${Math.ceil(to)}` });
const select = (event: number) => change({ sel: `event:${event}` }, "replace");
const show = (range: TimeRange) => change(address(range), "replace");

/** A segment of the path as parts of the address: moved into sight if it is out of it. */
function inSight(segment: TimeRange, range: TimeRange, all: TimeRange): Record<string, string> {
  if (segment.from >= range.from && segment.to <= range.to) return {};
  const middle = (segment.from + segment.to) / 2;
  const half = Math.max((range.to - range.from) / 2, segment.to - segment.from);
  return address(within({ from: middle - half, to: middle + half }, all));
}

/** Answers for the visible time range at this width. */
function useTimeline(range: TimeRange, width: number, lanes: Lanes) {
  const question = { ...tilesQuestion(range, width, lanes), rank: rank.value };
  const isReady = width > 0;
  const tiles = useAnswer(isReady ? "tiles" : undefined, { ...question, ...limits(lanes, state.value.lanes) });
  const counters = useLast(useAnswer(isReady ? "counters" : undefined, question));
  const path = useAnswer(state.value.cp === "1" ? "path" : undefined, { rank: rank.value, steps: stepsOfPath() });
  const selected = selectedEvent();
  const detail = useAnswer(selected === undefined ? undefined : "event", { event: selected, rank: rank.value });
  const known = detail.state === "ok" ? detail.answer.document : undefined;
  const arrows = known ? arrowsOf(known) : [];
  const { find } = state.value;
  const isFound = useMemo(() => matcher(find), [find]);
  const critical = path.state === "ok" ? path.answer : undefined;
  const segments = useMemo(() => (critical ? segmentsOf(critical) : []), [critical]);
  // Where J and K are: the same event is on the path again and again.
  const reached = useRef<Reached>(undefined);
  return { known, isFound, tiles, answer: useLast(tiles), counters, path, critical, segments, reached, selected, arrows };
}

/** Lanes whose titles contain the filter text. */
function useLanes(whole: Lanes): Lanes {
  const { lanes: namePattern = "" } = state.value;
  return useMemo(() => {
    const holds = matcher(namePattern);
    return holds ? { ...whole, lanes: whole.lanes.filter((lane) => holds(laneTitle(lane))) } : whole;
  }, [whole, namePattern]);
}

type Shown = ReturnType<typeof useTimeline>;

/** Goes along the critical path by segments, of the cause that is chosen if one is; says whether there was one. */
function walked({ critical, segments, reached, selected }: Shown, step: 1 | -1, range: TimeRange, all: TimeRange): boolean {
  const cause = critical?.document.causes.indexOf(state.value.cause ?? "") ?? -1;
  const next = critical && nextSegment(critical, segments, { reached: reached.current, selected, range, ...(cause < 0 ? {} : { only: cause }) }, step);
  if (!next) return false;
  reached.current = next;
  change({ sel: `event:${next.event}`, ...inSight(segments[next.segment]!, range, all) }, "replace");
  return true;
}

/** Handle a key; returns if it was used. Arrows move from the selected event, or start at the first box. */
function pressed(key: string, shown: Shown, range: TimeRange, all: TimeRange, placed: () => readonly Placed[]): boolean {
  const { selected, answer, known, isFound } = shown;
  const along = { j: 1, k: -1 }[key] as 1 | -1 | undefined;
  if (along) return walked(shown, along, range, all);
  const arrow = ARROWS[key];
  const step = { n: 1, N: -1 }[key] as 1 | -1 | undefined;
  const next =
    arrow && answer && selected === undefined ? firstSeen(answer, placed(), range)
    : arrow && answer ? (neighbor(answer, selected!, arrow) ?? (arrow === "up" ? known?.launch?.event : undefined))
    : step && isFound && answer ? nextFound(answer, selected, isFound, range, step)
    : undefined;
  if (next !== undefined) select(next);
  if (key === "f" && known) show(within(lifeOf(known.event), all));
  if (key === "m") change({ mark: known ? `${known.event.start}-${known.event.start + known.event.dur}` : `${Math.floor(range.from)}-${Math.ceil(range.to)}` });
  if (key === "Enter" && selected !== undefined) showDetails();
  const move = arrow ? undefined : moved(key, range, all);
  if (move) show(move);
  return arrow !== undefined || next !== undefined || move !== undefined;
}

/** Description of the selected event and its path segment, also for screen readers. */
function ariaText({ known, segments, reached, critical }: Shown, lanes: Lanes): string {
  if (!known) return "";
  const { name, dur, start, track } = known.event;
  const lane = lanes.lanes.find((one) => one.track === track);
  const at = reached.current?.event === known.event.event ? reached.current.segment : undefined;
  const segment = at === undefined ? undefined : segments[at];
  const path = critical && segment ? ` Segment ${count(at! + 1)} of ${count(segments.length)} of the critical path: ${cause(critical.document.causes[segment.cause] ?? "unknown").title}, ${duration(segment.to - segment.from)}, starting at ${duration(segment.from)}.` : "";
  return `${cut(name)}: ${duration(dur)}, starting at ${duration(start)}${lane ? `, ${laneName(lane)}` : ""}.${path}`;
}

/** Time range of an event, with a margin of a tenth. */
const lifeOf = ({ start, dur }: Brief): TimeRange => ({ from: start - Math.max(dur / 10, 10), to: start + dur + Math.max(dur / 10, 10) });

function View({ whole }: { whole: Lanes }) {
  const lanes = useLanes(whole);
  const [width, setWidth] = useState(0);
  const [opened, setOpened] = useState<Opened>(new Map());
  const all = { from: 0, to: Math.max(lanes.length, 1) };
  const range = seen(all);
  const timeline = useTimeline(range, width, lanes);
  const { tiles, answer, counters, path, critical, selected, arrows, isFound } = timeline;
  const outer = useOuter(answer, lanes);
  const steps = useSteps();
  const isMissed = useMemo(() => isFound !== undefined && answer !== undefined && !answer.document.texts.some(isFound), [answer, isFound]);
  const isCut = breaksOff(traceOf(run.value)?.report);
  const isEmpty = whole.lanes.length === 0 && counters !== undefined && counters.document.counters.length === 0;
  useKeys((key) => pressed(key, timeline, range, all, () => place(sorted(lanes.lanes), opened, outer).placed));
  if (isEmpty) return <NoEvents />;
  return (
    <>
      <Bar {...{ all, lanes, opened, setOpened }} />
      <p class="status-line" id="timeline-range" aria-live="polite">
        Visible: {duration(range.to - range.from)} of {duration(all.to - all.from)}.
      </p>
      <p class="status-line single" id="timeline-selected" aria-live="polite">{ariaText(timeline, lanes)}</p>
      {isCut && <p class="notice">Stripes mark the point where the trace is truncated; later records are lost.</p>}
      {path.state === "refused" && <p class="notice" role="alert">{path.error.message}</p>}
      {isMissed && (
        <p class="notice" aria-live="polite">
          No visible event has {state.value.find} in its name.<Nearest text={state.value.find ?? ""} choose={(name) => change({ find: name }, "replace")} />
        </p>
      )}
      {lanes.lanes.length === 0 && whole.lanes.length > 0 && <p class="notice">No lane has {state.value.lanes} in its name.</p>}
      {tiles.state === "loading" && answer === undefined && <p class="quiet" role="status">Computing …</p>}
      {answer && answer.document.left_out > 0 && <p class="notice">{count(answer.document.left_out)} boxes of the deepest call levels are hidden; zoom in to see them.</p>}
      {tiles.state === "refused" && <p class="notice" role="alert">{tiles.error.message}</p>}
      {state.value.as === "table" && answer ? (
        <>
          {critical && <SegmentList path={critical} {...{ range, selected }} onEvent={select} />}
          <EventTable {...{ answer, lanes, range, selected, isFound }} onEvent={select} />
          {counters && <CurveTable answer={counters} range={range} />}
        </>
      ) : (
        <LaneCanvas
          label={`Timeline of ${lanes.lanes.length} lanes; the button Table shows it as a table`}
          {...{ lanes, range, all, zero: 0, steps, chosen: parsed(selectedSteps() ?? ""), answer, counters, critical, arrows, isFound, selected, width, setWidth, opened, setOpened, outer }}
          describedBy="timeline-range timeline-selected"
          mark={marked()}
          cut={isCut ? all.to : undefined}
          onRange={show}
          onEvent={select}
          onMark={({ from, to }) => change({ mark: `${Math.floor(from)}-${Math.ceil(to)}` })}
        />
      )}
      {answer && <Legend answer={answer} lanes={lanes} />}
      {state.value.as !== "table" && <About steps={steps} />}
      {path.state !== "refused" && <PathNote query={path} />}
      {critical && <PathBreakdown path={critical} range={range} onSegment={showSegment(all)} />}
      {counters && counters.document.more > 0 && <p class="quiet">{counted(counters.document.more, "counter")} with fewer values {counters.document.more === 1 ? "is" : "are"} not shown.</p>}
      <RangeSummary lanes={lanes} />
    </>
  );
}

/** Shows a segment of the path, with a tenth of it around it, and its longest event. */
const showSegment = (all: TimeRange) => (segment: TimeRange, event: number | undefined) => {
  const room = Math.max((segment.to - segment.from) / 10, 10);
  change({ ...address(within({ from: segment.from - room, to: segment.to + room }, all)), ...(event === undefined ? {} : { sel: `event:${event}` }) });
};

interface BarProps {
  readonly all: TimeRange;
  readonly lanes: Lanes;
  readonly opened: Opened;
  readonly setOpened: (opened: Opened) => void;
}

function Bar({ all, lanes, opened, setOpened }: BarProps) {
  const { cp, as, imports } = state.value;
  const [trace, chosenRange] = [traceOf(run.value), parsed(selectedSteps() ?? "")];
  // Imports may take far longer than all steps.
  const ofSteps = trace && chosenRange && rangeOfSteps(trace.steps, chosenRange);
  const isOpen = lanes.lanes.length > 0 && lanes.lanes.every(({ track }) => opened.get(track) === "all");
  return (
    <div class="bar" role="toolbar" aria-label="Timeline">
      <button type="button" onClick={() => show(zoomed(seen(all), 0.5, 0.5, all))}>Zoom in</button>
      <button type="button" onClick={() => show(zoomed(seen(all), 2, 0.5, all))}>Zoom out</button>
      <button type="button" onClick={() => show(all)}>All</button>
      {ofSteps && <button type="button" title="Zoom to the selected steps" onClick={() => show(within(ofSteps, all))}>Selected steps</button>}
      <button type="button" aria-pressed={isOpen} onClick={() => setOpened(new Map(isOpen ? [] : lanes.lanes.map(({ track }) => [track, "all"] as const)))}>All levels</button>
      {lanes.has_imports && transport.kind === "server" && (
        <button type="button" aria-pressed={imports === "all"} title="Show all frames of Python's imports" onClick={() => change({ imports: imports === "all" ? "" : "all" })}>Import frames</button>
      )}
      <button type="button" aria-pressed={cp === "1"} onClick={() => change({ cp: cp === "1" ? "" : "1" })}>Critical path</button>
      <label>
        Lanes{" "}
        <input type="search" data-field="lanes" size={12} placeholder="all" value={state.value.lanes ?? ""} onInput={(event) => change({ lanes: event.currentTarget.value }, "replace")} />
      </label>
      <label>
        Search{" "}
        <input
          type="search"
          data-field="find"
          size={12}
          value={state.value.find ?? ""}
          onInput={(event) => change({ find: event.currentTarget.value }, "replace")}
          onKeyDown={(event) => event.key === "Enter" && document.querySelector<HTMLElement>("main canvas")?.focus()}
        />
      </label>
      <button type="button" aria-pressed={as === "table"} onClick={() => change({ as: as === "table" ? "" : "table" })}>Table</button>
      <HintButton hint="W and S zoom, A and D pan, 0 shows all, J and K follow the critical path. Drag to mark a time range, click a step to mark it." />
    </div>
  );
}

/** Meaning of boxes and of the colors of steps. */
function About({ steps }: { steps: readonly Step[] }) {
  const hasSelectedSteps = steps.length > 0 && parsed(selectedSteps() ?? "") !== undefined;
  return (
    <AboutPicture>
      <p>Each lane is a thread, a stream or another track of the trace. Events that are too narrow to draw share one box with their number; zoom in to separate them.</p>
      {hasSelectedSteps && <p>In the step row, selected steps are drawn in solid color.</p>}
    </AboutPicture>
  );
}

/** Window, length and inferred part of the critical path. */
function PathNote({ query }: { query: QueryState<AnswerTo<"path">> }) {
  if (state.value.cp !== "1") return null;
  return (
    <Shown query={query}>
      {({ document }) => (
        <p class="quiet">
          Critical path of {document.window}: {counted(document.segments, "segment")}, {duration(document.end - document.start)}, of which {duration(document.inferred)} ({percent(document.inferred, document.end - document.start)}) inferred or unknown.
          {document.notes.map((note) => ` ${sentence(note)}`)}
        </p>
      )}
    </Shown>
  );
}
