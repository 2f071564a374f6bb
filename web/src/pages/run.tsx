/** What was run, where, how it was recorded, and what of it was lost. */

import { pattern, setPattern } from "../editor";
import { count, counted, duration } from "../format";
import type { Meta, ReadReport } from "../types";

export function Run({ meta }: { meta: Meta }) {
  return (
    <section aria-labelledby="run-title">
      <h1 id="run-title">This run</h1>
      <p>{meta.name}, opened by stackline {meta.version}; content {meta.hash}</p>
      {meta.traces.map(({ info, environment, report }) => (
        <article key={info.rank}>
          <h2>Trace {info.name}</h2>
          <p>{info.format}, rank {info.rank}, {counted(info.events, "event")}, {counted(info.gpu_operations, "GPU operation")}</p>
          <dl class="pairs">
            {environment.map(([key, value]) => <div key={key}><dt>{key}</dt><dd>{value}</dd></div>)}
          </dl>
          <Losses report={report} />
        </article>
      ))}
      {meta.recording && (
        <article>
          <h2>Recording: {counted(meta.recording.nodes, "node")}, {counted(meta.recording.threads, "thread")}</h2>
          {meta.recording.processes.map((process) => (
            <dl class="pairs" key={process.pid}>
              <div><dt>Process {process.pid} ({process.role})</dt><dd><code>{process.command.join(" ")}</code></dd></div>
              <div><dt>Lasted</dt><dd>{process.lasted_ns === null ? "not known" : duration(process.lasted_ns)}</dd></div>
              {process.sources.map((source) => <div key={source.name}><dt>{source.name}</dt><dd>{source.on ? "on" : "off"}{source.detail && `: ${source.detail}`}</dd></div>)}
              {process.lost.map((lost) => <div key={lost.what}><dt>Lost: {lost.what}</dt><dd>{count(lost.count)}</dd></div>)}
            </dl>
          ))}
          <Losses report={meta.recording.report} />
        </article>
      )}
      {meta.memory && (
        <article>
          <h2>Memory {meta.memory.label}</h2>
          <Losses report={meta.memory.report} />
        </article>
      )}
      <h2>Editor</h2>
      <label>
        Address of a line{" "}
        <input size={40} value={pattern()} onChange={(event) => setPattern(event.currentTarget.value)} />
      </label>
      <p class="quiet">{"{file} and {line} are put in."}</p>
    </section>
  );
}

/** What reading had to repair, skip or lose. */
function Losses({ report: { problems } }: { report: ReadReport }) {
  if (problems.length === 0) return <p class="quiet">Nothing had to be repaired, skipped or lost in reading.</p>;
  return (
    <ul>
      {problems.map((problem, at) => (
        <li key={at}>{problem.severity}: {problem.message} ({count(problem.count)} ×{problem.example && `, the first: ${problem.example}`})</li>
      ))}
    </ul>
  );
}
