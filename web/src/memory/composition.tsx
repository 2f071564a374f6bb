/** Composition of the peaks: parameters, gradients, moments, activations, and remedies for the highest peak. */

import { bytes, count, percent } from "../format";
import { Name } from "../parts/name";
import type { MemoryOverview, Peak, Row } from "../generated/answers";

interface Part {
  readonly use: string;
  /** By peak, in the order of the peaks; none where the peak has no such part. */
  readonly at: ReadonlyArray<Row | undefined>;
}

/** One part per use, each with its row at every one of these peaks. */
export function partsOf(rows: readonly Row[], peaks: readonly Pick<Peak, "name">[]): Part[] {
  const uses = [...new Set(peaks.flatMap(({ name }) => rows.filter(({ peak }) => peak === name).map(({ use }) => `${use}`)))];
  return uses.map((use) => ({ use, at: peaks.map(({ name }) => rows.find((row) => row.peak === name && row.use === use)) }));
}

/** Composition of the peaks of a device; null if unknown. */
export function Composition({ overview, device }: { overview: MemoryOverview; device: number }) {
  const table = overview.tables.memory_composition;
  const peaks = overview.page.peaks.filter((peak) => peak.device === device);
  const parts = partsOf(table?.rows ?? [], peaks);
  if (table === undefined || parts.length === 0) return null;
  // The notes are those of the highest peak of all, which is the first.
  const isHighest = overview.page.peaks[0]?.device === device;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={table.title}>
        <table>
          <caption>{table.title}</caption>
          <thead>
            <tr>
              <th scope="col">Use</th>
              {peaks.map(({ name }) => [<th scope="col" class="number" key={name}>{name}</th>, <th scope="col" class="number" key={`${name} share`}>Share</th>, <th scope="col" class="number" key={`${name} objects`}>Objects</th>])}
              <th scope="col">Identified by</th>
              <th scope="col">Allocated at</th>
            </tr>
          </thead>
          <tbody>{parts.map((part) => <PartRow key={part.use} part={part} peaks={peaks} />)}</tbody>
        </table>
      </div>
      {isHighest && table.notes.length > 0 && <ul class="remedies">{table.notes.map((note) => <li key={note}>{note}</li>)}</ul>}
    </>
  );
}

/** Common value of the rows of all peaks with a part; a dash if they differ. */
export function sameOf(rows: Part["at"], column: string): string {
  const all = new Set(rows.filter((row) => row !== undefined).map((row) => row[column] ?? null));
  const [one] = all;
  return all.size === 1 && one !== null ? `${one}` : "–";
}

function PartRow({ part: { use, at }, peaks }: { part: Part; peaks: readonly Peak[] }) {
  return (
    <tr>
      <td class="nowrap">{use}</td>
      {peaks.map((peak, column) => {
        const row = at[column];
        const cells = row === undefined ? ["–", "–", "–"] : [bytes(Number(row.bytes)), percent(Number(row.bytes), peak.bytes), count(Number(row.objects))];
        return cells.map((text, cell) => <td class="number" key={`${peak.name} ${cell}`} title={cell === 0 && row !== undefined ? `${row.bytes} bytes` : undefined}>{text}</td>);
      })}
      <td class="nowrap">{sameOf(at, "evidence")}</td>
      <td class="long"><Name text={sameOf(at, "place")} /></td>
    </tr>
  );
}
