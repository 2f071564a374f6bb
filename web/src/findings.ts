/** Findings, where there is anything to find them in: a run of sums alone, or of no events, would refuse the question. */

import { type Asked, useAnswer } from "./answers";
import { run } from "./filter";
import type { Findings } from "./types";

export function useFindings(rank?: string): Asked<Findings> {
  const { has, recording } = run.value ?? {};
  // Sums of calls alone have some, too.
  const isAsked = has?.events || has?.memory || (recording && !has?.timeline);
  return useAnswer<Findings>(isAsked ? "findings" : undefined, { rank });
}
