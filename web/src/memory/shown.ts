/** Data of the drawing of memory and its tables. */

import type { MemoryOverview } from "../generated/answers";
import type { AnswerTo } from "../transport";

export interface Shown {
  readonly overview: MemoryOverview;
  readonly curve: AnswerTo<"memory-curve"> | undefined;
  readonly applied: AnswerTo<"memory-apply"> | undefined;
  readonly calls: AnswerTo<"memory-calls"> | undefined;
  readonly objects: AnswerTo<"memory-objects"> | undefined;
}
