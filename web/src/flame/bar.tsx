/** Toolbar of the flame graph. */

import { useState } from "preact/hooks";
import { run } from "../filter";
import { HintButton } from "../parts/hint-button";
import { absence, marked } from "../parts/report-limits";
import { change, changeCallView, state } from "../state";
import type { Calls } from "../generated/answers";
import { COLORS } from "./coloring";
import { ofWholeAlone } from "./metrics";
import { HERE, SHAPES, toggle } from "./question";

/** Move the keyboard focus to the plot, if there is one, so that the next key is a command. */
function leave(field: HTMLElement): void {
  const picture = document.querySelector<HTMLElement>("main canvas");
  if (picture) picture.focus();
  else field.blur();
}

export function Bar({ calls }: { calls: Calls }) {
  const { as, baseline, removed, merge, recursion } = state.value;
  return (
    <form class="bar" onSubmit={(event) => event.preventDefault()}>
      <Choice title="View" value={state.value.shape ?? "top-down"} options={shapes()} choose={(shape) => changeCallView({ shape })} />
      <Metrics calls={calls} />
      {baseline === undefined && <Choice title="Color" value={state.value.color ?? "layer"} options={COLORS} choose={(color) => change({ color })} />}
      <Pattern name="find" title="Search" />
      <Pattern name="focus" title="Keep only call paths with" hint="Regular expression: keep only call paths that contain a matching frame" />
      <Pattern name="hide" title="Hide frames" hint="Regular expression: hide matching frames; callees of a hidden frame are shown below its caller" />
      <button type="button" aria-pressed={merge === "name"} title="Merge frames that differ only in source line or in input shapes" onClick={() => toggle("merge", "name")}>
        Merge by name
      </button>
      <button type="button" aria-pressed={recursion === "collapsed"} title="Merge recursive calls of a function into its outermost call" onClick={() => toggle("recursion", "collapsed")}>
        Collapse recursion
      </button>
      <button type="button" aria-pressed={as === "table"} onClick={() => change({ as: as === "table" ? "" : "table" })}>
        Table
      </button>
      {baseline && state.value.shape !== "flat" && (
        <button type="button" aria-pressed={removed === "1"} title="Also show frames that exist only in A (the baseline), as wide as in A" onClick={() => change({ removed: removed === "1" ? "" : "1" })}>
          Removed frames
        </button>
      )}
      {baseline && <button type="button" onClick={() => changeCallView({ baseline: "", removed: "" })}>Only this run</button>}
      {baseline && <button type="button" onClick={() => change({ page: "compare" })}>Back to Compare</button>}
      <FromHere />
      <HintButton hint="Click a frame to select it, again to zoom. Arrows move, F zooms, 0 shows all." />
    </form>
  );
}

/** Metrics of the selection, and those that only the whole run has, which select it. A report has only the first. */
function Metrics({ calls }: { calls: Calls }) {
  const others = state.value.baseline === undefined ? ofWholeAlone(run.value, calls.metrics) : [];
  const held = absence() === undefined ? undefined : calls.metrics[0]?.[0];
  return (
    <Choice
      title="Metric"
      value={calls.metric}
      options={[...calls.metrics, ...others]}
      held={held}
      choose={(metric) => changeCallView({ metric, ...(others.some(([name]) => name === metric) ? { steps: "whole" } : {}) })}
    />
  );
}

/** Ways to look; those of a frame only where one was chosen. */
function shapes(): ReadonlyArray<readonly [value: string, title: string]> {
  return state.value.of ? [...SHAPES, ...HERE] : SHAPES;
}

function FromHere() {
  const { of, here } = state.value;
  if (!of || !HERE.some(([name]) => name === state.value.shape)) return null;
  return (
    <button type="button" class="chip" aria-label={`Remove: from ${here ?? of}`} onClick={() => changeCallView({ shape: "", of: "", here: "" })}>
      from {here ?? of} ✕
    </button>
  );
}

interface ChoiceProps {
  readonly title: string;
  readonly value: string;
  readonly options: ReadonlyArray<readonly [value: string, title: string]>;
  /** The only one that can be chosen, if not all can. */
  readonly held?: string | undefined;
  readonly choose: (value: string) => void;
}

function Choice({ title, value, options, held, choose }: ChoiceProps) {
  return (
    <label>
      {title}{" "}
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {options.map(([option, name]) => (
          <option key={option} value={option} {...(held === undefined || option === held ? {} : marked())}>{name}</option>
        ))}
      </select>
    </label>
  );
}

/** Error of a regular expression, if any; such a text is not sent. Browser and server syntax differ only in rare constructs. */
function fault(text: string): string {
  try {
    new RegExp(text, "u");
    return "";
  } catch (error) {
    return `${error instanceof Error ? error.message : error}`;
  }
}

function Pattern({ name, title, hint }: { name: string; title: string; hint?: string }) {
  // What is wrong stays, to be mended.
  const [wrong, setWrong] = useState({ why: "", typed: "" });
  const missing = name === "find" ? undefined : absence();
  const choose = (text: string) => {
    const why = fault(text);
    setWrong({ why, typed: text });
    if (why === "") changeCallView({ [name]: text });
  };
  return (
    <label title={missing ?? hint}>
      {title}{" "}
      <input
        type="search"
        disabled={missing !== undefined && !state.value[name]}
        aria-invalid={wrong.why !== ""}
        data-field={name}
        value={wrong.why === "" ? (state.value[name] ?? "") : wrong.typed}
        size={14}
        onKeyDown={(event) => name === "find" && event.key === "Enter" && leave(event.currentTarget)}
        onInput={(event) => name === "find" && change({ find: event.currentTarget.value }, "replace")}
        onChange={(event) => name !== "find" && choose(event.currentTarget.value)}
      />
      {wrong.why !== "" && <span role="alert"> {wrong.why}</span>}
    </label>
  );
}
