/** Two runs side by side: what changed per step, and what of it is more than noise. */

import { useAnswer } from "../answers";
import { amount, duration } from "../format";
import { Name } from "../parts/name";
import { Shown } from "../parts/notice";
import { heading } from "../parts/table";
import { LockedTimelines } from "../timeline/locked";
import { change, lookAt, state } from "../state";
import type { Meta, Row, Table } from "../types";

interface Comparison {
  readonly method: string;
  readonly level_percent: number;
  /** Why both can hardly be compared, a sentence each. */
  readonly warnings: readonly string[];
  readonly notes: readonly string[];
  readonly tables: Readonly<Record<string, Table>>;
}

const MOST = 40;

export function Compare({ meta }: { meta: Meta }) {
  const asked = useAnswer<Comparison>(meta.baseline === null ? undefined : "compare");
  return (
    <section aria-labelledby="compare-title">
      <h1 id="compare-title">Compare</h1>
      {meta.baseline === null ? (
        <p class="notice">
          There is nothing to compare with: <code>stackline view B --baseline A</code> opens two runs.
        </p>
      ) : (
        <>
          <p class="quiet">A, before: {meta.baseline}. B, after: {meta.name}.</p>
          <Shown asked={asked}>{({ document }) => <Changes compared={document} />}</Shown>
          {meta.has.timeline && <LockedTimelines before={meta.baseline} after={meta.name} />}
        </>
      )}
    </section>
  );
}

function Changes({ compared }: { compared: Comparison }) {
  const tables = Object.entries(compared.tables).filter(([, table]) => table.columns.some((column) => column.name === "verdict"));
  const all = state.value.noise === "1";
  return (
    <>
      {compared.warnings.length > 0 && (
        <div class="notice warnings">
          <p>These runs can hardly be compared, so no verdict is given:</p>
          <ul>{compared.warnings.map((warning) => <li key={warning}>Warning: {warning}</li>)}</ul>
        </div>
      )}
      {compared.notes.map((note) => <p class="quiet" key={note}>{note}</p>)}
      <div class="bar">
        <button type="button" aria-pressed={all} onClick={() => change({ noise: all ? "" : "1" })}>Show what is within the noise, too</button>
        <button type="button" onClick={() => lookAt({ page: "flame", beside: "before", shape: "top-down" })}>Flame graph of the differences</button>
      </div>
      {tables.map(([name, table]) => <ChangeTable key={name} table={table} all={all} isJudged={compared.warnings.length === 0} />)}
    </>
  );
}

const SIGNS: Readonly<Record<string, string>> = { slower: "▲", faster: "▼", "only in A": "−", "only in B": "+" };

function ChangeTable({ table, all, isJudged }: { table: Table; all: boolean; isJudged: boolean }) {
  const isNoise = (row: Row) => isJudged && row.verdict === "noise";
  // What occurs on one side only is no judgement.
  const verdict = (row: Row) => (isJudged || `${row.verdict}`.startsWith("only") ? `${SIGNS[`${row.verdict}`] ?? ""} ${row.verdict}` : "–");
  const kept = table.rows.filter((row) => all || !isNoise(row));
  const rows = kept.toSorted((a, b) => Math.abs(Number(b.change_ns ?? 0)) - Math.abs(Number(a.change_ns ?? 0))).slice(0, MOST);
  const names = table.columns.map((column) => column.name).filter((name) => ["rank", "name", "operator", "measure"].includes(name));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={table.title}>
      <table>
        <caption>{table.title}: {rows.length === 0 ? "nothing beyond the noise" : `${rows.length} of ${table.rows.length}`}</caption>
        {rows.length > 0 && (
          <thead>
            <tr>
              {names.map((name) => <th scope="col" key={name}>{heading(name)}</th>)}
              <th scope="col" class="number">A</th>
              <th scope="col" class="number">B</th>
              <th scope="col" class="number">Change from A to B</th>
              <th scope="col" class="number">Between</th>
              <th scope="col">Verdict</th>
            </tr>
          </thead>
        )}
        <tbody>
          {rows.map((row, at) => (
            <tr key={at} class={isNoise(row) ? "quiet" : undefined}>
              {names.map((name) => <td key={name}><Name text={`${row[name] ?? ""}`} /></td>)}
              <td class="number">{time(row.before_ns)}</td>
              <td class="number">{time(row.after_ns)}</td>
              <td class="number">{signed(row.change_ns)} {row.change_percent !== null && row.change_percent !== undefined && `(${signedPercent(Number(row.change_percent))})`}</td>
              <td class="number">{row.low_percent === null || row.low_percent === undefined ? "" : `${signedPercent(Number(row.low_percent))} … ${signedPercent(Number(row.high_percent))}`}</td>
              <td>{verdict(row)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const time = (value: Row[string] | undefined) => (typeof value === "number" ? duration(value) : "–");
const signed = (value: Row[string] | undefined) => (typeof value === "number" ? `${value > 0 ? "+" : ""}${amount(value, "ns")}` : "–");
const signedPercent = (value: number) => `${value > 0 ? "+" : ""}${value.toFixed(1)} %`;
