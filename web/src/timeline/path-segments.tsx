/** Table of critical-path segments, each with its cause. */

import { useState } from "preact/hooks";
import { cause } from "../colors";
import { counted, duration } from "../format";
import { Name } from "../parts/name";
import type { AnswerTo } from "../transport";
import { NO_EVENT } from "./segments";
import type { TimeRange } from "./view";

const MOST = 100;

interface Props {
  readonly path: AnswerTo<"path">;
  readonly range: TimeRange;
  readonly selected: number | undefined;
  readonly onEvent: (event: number) => void;
}

export function SegmentList({ path: { document, columns }, range, selected, onEvent }: Props) {
  const [most, setMost] = useState(MOST);
  const { start, end, category, event, name } = columns;
  const seen = Array.from(start.keys()).filter((segment) => start[segment]! < range.to && end[segment]! > range.from);
  const nameOf = (segment: number) => document.texts[name[segment]!] || "–";
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Visible segments of the critical path">
      <table>
        <caption>Critical path: {counted(seen.length, "visible segment")}</caption>
        <thead>
          <tr>
            <th scope="col">Cause</th>
            <th scope="col">Event</th>
            <th scope="col" class="number">Start</th>
            <th scope="col" class="number">Duration</th>
          </tr>
        </thead>
        <tbody>
          {seen.slice(0, most).map((segment) => (
            <tr key={segment} aria-selected={event[segment] !== NO_EVENT && event[segment] === selected}>
              <td>{cause(document.causes[category[segment]!] ?? "unknown").title}</td>
              <td>{event[segment] === NO_EVENT ? <Name text={nameOf(segment)} /> : <button type="button" class="link" onClick={() => onEvent(event[segment]!)}><Name text={nameOf(segment)} /></button>}</td>
              <td class="number">{duration(start[segment]!)}</td>
              <td class="number">{duration(end[segment]! - start[segment]!)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {seen.length > most && <button type="button" onClick={() => setMost(most * 4)}>{counted(seen.length - most, "later segment")}: show more</button>}
    </div>
  );
}
