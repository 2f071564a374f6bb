/** Query of findings, for runs that can have findings. */

import { type QueryState, useAnswer } from "./answers";
import { run } from "./filter";
import type { AnswerTo } from "./transport";

export function useFindings(rank?: string): QueryState<AnswerTo<"findings">> {
  const { has, recording } = run.value ?? {};
  // Call trees alone have some, too.
  const hasFindings = has?.events || has?.memory || (recording && !has?.timeline);
  return useAnswer(hasFindings ? "findings" : undefined, { rank });
}
