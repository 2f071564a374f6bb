/** What happened in the stretch that was marked. */

import { useAnswer } from "../answers";
import { count, duration, percent } from "../format";
import { Shown } from "../parts/notice";
import { change, rank, state } from "../state";
import type { Stretch } from "./view";

interface Range {
  readonly from: number;
  readonly to: number;
  readonly tracks: ReadonlyArray<{ track: number; busy: number; events: number }>;
  readonly names: ReadonlyArray<{ name: number; gpu: boolean; count: number; ns: number }>;
  readonly texts: readonly string[];
  readonly left_out: number;
}

/** The stretch that was marked. */
export function marked(): Stretch | undefined {
  const [from, to] = (state.value.mark ?? "").split(/(?<=\d)-/).map(Number);
  return from !== undefined && to !== undefined && to > from ? { from, to } : undefined;
}

export function RangeSummary() {
  const mark = marked();
  const asked = useAnswer<Range>(mark ? "range" : undefined, { ...mark, rank: rank.value });
  if (!mark) return null;
  const { from, to } = mark;
  return (
    <section class="range" aria-labelledby="range-title">
      <h2 id="range-title">Marked: {duration(to - from)}</h2>
      <div class="bar">
        <button type="button" onClick={() => change({ from: `${from}`, to: `${to}` })}>Zoom to it</button>
        <button type="button" onClick={() => change({ mark: "" })}>Remove the mark</button>
      </div>
      <Shown asked={asked}>
        {({ document }) => (
          <table>
            <caption>By name, in the marked stretch</caption>
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Where</th>
                <th scope="col">Times</th>
                <th scope="col">Time</th>
                <th scope="col">Of the stretch</th>
              </tr>
            </thead>
            <tbody>
              {document.names.slice(0, 20).map((row) => (
                <tr key={`${row.name} ${row.gpu}`}>
                  <td>{document.texts[row.name]}</td>
                  <td>{row.gpu ? "GPU" : "CPU"}</td>
                  <td class="number">{count(row.count)}</td>
                  <td class="number">{duration(row.ns)}</td>
                  <td class="number">{percent(row.ns, to - from)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Shown>
    </section>
  );
}
