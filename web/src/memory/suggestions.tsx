/** Suggestions: check boxes add them to the predicted curve. */

import type { QueryState } from "../answers";
import { amount, bytes, counted, percent } from "../format";
import { Name } from "../parts/name";
import { Shown } from "../parts/notice";
import { change, state } from "../state";
import type { AnswerTo } from "../transport";
import type { AtPeak, Row, SuggestionsDocument } from "../generated/answers";
import { numbersOf, toggled } from "./layout";

/** A peak before and after, in words. */
export function savedText({ name, before, after }: AtPeak): string {
  if (after >= before) return `${name} ${bytes(before)}, ${after === before ? "unchanged" : `${bytes(after - before)} more`}`;
  return `${name} ${bytes(before)} → ${bytes(after)} (${percent(before - after, before)} less)`;
}

/** Suggestions that are named one by one. */
const FEW = 8;

/** Suggestions by their numbers, if these are few. */
export const which = (numbers: readonly number[]): string => (numbers.length > FEW ? counted(numbers.length, "suggestion") : `${numbers.length === 1 ? "suggestion" : "suggestions"} ${numbers.join(", ")}`);

/** Combined savings of the checked suggestions. */
export function Applied({ query }: { query: QueryState<AnswerTo<"memory-apply">> }) {
  const numbers = numbersOf(state.value.apply);
  if (numbers.length === 0) return null;
  return (
    <Shown query={query}>
      {({ document }: AnswerTo<"memory-apply">) => (
        <p class="notice applied" aria-live="polite">
          With {which(numbers)}: {document.page.peaks.map(savedText).join("; ")}.{" "}
          {document.tables.memory_applied.rows.map((row) => highest(row, numbers)).join(" ")}{" "}
          <button type="button" class="link" onClick={() => change({ apply: "" })}>Clear all</button>
        </p>
      )}
    </Shown>
  );
}

/** Highest point of a device with suggestions, possibly at another time, and the suggestions that could not be applied. */
export function highest(row: Row, numbers: readonly number[]): string {
  const reserved = typeof row.reserved_before === "number" ? ` The allocator model predicts this peak of reserved memory: ${bytes(Number(row.reserved_before))} → ${bytes(Number(row.reserved_after))}.` : "";
  const applied = numbersOf(`${row.applied}`.replaceAll(" ", ""));
  const part = applied.length === numbers.length ? "" : applied.length === 0 ? " None of the selected suggestions applies to this device." : ` On this device, only ${which(applied)} could be applied.`;
  return `Highest memory use on ${row.device}: ${bytes(Number(row.peak_before))} → ${bytes(Number(row.peak_after))} (the new peak is at memory call ${row.at_call}).${part}${reserved}`;
}

export function Suggestions({ query, onObject }: { query: QueryState<AnswerTo<"memory-suggestions">>; onObject: (object: number) => void }) {
  return (
    <>
      <h2>Suggestions</h2>
      <Shown query={query}>{({ document }) => <List document={document} onObject={onObject} />}</Shown>
    </>
  );
}

function List({ document, onObject }: { document: SuggestionsDocument; onObject: (object: number) => void }) {
  const table = document.tables.memory_suggestions;
  const numbers = numbersOf(state.value.apply);
  const { combination, all, nothing, objects } = document.page;
  if (table.rows.length === 0) return <p>No suggestion lowers a memory peak.</p>;
  const peaks = table.columns.filter(({ name }) => name.startsWith("saved_at_")).map(({ name }) => name);
  return (
    <>
      {combination.length > 0 && (
        <p>
          {table.notes[0]}{" "}
          <button type="button" onClick={() => change({ apply: combination.join(",") })}>Apply {combination.length === 1 ? "it" : "these"}</button>
        </p>
      )}
      <div class="scroll words" tabIndex={0} role="region" aria-label="Suggestions">
        <table>
          <caption>Suggestions, each simulated on its own; select several to combine them</caption>
          <thead>
            <tr>
              <th scope="col">Apply</th>
              <th scope="col">Change</th>
              <th scope="col" class="number">Peak reduction</th>
              {peaks.map((peak) => <th scope="col" class="number" key={peak}>Saved at {peak.slice("saved_at_".length).toUpperCase()}</th>)}
              <th scope="col" class="number">Added time</th>
              <th scope="col">Pattern</th>
              <th scope="col">Certainty</th>
              <th scope="col">Objects</th>
            </tr>
          </thead>
          <tbody>
            {table.rows.map((row, at) => {
              const number = Number(row.number);
              return (
                <tr key={number}>
                  <td>
                    <label class="nowrap">
                      <input type="checkbox" checked={numbers.includes(number)} aria-label={`Apply suggestion ${number}`} onChange={() => change({ apply: toggled(numbers, number) })} /> {number}
                    </label>
                  </td>
                  <td class="long">
                    <Name text={`${row.what}`} lines={5} />
                    {typeof row.copy_time === "number" && <span class="quiet"> (one copy: {amount(row.copy_time, "ns")} at an assumed 25 GB/s)</span>}
                  </td>
                  <td class="number" title={`${row.lowers_peak}`}>{bytes(Number(row.lowers_peak))}</td>
                  {peaks.map((peak) => <td class="number" key={peak} title={`${row[peak]}`}>{bytes(Number(row[peak]))}</td>)}
                  <td class="number">{typeof row.cost === "number" ? amount(row.cost, "ns") : ""}</td>
                  <td>{row.against ?? "no pattern"}</td>
                  <td>{row.certainty}</td>
                  <td>
                    {(objects[at] ?? []).slice(0, 1).map((object) => (
                      <button type="button" class="link" key={object} onClick={() => onObject(object)}>{counted(Number(row.objects), "object")}</button>
                    ))}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {all > table.rows.length && <p class="quiet">{counted(all - table.rows.length, "more suggestion")} with smaller savings: <code>stackline memory --format csv</code> prints all.</p>}
      {nothing > 0 && <p class="quiet">{nothing === 1 ? "1 more suggestion saves no bytes at the listed peaks." : `${nothing} more suggestions save no bytes at the listed peaks.`}</p>}
    </>
  );
}
