/** What happened in the stretch that was marked. */

import { useAnswer } from "../answers";
import { count, duration, percent } from "../format";
import { Shown } from "../parts/notice";
import { change, rank, state } from "../state";

interface Range {
  readonly from: number;
  readonly to: number;
  readonly tracks: ReadonlyArray<{ track: number; busy: number; events: number }>;
  readonly names: ReadonlyArray<{ name: number; gpu: boolean; count: number; ns: number }>;
  readonly texts: readonly string[];
  readonly left_out: number;
}

export function RangeSummary() {
  const [from, to] = (state.value.mark ?? "").split(/(?<=\d)-/).map(Number);
  const isMarked = from !== undefined && to !== undefined && to > from;
  const asked = useAnswer<Range>(isMarked ? "range" : undefined, { from, to, rank: rank.value });
  if (!isMarked) return null;
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
