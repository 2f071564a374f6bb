/** Bounds of gains as on the terminal: see `bounds` in crates/present/src/presenters/findings. */

import { percent } from "./format";
import type { Gain } from "./generated/answers";

/** Tenths of a percent of a step, as gains are shown. */
const tenths = (ns: number, step: number): number => Math.round((1000 * ns) / Math.max(step, 1));

/** Check for a lower bound of 0, as displayed. */
const mayBeZero = (gain: Gain, step: number): boolean => gain.low_ns <= 0 || tenths(gain.low_ns, step) === 0;

/** Check for bounds that any gain has: from 0 to the whole step. */
export const isUnbounded = (gain: Gain, step: number): boolean => mayBeZero(gain, step) && tenths(gain.high_ns, step) === 1000;

/** Bounds of a gain, formatted by `format` from ns. */
export function boundsOf(gain: Gain, step: number, format: (ns: number) => string = (ns) => percent(ns, step)): string {
  if (isUnbounded(gain, step)) return "bounds unknown";
  if (mayBeZero(gain, step)) return `bounds 0 to ${format(gain.high_ns)}`;
  // As far as they are shown.
  if (format(gain.low_ns) === format(gain.high_ns)) return "bounds equal the estimate";
  return `bounds ${format(gain.low_ns)} to ${format(gain.high_ns)}`;
}
