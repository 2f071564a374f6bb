/** Selected part of the run: steps, thread, phase, module. The URL stores it, and queries use it. */

import { signal } from "@preact/signals";
import { change, changeCallView, rank, state } from "./state";
import type { Meta } from "./generated/answers";

/** The run, once it is known. */
export const run = signal<Meta | undefined>(undefined);

/** Filters of calls, in addition to steps. */
export const GROUPS = ["thread", "phase", "module"] as const;
export type Group = (typeof GROUPS)[number];

/** Metadata of the trace of the selected rank. */
export function traceOf(meta: Meta | undefined): Meta["traces"][number] | undefined {
  return meta?.traces.find(({ info }) => `${info.rank}` === rank.value) ?? meta?.traces[0];
}

/** First and last of the steps that the user selected; undefined without a selection or for the whole run. */
export const chosenSteps = () => parsed(state.value.steps ?? "");

/** Steps as queries name them. */
export const named = ([first, last]: readonly [number, number]) => `${first}..${last}`;

/** Selected steps as queries name them: the user's, or else those of findings. */
export function steps(): string | undefined {
  const chosen = traceOf(run.value)?.chosen;
  return state.value.steps || (chosen ? named(chosen) : undefined);
}

/** `5` or `5..8` as its first and last step; nothing if it is neither. */
export function parsed(text: string): readonly [number, number] | undefined {
  const parts = /^\s*(-?\d+)(?:\s*\.\.\s*(-?\d+))?\s*$/.exec(text);
  if (!parts) return undefined;
  const [first, last] = [Number(parts[1]), Number(parts[2] ?? parts[1])];
  return first <= last ? [first, last] : undefined;
}

/** Steps in words. */
export const stepsText = ([first, last]: readonly [number, number]) => (first === last ? `step ${first}` : `steps ${first} to ${last}`);

/** Time range from the start of the first to the end of the last of some steps, in ns; undefined if no step has these numbers. */
export function rangeOfSteps(all: Meta["traces"][number]["steps"], [first, last]: readonly [number, number]): { from: number; to: number } | undefined {
  // Asked while one moves, of thousands: without lists in between.
  let [from, to] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let at = 0; at < all.length; at += 1) {
    const step = all[at]!;
    if (step[0] < first || step[0] > last) continue;
    from = Math.min(from, step[1]);
    to = Math.max(to, step[2]);
  }
  return from === Number.POSITIVE_INFINITY ? undefined : { from, to };
}

/** Select other steps; the timeline moves to them. */
export function chooseSteps(text: string): void {
  const trace = traceOf(run.value);
  const isDefault = trace?.chosen !== null && trace?.chosen !== undefined && text === named(trace.chosen);
  // Sums of a recording and times of a trace are measured by other things.
  const metric = "";
  if (state.value.page !== "timeline") return changeCallView({ steps: isDefault ? "" : text, metric });
  const stepRange = parsed(text);
  const range = trace && stepRange && rangeOfSteps(trace.steps, stepRange);
  change({ steps: isDefault ? "" : text, metric, from: range ? `${range.from}` : "", to: range ? `${range.to}` : "" });
}
