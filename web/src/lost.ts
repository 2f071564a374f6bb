/** What a run lost: what is not there may have been, where something was. */

import type { Meta, ReadReport } from "./types";

/** What reading lost, of all that was opened. */
export function lostOf({ traces, recording, memory }: Pick<Meta, "traces" | "recording" | "memory">): ReadReport["problems"] {
  const reports = [...traces.map(({ report }) => report), ...(recording ? [recording.report] : []), ...(memory ? [memory.report] : [])];
  return reports.flatMap(({ problems }) => problems).filter(({ severity }) => severity === "lost");
}

/** Why a run has no work of a GPU, as far as anybody knows. */
export function noGpu(meta: Meta): string {
  if (lostOf(meta).length === 0) return "it ran on the CPU, or was recorded without it (torch.profiler: activities=[CPU, CUDA])";
  const named = meta.traces.some(({ info }) => info.gpus.length > 0);
  return `it may have been in the part that was lost${named ? ", for the file names a GPU" : ""}; or it ran on the CPU, or was recorded without it`;
}
