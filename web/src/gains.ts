/** Bounds of gains as on the terminal: see `bounds` in crates/present/src/presenters/findings. */

import { percent } from "./format";
import type { Gain } from "./generated/answers";

/** Tenths of a percent of a step, as gains are shown. */
const tenths = (ns: number, step: number): number => Math.round((1000 * ns) / Math.max(step, 1));

/** Whether nothing is gained for sure, as far as it is shown. */
const isPerhapsNothing = (gain: Gain, step: number): boolean => gain.low_ns <= 0 || tenths(gain.low_ns, step) === 0;

/** Whether bounds are those that any gain has: from nothing to all of a step. */
export const isUnbounded = (gain: Gain, step: number): boolean => isPerhapsNothing(gain, step) && tenths(gain.high_ns, step) === 1000;

/** The bounds of a gain, by what says a number of ns. */
export function boundsOf(gain: Gain, step: number, say: (ns: number) => string = (ns) => percent(ns, step)): string {
  if (isUnbounded(gain, step)) return "bounds unknown";
  if (isPerhapsNothing(gain, step)) return `bounds 0 to ${say(gain.high_ns)}`;
  return `bounds ${say(gain.low_ns)} to ${say(gain.high_ns)}`;
}
