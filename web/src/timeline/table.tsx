/** Table of visible events, longest first. */

import { useState } from "preact/hooks";
import { counted, duration } from "../format";
import { Name } from "../parts/name";
import type { AnswerTo } from "../transport";
import type { Lanes } from "../generated/answers";
import { laneName, type TimeRange } from "./view";

const MOST = 200;

interface Props {
  readonly answer: AnswerTo<"tiles">;
  readonly lanes: Lanes;
  /** Visible range; tiles extend beyond it. */
  readonly range: TimeRange;
  readonly selected: number | undefined;
  /** Predicate of names that match the search. */
  readonly isFound?: ((name: string) => boolean) | undefined;
  readonly onEvent: (event: number) => void;
}

export function EventTable({ answer, lanes, range, selected, isFound, onEvent }: Props) {
  const [most, setMost] = useState(MOST);
  const { track, start, length, busy, event, count: counts, name } = answer.columns;
  const isShown = (at: number) => isFound === undefined || isFound(answer.document.texts[name[at]!] ?? "");
  const order = Array.from(start.keys()).filter((at) => isShown(at) && start[at]! <= range.to && start[at]! + length[at]! >= range.from).toSorted((a, b) => busy[b]! - busy[a]!);
  const titles = new Map(lanes.lanes.map((lane) => [lane.track, laneName(lane)]));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Visible events">
      <table>
        <caption>Longest visible events</caption>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Lane</th>
            <th scope="col" class="number">Start</th>
            <th scope="col" class="number">Duration</th>
          </tr>
        </thead>
        <tbody>
          {order.slice(0, most).map((at) => (
            <tr key={at} aria-selected={selected === event[at]}>
              <td>
                <button type="button" class="link" onClick={() => onEvent(event[at]!)}>
                  <Name text={`${counts[at]! > 1 ? `${counts[at]} events, longest ` : ""}${answer.document.texts[name[at]!] ?? ""}`} />
                </button>
              </td>
              <td>{titles.get(track[at]!)}</td>
              <td class="number">{duration(start[at]!)}</td>
              <td class="number">{duration(busy[at]!)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {order.length > most && <button type="button" onClick={() => setMost(most * 4)}>{counted(order.length - most, "shorter event")}: show more</button>}
    </div>
  );
}
