/** Findings, where there is anything to find them in: a run of sums alone, or of no events, would refuse the question. */

import { type Asked, useAnswer } from "./answers";
import { run } from "./filter";
import type { Findings } from "./types";

export function useFindings(rank?: string): Asked<Findings> {
  return useAnswer<Findings>(run.value?.has.events || run.value?.has.memory ? "findings" : undefined, { rank });
}
