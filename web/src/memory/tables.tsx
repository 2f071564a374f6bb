/** Tables of the drawing of memory, with the same actions: curves, calls, objects. */

import { useState } from "preact/hooks";
import { bytes, count, counted } from "../format";
import { Name } from "../parts/name";
import type { TimeRange } from "../timeline/view";
import type { AnswerTo } from "../transport";
import { callTitle, extent } from "./layout";
import type { ObjectsDocument } from "../generated/answers";
import type { Shown } from "./shown";

const MOST = 100;

interface Props {
  readonly shown: Shown;
  readonly range: TimeRange;
  readonly selectedObject: number | undefined;
  readonly selectedCall: number | undefined;
  readonly onObject: (object: number) => void;
  readonly onCall: (call: number) => void;
  readonly onRange: (range: TimeRange) => void;
}

export function MemoryTables(props: Props) {
  return (
    <>
      <CurveRows {...props} />
      <CallRows {...props} />
      {props.shown.objects && <ObjectRows objects={props.shown.objects} why={props.shown.overview.page.why} selected={props.selectedObject} onObject={props.onObject} />}
    </>
  );
}

function CurveRows({ shown: { curve, applied }, range }: Props) {
  if (!curve) return null;
  const rows = [
    { title: "Live", seen: extent(curve.columns, 0, range) },
    ...(curve.document.has_reserved ? [{ title: "Reserved by the allocator", seen: extent(curve.columns, 1, range) }] : []),
    ...(applied ? [{ title: "Live with the selected suggestions applied", seen: extent(applied.columns, 0, range) }] : []),
  ];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of memory curves">
      <table>
        <caption>Lowest and highest memory in the visible range of memory calls</caption>
        <thead><tr><th scope="col">Curve</th><th scope="col" class="number">Lowest</th><th scope="col" class="number">Highest</th></tr></thead>
        <tbody>
          {rows.map(({ title, seen }) => (
            <tr key={title}><td>{title}</td><td class="number">{seen ? bytes(seen.least) : "–"}</td><td class="number">{seen ? bytes(seen.most) : "–"}</td></tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function CallRows({ shown: { calls, overview }, range, selectedCall, onCall, onRange }: Props) {
  const [most, setMost] = useState(MOST);
  if (!calls) return null;
  const { lane, kind, start, length, count: counts, name } = calls.columns;
  const seen = Array.from({ length: start.length }, (_, at) => at).filter((at) => start[at]! <= range.to && start[at]! + length[at]! > range.from);
  const order = seen.toSorted((a, b) => start[a]! - start[b]!);
  const open = (at: number) => (counts[at] === 1 ? onCall(start[at]!) : onRange({ from: start[at]!, to: start[at]! + Math.max(length[at]!, 4) }));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Visible calls">
      <table>
        <caption>Visible calls</caption>
        <thead><tr><th scope="col" class="number">Call</th><th scope="col">Operation</th><th scope="col">Stream</th></tr></thead>
        <tbody>
          {order.slice(0, most).map((at) => (
            <tr key={at} aria-selected={selectedCall === start[at]}>
              <td class="number">{count(start[at]!)}</td>
              <td>
                <button type="button" class="link" onClick={() => open(at)}>
                  <Name text={`${counts[at]! > 1 ? `${counts[at]} × ` : ""}${callTitle(overview.page.kinds[kind[at]!] ?? "", calls.document.texts[name[at]!] ?? "")}`} />
                </button>
              </td>
              <td>{overview.page.lanes[lane[at]!]?.name}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {order.length > most && <button type="button" onClick={() => setMost(most * 4)}>{counted(order.length - most, "more row")}</button>}
    </div>
  );
}

/** Waste of each lane, as text. */
export function wasteOf({ columns }: AnswerTo<"memory-objects">, why: readonly string[]): Map<number, string> {
  const { waste_lane: lanes, waste_from: from, waste_to: to, waste_why: reasons } = columns;
  const found = new Map<number, string[]>();
  for (let at = 0; at < lanes.length; at += 1) {
    const words = found.get(lanes[at]!) ?? [];
    words.push(`${why[reasons[at]!]} (calls ${count(from[at]!)} to ${count(to[at]!)})`);
    found.set(lanes[at]!, words);
  }
  return new Map([...found].map(([lane, words]) => [lane, words.length > 3 ? `${words.slice(0, 3).join(", ")} and ${words.length - 3} more` : words.join(", ")]));
}

function ObjectRows({ objects, why, selected, onObject }: { objects: AnswerTo<"memory-objects">; why: readonly string[]; selected: number | undefined; onObject: (object: number) => void }) {
  const [most, setMost] = useState(MOST);
  const { object, bytes: size, from, to, open, uses, wasted, name, place } = objects.columns;
  const { texts, has_accesses, wasted_in } = objects.document;
  const waste = wasteOf(objects, why);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of memory objects">
      <table>
        <caption>Objects</caption>
        <thead>
          <tr>
            <th scope="col">Object</th><th scope="col" class="number">Bytes</th><th scope="col" class="number">From call</th><th scope="col" class="number">To call</th>
            {has_accesses && <th scope="col" class="number">Uses</th>}
            <th scope="col">Wasted</th><th scope="col" class="number" title="Wasted bytes, multiplied by the time for which they are wasted">Bytes × {wasted_in === "byte-seconds" ? "s" : "calls"}</th><th scope="col">Allocated at</th>
          </tr>
        </thead>
        <tbody>
          {Array.from({ length: Math.min(most, object.length) }, (_, at) => (
            <tr key={object[at]} aria-selected={selected === object[at]}>
              <td><button type="button" class="link" onClick={() => onObject(object[at]!)}><Name text={texts[name[at]!] ?? ""} /></button></td>
              <td class="number" title={`${size[at]}`}>{bytes(size[at]!)}</td>
              <td class="number">{(open[at]! & 1) === 0 ? count(from[at]!) : "before the recording began"}</td>
              <td class="number">{(open[at]! & 2) === 0 ? count(to[at]!) : "not freed"}</td>
              {has_accesses && <td class="number">{count(uses[at]!)}</td>}
              <td>{waste.get(at) ?? "–"}</td>
              <td class="number" title={`${wasted[at]}`}>{wasted[at] === 0 ? "–" : bytes(wasted[at]!)}</td>
              <td class="long"><Name text={texts[place[at]!] ?? ""} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {object.length > most && <button type="button" onClick={() => setMost(most * 4)}>{counted(object.length - most, "more object")}</button>}
    </div>
  );
}

/** Objects without a lane, by size. */
export function Classes({ document }: { document: ObjectsDocument }) {
  if (document.folded === 0) return null;
  return (
    <details>
      <summary>{counted(document.folded, "more object")} without a lane of their own: {bytes(document.folded_bytes)} in {counted(document.classes.length, "size class", "size classes")}</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label="Objects by size">
        <table>
          <caption>By size</caption>
          <thead><tr><th scope="col">Bytes each</th><th scope="col" class="number">Objects</th><th scope="col" class="number">Total bytes</th></tr></thead>
          <tbody>
            {document.classes.map(({ from, objects, bytes: sum }) => (
              <tr key={from}><td>{from === 0 ? "none" : `${bytes(from)} to below ${bytes(from * 2)}`}</td><td class="number">{count(objects)}</td><td class="number">{bytes(sum)}</td></tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
