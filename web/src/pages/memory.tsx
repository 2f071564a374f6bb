/** Memory page: live memory over time, accesses, waste and suggestions. */

import { useState } from "preact/hooks";
import { useAnswer, useLast } from "../answers";
import { run } from "../filter";
import { bytes, count, counted } from "../format";
import { problemsOfMemory } from "../lost";
import { MemoryCanvas } from "../memory/canvas";
import { Composition } from "../memory/composition";
import { rangeAround, gutterOf, neighbor, numbersOf } from "../memory/layout";
import { MemoryLegend } from "../memory/legend";
import { Applied, Suggestions } from "../memory/suggestions";
import { Classes, MemoryTables } from "../memory/tables";
import { Allocator, Holders } from "../memory/tabs";
import type { MemoryOverview } from "../generated/answers";
import type { QueryName } from "../transport";
import { AboutPicture } from "../parts/about-picture";
import { showDetails } from "../parts/details-focus";
import { HintButton } from "../parts/hint-button";
import { Shown } from "../parts/notice";
import { TableView } from "../parts/table";
import { change, rank, selection, state, transport } from "../state";
import { useKeys } from "../timeline/keys";
import { moved, type TimeRange, tilesOf, within, zoomed } from "../timeline/view";

export function Memory() {
  const hasMemory = run.value?.has.memory === true;
  const query = useAnswer(hasMemory ? "memory" : undefined, { rank: rank.value });
  return (
    <section aria-labelledby="memory-title">
      <h1 id="memory-title">Memory</h1>
      {hasMemory ? <Shown query={query}>{({ document }) => <Body overview={document} />}</Shown> : <NoMemory />}
    </section>
  );
}

/** Notice for runs without memory data, with instructions to record it. */
const NoMemory = () => (
  <div class="notice">
    <p>This run has no memory data: it was recorded without allocations. Ways to record them:</p>
    <ul>
      <li>CPU tensors: <code>stackline record --mode trace --memory -- python train.py</code></li>
      <li>With torch.profiler: <code>profile(profile_memory=True, with_stack=True)</code></li>
      <li>Caching allocator of a GPU, in three steps: <code>torch.cuda.memory._record_memory_history()</code> at the start, <code>torch.cuda.memory._dump_snapshot("snapshot.pickle")</code> at the end, then <code>stackline view snapshot.pickle</code></li>
    </ul>
  </div>
);

const TABS = [["objects", "Objects"], ["holders", "Owners"], ["allocator", "Allocator"]] as const;

function Body({ overview }: { overview: MemoryOverview }) {
  const { memory, page } = overview;
  const device = page.devices.find(({ device }) => `${device}` === state.value.device) ?? page.devices[0];
  const tab = TABS.find(([id]) => id === state.value.tab)?.[0] ?? "objects";
  return (
    <>
      <p class="quiet">
        {memory.label}: {counted(memory.calls, "call")}, {counted(memory.objects, "object")}, {memory.has_accesses ? counted(memory.accesses, "access", "accesses") : "no accesses"}
        {memory.devices.length > 0 && ` on ${memory.devices.join(", ")}`}
      </p>
      <Peaks overview={overview} />
      {device !== undefined && <Composition overview={overview} device={device.device} />}
      {!memory.has_accesses && <p class="notice">The input has no memory accesses, so unused memory, early allocations and late frees cannot be found. To record the accesses to tensors: <code>stackline record --mode trace --memory</code>.</p>}
      {overview.tables.memory_out_of_memory && <OutOfMemory overview={overview} />}
      <Repairs overview={overview} />
      {device === undefined ? <p class="notice">No memory object has a size above 0, so there is no curve to draw.</p> : (
        <>
          <div class="bar" role="group" aria-label="Views of memory">
            {TABS.map(([id, title]) => <button type="button" key={id} aria-pressed={tab === id} onClick={() => change({ tab: id === "objects" ? "" : id })}>{title}</button>)}
          </div>
          {tab === "objects" && <Objects overview={overview} device={device.device} key={device.device} />}
          {tab === "holders" && <Holders />}
          {tab === "allocator" && <Allocator overview={overview} />}
        </>
      )}
    </>
  );
}

function Peaks({ overview }: { overview: MemoryOverview }) {
  const { rows } = overview.tables.memory_peaks;
  if (rows.length === 0) return null;
  return (
    <dl class="numbers peaks">
      {rows.map((row) => (
        <div key={`${row.peak}`}>
          <dt>{row.peak} on {row.device}</dt>
          <dd title={`${row.bytes} bytes`}>{bytes(Number(row.bytes))}</dd>
          <dd class="quiet">{counted(Number(row.objects), "object")}, call {count(Number(row.call))}{typeof row.reserved === "number" && `, ${bytes(row.reserved)} reserved by the allocator`}{row.place ? `, ${row.place}` : ""}</dd>
        </div>
      ))}
    </dl>
  );
}

function OutOfMemory({ overview }: { overview: MemoryOverview }) {
  const table = overview.tables.memory_out_of_memory!;
  return (
    <div class="notice">
      <p><strong>{counted(table.rows.length, "request")} failed: out of memory.</strong></p>
      {table.notes.map((note) => <p key={note}>{note}</p>)}
    </div>
  );
}

/** Diagnostics of reading memory data. */
function Repairs({ overview }: { overview: MemoryOverview }) {
  const problems = problemsOfMemory(overview);
  if (problems.length === 0) return null;
  const lost = problems.find(({ severity }) => severity === "lost");
  return (
    <details open={lost !== undefined}>
      <summary>{counted(problems.length, "diagnostic")} from reading the memory data</summary>
      <ul class="events">{problems.map((one) => <li key={`${one.code} ${one.message}`}>{one.severity}, {counted(one.count, "time")}: {one.message}</li>)}</ul>
    </details>
  );
}

const address = ({ from, to }: TimeRange) => ({ from: `${Math.floor(from)}`, to: `${Math.ceil(to)}` });
const show = (range: TimeRange) => change(address(range), "replace");
const selectObject = (object: number) => change({ sel: `object:${object}` }, "replace");
const selectCall = (call: number) => change({ sel: `call:${call}` }, "replace");
const aliveAt = (name: string) => change({ alive: state.value.alive === name ? "" : name });

function seen(all: TimeRange): TimeRange {
  const [from, to] = [Number(state.value.from), Number(state.value.to)];
  const isGiven = state.value.from !== undefined && Number.isFinite(from) && Number.isFinite(to) && to > from;
  return isGiven ? within({ from, to }, all) : all;
}

/** Number of the selected item, if it has this kind. */
function selected(kind: string): number | undefined {
  const [selectedKind, number] = selection.value.split(":");
  return selectedKind === kind && number !== undefined ? Number(number) : undefined;
}

/** Answers for the visible range at this width. */
function useMemory(overview: MemoryOverview, device: number, range: TimeRange, width: number) {
  const { whole, buckets } = overview.page;
  const room = Math.max(width - gutterOf(width), 1);
  const question = { ...(transport.kind === "report" ? whole : tilesOf(range, room, buckets)), rank: rank.value };
  const ready = <Q extends QueryName>(name: Q) => (width > 0 ? name : undefined);
  const { order = "size", alive, apply } = state.value;
  const curve = useAnswer(ready("memory-curve"), { ...question, device });
  const calls = useAnswer(ready("memory-calls"), question);
  const objects = useAnswer(ready("memory-objects"), { ...question, device, order, alive: alive === "" ? undefined : alive });
  const numbers = numbersOf(apply);
  const applied = useAnswer(numbers.length > 0 ? ready("memory-apply") : undefined, { ...question, device, apply: numbers.join(",") });
  const lastApplied = useLast(applied);
  const shown = { overview, curve: useLast(curve), calls: useLast(calls), objects: useLast(objects), applied: numbers.length > 0 && applied.state !== "refused" ? lastApplied : undefined };
  return { shown, applied, query: [curve, calls, objects] };
}

function Objects({ overview, device }: { overview: MemoryOverview; device: number }) {
  const [width, setWidth] = useState(0);
  const all = { from: 0, to: Math.max(overview.page.end, 1) };
  const range = seen(all);
  const { shown, applied, query } = useMemory(overview, device, range, width);
  const suggestions = useAnswer("memory-suggestions", { rank: rank.value });
  const [object, call] = [selected("object"), selected("call")];
  useKeys((key) => {
    const step = ({ ArrowDown: 1, ArrowUp: -1 } as const)[key];
    const next = step && shown.objects ? neighbor(shown.objects.columns.object, object, step) : undefined;
    if (next !== undefined) selectObject(next);
    if (key === "Enter" && (object !== undefined || call !== undefined)) showDetails();
    const move = key === "f" ? lifeOf(shown.objects, object, all) : moved(key, range, all);
    if (move) show(move);
    return next !== undefined || move !== undefined;
  });
  const refused = query.find((one) => one.state === "refused");
  const isTable = state.value.as === "table";
  return (
    <>
      <Bar overview={overview} device={device} all={all} range={range} />
      <Applied query={applied} />
      <p class="status-line" aria-live="polite">{objectSummary(shown.objects, object)} Visible: {count(Math.round(range.to - range.from))} of {counted(all.to, "call")}.</p>
      {shown.curve === undefined && query.some((one) => one.state === "loading") && width > 0 && <p class="quiet" role="status">Computing …</p>}
      {refused?.state === "refused" && <p class="notice" role="alert">{refused.error.message}</p>}
      {isTable && <Measure setWidth={setWidth} />}
      {isTable ? (
        <MemoryTables {...{ shown, range }} selectedObject={object} selectedCall={call} onObject={selectObject} onCall={selectCall} onRange={show} />
      ) : (
        <MemoryCanvas {...{ shown, device, range, all, width, setWidth }} selectedObject={object} selectedCall={call} onRange={show} onObject={selectObject} onCall={selectCall} onPeak={aliveAt} />
      )}
      {!isTable && <MemoryLegend overview={overview} hasAccesses={overview.memory.has_accesses} />}
      {!isTable && <About />}
      {overview.page.streams_left_out > 0 && <p class="quiet">{counted(overview.page.streams_left_out, "stream")} with {counted(overview.page.calls_left_out, "call")} {overview.page.streams_left_out === 1 ? "is" : "are"} not shown.</p>}
      {shown.objects && <Classes document={shown.objects.document} />}
      <Suggestions query={suggestions} onObject={selectObject} />
      {overview.tables.memory_waste && <TableView table={overview.tables.memory_waste} columns={["pattern", "object", "objects", "bytes", "kernels", "certainty", "place"]} most={12} />}
    </>
  );
}

/** The life of the object that is selected, with some room around it. */
function lifeOf(objects: ReturnType<typeof useMemory>["shown"]["objects"], selected: number | undefined, all: TimeRange): TimeRange | undefined {
  const at = selected === undefined || !objects ? -1 : Array.prototype.indexOf.call(objects.columns.object, selected);
  return at < 0 || !objects ? undefined : rangeAround(objects.columns.from[at]!, objects.columns.to[at]!, all);
}

/** Measure the width for tables, which otherwise the drawing does. */
function Measure({ setWidth }: { setWidth: (width: number) => void }) {
  return <div ref={(element) => { if (element) setWidth(element.clientWidth); }} />;
}

/** The object that is selected, in words. */
function objectSummary(objects: ReturnType<typeof useMemory>["shown"]["objects"], selected: number | undefined): string {
  const at = selected === undefined || !objects ? -1 : Array.prototype.indexOf.call(objects.columns.object, selected);
  if (at < 0 || !objects) return "";
  return `${objects.document.texts[objects.columns.name[at]!]}, ${bytes(objects.columns.bytes[at]!)}, object ${at + 1} of ${objects.columns.object.length}.`;
}

interface BarProps {
  readonly overview: MemoryOverview;
  readonly device: number;
  readonly all: TimeRange;
  readonly range: TimeRange;
}

function Bar({ overview, device, all, range }: BarProps) {
  const { devices, peaks } = overview.page;
  const { order = "size", alive = "", as } = state.value;
  return (
    <div class="bar" role="toolbar" aria-label="Memory">
      {devices.length > 1 && (
        <label>
          Device{" "}
          <select value={`${device}`} onChange={(event) => change({ device: event.currentTarget.value, alive: "", from: "", to: "" })}>
            {devices.map((one) => <option key={one.device} value={`${one.device}`}>{one.name}</option>)}
          </select>
        </label>
      )}
      <button type="button" onClick={() => show(zoomed(range, 0.5, 0.5, all))}>Zoom in</button>
      <button type="button" onClick={() => show(zoomed(range, 2, 0.5, all))}>Zoom out</button>
      <button type="button" onClick={() => show(all)}>All</button>
      <label>
        Objects by{" "}
        <select value={order} data-field="order" onChange={(event) => change({ order: event.currentTarget.value === "size" ? "" : event.currentTarget.value })}>
          <option value="size">size</option>
          <option value="waste">waste (bytes × time)</option>
          <option value="first">first use</option>
        </select>
      </label>
      {peaks.filter((peak) => peak.device === device).map(({ name }) => (
        <button type="button" key={name} aria-pressed={alive === name} onClick={() => aliveAt(name)}>Live at {name}</button>
      ))}
      <button type="button" aria-pressed={as === "table"} onClick={() => change({ as: as === "table" ? "" : "table" })}>Table</button>
      <HintButton hint="W and S zoom, A and D pan, 0 shows all, F zooms to the object; after a click on the plot, up and down select objects." />
    </div>
  );
}

/** Parts and positions of the picture. */
const About = () => (
  <AboutPicture>
    <p>From top to bottom, the picture shows the bytes in use, the calls of each stream, and one lane per object from its allocation to its free.</p>
    <p>Positions are numbers of memory calls in host order, not times.</p>
  </AboutPicture>
);
