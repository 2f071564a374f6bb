/** Issues page: findings by gain; the selected one with evidence and source. */

import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { useAnswer } from "../answers";
import { bytes, count, counted, duration, percent } from "../format";
import { area } from "../colors";
import { selOf } from "../flame/chosen";
import { run } from "../filter";
import { useFindings } from "../findings";
import { boundsOf } from "../gains";
import { lostOf } from "../lost";
import { factsOf, findingText } from "../details/text";
import { Copy } from "../parts/copy";
import { cut, Name, Sentence } from "../parts/name";
import { NoEvents, Shown } from "../parts/notice";
import { Excerpt } from "../parts/excerpt";
import { change, changeCallView, page, rank, selection, state, transport } from "../state";
import { Gap } from "../timeline/gap";
import { placeAround } from "../timeline/view";
import type { FindingDetail, Findings, Meta, Row, Rule } from "../generated/answers";

export function Issues({ meta }: { meta: Meta }) {
  const query = useFindings(rank.value);
  return (
    <section aria-labelledby="issues-title">
      <h1 id="issues-title">Issues</h1>
      {meta.has.events || meta.has.memory || (meta.recording && !meta.has.timeline) ? (
        <Shown query={query}>{({ document }) => <List found={document} />}</Shown>
      ) : (
        <NoEvents />
      )}
    </section>
  );
}

/** Definition of the step length to which gains refer; the Overview also shows the marked span. */
export function lengthText({ steps, with_gpu_work: withWork = true }: Pick<Findings, "steps" | "with_gpu_work">): string {
  if (steps === 1) return withWork ? "measured up to the end of the GPU work that the step launched" : "measured as marked by the program, without GPU work";
  if (withWork) return `mean of ${count(steps)} steps, each measured up to the end of the GPU work that the step launched`;
  return `mean of ${count(steps)} steps, each measured as marked by the program, without GPU work`;
}

/** Order of findings, which their gains alone do not show. */
export const UNSURE = "Ordered by estimated gain; findings with low confidence and a lower bound of 0 come last.";

/** Check if a finding is listed after surer ones: see `is_unsure` in crates/findings. */
export const isUnsure = (row: Row): boolean => row.confidence === "low" && !(Number(row.gain_low_bytes ?? row.gain_low_ns ?? 0) > 0);

/** Check if the order differs from the gains. */
export const isMixed = (rows: readonly Row[]): boolean => rows.some(isUnsure) && !rows.every(isUnsure);

function lengthOf(found: Findings): string {
  const { steps, step_ns } = found;
  if (found.is_of_calls) {
    return steps > 0 ? `a step of the analyzed thread takes ${duration(step_ns)} (mean of ${count(steps)} steps)` : `the analyzed thread takes ${duration(step_ns)}`;
  }
  if (steps > 0) return `a step takes ${duration(step_ns)}${found.with_gpu_work === false ? "" : " with its GPU work"} (${lengthText(found)})`;
  return step_ns > 0 ? `the run takes ${duration(step_ns)}` : "memory data only";
}

function List({ found }: { found: Findings }) {
  const rows = found.tables.findings.rows;
  const chosen = selection.value.startsWith("finding:") ? Number(selection.value.slice(8)) : undefined;
  return (
    <>
      <p class="quiet">
        {counted(rows.length, "finding")}; {lengthOf(found)}.
        {found.combined && ` Combined gain ${duration(found.combined.ns)} (${percent(found.combined.ns, found.step_ns)}), ${boundsOf(found.combined, found.step_ns)}.`}
        {found.left_out > 0 && ` Omitted: ${counted(found.left_out, "finding")} with a gain below 0.5 % of a step or of a memory peak.`}
        {isMixed(rows) && ` ${UNSURE}`}
      </p>
      {rows.length > 1 && <Filters rows={rows} />}
      {rows.length === 0 && <p>No findings with a gain of at least 0.5 % of a step or of a device's memory peak.{run.value && lostOf(run.value).length > 0 && " Some records of the run were lost, so findings may be missing."}</p>}
      <ol class="cards">
        {rows.map((row, at) => isSelected(row) && (
          <li key={at}>
            <IssueCard row={row} at={at} step={found.step_ns} />
            {chosen === at && <Detail at={at} row={row} step={found.step_ns} />}
          </li>
        ))}
      </ol>
      <Uncovered found={found} />
      {found.notes.map((note) => <p class="quiet" key={note}><Sentence text={note} />{note.includes("`stackline memory`") && <> <button type="button" class="link" onClick={() => change({ page: "memory" })}>Details on the Memory page</button></>}</p>)}
      <Nearest rows={found.nearest} isOpen={rows.length === 0} />
      <CheckedRules rules={found.rules} isOpen={rows.length === 0} />
      <NotChecked rows={found.tables.not_checked.rows} />
    </>
  );
}

/** Filters of findings, with labels. */
const FILTERS = [["area", "About"], ["confidence", "Confidence"]] as const;

/** Check if a finding matches the filters. */
const isSelected = (row: Row): boolean => FILTERS.every(([name]) => !state.value[name] || state.value[name] === `${row[name]}`);

function Filters({ rows }: { rows: readonly Row[] }) {
  const shown = rows.filter(isSelected).length;
  return (
    <form class="bar" aria-label="Findings" onSubmit={(event) => event.preventDefault()}>
      {FILTERS.map(([name, title]) => (
        <label key={name}>
          {title}{" "}
          <select data-field={name} value={state.value[name] ?? ""} onChange={(event) => change({ [name]: event.currentTarget.value, sel: "" })}>
            <option value="">all</option>
            {[...new Set(rows.map((row) => `${row[name]}`))].toSorted().map((value) => <option key={value} value={value}>{value}</option>)}
          </select>
        </label>
      ))}
      <span class="quiet" aria-live="polite">{shown < rows.length && `${count(shown)} of ${count(rows.length)} shown`}</span>
    </form>
  );
}

/** Large groups of time without a finding, in the terminal's sentences; the tooltip has the full name. */
function Uncovered({ found }: { found: Findings }) {
  // A line of a group begins with "- "; other lines are heads of what follows.
  const names = (found.uncovered?.groups ?? []).map((group) => group.name).values();
  const parts: Array<{ head: string; groups: Array<{ text: string; name: string }> }> = [];
  for (const line of found.uncovered_text ?? []) {
    if (line.startsWith("- ")) parts.at(-1)?.groups.push({ text: line.slice(2), name: names.next().value ?? "" });
    else parts.push({ head: line, groups: [] });
  }
  return (
    <>
      {parts.map(({ head, groups }) => (
        <Fragment key={head}>
          <p>{head}</p>
          <ul class="uncovered long">
            {groups.map(({ text, name }) => <li key={text} title={cut(name)}><Sentence text={text} isName /></li>)}
          </ul>
        </Fragment>
      ))}
    </>
  );
}

/** Largest gains below the limit. */
function Nearest({ rows, isOpen }: { rows: Findings["nearest"]; isOpen: boolean }) {
  if (rows.length === 0) return null;
  return (
    <details open={isOpen}>
      <summary>Largest findings with a gain below 0.5 % of a step or of a memory peak</summary>
      <ul>
        {rows.map((row, at) => (
          <li key={at}>{row.percent.toFixed(2)} %: {row.code} <Sentence text={row.title} />{row.place && ` (${row.place})`}</li>
        ))}
      </ul>
    </details>
  );
}

/** Checked rules, to show the scope of an empty result. */
function CheckedRules({ rules, isOpen }: { rules: Findings["rules"]; isOpen: boolean }) {
  if (rules.length === 0) return null;
  return (
    <details open={isOpen}>
      <summary>{counted(rules.length, "rule")} checked</summary>
      <ul>
        {rules.map((rule) => <li key={rule.code}><CheckedRule rule={rule} /></li>)}
      </ul>
    </details>
  );
}

/** A rule with its thresholds, and its documentation on demand. */
function CheckedRule({ rule: { code, name, about, thresholds } }: { rule: Rule }) {
  const [open, setOpen] = useState(false);
  const query = useAnswer(open ? "rule" : undefined, { code });
  return (
    <>
      {transport.kind === "report" ? code : <button type="button" class="link" aria-expanded={open} onClick={() => setOpen(!open)}>{code}</button>} {name}: {about}
      {thresholds.map(([setting, value, meaning]) => <div class="quiet" key={setting}><code>{code}.{setting}</code> = {value}: {meaning}</div>)}
      {open && <Shown query={query}>{({ document }) => <pre tabIndex={0} role="region" aria-label={`Documentation of rule ${code}`}>{document.page}</pre>}</Shown>}
    </>
  );
}

function NotChecked({ rows }: { rows: readonly Row[] }) {
  if (rows.length === 0) return null;
  return (
    <details>
      <summary>{counted(rows.length, "rule")} not checked</summary>
      <ul>
        {rows.map((row) => (
          <li key={`${row.code}`}>{row.code} {row.name}: {row.missing}</li>
        ))}
      </ul>
    </details>
  );
}

/** Gain of a finding as text: time per step, or bytes at a device's peak. */
function gainOf(row: Row, step: number): { likely: string; share: string; bounds: string } | undefined {
  const number = (name: string) => (typeof row[name] === "number" ? (row[name] as number) : undefined);
  const time = number("gain_ns");
  if (time !== undefined) {
    const gain = { ns: time, low_ns: number("gain_low_ns") ?? 0, high_ns: number("gain_high_ns") ?? time };
    return { likely: duration(time), share: percent(time, step), bounds: boundsOf(gain, step, duration) };
  }
  const saved = number("gain_bytes");
  if (saved === undefined) return undefined;
  const [low, high] = [number("gain_low_bytes") ?? 0, bytes(number("gain_high_bytes") ?? saved)];
  return {
    likely: bytes(saved),
    share: `${(number("peak_percent") ?? 0).toFixed(1)} % of the peak of ${row.device}`,
    bounds: low > 0 ? `bounds ${bytes(low)} to ${high}` : `bounds 0 to ${high}`,
  };
}

/** A card of another page was opened, and the focus has not moved to the finding yet. */
let hasLeft = false;

/** A finding in a few lines; a click shows the rest. */
export function IssueCard({ row, at, step }: { row: Row; at: number; step: number }) {
  const gain = gainOf(row, step);
  const isHere = page.value === "issues";
  const isChosen = isHere && selection.value === `finding:${at}`;
  const open = () => {
    hasLeft = !isHere;
    change({ page: "issues", sel: isChosen ? "" : `finding:${at}` });
  };
  // Who came by a card of another page has the keyboard where that led.
  const arrive = (element: HTMLElement | null) => {
    if (!element || !isChosen || !hasLeft) return;
    hasLeft = false;
    element.focus();
  };
  return (
    <button type="button" class="card" ref={arrive} aria-expanded={isHere ? isChosen : undefined} onClick={open}>
      <span class="gain">
        {gain === undefined ? "–" : gain.likely}
        {gain !== undefined && <small> {gain.share}</small>}
      </span>
      <span class="what">
        <strong><Name text={sourceLocationOf(row)} lines={3} /></strong>
        <Name text={`${row.title}`} lines={4} />
        <small>
          <span aria-hidden="true">{area(`${row.area}`).icon} </span>
          {row.code} {row.name} · {row.area} · {row.confidence} confidence{row.ranks && ` · on rank ${`${row.ranks}`.replaceAll(" ", ", ")}`}
          {gain !== undefined && <> · {gain.bounds}</>}
        </small>
      </span>
    </button>
  );
}

/** File and line, or the best available location. */
export function sourceLocationOf(row: Row): string {
  if (row.file) return `${row.file}${row.line ? `:${row.line}` : ""}${row.function ? ` in ${row.function}` : ""}`;
  return [row.module, row.operator].filter(Boolean).join(", ") || "the whole run";
}

/** Source location of the edit, which may differ from that of the finding. */
export function changeOf(row: Row): string {
  if (!row.change_file) return sourceLocationOf(row);
  return sourceLocationOf({ file: row.change_file, line: row.change_line ?? null, function: row.change_function ?? null });
}

function Detail({ at, row, step }: { at: number; row: Row; step: number }) {
  const query = useAnswer("finding", { at, rank: rank.value });
  const detail = query.state === "ok" ? query.answer.document : undefined;
  return (
    <div class="detail">
      {row.advice && <p><strong>Fix:</strong> {row.advice}</p>}
      {changeOf(row) !== sourceLocationOf(row) && <p><strong>Change here:</strong> <Name text={changeOf(row)} lines={2} /></p>}
      <p class="quiet">
        Method of the estimate: {row.method}. {row.edit_labels && `What-if changes that the estimate simulates: ${row.edit_labels}. `}Evidence ({row.support}): {detail ? factsOf(detail) : row.evidence}. {row.cost && `Cost: ${row.cost}`}
      </p>
      <p class="bar">
        <Copy text={() => findingText(row, sourceLocationOf(row), step, detail)} />
        <InFlame row={row} />
      </p>
      <Shown query={query}>
        {({ document }) => (
          <>
            {document.excerpt && <Excerpt excerpt={document.excerpt} />}
            {document.example && (
              <div class="columns">
                <figure><figcaption>Before</figcaption><pre>{document.example.before}</pre></figure>
                <figure><figcaption>After</figcaption><pre>{document.example.after}</pre></figure>
              </div>
            )}
            <p class="quiet">{document.why}</p>
            {first(document) !== undefined && <Gap event={first(document)!} of={document.rank === null ? undefined : `${document.rank}`} />}
            <Events detail={document} />
            {document.page && (
              <details class="rule">
                <summary>Full description of the rule: false positives, required data, settings</summary>
                <pre tabIndex={0} role="region" aria-label={`Rule ${row.code}`}>{document.page}</pre>
              </details>
            )}
          </>
        )}
      </Shown>
      <NoProblem row={row} />
    </div>
  );
}

/** Shows the frames that a finding is about. */
function InFlame({ row }: { row: Row }) {
  const name = row.function ?? row.operator;
  if (!name) return null;
  const frame = selOf({ name: `${name}`, ...(row.function && row.file ? { file: `${row.file}`, line: Number(row.line ?? 0) } : {}) });
  return (
    <button type="button" onClick={() => changeCallView({ page: "flame", color: "finding", find: `${name}`, shape: "", of: "", sel: frame })}>
      Show in the flame graph
    </button>
  );
}

/** Ways to suppress a finding, as lines to copy. The page writes no files. */
function NoProblem({ row }: { row: Row }) {
  const comment = `# stackline: ignore[${row.code}]`;
  const line = `${row.code}${row.file ? ` ${row.file}` : ""}`;
  return (
    <details>
      <summary>Ignore this finding</summary>
      <p>To hide this finding in <code>stackline findings</code>, use one of these:</p>
      <ul>
        {row.file && row.line && (
          <li>
            the comment <code>{comment}</code> in {row.file}, at the end of line {row.line} or on a separate line above it <Copy title="Copy the comment" text={() => comment} />
          </li>
        )}
        <li>
          the line <code>{line}</code> in a file that you pass with <code>stackline findings --ignore FILE</code> <Copy title="Copy the line" text={() => line} />
        </li>
      </ul>
    </details>
  );
}

/** The first event that shows a finding, if it lasts. */
const first = ({ events }: FindingDetail): number | undefined => events.find(([, , , , dur]) => dur > 0)?.[0];

function Events({ detail }: { detail: FindingDetail }) {
  const [most, setMost] = useState(FEW);
  if (detail.events.length === 0) return null;
  const listed = detail.events.length;
  const of = detail.rank === null ? {} : { rank: `${detail.rank}` };
  return (
    <details open>
      <summary>{detail.rank === null ? `${counted(detail.events_total, "event")} of this finding` : `${counted(detail.events_total, "event")} of this finding on rank ${detail.rank}`}{detail.events_total > listed && ` (the list has the first ${count(listed)} events)`}</summary>
      <ul class="events">
        {detail.events.slice(0, most).map(([event, name, kind, start, dur]) => (
          <li key={event}>
            <button type="button" class="link" onClick={() => change({ page: "timeline", sel: `event:${event}`, ...of, ...placeAround(start, dur) })}>
              <Name text={name} />
            </button>{" "}
            <span class="quiet">{kind.replaceAll("_", " ")}, {duration(dur)}</span>
          </li>
        ))}
      </ul>
      {listed > most && <button type="button" onClick={() => setMost(listed)}>{counted(listed - most, "more event")}</button>}
      {listed <= most && detail.events_total > listed && <p class="quiet">Not listed: {counted(detail.events_total - listed, "more event")} of this finding; find them in the timeline or by search.</p>}
    </details>
  );
}

/** Events that are listed before one asks for more. */
const FEW = 12;
