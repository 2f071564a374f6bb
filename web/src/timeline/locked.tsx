/** Two timelines that move together, each aligned at the start of a step. */

import { useState } from "preact/hooks";
import { type QueryState, useAnswer, useLast } from "../answers";
import { duration } from "../format";
import { HintButton } from "../parts/hint-button";
import { Shown } from "../parts/notice";
import { change, rank, state } from "../state";
import type { Lanes } from "../generated/answers";
import type { AnswerTo } from "../transport";
import { useKeys } from "./keys";
import { LaneCanvas } from "./lanes";
import { importFrames, limits, tilesQuestion } from "./question";
import type { Step } from "./paint";
import { useSteps } from "./steps";
import { EventTable } from "./table";
import { moved, type Opened, type TimeRange, within } from "./view";

/** A side of the comparison. */
interface Side {
  readonly letter: "A" | "B";
  readonly name: string;
  readonly run: "before" | undefined;
  readonly lanes: Lanes;
  readonly steps: readonly Step[];
  /** The selected step, by its index among the steps. */
  readonly at: number;
}

/** Part of a window's height that each of both takes at most. */
const HALF = 0.4;

export function LockedTimelines({ before, after }: { before: string; after: string }) {
  const a = useAnswer("lanes", { run: "before", ...importFrames() });
  const b = useAnswer("lanes", { rank: rank.value, ...importFrames() });
  const [stepsA, stepsB] = [useSteps("before"), useSteps()];
  return (
    <Shown query={a}>
      {({ document: lanesA }) => (
        <Shown query={b}>
          {({ document: lanesB }) => (
            <Both
              a={{ letter: "A", name: before, run: "before", lanes: lanesA, steps: stepsA, at: chosen("stepa", stepsA) }}
              b={{ letter: "B", name: after, run: undefined, lanes: lanesB, steps: stepsB, at: chosen("stepb", stepsB) }}
            />
          )}
        </Shown>
      )}
    </Shown>
  );
}

/** The step of the address; without one that in the middle, for the first are warm-up and the last may be cut off. */
function chosen(part: string, steps: readonly Step[]): number {
  const index = steps.findIndex(([number]) => `${number}` === state.value[part]);
  return index >= 0 ? index : steps.length >> 1;
}

/** Start and length of the selected step; the whole trace if there are no steps. */
function stepOf({ steps, at, lanes }: Side): { start: number; length: number } {
  const step = steps[at];
  return step ? { start: step[1], length: Math.max(step[2] - step[1], 1) } : { start: 0, length: Math.max(lanes.length, 1) };
}

const moveTo = ({ from, to }: TimeRange) => change({ from: `${Math.floor(from)}`, to: `${Math.ceil(to)}` }, "replace");

function Both({ a, b }: { a: Side; b: Side }) {
  const sides = [a, b];
  const starts = sides.map(stepOf);
  // Times count from the start of the chosen steps: both runs show one time range.
  const all = { from: Math.min(...starts.map(({ start }) => -start)), to: Math.max(...sides.map(({ lanes }, at) => lanes.length - starts[at]!.start), 1) };
  const [from, to] = [Number(state.value.from), Number(state.value.to)];
  const isGiven = state.value.from !== undefined && Number.isFinite(from) && Number.isFinite(to) && to > from;
  const longest = Math.max(...starts.map(({ length }) => length));
  const range = isGiven ? within({ from, to }, all) : { from: -longest * 0.02, to: longest * 1.02 };
  useKeys((key) => {
    const move = moved(key, range, all);
    if (move) moveTo(move);
    return move !== undefined;
  });
  return (
    <section aria-labelledby="locked-title">
      <h2 id="locked-title">Both timelines</h2>
      <p class="status-line" aria-live="polite">
        {duration(range.to - range.from)} of both runs, aligned at the start of the selected steps.
      </p>
      <div class="bar">
        <button type="button" onClick={() => change({ from: "", to: "" }, "replace")}>Selected steps</button>
        <button type="button" aria-pressed={state.value.as === "table"} onClick={() => change({ as: state.value.as === "table" ? "" : "table" })}>Table</button>
        <HintButton hint="W and S zoom, A and D pan, 0 shows all." />
      </div>
      {sides.map((side, at) => <SideView key={side.letter} side={side} range={range} all={all} start={starts[at]!.start} />)}
    </section>
  );
}

interface SideProps {
  readonly side: Side;
  readonly range: TimeRange;
  readonly all: TimeRange;
  readonly start: number;
}

function SideView({ side, range, all, start }: SideProps) {
  const { letter, name, run, lanes, steps, at } = side;
  const [width, setWidth] = useState(0);
  const [opened, setOpened] = useState<Opened>(new Map());
  const [event, setEvent] = useState<number>();
  const own = { from: range.from + start, to: range.to + start };
  const rankOf = run === undefined ? rank.value : undefined;
  const question = { ...tilesQuestion(own, width, lanes), run, rank: rankOf };
  const answer = useLast(useAnswer(width > 0 ? "tiles" : undefined, { ...question, ...limits(lanes) }));
  const counters = useLast(useAnswer(width > 0 ? "counters" : undefined, question));
  const detail = useAnswer(event === undefined ? undefined : "event", { event, run, rank: rankOf });
  const part = letter === "A" ? "stepa" : "stepb";
  return (
    <div class="side" style={{ "--high": `${HALF * 100}vh` }}>
      <div class="bar">
        <strong>{letter}</strong> <span class="name">{name}</span>
        {steps.length > 0 && (
          <label>
            from step{" "}
            <select value={`${steps[at]?.[0] ?? ""}`} onChange={(chosen) => change({ [part]: chosen.currentTarget.value }, "replace")}>
              {steps.map(([number, from, to]) => <option key={number} value={`${number}`}>{number} ({duration(to - from)})</option>)}
            </select>
          </label>
        )}
        <span class="quiet" aria-live="polite">{eventTitle(detail)}</span>
      </div>
      {state.value.as === "table" && answer ? (
        <EventTable {...{ answer, lanes }} range={own} selected={event} onEvent={setEvent} />
      ) : (
        <LaneCanvas
          label={`Timeline of ${letter}, ${lanes.lanes.length} lanes; the button Table shows it as a table`}
          {...{ lanes, steps, answer, counters, width, setWidth, opened, setOpened }}
          range={own}
          all={{ from: all.from + start, to: all.to + start }}
          zero={start}
          selected={event}
          onRange={({ from, to }) => moveTo({ from: from - start, to: to - start })}
          onEvent={setEvent}
        />
      )}
    </div>
  );
}

/** The event that was clicked, in words. */
function eventTitle(detail: QueryState<AnswerTo<"event">>): string {
  switch (detail.state) {
    case "loading":
      return "";
    case "refused":
      return detail.error.message;
    case "ok": {
      const { name, dur } = detail.answer.document.event;
      return `${name}: ${duration(dur)}`;
    }
  }
}
