/** Breakdown of the critical path: a bar of causes, and its longest segments. */

import { useMemo } from "preact/hooks";
import { cause } from "../colors";
import { counted, duration, percent } from "../format";
import { Name } from "../parts/name";
import { change, state } from "../state";
import type { AnswerTo } from "../transport";
import { longestEvent, type Segment, segmentsOf } from "./segments";
import type { TimeRange } from "./view";

/** Segments that are listed. */
const MOST = 12;

interface Props {
  readonly path: AnswerTo<"path">;
  readonly range: TimeRange;
  /** Shows a segment: where it is, and its longest event. */
  readonly onSegment: (segment: TimeRange, event: number | undefined) => void;
}

export function PathBreakdown({ path, range, onSegment }: Props) {
  const { document } = path;
  const all = document.end - document.start;
  const segments = useMemo(() => segmentsOf(path), [path]);
  // What is chosen by a part of the bar, if this path has any of it.
  const only = document.causes.indexOf(state.value.cause ?? "");
  const seen = segments.filter(({ from, to, cause: of }) => from < range.to && to > range.from && (only < 0 || of === only));
  const longest = seen.toSorted((a, b) => b.to - b.from - (a.to - a.from)).slice(0, MOST);
  const titleOf = ({ cause: number }: Segment) => cause(document.causes[number] ?? "unknown").title;
  const parts = document.categories.filter(([, ns]) => ns > 0).toSorted((a, b) => b[1] - a[1]);
  return (
    <figure class="bound breakdown">
      <figcaption>Critical path by cause</figcaption>
      <div class="stack" role="img" aria-label={parts.map(([name, ns]) => `${cause(name).title} ${percent(ns, all)}`).join(", ")}>
        {parts.map(([name, ns]) => <span key={name} style={{ flexGrow: ns, background: cause(name).fill }} title={`${cause(name).title}: ${duration(ns)}, ${percent(ns, all)}`} />)}
      </div>
      <ul class="legend">
        {parts.map(([name, ns]) => <li key={name}><i style={{ background: cause(name).fill }} /> <button type="button" class="link" aria-pressed={state.value.cause === name} onClick={() => change({ cause: state.value.cause === name ? "" : name }, "replace")}>{cause(name).title}</button> {duration(ns)} ({percent(ns, all)})</li>)}
      </ul>
      <details open={only >= 0}>
        <summary>{only < 0 ? counted(seen.length, "visible segment") : `${counted(seen.length, "visible segment")} with the cause ${cause(document.causes[only]!).title}`}, longest first; adjacent segments with the same cause and lane are merged</summary>
        <ol class="events">
          {longest.map((segment) => {
            const event = longestEvent(path, segment);
            return (
              <li key={segment.first}>
                <button type="button" class="link" onClick={() => onSegment(segment, event?.event)}>{titleOf(segment)}, {duration(segment.to - segment.from)}</button>{" "}
                <span class="quiet">at {duration(segment.from)}, {counted(segment.end - segment.first, "part")}{event && <>, mostly <Name text={event.name} lines={1} /></>}</span>
              </li>
            );
          })}
        </ol>
      </details>
    </figure>
  );
}
