/** Compare page: changes between two runs per step (as a whole or per call without steps), with significance. */

import { useAnswer } from "../answers";
import { amount, bytes, counted, duration } from "../format";
import { cut, Name } from "../parts/name";
import { Shown } from "../parts/notice";
import { heading } from "../parts/table";
import { LockedTimelines } from "../timeline/locked";
import { change, changeCallView, state } from "../state";
import type { Comparison, Meta, Row, Table } from "../generated/answers";

const MOST = 40;

export function Compare({ meta }: { meta: Meta }) {
  const query = useAnswer(meta.baseline === null ? undefined : "compare");
  return (
    <section aria-labelledby="compare-title">
      <h1 id="compare-title">Compare</h1>
      {meta.baseline === null ? (
        <p class="notice">
          This run has no baseline. To compare run B with baseline A, open both: <code>stackline view B --baseline A</code>
        </p>
      ) : (
        <>
          <p class="quiet">A, before: {meta.baseline}. B, after: {meta.name}.</p>
          <Surroundings after={meta} />
          <Shown query={query}>{({ document }) => <Changes compared={document} />}</Shown>
          {query.state !== "loading" && <MemoryPeaks />}
          {meta.has.timeline && <LockedTimelines before={meta.baseline} after={meta.name} />}
        </>
      )}
    </section>
  );
}

/** Properties of a run other than its times: versions, devices, recording. */
export function surroundings(meta: Meta): ReadonlyMap<string, string> {
  const [trace, process] = [meta.traces[0], meta.recording?.processes[0]];
  const pairs: Array<readonly [string, string | undefined]> = [
    ...(trace?.environment ?? []),
    ["format", trace?.info.format],
    ["ranks", meta.traces.length > 0 ? `${meta.traces.length}` : undefined],
    ["GPUs", trace && [...new Set(trace.info.gpus.map(({ name }) => name ?? "unnamed"))].join(", ")],
    ["Python", process?.python],
    ["PyTorch", process?.torch],
    ["command", process?.command.join(" ")],
  ];
  return new Map(pairs.flatMap(([key, value]) => (value ? [[key, value] as const] : [])));
}

/** Differences between the properties of both runs. */
function Surroundings({ after }: { after: Meta }) {
  const query = useAnswer("meta", { run: "before" });
  if (query.state !== "ok") return null;
  const [a, b] = [surroundings(query.answer.document), surroundings(after)];
  const differ = [...new Set([...a.keys(), ...b.keys()])].filter((key) => a.get(key) !== b.get(key));
  if (differ.length === 0) return <p class="quiet">Both runs have the same software versions, devices and recording options.</p>;
  return (
    <table class="surroundings">
      <caption>Differences between A and B in software versions, devices and recording options</caption>
      <thead><tr><th scope="col">Property</th><th scope="col">A</th><th scope="col">B</th></tr></thead>
      <tbody>
        {differ.map((key) => (
          <tr key={key}><th scope="row">{key.replaceAll("_", " ")}</th><td class="long">{cut(a.get(key) ?? "–")}</td><td class="long">{cut(b.get(key) ?? "–")}</td></tr>
        ))}
      </tbody>
    </table>
  );
}

function Changes({ compared }: { compared: Comparison }) {
  const hasVerdicts = (table: Table) => table.columns.some((column) => column.name === "verdict");
  // Steps of one run are not compared with the whole of another.
  const isCompared = (name: string, table: Table) => name !== "steps" || table.rows.length > 0;
  const tables = Object.entries(compared.tables).filter(([name, table]) => hasVerdicts(table) && isCompared(name, table));
  const all = state.value.noise === "1";
  return (
    <>
      {compared.warnings.length > 0 && (
        <div class="notice warnings">
          <p>These runs can hardly be compared, so changes are not judged as slower or faster. Reasons:</p>
          <ul>{compared.warnings.map((warning) => <li key={warning}>Warning: {warning}</li>)}</ul>
        </div>
      )}
      {compared.method === "steps" && <p>Not tested for significance: only one run per side, so run-to-run variation is unknown.</p>}
      {compared.notes.map((note) => <p class="quiet" key={note}>{note}</p>)}
      <div class="bar">
        <button type="button" aria-pressed={all} onClick={() => change({ noise: all ? "" : "1" })}>Show changes within noise</button>
        <button type="button" onClick={() => changeCallView({ page: "flame", baseline: "before", shape: "top-down", removed: "1" })}>Differential flame graph</button>
      </div>
      {tables.map(([name, table]) => <ChangeTable key={name} of={name} table={table} per={compared.per} all={all} isJudged={compared.warnings.length === 0} words={compared.method === "steps" ? OF_TIMES : {}} />)}
    </>
  );
}

/** Highest memory peak of each device, in both runs. */
function MemoryPeaks() {
  const query = useAnswer("compare-memory");
  if (query.state !== "ok" || query.answer.document.devices.length === 0) return null;
  return (
    <table>
      <caption>Highest memory peak of each device</caption>
      <thead><tr><th scope="col">Device</th><th scope="col" class="number">A</th><th scope="col" class="number">B</th><th scope="col" class="number">Change from A to B</th></tr></thead>
      <tbody>
        {query.answer.document.devices.map(({ device, before, after }) => (
          <tr key={device}>
            <th scope="row">{device}</th>
            <td class="number">{before === null ? "–" : bytes(before)}</td>
            <td class="number">{after === null ? "–" : bytes(after)}</td>
            <td class="number">{before === null || after === null ? "–" : `${after >= before ? "+" : "−"}${bytes(Math.abs(after - before))}${before > 0 ? ` (${signedPercent((100 * (after - before)) / before)})` : ""}`}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const SIGNS: Readonly<Record<string, string>> = { slower: "▲", faster: "▼", "only in A": "−", "only in B": "+" };

/** Words for verdicts of single runs: only the variation between steps is known, so they describe only the times. */
const OF_TIMES: Readonly<Record<string, string>> = { slower: "longer", faster: "shorter" };

function ChangeTable({ of, table, per, all, isJudged, words }: { of: string; table: Table; per: string; all: boolean; isJudged: boolean; words: Readonly<Record<string, string>> }) {
  const isNoise = (row: Row) => isJudged && row.verdict === "noise";
  // What occurs on one side only is no judgement, and has no time on the other that could be more or less.
  const isOnly = (row: Row) => `${row.verdict}`.startsWith("only");
  const verdict = (row: Row) => (isJudged || isOnly(row) ? `${SIGNS[`${row.verdict}`] ?? ""} ${words[`${row.verdict}`] ?? row.verdict}` : "–");
  // Of steps as a whole, steps are counted.
  const isCounted = table.columns.some(({ name }) => name === "calls");
  const kept = table.rows.filter((row) => all || !isNoise(row));
  const hidden = table.rows.length - kept.length;
  // Of calls, those come first that change most with as many of them as before: so they are answered.
  const sorted = per === "call" ? kept : kept.toSorted((a, b) => Math.abs(Number(b.change_ns ?? 0)) - Math.abs(Number(a.change_ns ?? 0)));
  const rows = sorted.slice(0, MOST);
  const names = table.columns.map((column) => column.name).filter((name) => ["rank", "name", "operator", "measure"].includes(name));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={table.title}>
      <table>
        <caption>{table.title}: {rowCountText(rows.length, table.rows.length, hidden)}</caption>
        {rows.length > 0 && (
          <thead>
            <tr>
              {names.map((name) => <th scope="col" key={name}>{heading(name)}</th>)}
              <th scope="col" class="number">A</th>
              <th scope="col" class="number">B</th>
              <th scope="col" class="number">Change from A to B</th>
              <th scope="col" class="number">Confidence interval</th>
              {isCounted && <th scope="col" class="number">{per === "step" ? "Calls per step" : "Calls"}</th>}
              <th scope="col">Verdict</th>
            </tr>
          </thead>
        )}
        <tbody>
          {rows.map((row, at) => (
            <tr key={at} class={isNoise(row) ? "quiet" : undefined}>
              {names.map((name) => <td key={name}><Name text={name === "measure" ? measureOf(`${row[name]}`, of, per) : `${row[name] ?? "–"}`} /></td>)}
              <td class="number">{timeText(row, "before", per)}</td>
              <td class="number">{timeText(row, "after", per)}</td>
              <td class="number">{changeText(row, per)}</td>
              <td class="number">{row.low_percent === null || row.low_percent === undefined || isOnly(row) ? "" : `${signedPercent(Number(row.low_percent))} … ${signedPercent(Number(row.high_percent))}`}</td>
              {isCounted && <td class="number">{often(row)}</td>}
              <td class="nowrap">{verdict(row)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

type Side = "before" | "after";

/** Check if a row has no time on a side: absent, or with missing records. Neither is a time of 0. */
const isAbsent = (row: Row, side: Side): boolean => {
  const ns = row[`${side}_ns`];
  const isOnlyInOther = row.verdict === (side === "before" ? "only in B" : "only in A");
  return isOnlyInOther || typeof ns !== "number" || (ns === 0 && row[`count_${side}`] === 0);
};

/** Check if times of a row are per call: on both sides or none. */
const isOfCalls = (row: Row, per: string): boolean => per === "call" && typeof row.before_ns_per_call === "number" && typeof row.after_ns_per_call === "number";

/** The time of a side. */
export const timeText = (row: Row, side: Side, per: string): string =>
  isAbsent(row, side) ? "–" : isOfCalls(row, per) ? `${time(row[`${side}_ns_per_call`])} a call` : time(row[`${side}_ns`]);

/** The change of a row. If only one side has the row, it is the mean of that side, which differs from that of single steps. Missing records
 * are no change: a row without a test has none if a side is absent. */
export const changeOf = (row: Row): number | undefined => {
  const numeric = (value: Row[string] | undefined) => (typeof value === "number" ? value : undefined);
  const before = numeric(row.before_ns);
  if (row.verdict === "only in A") return before === undefined ? undefined : -before;
  if (row.verdict === "only in B") return numeric(row.after_ns);
  return row.verdict === "untested" && (isAbsent(row, "before") || isAbsent(row, "after")) ? undefined : numeric(row.change_ns);
};

/** The change of a row, with its share of the time before. */
export function changeText(row: Row, per: string): string {
  const ofCalls = isOfCalls(row, per);
  const change = ofCalls ? Number(row.after_ns_per_call) - Number(row.before_ns_per_call) : changeOf(row);
  const share = ofCalls ? row.change_percent_per_call : row.change_percent;
  return change !== undefined && typeof share === "number" ? `${signed(change)} (${signedPercent(share)})` : signed(change);
}

/** Labels of measures. */
const MEASURES: Readonly<Record<string, string>> = { step: "step with its GPU work (trimmed mean: without the fastest 20 % and the slowest 20 % of the steps)", gpu: "GPU time", cpu: "CPU time", cpu_total: "CPU time (inclusive)" };

/** Label of a row's measure. Operators have inclusive and self CPU time. */
const measureOf = (name: string, table: string, per: string) =>
  name === "cpu" && table === "operators" ? "CPU time (self)"
  : name === "step" && per !== "step" ? "the whole run"
  : (MEASURES[name] ?? name);

/** Numbers of visible and hidden rows, with reasons. */
function rowCountText(shown: number, total: number, hidden: number): string {
  if (total === 0) return "none";
  const noise = hidden === 0 ? "" : `the table omits ${counted(hidden, "change")} within noise`;
  if (shown === 0) return `no significant changes; ${noise}`;
  const more = total - hidden - shown;
  const rest = [noise, more > 0 ? `the table omits ${counted(more, "smaller change")}` : ""].filter((part) => part !== "");
  return [counted(shown, "row"), ...rest].join("; ");
}

/** Number of calls per step (or in total) in A, and in B if different. */
function often(row: Row): string {
  const [before, after] = [row.count_before, row.count_after].map((value) => (typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: 1 }) : "–"));
  return before === after ? `${before}` : `${before} → ${after}`;
}

const time = (value: Row[string] | undefined) => (typeof value === "number" ? duration(value) : "–");
const signed = (value: Row[string] | undefined) => (typeof value === "number" ? `${value > 0 ? "+" : ""}${amount(value, "ns")}` : "–");
const signedPercent = (value: number) => `${value > 0 ? "+" : ""}${value.toFixed(1)} %`;
