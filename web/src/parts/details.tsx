/** The panel at the side: all that is known of what is selected. */

import { useAnswer } from "../answers";
import { editorLink } from "../editor";
import { duration } from "../format";
import { change, rank, selection } from "../state";
import type { Brief, EventDetail } from "../types";
import { around } from "../timeline/view";
import { Shown } from "./notice";

export function Details() {
  const [kind, number] = selection.value.split(":");
  const isEvent = kind === "event" && number !== undefined;
  const asked = useAnswer<EventDetail>(isEvent ? "event" : undefined, { event: number, rank: rank.value });
  if (!isEvent) return null;
  return (
    <aside class="details" aria-label="Details">
      <div class="bar">
        <h2>Details</h2>
        <button type="button" onClick={() => change({ sel: "" }, "replace")}>Close</button>
      </div>
      <Shown asked={asked}>{({ document }) => <Event detail={document} />}</Shown>
    </aside>
  );
}

function Event({ detail }: { detail: EventDetail }) {
  const { event, place } = detail;
  return (
    <>
      <h3 class="long">{event.name}</h3>
      <dl class="pairs">
        <div><dt>Kind</dt><dd>{event.kind.replaceAll("_", " ")}</dd></div>
        <div><dt>Duration</dt><dd>{duration(event.dur)}</dd></div>
        {detail.step !== null && <div><dt>Step</dt><dd>{detail.step}</dd></div>}
        {place.text && (
          <div>
            <dt>Place</dt>
            <dd>
              {place.text}
              {place.file && place.line !== null && (
                <>
                  {" "}
                  <button type="button" class="link" onClick={() => change({ page: "source", file: place.file!, line: `${place.line}` })}>Source</button>{" "}
                  <a href={editorLink(place.file, place.line)}>Open in editor</a>
                </>
              )}
            </dd>
          </div>
        )}
      </dl>
      <Briefs title="Launched by" events={detail.launch ? [detail.launch] : []} />
      <Briefs title="Launched" events={detail.launched} />
      <Briefs title="Inside of" events={detail.enclosing} />
      {detail.arguments.length > 0 && (
        <>
          <h3>Arguments</h3>
          <dl class="pairs">
            {detail.arguments.map(([key, value]) => <div key={key}><dt>{key}</dt><dd class="long">{value ?? "–"}</dd></div>)}
          </dl>
        </>
      )}
    </>
  );
}

function Briefs({ title, events }: { title: string; events: readonly Brief[] }) {
  if (events.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul class="events">
        {events.map((event) => (
          <li key={event.event}>
            <button type="button" class="link long" onClick={() => change({ sel: `event:${event.event}`, page: "timeline", ...around(event.start, event.dur) })}>{event.name}</button>{" "}
            <span class="quiet">{duration(event.dur)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
