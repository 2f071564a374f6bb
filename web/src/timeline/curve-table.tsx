/** Table of counter curves: minimum and maximum in the visible range. */

import type { AnswerTo } from "../transport";
import { valueOf } from "./curves";
import type { TimeRange } from "./view";

interface Span {
  least: number;
  most: number;
}

/** Minimum and maximum of each counter in a time range, including the value that holds at its start. */
export function spans({ document, columns }: AnswerTo<"counters">, range: TimeRange): Array<Span | undefined> {
  const { counter, start, low, high, last } = columns;
  const found: Array<Span | undefined> = document.counters.map(() => undefined);
  const add = (of: number, least: number, most: number) => {
    const known = found[of];
    found[of] = { least: Math.min(known?.least ?? least, least), most: Math.max(known?.most ?? most, most) };
  };
  for (let at = 0; at < counter.length; at += 1) {
    const of = counter[at]!;
    const until = counter[at + 1] === of ? start[at + 1]! : Number.POSITIVE_INFINITY;
    if (start[at]! > range.to || until <= range.from) continue;
    if (start[at]! >= range.from) add(of, low[at]!, high[at]!);
    else add(of, last[at]!, last[at]!);
  }
  return found;
}

export function CurveTable({ answer, range }: { answer: AnswerTo<"counters">; range: TimeRange }) {
  const { counters } = answer.document;
  if (counters.length === 0) return null;
  const seen = spans(answer, range);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Curves as a table">
      <table>
        <caption>Memory and counters</caption>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col" class="number">Lowest in view</th>
            <th scope="col" class="number">Highest in view</th>
            <th scope="col" class="number">Highest overall</th>
          </tr>
        </thead>
        <tbody>
          {counters.map((counter, at) => (
            <tr key={at}>
              <td>{counter.name}</td>
              <td class="number">{seen[at] ? valueOf(counter, seen[at].least) : "–"}</td>
              <td class="number">{seen[at] ? valueOf(counter, seen[at].most) : "–"}</td>
              <td class="number">{valueOf(counter, counter.most)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
