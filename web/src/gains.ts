/** Bounds of gains as on the terminal: see `bounds` in crates/present/src/presenters/findings. */

import { percent } from "./format";
import type { Gain } from "./generated/answers";

/** Tenths of a percent of a step, as gains are shown. */
const tenths = (ns: number, step: number): number => Math.round((1000 * ns) / Math.max(step, 1));

/** Check for a lower bound of 0, as displayed. */
const isPerhapsNothing = (gain: Gain, step: number): boolean => gain.low_ns <= 0 || tenths(gain.low_ns, step) === 0;

/** Check for bounds that any gain has: from 0 to the whole step. */
export const isUnbounded = (gain: Gain, step: number): boolean => isPerhapsNothing(gain, step) && tenths(gain.high_ns, step) === 1000;

/** Bounds of a gain, formatted by `say` from ns. */
export function boundsOf(gain: Gain, step: number, say: (ns: number) => string = (ns) => percent(ns, step)): string {
  if (isUnbounded(gain, step)) return "bounds unknown";
  if (isPerhapsNothing(gain, step)) return `bounds 0 to ${say(gain.high_ns)}`;
  // As far as they are shown.
  if (say(gain.low_ns) === say(gain.high_ns)) return "bounds equal the estimate";
  return `bounds ${say(gain.low_ns)} to ${say(gain.high_ns)}`;
}
