/** Metrics that only the whole run has: those that a recording sums up, and that no event has. */

import type { Calls, Meta } from "../generated/answers";

const OF_MEMORY = [["allocated", "memory allocated"], ["freed", "memory freed"]] as const;

/** Recorded memory metrics that exist only for the whole run, not for selected steps. */
export function ofWholeAlone(meta: Pick<Meta, "recording"> | undefined, metrics: Calls["metrics"]): Array<[name: string, title: string]> {
  const isRecorded = meta?.recording?.processes.some(({ sources }) => sources.some(({ name, on }) => name === "memory" && on));
  const lacks = (name: string) => !metrics.some(([known]) => known === name);
  return isRecorded ? OF_MEMORY.filter(([name]) => lacks(name)).map(([name, title]) => [name, `${title} (whole run only)`]) : [];
}
