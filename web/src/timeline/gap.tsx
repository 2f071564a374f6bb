/** Small timeline around an event of a finding. */

import { useMemo, useState } from "preact/hooks";
import { useAnswer, useLast } from "../answers";
import { duration } from "../format";
import { change, rank, transport } from "../state";
import type { EventDetail, Lanes } from "../generated/answers";
import { LaneCanvas } from "./lanes";
import { outerOf } from "./levels";
import { importFrames, tilesQuestion } from "./question";
import { placeAround, MOST_BOXES, type Opened, type TimeRange, within } from "./view";

/** Number of lanes: of the event, of its launch or launched work, and of the busiest streams. */
const MOST = 3;

/** Timeline around an event. A report has only the coarsest level, in which this range is one box. */
export function Gap({ event, of: ownRank }: { event: number; of: string | undefined }) {
  const isServed = transport.kind === "server";
  const query = useAnswer(isServed ? "event" : undefined, { event, rank: ownRank ?? rank.value });
  const lanes = useAnswer(isServed ? "lanes" : undefined, { rank: ownRank ?? rank.value, ...importFrames() });
  if (query.state !== "ok" || lanes.state !== "ok") return null;
  return <Picture detail={query.answer.document} whole={lanes.answer.document} of={ownRank} />;
}

/** The lanes that an event has to do with. */
export function lanesAround(whole: Lanes, { track, launch, launched }: Pick<EventDetail, "track" | "launch" | "launched">): Lanes {
  const own = [track, launch?.track, launched[0]?.track];
  const streams = whole.lanes.filter(({ kind }) => kind === "stream").toSorted((a, b) => b.events - a.events);
  const chosen = [...new Set([...own, ...streams.map((lane) => lane.track)])].filter((one) => one !== undefined).slice(0, MOST);
  return { ...whole, lanes: whole.lanes.filter((lane) => chosen.includes(lane.track)) };
}

function Picture({ detail, whole, of: ownRank }: { detail: EventDetail; whole: Lanes; of: string | undefined }) {
  const [width, setWidth] = useState(0);
  const { event, start, dur } = detail.event;
  const all = { from: 0, to: Math.max(whole.length, 1) };
  const place = placeAround(start, dur);
  const range: TimeRange = within({ from: Number(place.from), to: Number(place.to) }, all);
  const lanes = useMemo(() => lanesAround(whole, detail), [whole, detail]);
  // Few levels of each, for it is a small picture, until one asks for more.
  const [opened, setOpened] = useState<Opened>(() => new Map(lanes.lanes.map(({ track }) => [track, "few"] as const)));
  const tracks = lanes.lanes.map(({ track }) => track).join(",");
  const answer = useLast(useAnswer(width > 0 && tracks !== "" ? "tiles" : undefined, { ...tilesQuestion(range, width, lanes), rank: ownRank ?? rank.value, most: MOST_BOXES, tracks, ...importFrames() }));
  const evidence = [event, detail.launch?.event, detail.launched[0]?.event].filter((one) => one !== undefined);
  const outer = useMemo(() => answer && outerOf(answer, lanes.lanes, evidence, range), [answer, lanes, event]);
  const show = (selected: number) => change({ page: "timeline", sel: `event:${selected}`, ...(ownRank === undefined ? {} : { rank: ownRank }), ...place });
  return (
    <figure class="gap">
      <figcaption class="quiet">Timeline around one event: {duration(range.to - range.from)}, starting at {duration(range.from)}</figcaption>
      <LaneCanvas
        label={`Timeline around event ${event}, ${lanes.lanes.length} lanes; to open the whole timeline, click an entry in the list of events below`}
        {...{ lanes, range, all, answer, width, setWidth, opened, setOpened, outer }}
        zero={0}
        steps={NONE}
        counters={undefined}
        selected={event}
        onRange={() => undefined}
        onEvent={show}
      />
    </figure>
  );
}

const NONE: readonly never[] = [];
