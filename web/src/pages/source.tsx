/** Source page: files by cost, and one file with the costs of its lines. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useAnswer } from "../answers";
import { amount, counted } from "../format";
import { steps } from "../filter";
import { selOf } from "../flame/chosen";
import { EditorLink } from "../parts/editor-link";
import { Changed } from "../parts/excerpt";
import { GUESSED } from "../parts/guessed";
import { SourceDirectoryHint } from "../parts/folders";
import { Shown } from "../parts/notice";
import { type Folder, foldersOf } from "../source/folders";
import { highlighted } from "../source/highlight";
import { change, changeCallView, rank, state } from "../state";
import type { SourceFile, SourceFiles } from "../generated/answers";

export function Source() {
  const { file } = state.value;
  const files = useAnswer("source", { rank: rank.value, steps: steps() });
  return (
    <section aria-labelledby="source-title">
      <h1 id="source-title">Source</h1>
      {file ? <File name={file} /> : <Shown query={files}>{({ document }) => "files" in document && <Files {...document} />}</Shown>}
    </section>
  );
}

function Files({ metrics, files }: SourceFiles) {
  const [most, setMost] = useState(FEW);
  if (files.length === 0) {
    return <p class="notice">The run contains no source file names. Record with torch.profiler and with_stack=True, or with stackline record -- python …</p>;
  }
  const costs = files.filter(({ exclusive }) => exclusive.some((value) => value > 0));
  const others = files.filter((row) => !costs.includes(row));
  return (
    <>
      {costs.length > 0 ? <FileTable metrics={metrics} files={costs} /> : <p class="notice">These files have no measured costs in the selected steps. Select other steps, or the whole run.</p>}
      {others.length > 0 && (
        <details open={costs.length === 0}>
          <summary>{counted(others.length, "file")} without costs</summary>
          <ul class="events">
            {others.slice(0, most).map(({ file }) => <li key={file}><FileLink file={file} /></li>)}
          </ul>
          {others.length > most && <button type="button" onClick={() => setMost(others.length)}>{counted(others.length - most, "more file")}</button>}
        </details>
      )}
    </>
  );
}

/** Files that are listed before one asks for more. */
const FEW = 300;

const FileLink = ({ file }: { file: string }) => <button type="button" class="link" onClick={() => change({ file, line: "" })}>{file}</button>;

interface Level {
  readonly folder: Folder;
  readonly metrics: SourceFiles["metrics"];
  readonly whole: number;
}

/** Costs of files as text. */
const Cost = ({ of, metrics }: { of: readonly number[]; metrics: SourceFiles["metrics"] }) => (
  <span class="quiet">{of.map((value, at) => (value > 0 ? `${amount(value, metrics[at]!.unit)} ${metrics[at]!.title}` : "")).filter(Boolean).join(", ")}</span>
);

/** Tree of directories with costs. */
function FolderTree({ folder, metrics, whole }: Level) {
  const [most, setMost] = useState(FEW);
  return (
    <ul class="folders">
      {folder.folders.map((one) => <li key={one.name}><OneFolder folder={one} metrics={metrics} whole={whole} /></li>)}
      {folder.files.slice(0, most).map(({ file, exclusive }) => (
        <li key={file}>
          <button type="button" class="link" title={file} onClick={() => change({ file, line: "" })}>{file.slice(file.lastIndexOf("/") + 1)}</button> <Cost of={exclusive} metrics={metrics} />
        </li>
      ))}
      {folder.files.length > most && <li><button type="button" onClick={() => setMost(folder.files.length)}>{counted(folder.files.length - most, "more file")}</button></li>}
    </ul>
  );
}

/** A folder; those that cost most are open. The content of a closed one is created once it is opened. */
function OneFolder({ folder, metrics, whole }: Level) {
  const [open, setOpen] = useState((folder.exclusive[0] ?? 0) >= whole / 10);
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{folder.name === "/" ? "/" : `${folder.name}/`} <Cost of={folder.exclusive} metrics={metrics} /></summary>
      {open && <FolderTree folder={folder} metrics={metrics} whole={whole} />}
    </details>
  );
}

function FileTable({ metrics, files }: SourceFiles) {
  const [most, setMost] = useState(FEW);
  const total = (values: readonly number[]) => values[0] ?? 0;
  const isTree = state.value.folders === "1";
  const tree = useMemo(() => (isTree ? foldersOf(files) : undefined), [isTree, files]);
  const button = <p class="bar"><button type="button" aria-pressed={isTree} onClick={() => change({ folders: isTree ? "" : "1" }, "replace")}>By folder</button></p>;
  if (tree) return <>{button}<FolderTree folder={tree} metrics={metrics} whole={total(tree.exclusive)} /></>;
  return (
    <>
      {button}
      <div class="scroll whole" tabIndex={0} role="region" aria-label="Files">
        <table>
          <caption>Files, ordered by the total self cost of their lines</caption>
          <thead>
            <tr>
              <th scope="col">File</th>
              {metrics.map((metric) => <th scope="col" class="number" key={metric.name}>{metric.title}</th>)}
            </tr>
          </thead>
          <tbody>
            {files.toSorted((a, b) => total(b.exclusive) - total(a.exclusive)).slice(0, most).map((row) => (
              <tr key={row.file}>
                <td><FileLink file={row.file} /></td>
                {row.exclusive.map((value, at) => <td class="number" key={at}>{value === 0 ? "" : amount(value, metrics[at]!.unit)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {files.length > most && <button type="button" onClick={() => setMost(files.length)}>{counted(files.length - most, "more file")}</button>}
    </>
  );
}

function File({ name }: { name: string }) {
  const query = useAnswer("source", { file: name, rank: rank.value, steps: steps() });
  return (
    <>
      <p class="bar">
        <button type="button" onClick={() => change({ file: "", line: "" })}>All files</button>
        <strong>{name}</strong>
        <EditorLink file={query.state === "ok" && "file" in query.answer.document ? query.answer.document.file : name} line={Number(state.value.line ?? 1)} />
      </p>
      <Shown query={query}>
        {({ document }) => "file" in document && (
          <>
            <Line name={name} document={document} />
            <Lines document={document} />
          </>
        )}
      </Shown>
    </>
  );
}

/** Costs of the selected line by function, with a link to the flame graph. */
function Line({ name, document }: { name: string; document: SourceFile }) {
  const chosen = Number(state.value.line || 0);
  const costs = document.costs.flatMap(({ metric, lines }) => lines.filter(([line]) => line === chosen).map(([, fn, inclusive, exclusive]) => ({ metric, fn, inclusive, exclusive })));
  if (chosen === 0) return <p class="quiet">Click a line number to see its costs and open the flame graph.</p>;
  return (
    <div class="status-line" aria-live="polite">
      Line {chosen}: {costs.length === 0 ? "no cost was measured on this line." : costs.map(({ metric, fn, inclusive, exclusive }) => `${fn || "the file"} ${amount(inclusive, metric.unit)} of ${metric.title}, self ${amount(exclusive, metric.unit)}`).join("; ")}{" "}
      {costs.length > 0 && <button type="button" onClick={() => changeCallView({ page: "flame", shape: "", of: "", find: `${name}:${chosen}`, sel: selOf({ name: costs[0]!.fn, file: name, line: chosen }) })}>Show in the flame graph</button>}
    </div>
  );
}

function Lines({ document }: { document: SourceFile }) {
  const hot = useRef<HTMLTableRowElement>(null);
  const line = Number(state.value.line ?? 0);
  useEffect(() => {
    if (hot.current && !isSeen(hot.current)) hot.current.scrollIntoView({ block: "center" });
  }, [line, document]);
  const costs = document.costs.map(({ metric, lines }) => ({ metric, most: Math.max(1, ...lines.map((cost) => cost[2])), by: sums(lines), guesses: guessesOf(lines) }));
  if (document.text === null) {
    return (
      <>
        <p class="notice">Source not available: {document.file} is missing, or outside the directories that Stackline may read (--source-root DIR adds one).<SourceDirectoryHint file={document.file} /> Lines with costs:</p>
        <ul>
          {document.costs[0]?.lines.map(([at, fn, inclusive]) => <li key={`${at} ${fn}`}>{at} {fn}: {amount(inclusive, document.costs[0]!.metric.unit)}</li>)}
        </ul>
      </>
    );
  }
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Source text">
      <Changed changed={document.changed} />
      {costs.some(({ guesses }) => guesses.size > 0) && <p class="quiet">{GUESSED}</p>}
      <table class="source">
        <thead>
          <tr>
            {costs.map(({ metric }) => <th scope="col" class="number" key={metric.name}>{metric.title}</th>)}
            <th scope="col" class="number">Line</th>
            <th scope="col">Source, {counted(document.text.split("\n").length, "line")}</th>
          </tr>
        </thead>
        <tbody>
          {highlighted(document.text, document.file).map((parts, at) => (
            <tr key={at} ref={at + 1 === line ? hot : null} class={at + 1 === line ? "hot" : undefined}>
              {costs.map(({ metric, most, by, guesses }) => {
                const value = by.get(at + 1) ?? 0;
                return <td key={metric.name} class="number heat" style={{ "--heat": value / most }}>{value > 0 ? `${guesses.has(at + 1) ? "≈ " : ""}${amount(value, metric.unit)}` : ""}</td>;
              })}
              <td class="number quiet">
                {costs.some(({ by }) => by.has(at + 1)) ? <button type="button" class="link" aria-label={`Line ${at + 1}`} onClick={() => change({ line: `${at + 1}` }, "replace")}>{at + 1}</button> : at + 1}
              </td>
              <td><code>{parts}</code></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Check if a row is visible in its box and the window. */
function isSeen(row: HTMLElement): boolean {
  const box = row.closest(".scroll")?.getBoundingClientRect();
  const { top, bottom } = row.getBoundingClientRect();
  return box !== undefined && top >= Math.max(box.top, 0) && bottom <= Math.min(box.bottom, innerHeight);
}

/** Up to this part of a line's time may be guessed without saying so. */
const LITTLE = 0.05;

/** Lines of whose time more than a little was put there by a guess. */
function guessesOf(lines: SourceFile["costs"][number]["lines"]): ReadonlySet<number> {
  return new Set(lines.filter(([, , inclusive, , guessed]) => guessed > inclusive * LITTLE).map(([line]) => line));
}

function sums(lines: SourceFile["costs"][number]["lines"]): Map<number, number> {
  const by = new Map<number, number>();
  for (const [line, , inclusive] of lines) by.set(line, (by.get(line) ?? 0) + inclusive);
  return by;
}
