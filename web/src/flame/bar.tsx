/** What the flame graph shows, and how. */

import { change, lookAt, state } from "../state";
import type { Calls } from "../types";
import { COLOURS } from "./colouring";
import { HERE, SHAPES, toggle } from "./question";

export function Bar({ calls }: { calls: Calls }) {
  const { as, beside, merge, recursion } = state.value;
  return (
    <form class="bar" onSubmit={(event) => event.preventDefault()}>
      <Choice title="View" value={state.value.shape ?? "top-down"} options={shapes()} choose={(shape) => lookAt({ shape })} />
      <Choice title="Metric" value={calls.metric} options={calls.metrics} choose={(metric) => lookAt({ metric })} />
      {beside === undefined && <Choice title="Colour" value={state.value.colour ?? "layer"} options={COLOURS} choose={(colour) => change({ colour })} />}
      <Pattern name="find" title="Search" />
      <Pattern name="focus" title="Only paths with" />
      <Pattern name="hide" title="Hide frames" />
      <button type="button" aria-pressed={merge === "name"} title="Lines of one function, and inputs of one operator, become one" onClick={() => toggle("merge", "name")}>
        Merge by name
      </button>
      <button type="button" aria-pressed={recursion === "collapsed"} title="A function that calls itself stands where it was called first" onClick={() => toggle("recursion", "collapsed")}>
        Collapse recursion
      </button>
      <button type="button" aria-pressed={as === "table"} onClick={() => change({ as: as === "table" ? "" : "table" })}>
        Table
      </button>
      {beside && <button type="button" onClick={() => lookAt({ beside: "" })}>This run alone</button>}
      <FromHere />
    </form>
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
    <button type="button" class="chip" aria-label={`Remove: from ${here ?? of}`} onClick={() => lookAt({ shape: "", of: "", here: "" })}>
      from {here ?? of} ✕
    </button>
  );
}

interface ChoiceProps {
  readonly title: string;
  readonly value: string;
  readonly options: ReadonlyArray<readonly [value: string, title: string]>;
  readonly choose: (value: string) => void;
}

function Choice({ title, value, options, choose }: ChoiceProps) {
  return (
    <label>
      {title}{" "}
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {options.map(([option, name]) => (
          <option key={option} value={option}>{name}</option>
        ))}
      </select>
    </label>
  );
}

function Pattern({ name, title }: { name: string; title: string }) {
  return (
    <label>
      {title}{" "}
      <input
        type="search"
        data-field={name}
        value={state.value[name] ?? ""}
        size={14}
        onKeyDown={(event) => name === "find" && event.key === "Enter" && document.querySelector<HTMLElement>("main canvas")?.focus()}
        onInput={(event) => name === "find" && change({ find: event.currentTarget.value }, "replace")}
        onChange={(event) => name !== "find" && lookAt({ [name]: event.currentTarget.value })}
      />
    </label>
  );
}
