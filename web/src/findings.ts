/** Query of findings, for runs that can have findings. */

import { type Asked, useAnswer } from "./answers";
import { run } from "./filter";
import type { AnswerTo } from "./transport";

export function useFindings(rank?: string): Asked<AnswerTo<"findings">> {
  const { has, recording } = run.value ?? {};
  // Sums of calls alone have some, too.
  const isAsked = has?.events || has?.memory || (recording && !has?.timeline);
  return useAnswer(isAsked ? "findings" : undefined, { rank });
}
