/** Details of an event. */

import { useAnswer } from "../answers";
import { duration } from "../format";
import { Copy } from "../parts/copy";
import { Around } from "../parts/excerpt";
import { Name } from "../parts/name";
import { Shown } from "../parts/notice";
import { change, changeCallView, rank, selection } from "../state";
import { placeAround } from "../timeline/view";
import type { Brief, EventDetail } from "../generated/answers";
import { eventText } from "./text";

export function EventDetails({ event }: { event: string }) {
  const query = useAnswer("event", { event, rank: rank.value });
  return <Shown query={query}>{({ document }) => <Known detail={document} />}</Shown>;
}

function Known({ detail }: { detail: EventDetail }) {
  const { event, place } = detail;
  return (
    <>
      <h3 class="long"><Name text={event.name} lines={8} /></h3>
      <p class="bar">
        <button type="button" onClick={() => changeCallView({ page: "flame", shape: "", of: "", find: "", metric: detail.launch || detail.operator ? "gpu_time" : "", sel: selection.value })}>Show in the flame graph</button>
        <Copy text={() => eventText(detail)} />
      </p>
      <dl class="pairs">
        <div><dt>Kind</dt><dd>{event.kind.replaceAll("_", " ")}</dd></div>
        <div><dt>Starts at</dt><dd>{duration(event.start)}</dd></div>
        <div><dt>Duration</dt><dd>{duration(event.dur)}</dd></div>
        {detail.step !== null && <div><dt>Step</dt><dd>{detail.step}</dd></div>}
        {place.text && place.text !== event.name && <div><dt>Source location</dt><dd>{place.text}</dd></div>}
      </dl>
      {place.file && place.line !== null && <Around file={place.file} line={place.line} />}
      <Briefs title="Launched by" events={detail.launch ? [detail.launch] : []} />
      <Briefs title="Operator" events={detail.launch || !detail.operator ? [] : [detail.operator]} />
      <Briefs title="Launched" events={detail.launched} />
      <Briefs title="Enclosing events" events={detail.enclosing} />
      <Briefs title={detail.launch ? "Callers of the launch, innermost first" : "Callers of the operator, innermost first"} events={detail.callers} />
      {detail.arguments.length > 0 && (
        <>
          <h3>Arguments</h3>
          <dl class="pairs">
            {detail.arguments.map(([key, value]) => <div key={key}><dt>{key}</dt><dd class="long"><Name text={`${value ?? "–"}`} lines={8} /></dd></div>)}
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
            <button type="button" class="link" onClick={() => change({ sel: `event:${event.event}`, page: "timeline", ...placeAround(event.start, event.dur) })}><Name text={event.name} /></button>{" "}
            <span class="quiet">{duration(event.dur)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
