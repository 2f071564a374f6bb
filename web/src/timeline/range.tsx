/** Summary of the marked time range. */

import { useAnswer } from "../answers";
import { count, duration, percent } from "../format";
import { Name } from "../parts/name";
import { Shown } from "../parts/notice";
import { frameOfName, selOf } from "../flame/chosen";
import { change, changeCallView, rank, state } from "../state";
import type { Lanes, Range } from "../generated/answers";
import { laneName, type TimeRange } from "./view";

/** Rows of each table. */
const MOST = 20;

/** Marked time range. */
export function marked(): TimeRange | undefined {
  const [from, to] = (state.value.mark ?? "").split(/(?<=\d)-/).map(Number);
  return from !== undefined && to !== undefined && to > from ? { from, to } : undefined;
}

export function RangeSummary({ lanes }: { lanes: Lanes }) {
  const mark = marked();
  const query = useAnswer(mark ? "range" : undefined, { ...mark, rank: rank.value });
  if (!mark) return null;
  const { from, to } = mark;
  return (
    <section class="range" aria-labelledby="range-title">
      <h2 id="range-title">Marked: {duration(to - from)}, starting at {duration(from)}</h2>
      <div class="bar">
        <button type="button" onClick={() => change({ from: `${from}`, to: `${to}` })}>Zoom to the marked range</button>
        <button type="button" onClick={() => change({ mark: "" })}>Remove the marked range</button>
      </div>
      <Shown query={query}>
        {({ document }) => (
          <div class="columns">
            <ByLane range={document} lanes={lanes} length={to - from} />
            <ByName range={document} length={to - from} />
          </div>
        )}
      </Shown>
    </section>
  );
}

function ByLane({ range, lanes, length }: { range: Range; lanes: Lanes; length: number }) {
  const titles = new Map(lanes.lanes.map((lane) => [lane.track, laneName(lane)]));
  const rows = range.tracks.filter(({ track }) => titles.has(track)).toSorted((a, b) => b.busy - a.busy);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Busy time by lane">
      <table>
        <caption>{rows.length > MOST ? `Busy time by lane (${MOST} of ${rows.length} lanes)` : "Busy time by lane"}</caption>
        <thead>
          <tr>
            <th scope="col">Lane</th>
            <th scope="col" class="number">Events</th>
            <th scope="col" class="number">Busy</th>
            <th scope="col" class="number">Share of range</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MOST).map((row) => (
            <tr key={row.track}>
              <td>{titles.get(row.track)}</td>
              <td class="number">{count(row.events)}</td>
              <td class="number">{duration(row.busy)}</td>
              <td class="number">{percent(row.busy, length)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ByName({ range, length }: { range: Range; length: number }) {
  const all = range.names.length + range.left_out;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Time by name">
      <table>
        <caption>{all > MOST ? `Time by name (${MOST} of ${count(all)} names)` : "Time by name"}</caption>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Device</th>
            <th scope="col" class="number">Events</th>
            <th scope="col" class="number">Time</th>
            <th scope="col" class="number">Share of range</th>
          </tr>
        </thead>
        <tbody>
          {range.names.slice(0, MOST).map((row) => (
            <tr key={`${row.name} ${row.gpu}`}>
              <td>
                <button type="button" class="link" onClick={() => changeCallView({ page: "flame", shape: "bottom-up", of: "", find: range.texts[row.name]!, metric: row.gpu ? "gpu_time" : "", sel: selOf(frameOfName(range.texts[row.name]!)) })}>
                  <Name text={range.texts[row.name] ?? ""} />
                </button>
              </td>
              <td>{row.gpu ? "GPU" : "CPU"}</td>
              <td class="number">{count(row.count)}</td>
              <td class="number">{duration(row.ns)}</td>
              <td class="number">{percent(row.ns, length)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
