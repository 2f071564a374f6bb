/** Run page: environment, recording quality and missing records. */

import { useAnswer } from "../answers";
import { pattern, setPattern } from "../editor";
import { count, counted, duration, percent } from "../format";
import { memoryAlone } from "../lost";
import { Copy } from "../parts/copy";
import { Sentence } from "../parts/name";
import { change, rank } from "../state";
import type { Meta, ReadReport } from "../generated/answers";

export function Run({ meta }: { meta: Meta }) {
  // Memory of a trace or a recording is read for its page alone.
  const isWithin = meta.has.memory && meta.memory === null;
  const query = useAnswer(isWithin ? "memory" : undefined, { rank: rank.value });
  const within = query.state === "ok" ? memoryAlone(meta, query.answer.document) : undefined;
  return (
    <section aria-labelledby="run-title">
      <h1 id="run-title">This run</h1>
      <p>{meta.name}, opened by stackline {meta.version}; content hash {meta.hash}</p>
      <p class="bar"><Copy text={() => runText(meta, within)} /></p>
      {meta.traces.map(({ info, environment, report, ...trace }) => (
        <article key={info.rank}>
          <h2>Trace {info.name}</h2>
          <p>{info.format}, rank {info.rank}, {counted(info.events, "event")}, {counted(info.gpu_operations, "GPU operation")}</p>
          <dl class="pairs">
            {environment.map(([key, value]) => <div key={key}><dt>{key.replaceAll("_", " ")}</dt><dd>{value}</dd></div>)}
          </dl>
          {qualityOf({ info, ...trace }).map((sentence) => <p class="quiet" key={sentence}>{sentence}</p>)}
          <MissingRecords report={report} of="the trace" />
        </article>
      ))}
      {meta.recording && (
        <article>
          <h2>Recording: {counted(meta.recording.nodes, "call-tree node")}, {counted(meta.recording.threads, "thread")}</h2>
          {meta.recording.processes.map((process) => (
            <dl class="pairs" key={process.pid}>
              <div><dt>Process {process.pid} ({process.role})</dt><dd><code>{process.command.join(" ")}</code></dd></div>
              <div><dt>Duration</dt><dd>{process.lasted_ns === null ? "unknown" : duration(process.lasted_ns)}</dd></div>
              {process.sources.map((source) => <div key={source.name}><dt>{source.name}</dt><dd>{source.on ? "on" : "off"}{source.detail && `: ${source.detail}`}</dd></div>)}
              {process.lost.map((lost) => <div key={lost.what}><dt>Lost: {lost.what}</dt><dd>{count(lost.count)}</dd></div>)}
            </dl>
          ))}
          <MissingRecords report={meta.recording.report} of="the recording" />
        </article>
      )}
      {meta.memory && (
        <article>
          <h2>Memory {meta.memory.label}</h2>
          <MissingRecords report={meta.memory.report} of="the memory file" />
        </article>
      )}
      {isWithin && (
        <article>
          <h2>Memory</h2>
          {within ? <MissingRecords report={{ problems: within }} of="its memory data" /> : <p class="quiet">To see repaired, skipped and lost records, open the page <button type="button" class="link" onClick={() => change({ page: "memory" })}>Memory</button>.</p>}
        </article>
      )}
      <h2>Editor</h2>
      <label>
        URL of a source line{" "}
        <input size={40} value={pattern()} onChange={(event) => setPattern(event.currentTarget.value)} />
      </label>
      <p class="quiet">{"In this URL, {file} stands for the path of the source file, and {line} for the line number."}</p>
    </section>
  );
}

/** Recording overhead and clock offsets, as sentences. */
export function qualityOf({ info, clocks, recording_cost: cost }: Pick<Meta["traces"][number], "info" | "clocks" | "recording_cost">): string[] {
  const length = info.start_ns !== null && info.end_ns !== null ? info.end_ns - info.start_ns : 0;
  const all = cost ? cost.operator_ns * cost.operators : 0;
  const overhead = cost
    ? `Recording overhead is at least ${duration(cost.operator_ns)} per operator (measured on ${count(cost.measured)} operators during the run). For ${counted(cost.operators, "operator")} this is ${duration(all)}, ${percent(all, length)} of the trace. The overhead of recording Python functions is not included.`
    : "The recording overhead is unknown, because it was not measured during the recording.";
  return [overhead, ...clocks.map(clockText)];
}

function clockText({ device, least_ns: least, most_ns: most, shift_ns: shift, contradictory, early, late }: Meta["traces"][number]["clocks"][number]): string {
  const clock = `The clock of GPU ${device}`;
  const signed = (ns: number) => `${ns < 0 ? "−" : ""}${duration(Math.abs(ns))}`;
  const range =
    least !== null && most !== null ? `the GPU clock lags behind the host clock by ${signed(least)} to ${signed(most)} (negative: ahead)`
    : least !== null ? `the GPU clock is at most ${duration(-least)} ahead of the host clock; how far it may lag is unknown`
    : most !== null ? `the GPU clock lags behind the host clock by at most ${duration(most)}; how far it may be ahead is unknown`
    : "the limits of the offset are unknown";
  const wrong = `${counted(early, "GPU operation")} ${early === 1 ? "begins" : "begin"} before the launch call, and ${counted(late, "wait")} of the host ${late === 1 ? "ends" : "end"} before the awaited GPU work`;
  if (contradictory) return `${clock} contradicts the host clock: ${wrong}. No constant shift of the clock corrects both errors, so either the clock drifts or some records are wrong.`;
  if (shift === null) return `${clock}: the offset from the host clock is unknown.`;
  if (shift === 0) return `${clock} agrees with the host clock as far as launches and waits show: ${range}.`;
  return `${clock} is off by at least ${signed(shift)}: ${wrong}. Times are shown as recorded, without correction.`;
}

/** All of it as plain text. */
export function runText(meta: Meta, ofMemory: ReadReport["problems"] = []): string {
  const missingRecords = ({ problems }: Pick<ReadReport, "problems">) => problems.map((one) => `  ${one.severity}: ${one.message} ${one.example ? `(${one.count} ×, first example: ${one.example})` : `(${one.count} ×)`}`);
  const traces = meta.traces.flatMap(({ info, environment, report, ...trace }) => [
    `Trace ${info.name}: ${info.format}, rank ${info.rank}, ${info.events} events, ${info.gpu_operations} GPU operations`,
    ...environment.map(([key, value]) => `  ${key}: ${value}`),
    ...qualityOf({ info, ...trace }).map((sentence) => `  ${sentence}`),
    ...missingRecords(report),
  ]);
  const processes = (meta.recording?.processes ?? []).flatMap((one) => [
    `Process ${one.pid} (${one.role}): ${one.command.join(" ")}`,
    `  Python ${one.python}, PyTorch ${one.torch || "none"}, duration ${one.lasted_ns === null ? "unknown" : duration(one.lasted_ns)}`,
    ...one.sources.map(({ name, on, detail }) => `  ${name}: ${on ? "on" : "off"}${detail && `, ${detail}`}`),
    ...one.lost.map(({ what, count }) => `  lost: ${what} ${count}`),
  ]);
  return [`${meta.name}, opened by stackline ${meta.version}; content hash ${meta.hash}`, ...traces, ...processes, ...(meta.recording ? missingRecords(meta.recording.report) : []), ...missingRecords(meta.memory?.report ?? { problems: ofMemory })].join("\n");
}

/** List of repaired, skipped and lost records. */
function MissingRecords({ report: { problems }, of }: { report: Pick<ReadReport, "problems">; of: string }) {
  if (problems.length === 0) return <p class="quiet">No repaired, skipped or lost records in {of}.</p>;
  return (
    <ul>
      {problems.map((problem, at) => (
        <li key={at}>{problem.severity}: <Sentence text={problem.message} /> {problem.example ? `(${count(problem.count)} ×, first example: ${problem.example})` : `(${count(problem.count)} ×)`}</li>
      ))}
    </ul>
  );
}
