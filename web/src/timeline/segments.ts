/** The critical path in few pieces: what follows each other for one cause is one of them. */

import type { Answer } from "../transport/decode";
import type { PathDocument } from "../types";

export interface Segment {
  /** Number of its cause. */
  readonly cause: number;
  readonly from: number;
  readonly to: number;
  /** Its hops, from the first up to, and without, another one. */
  readonly first: number;
  readonly end: number;
}

/** The hops of a path, those of one cause that follow each other without a gap as one: of a long path the shortest hops may be left out. */
export function segmentsOf({ columns }: Answer<PathDocument>): Segment[] {
  const { start, end, category } = columns as Record<string, Uint32Array | Float64Array>;
  const all: Segment[] = [];
  for (let hop = 0; hop < start!.length; hop += 1) {
    const last = all.at(-1);
    if (last?.cause === category![hop] && last!.to === start![hop]) all[all.length - 1] = { ...last!, to: end![hop]!, end: hop + 1 };
    else all.push({ cause: category![hop]!, from: start![hop]!, to: end![hop]!, first: hop, end: hop + 1 });
  }
  return all;
}
