/** Tabs of the Memory page: owners at the peaks, and the caching allocator. */

import { useRef } from "preact/hooks";
import { useAnswer } from "../answers";
import type { InkOf } from "../colors";
import { Canvas } from "../draw/canvas";
import { fitted } from "../draw/boxes";
import { bytes, counted } from "../format";
import { Shown } from "../parts/notice";
import { TableView } from "../parts/table";
import { change, rank, state } from "../state";
import type { AnswerTo } from "../transport";
import { hatch } from "./draw";
import type { MemoryOverview } from "../generated/answers";

/** Live memory at each peak by owner, grouped. */
export function Holders() {
  const by = state.value.held ?? "place";
  const query = useAnswer("memory-holders", { by, rank: rank.value });
  return (
    <Shown query={query}>
      {({ document }) => (
        <>
          <label>
            Group by{" "}
            <select value={by} onChange={(event) => change({ held: event.currentTarget.value }, "replace")}>
              {document.page.by.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          </label>
          <TableView table={document.tables.memory_at_peak} columns={document.tables.memory_at_peak.columns.map(({ name }) => name)} most={40} />
        </>
      )}
    </Shown>
  );
}

export function Allocator({ overview }: { overview: MemoryOverview }) {
  const query = useAnswer(overview.page.has_segments ? "memory-allocator" : undefined, { rank: rank.value });
  const peaks = overview.tables.memory_peaks;
  const hasReserved = peaks.rows.some((row) => typeof row.reserved === "number");
  return (
    <>
      {hasReserved && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Memory at the peaks">
          <table>
            <caption>Memory at the peaks</caption>
            <thead><tr><th scope="col">Peak</th><th scope="col" class="number">Live</th><th scope="col" class="number">Reserved by the allocator</th><th scope="col" class="number">Reserved but not live</th></tr></thead>
            <tbody>
              {peaks.rows.map((row) => (
                <tr key={`${row.peak}`}>
                  <td>{row.peak} on {row.device}</td><td class="number">{bytes(Number(row.bytes))}</td>
                  <td class="number">{typeof row.reserved === "number" ? bytes(row.reserved) : "–"}</td>
                  <td class="number">{typeof row.reserved === "number" ? bytes(Math.max(row.reserved - Number(row.bytes), 0)) : "–"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {overview.page.has_segments ? <Shown query={query}>{(answer) => <Segments answer={answer} />}</Shown> : (
        <p class="notice">
          The input has no allocator segments. To record them in a memory snapshot, call the following two functions, and then open snapshot.pickle:{" "}
          <code>torch.cuda.memory._record_memory_history()</code>, <code>torch.cuda.memory._dump_snapshot("snapshot.pickle")</code>
        </p>
      )}
    </>
  );
}

/** Pixels of a segment, and of the names at the left. */
const HIGH = 20;
const GUTTER = 150;

function Segments({ answer }: { answer: AnswerTo<"memory-allocator"> }) {
  const { page, tables } = answer.document;
  const scroll = useRef(0);
  const largest = Math.max(...page.segments.map((segment) => segment.bytes), 1);
  const draw = (context: CanvasRenderingContext2D, wide: number, high: number, top: number, ink: InkOf) => {
    context.fillStyle = ink.paper;
    context.fillRect(0, 0, wide, high);
    context.translate(0, -top);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = ink.quiet;
    page.segments.forEach((segment, at) => context.fillText(fitted(context, `${bytes(segment.bytes)} ${segment.stream}`, GUTTER - 8), 4, at * HIGH + HIGH / 2));
    drawBlocks(context, answer, wide, largest, ink.mark);
    context.translate(0, top);
  };
  return (
    <>
      <TableView table={tables.memory_allocator} columns={tables.memory_allocator.columns.map(({ name }) => name)} most={20} />
      {tables.memory_allocator.notes.map((note) => <p class="quiet" key={note}>{note}</p>)}
      {state.value.as === "table" ? <SegmentRows answer={answer} /> : (
        <>
          <p class="quiet">The {counted(page.segments.length, "largest segment")} at the time of the snapshot, drawn to scale: live blocks are filled, blocks that wait for another stream are hatched, free blocks are empty.</p>
          <div class="canvas">
            <Canvas label={`${counted(page.segments.length, "segment")} of the allocator; the button Table shows them as a table`} height={page.segments.length * HIGH + 4} scroll={scroll} draw={draw} />
          </div>
        </>
      )}
      {page.left_out > 0 && <p class="quiet">{counted(page.left_out, "smaller segment")} {page.left_out === 1 ? "is" : "are"} not shown.</p>}
    </>
  );
}

/** Pixels of a block in use at least: a segment that anything keeps is not seen as empty. */
const SEEN = 2;

export function drawBlocks(context: CanvasRenderingContext2D, { columns }: AnswerTo<"memory-allocator">, wide: number, largest: number, mark: string): void {
  const { segment, offset, bytes: sizes, state: states } = columns;
  const scale = (wide - GUTTER - 4) / largest;
  for (let at = 0; at < segment.length; at += 1) {
    const [x, y, width] = [GUTTER + offset[at]! * scale, segment[at]! * HIGH + 3, Math.max(sizes[at]! * scale, states[at] === 2 ? 0.5 : SEEN)];
    if (states[at] !== 2) {
      context.fillStyle = "#8cc4ee";
      context.fillRect(x, y, width, HIGH - 6);
    }
    if (states[at] === 1) hatch(context, x, y, width, HIGH - 6, 2);
    context.strokeStyle = mark;
    context.lineWidth = 0.5;
    if (width > 2) context.strokeRect(x, y, width, HIGH - 6);
  }
}

/** The segments as a table: how much of each is in use, and its largest free block. */
function SegmentRows({ answer: { document, columns } }: { answer: AnswerTo<"memory-allocator"> }) {
  const { segment, bytes: sizes, state: states } = columns;
  const sums = document.page.segments.map(() => ({ used: 0, free: 0, largest: 0, blocks: 0 }));
  for (let at = 0; at < segment.length; at += 1) {
    const sum = sums[segment[at]!]!;
    sum.blocks += 1;
    if (states[at] === 2) {
      sum.free += sizes[at]!;
      sum.largest = Math.max(sum.largest, sizes[at]!);
    } else sum.used += sizes[at]!;
  }
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of allocator segments">
      <table>
        <caption>Largest segments at the time of the snapshot</caption>
        <thead>
          <tr>
            <th scope="col">Address</th><th scope="col">Stream</th><th scope="col" class="number">Bytes</th><th scope="col" class="number">Blocks</th>
            <th scope="col" class="number">Not free</th><th scope="col" class="number">Free</th><th scope="col" class="number">Largest free block</th>
          </tr>
        </thead>
        <tbody>
          {document.page.segments.map((one, at) => (
            <tr key={at}>
              <td>{one.address}</td><td>{one.stream}</td><td class="number">{bytes(one.bytes)}</td><td class="number">{sums[at]!.blocks}</td>
              <td class="number">{bytes(sums[at]!.used)}</td><td class="number">{bytes(sums[at]!.free)}</td><td class="number">{bytes(sums[at]!.largest)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
