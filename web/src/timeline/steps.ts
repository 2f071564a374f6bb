/** Steps of the selected rank. */

import { useAnswer } from "../answers";
import { rank } from "../state";
import type { Step } from "./paint";

/** Steps of the run or of its baseline. */
export function useSteps(run?: "before"): readonly Step[] {
  const meta = useAnswer("meta", { run });
  if (meta.state !== "ok") return NONE;
  const { traces } = meta.answer.document;
  const trace = run === undefined && rank.value !== undefined ? traces.find(({ info }) => `${info.rank}` === rank.value) : traces[0];
  return trace?.steps ?? NONE;
}

const NONE: readonly Step[] = [];
