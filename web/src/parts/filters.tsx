/** Filter bar, shared by all pages; each page uses the filters that apply to it. */

import { useState } from "preact/hooks";
import { useAnswer } from "../answers";
import { chooseSteps, type Group, GROUPS, stepsText, named, parsed, steps, traceOf } from "../filter";
import { amount, counted } from "../format";
import { changeCallView, page, type PageId, rank, state } from "../state";
import type { Meta } from "../generated/answers";
import { marked } from "./report-limits";
import { Shown } from "./notice";

/** Pages that heed steps, and the one that heeds threads, phases and modules, too. */
const WITH_STEPS: readonly PageId[] = ["overview", "flame", "timeline", "source"];
const WITH_GROUPS: readonly PageId[] = ["flame"];

export function FilterBar({ meta }: { meta: Meta }) {
  const hasSteps = WITH_STEPS.includes(page.value) && (traceOf(meta)?.steps.length ?? 0) > 0;
  const hasGroups = WITH_GROUPS.includes(page.value);
  if (!hasSteps && !hasGroups) return <IgnoredFilters meta={meta} />;
  return (
    <form class="bar filters" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
      {hasSteps && <Steps meta={meta} />}
      {hasGroups && <Groups />}
    </form>
  );
}

/** Pages with their own selection of steps, independent of the filter. */
const OF_OWN_STEPS: readonly PageId[] = ["issues", "compare"];

/** Notice that the selected steps do not apply to this page. */
function IgnoredFilters({ meta }: { meta: Meta }) {
  const chosen = traceOf(meta)?.chosen;
  if (!OF_OWN_STEPS.includes(page.value) || !state.value.steps || !chosen) return null;
  return <p class="quiet">This page shows {stepsText(chosen)}, independent of the steps selected on other pages ({short(state.value.steps)}).</p>;
}

function Steps({ meta }: { meta: Meta }) {
  // The next view clears it.
  const [wrong, setWrong] = useState({ why: "", at: state.value });
  const trace = traceOf(meta)!;
  const isWhole = state.value.steps === "whole" || steps() === undefined;
  const shown = isWhole ? "" : short(steps() ?? "");
  const choose = (text: string) => {
    const range = parsed(text);
    const isThere = range !== undefined && trace.steps.some(([number]) => number >= range[0] && number <= range[1]);
    const why = isThere || text.trim() === "" ? "" : range ? `There is no step ${text.trim()}; the run has ${stepsOf(trace)}` : `${text} is not a step: write a step such as 5, or a range such as 5..8`;
    setWrong({ why, at: state.value });
    if (range && !isThere) return;
    if (range) chooseSteps(named(range));
    else if (text.trim() === "") chooseSteps("whole");
  };
  return (
    <>
      <label>
        Steps{" "}
        <input data-field="steps" size={9} value={shown} placeholder="whole run" onChange={(event) => choose(event.currentTarget.value)} />
      </label>
      <button type="button" aria-pressed={isWhole} onClick={() => chooseSteps(isWhole && trace.chosen ? named(trace.chosen) : "whole")}>
        Whole run
      </button>
      <span class="quiet">{(wrong.at === state.value && wrong.why) || stepsHint(trace, isWhole)}</span>
    </>
  );
}

/** Steps as people write them: one alone is one number. */
function short(text: string): string {
  const range = parsed(text);
  return range && range[0] === range[1] ? `${range[0]}` : text;
}

interface Numbers {
  readonly many: number;
  readonly least: number;
  readonly most: number;
}

const known = new WeakMap<object, Numbers>();

/** Number and range of steps, cached since there may be thousands. */
function numbersOf({ steps: all }: Meta["traces"][number]): Numbers {
  const numbers = known.get(all) ?? all.reduce(({ least, most }, [number]) => ({ many: all.length, least: Math.min(least, number), most: Math.max(most, number) }), { many: 0, least: Number.POSITIVE_INFINITY, most: Number.NEGATIVE_INFINITY });
  known.set(all, numbers);
  return numbers;
}

/** Number and range of steps as text. */
function stepsOf(trace: Meta["traces"][number]): string {
  const { many, least, most } = numbersOf(trace);
  return `${counted(many, "step")} (${least} to ${most})`;
}

/** Description of the selected steps and of excluded ones. */
function stepsHint(trace: Meta["traces"][number], isWhole: boolean): string {
  if (isWhole) return "The whole run, including the time before the steps.";
  const { many, least } = numbersOf(trace);
  if (many === 1) return "The only step.";
  const all = stepsOf(trace);
  const isDefault = state.value.steps === undefined;
  const leavesOut = isDefault && trace.chosen !== null && trace.chosen[0] > least;
  return leavesOut ? `The run has ${all}. The field on the left shows the selected steps; warm-up steps are excluded.` : `The run has ${all}. The field on the left shows the selected steps.`;
}

function Groups() {
  const chosen = GROUPS.filter((group) => state.value[group]);
  const [open, setOpen] = useState(false);
  return (
    <>
      {chosen.map((group) => (
        <button type="button" class="chip" key={group} aria-label={`Remove ${group} ${state.value[group]}`} onClick={() => changeCallView({ [group]: "" })}>
          {group}: {state.value[group]} ✕
        </button>
      ))}
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
        Filter by thread, phase or module
      </button>
      {open && GROUPS.map((group) => <Choice key={group} group={group} />)}
    </>
  );
}

function Choice({ group }: { group: Group }) {
  const query = useAnswer("calls", { shape: "flat", by: group, least: "0", steps: steps(), rank: rank.value });
  return (
    <Shown query={query}>
      {({ document, columns }) => {
        const rows = Array.from(columns.label).slice(1).map((label, at) => ({ name: document.labels[label]![1], value: columns.inclusive[at + 1]! }));
        return (
          <label>
            {group[0]!.toUpperCase() + group.slice(1)}{" "}
            <select value={state.value[group] ?? ""} data-field={group} onChange={(event) => changeCallView({ [group]: event.currentTarget.value })}>
              <option value="">all</option>
              {rows.map(({ name, value }) => (
                <option key={name} value={name} {...marked()}>{name} ({amount(value, document.unit)})</option>
              ))}
            </select>
          </label>
        );
      }}
    </Shown>
  );
}
