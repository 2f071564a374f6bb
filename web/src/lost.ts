/** Missing records of a run. */

import type { MemoryOverview, Meta, ReadReport } from "./generated/answers";

type Opened = Pick<Meta, "traces" | "recording" | "memory">;
type Problems = ReadReport["problems"];

/** Repaired, skipped and lost records of all inputs. */
function problemsOf({ traces, recording, memory }: Opened): Problems {
  const reports = [...traces.map(({ report }) => report), ...(recording ? [recording.report] : []), ...(memory ? [memory.report] : [])];
  return reports.flatMap(({ problems }) => problems);
}

/** Lost records of all inputs. */
export const lostOf = (opened: Opened): Problems => problemsOf(opened).filter(({ severity }) => severity === "lost");

/** Diagnostics of memory, including those of the trace that contains it. */
export const problemsOfMemory = ({ read_report: reports }: Pick<MemoryOverview, "read_report">): Problems => reports.flatMap(({ problems }) => problems);

/** Diagnostics of memory only. */
export function memoryAlone(opened: Opened, overview: Pick<MemoryOverview, "read_report">): Problems {
  const name = ({ code, message }: Problems[number]) => `${code} ${message}`;
  const others = new Set(problemsOf(opened).map(name));
  return problemsOfMemory(overview).filter((problem) => !others.has(name(problem)));
}

/** Likely reason for missing GPU work. */
export function noGpu(meta: Meta): string {
  if (lostOf(meta).length === 0) return "the program ran only on the CPU, or GPU recording was off (with torch.profiler, activities=[CPU, CUDA] turns it on)";
  const named = meta.traces.some(({ info }) => info.gpus.length > 0);
  return `either GPU records were lost${named ? " (the file lists a GPU)" : ""}, or the program ran only on the CPU, or GPU recording was off`;
}
