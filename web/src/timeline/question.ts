/** Query arguments of the timeline: the visible range for a server, the available range for a report. */

import { state, transport } from "../state";
import type { Lanes } from "../generated/answers";
import { MOST_BOXES, type TimeRange, tilesOf } from "./view";

type Question = Record<string, string | number | undefined>;

/** Maximum number of tracks in an argument. */
const MOST_TRACKS = 500;

/** Visible time range for a width in pixels; the whole range in a report. */
export function tilesQuestion(range: TimeRange, width: number, lanes: Lanes): Question {
  return transport.kind === "report" ? lanes.whole : { ...tilesOf(range, width, lanes.buckets) };
}

/** Not too much of it; and these lanes alone, if some were chosen. */
export function limits({ lanes }: Lanes, names?: string): Question {
  if (transport.kind === "report") return {};
  const tracks = names ? lanes.map(({ track }) => track).slice(0, MOST_TRACKS).join(",") : undefined;
  return { most: MOST_BOXES, tracks, ...importFrames() };
}

/** All frames of imports, if the address asks for them. A report has only the outermost of each import. */
export function importFrames(): Question {
  return transport.kind === "server" && state.value.imports === "all" ? { imports: "all" } : {};
}
