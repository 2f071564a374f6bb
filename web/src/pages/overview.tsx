/** Overview page: length of a step, causes of its time, top issues. */

import { useAnswer } from "../answers";
import { cause } from "../colors";
import { selOf } from "../flame/chosen";
import { bytes, count, counted, duration, percent, sentence } from "../format";
import { isMixed, IssueCard, lengthText, UNSURE } from "./issues";
import { lostOf, noGpu } from "../lost";
import { NoEvents, Shown } from "../parts/notice";
import { TableView } from "../parts/table";
import { parsed, steps } from "../filter";
import { useFindings } from "../findings";
import { change, chooseRank, changeCallView, rank, state, transport } from "../state";
import { busyShares, busyWindow } from "../gpu";
import type { CriticalPath, FailedCheck, Meta, Overview as Report, Row, Table } from "../generated/answers";

export function Overview({ meta }: { meta: Meta }) {
  // What is there soonest is asked first, and all else only then: the machine may have few cores, and people begin to read at the top.
  const isServed = meta.has.events && transport.kind === "server";
  const first = useAnswer(isServed ? "overview" : undefined, { steps: steps(), only: "first" });
  const isNext = meta.has.events && (!isServed || first.state !== "loading");
  const whole = useAnswer(isNext ? "overview" : undefined, { steps: steps() });
  const report = whole.state === "loading" && first.state === "ok" ? first : whole;
  return (
    <section aria-labelledby="overview-title">
      <h1 id="overview-title">Overview</h1>
      <Head meta={meta} />
      {meta.has.timeline && !meta.has.events && <NoEvents />}
      {meta.has.events ? (
        <>
          <Shown query={report}>{({ document }) => <Numbers report={document} meta={meta} isFirst={!isNext} />}</Shown>
          {isNext && <Top isLost={lostOf(meta).length > 0} />}
          {isNext && <Ranks />}
          {report.state === "ok" && <Tables report={report.answer.document} meta={meta} />}
        </>
      ) : meta.has.timeline ? null : (
        <>
          <p class="notice">
            This recording contains totals per call path, not individual calls. It has no steps, critical path or timeline;
            to get them, record with <code>--mode trace</code>. The pages Issues, Flame graph and Source show where the time goes.
          </p>
          <Top isLost={lostOf(meta).length > 0} />
        </>
      )}
    </section>
  );
}

function Head({ meta }: { meta: Meta }) {
  const process = meta.recording?.processes[0];
  return (
    <>
      {meta.traces.slice(0, 8).map(({ info }) => (
        <p key={info.rank} class="quiet">
          {info.name} ({info.format}): {counted(info.events, "event")}, {counted(info.gpu_operations, "GPU operation")}, {counted(info.steps, "step")}
          {info.start_ns !== null && info.end_ns !== null && <>, {duration(info.end_ns - info.start_ns)}</>}
          {info.gpus.length > 0 && <>; GPU: {info.gpus.map((gpu) => gpu.name?.trim() || "unnamed").filter((name, at, all) => all.indexOf(name) === at).join(", ")}</>}
        </p>
      ))}
      {process && <p class="quiet">Recorded: <code>{process.command.join(" ")}</code>, Python {process.python}{process.torch && `, PyTorch ${process.torch}`}</p>}
      {!meta.has.gpu && meta.has.timeline && (
        <p class="quiet">No GPU work in this run: {noGpu(meta)}.</p>
      )}
    </>
  );
}

/** Rank of the numbers, and rows of a table for it. */
function ofRank(meta: Meta) {
  const of = rank.value ?? `${meta.traces[0]?.info.rank}`;
  const isOfRank = (row: { readonly rank?: unknown }) => row.rank === undefined || row.rank === null || `${row.rank}` === of;
  const own = (table: Table | undefined) => table && { ...table, rows: table.rows.filter(isOfRank) };
  return { of, isOfRank, own };
}

function Numbers({ report, meta, isFirst }: { report: Report; meta: Meta; isFirst: boolean }) {
  const { of, isOfRank, own } = ofRank(meta);
  const spread = own(report.tables.steps_spread)?.rows.find((row) => row.measure === "time");
  const ofTrace = report.critical_path?.find(isOfRank);
  const exact = ofTrace?.exact;
  const path = exact && "path_ns" in exact ? exact : undefined;
  const chosen = parsed(steps() ?? "");
  return (
    <>
      <dl class="numbers">
        {spread && <Step row={spread} />}
        {spread && <WithWork />}
        {path && (
          <div>
            <dt>Critical path of {path.window}</dt>
            <dd>{duration(path.path_ns)}</dd>
            <dd class="quiet">{percent(path.inferred_ns, path.window_ns)} inferred or unknown</dd>
          </div>
        )}
        <GpuBusy table={own(report.tables.gpu_time)} of={of} isCut={lostOf(meta).length > 0} />
        {!isFirst && <MemoryPeaks />}
        <Collection meta={meta} />
      </dl>
      <Failed checks={report.failed_checks ?? []} />
      {report.rank_conflict && <p class="notice">The traces are not ranks of one job: {report.rank_conflict}. Results that combine ranks are not valid.</p>}
      {ofTrace && <Outside of={ofTrace} />}
      {!report.critical_path && <p class="quiet" role="status">Computing the critical path …</p>}
      {path?.window_notes.map((note) => <p class="quiet" key={note}>{sentence(note)}</p>)}
      {path && <Bound by={path.bound_by_ns} all={path.window_ns} />}
      {path && chosen && <LateGpuWork window={path.window_ns} />}
      {path && (path.bound_by_ns.unknown ?? 0) > path.window_ns / 2 && (
        <p class="notice">
          The cause is unknown for more than half of the critical path: the trace does not show what the program waited for. This is usual for CUDA graphs, which run as a whole.{" "}
          To see the program's other events at that time, open the <button type="button" class="link" onClick={() => change({ page: "timeline", cp: "1" })}>timeline</button>.
        </p>
      )}
      {exact && "error" in exact && <p class="notice">No critical path: {exact.error}.</p>}
    </>
  );
}

/** Checks that failed, on which the numbers depend. */
function Failed({ checks }: { checks: readonly FailedCheck[] }) {
  if (checks.length === 0) return null;
  const failed = checks.map(({ check, count: many, consequence }) => `${check} ${count(many)}${consequence && ` (${consequence})`}`);
  return <p class="notice">Failed checks: {failed.join(", ")}. To list the events, run <code>stackline check</code>.</p>;
}

/** Time before the first step and after the last one, if long. */
function Outside({ of: { start_up, after_steps } }: { of: CriticalPath }) {
  const imports = start_up?.imports_ns ?? null;
  return (
    <>
      {start_up && (
        <p class="quiet">{imports === null ? `Start-up: ${duration(start_up.before_ns)} before the first step.` : `Start-up: ${duration(start_up.before_ns)} before the first step, including ${duration(imports)} of module imports and ${duration(Math.max(0, start_up.before_ns - imports))} outside of imports.`}</p>
      )}
      {after_steps && <p class="quiet">{after_steps.mostly === null ? `After the last step: ${duration(after_steps.after_ns)}.` : `After the last step: ${duration(after_steps.after_ns)}, mostly in ${after_steps.mostly}.`}</p>}
    </>
  );
}

/** Kernels and operators that took most. */
function Tables({ report, meta }: { report: Report; meta: Meta }) {
  const { own } = ofRank(meta);
  const [kernels, operators] = [own(report.tables.gpu_kernels), own(report.tables.operators)];
  // Where no operation of a GPU is linked to its operator, none has any time of it.
  const isLinked = operators?.rows.some((row) => Number(row.gpu_self_us) > 0);
  const self = meta.has.gpu && isLinked ? "gpu_self_us" : "host_self_us";
  return (
    <div class="columns">
      {kernels && kernels.rows.length > 0 && <TableView table={top(kernels, "total_ns")} columns={["name", "percent", "total_ns", "count"]} most={6} onName={(name) => inFlame(name, "gpu_time")} />}
      {operators && operators.rows.length > 0 && (
        <div>
          <TableView table={top(operators, self)} columns={["name", "calls", self]} most={6} onName={(name) => inFlame(name, "")} />
          {meta.has.gpu && operators.notes.map((note) => <p class="quiet" key={note}>{note}</p>)}
        </div>
      )}
    </div>
  );
}

/** Show a name in the flame graph, with its callers. */
const inFlame = (name: string, metric: string) => changeCallView({ page: "flame", shape: "bottom-up", of: "", find: name, metric, sel: selOf({ name }) });

/** The ranks, the slowest first; a click selects one. */
function Ranks() {
  const findings = useFindings();
  if (findings.state !== "ok" || findings.answer.document.ranks.length === 0) return null;
  const ranks = findings.answer.document.ranks.toSorted((a, b) => b.step_ns - a.step_ns || a.rank - b.rank);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Ranks, slowest first">
      <table>
        <caption>Ranks, slowest first; findings above cover {rank.value === undefined ? "all ranks" : `rank ${rank.value}`}</caption>
        <thead>
          <tr>
            <th scope="col">Rank</th>
            <th scope="col" class="number">Mean step with its GPU work</th>
            <th scope="col" class="number">Steps</th>
            <th scope="col" class="number">Collectives without overlap</th>
          </tr>
        </thead>
        <tbody>
          {ranks.map((one) => (
            <tr key={one.rank} aria-selected={rank.value === `${one.rank}`}>
              <td><button type="button" class="link" onClick={() => chooseRank(`${one.rank}`)}>rank {one.rank}</button></td>
              <td class="number">{duration(one.step_ns)}</td>
              <td class="number">{count(one.steps)}</td>
              <td class="number">{one.collectives_alone_ns === null ? "–" : duration(one.collectives_alone_ns)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Step({ row }: { row: Row }) {
  const time = (name: string) => duration(Number(row[name] ?? 0) * 1e3);
  const title = row.process ? `Step of process ${row.process}` : "Step";
  return (
    <div>
      <dt>{Number(row.steps ?? 0) > 1 ? `${title}, median` : title}</dt>
      <dd>{time("median_us")}</dd>
      <dd class="quiet">
        {Number(row.steps ?? 0) > 1 ? `${time("min_us")} to ${time("max_us")} in ${count(Number(row.steps))} steps, as marked by the program` : `${state.value.steps ? "the selected step" : "the only step"}, as marked by the program`}
      </dd>
    </div>
  );
}

/** The other length of a step, which findings and comparisons count in: it ends when the work ends that the program launched in it. */
function WithWork() {
  const findings = useFindings(rank.value);
  if (findings.state !== "ok" || findings.answer.document.steps === 0) return null;
  const { step_ns, subtracts_recording, with_gpu_work } = findings.answer.document;
  return (
    <div>
      <dt>{with_gpu_work === false ? "Mean step" : "Mean step with its GPU work"}</dt>
      <dd>{duration(step_ns)}</dd>
      <dd class="quiet">{lengthText(findings.answer.document)}{subtracts_recording && "; the recording overhead is subtracted"}; percentages of gains refer to this time{state.value.steps && "; selecting other steps does not change this time"}</dd>
    </div>
  );
}

/** Note on GPU work after the marked end of steps, which the causes above do not cover. */
function LateGpuWork({ window }: { window: number }) {
  const findings = useFindings(rank.value);
  if (findings.state !== "ok" || (state.value.steps ?? "") !== "") return null;
  const { step_ns, steps } = findings.answer.document;
  const lateNs = step_ns * steps - window;
  if (lateNs < window / 50) return null;
  return <p class="quiet">The causes above cover the time up to the marked end of the steps. GPU work launched by the steps continues for {duration(lateNs)} after it; findings include this time.</p>;
}

/** Utilization of the GPUs: mean and range. */
function GpuBusy({ table, of, isCut }: { table: Table | undefined; of: string; isCut: boolean }) {
  const shares = busyShares(table?.rows ?? []);
  if (shares.length === 0) return null;
  const text = (share: number) => `${(100 * share).toFixed(1)} %`;
  return (
    <div>
      <dt>GPU busy</dt>
      <dd>{text(shares.reduce((sum, share) => sum + share, 0) / shares.length)}</dd>
      <dd class="quiet">{[busyWindow(table?.notes ?? [], of), isCut && "without lost records"].filter(Boolean).join(", ")}</dd>
      {shares.length > 1 && <dd class="quiet">{text(Math.min(...shares))} to {text(Math.max(...shares))} on {shares.length} GPUs</dd>}
    </div>
  );
}

/** Memory peaks: of GPUs if recorded, else of the host. */
function MemoryPeaks() {
  const findings = useFindings(rank.value);
  const all = findings.state === "ok" ? findings.answer.document.peaks : [];
  const ofGpus = all.filter(({ device }) => device !== "cpu");
  return (
    <>
      {(ofGpus.length > 0 ? ofGpus : all).map((peak) => (
        <div key={peak.device}>
          <dt>Memory peak of {peak.device}</dt>
          <dd><button type="button" class="link" onClick={() => change({ page: "memory" })}>{bytes(peak.bytes)}</button></dd>
          {peak.mended_bytes !== null && peak.mended_bytes < peak.bytes && <dd class="quiet">{bytes(peak.mended_bytes)} if all findings are fixed</dd>}
        </div>
      ))}
    </>
  );
}

/** Numbers of lost, skipped and repaired records. */
function Collection({ meta }: { meta: Meta }) {
  // What a recording lost stands in the reports of its traces, too.
  const problems = meta.traces.flatMap(({ report }) => report.problems);
  const recorded = meta.traces.length > 0 ? [] : meta.recording?.processes.flatMap(({ lost }) => lost) ?? [];
  const sum = (counts: ReadonlyArray<{ count: number }>) => counts.reduce((all, { count }) => all + count, 0);
  const ofSeverity = (kind: string) => problems.filter(({ severity }) => severity === kind);
  const [lost, skipped, repaired] = [sum(ofSeverity("lost")) + sum(recorded), sum(ofSeverity("skipped")), sum(ofSeverity("repaired"))];
  const lossCounts = [[lost, "lost"], [skipped, "skipped"], [repaired, "repaired"]].filter(([many]) => many !== 0);
  return (
    <div>
      <dt>Records</dt>
      <dd>
        <button type="button" class="link" onClick={() => change({ page: "run" })}>
          {lossCounts.length === 0 ? (meta.traces.length > 0 ? "all records of the trace were read" : "all records were read") : lossCounts.map(([many, what]) => `${count(Number(many))} ${what}`).join(", ")}
        </button>
      </dd>
    </div>
  );
}

/** Bar of critical-path time by cause. A click opens the path; a click on a part selects its cause. */
function Bound({ by, all }: { by: Readonly<Record<string, number>>; all: number }) {
  const parts = Object.entries(by).filter(([, ns]) => ns > 0).toSorted((a, b) => b[1] - a[1]);
  return (
    <figure class="bound">
      <figcaption>Time on the critical path by cause</figcaption>
      <button type="button" class="stack" aria-label="Show the critical path in the timeline" onClick={() => change({ page: "timeline", cp: "1", cause: "" })}>
        {parts.map(([name, ns]) => (
          <span key={name} style={{ flexGrow: ns, background: cause(name).fill }} title={`${cause(name).title}: ${duration(ns)}, ${percent(ns, all)}`} />
        ))}
      </button>
      <ul class="legend">
        {parts.map(([name, ns]) => (
          <li key={name}>
            <i style={{ background: cause(name).fill }} />{" "}
            <button type="button" class="link" onClick={() => change({ page: "timeline", cp: "1", cause: name })}>{cause(name).title}</button> {duration(ns)} ({percent(ns, all)})
          </li>
        ))}
      </ul>
    </figure>
  );
}

function Top({ isLost }: { isLost: boolean }) {
  const findings = useFindings(rank.value);
  return (
    <>
      <h2>Top issues</h2>
      <Shown query={findings}>
        {({ document }) =>
          document.tables.findings.rows.length === 0 ? (
            <p>
              {isLost ? "No findings. Some records of the run were lost, so findings may be missing." : "No findings with a large gain."} <button type="button" class="link" onClick={() => change({ page: "issues" })}>List of rules</button>
            </p>
          ) : (
            <ol class="cards">
              {document.tables.findings.rows.slice(0, 3).map((row, at) => (
                <li key={at}><IssueCard row={row} at={at} step={document.step_ns} /></li>
              ))}
              {isMixed(document.tables.findings.rows) && <li class="quiet">{UNSURE}</li>}
            </ol>
          )
        }
      </Shown>
    </>
  );
}

/** A table with its largest rows first. */
function top(table: Table, by: string): Table {
  return { ...table, rows: table.rows.toSorted((a, b) => Number(b[by] ?? 0) - Number(a[by] ?? 0)) };
}
