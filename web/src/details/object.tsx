/** Details of a memory object and of a memory call. */

import { useAnswer } from "../answers";
import { amount, bytes, count, counted, duration } from "../format";
import { rangeAround, callTitle, numbersOf, toggled } from "../memory/layout";
import { savedText } from "../memory/suggestions";
import type { CallBrief, CallDetail, ObjectDetail, PlaceOf } from "../generated/answers";
import { Copy } from "../parts/copy";
import { Around } from "../parts/excerpt";
import { Shown } from "../parts/notice";
import { change, rank, state } from "../state";

export function ObjectDetails({ object }: { object: string }) {
  const query = useAnswer("memory-object", { object, rank: rank.value });
  return <Shown query={query}>{({ document }) => <Known detail={document} />}</Shown>;
}

const show = (sel: string) => change({ sel }, "replace");

/** A call in words: `kernel gemm (call 12, train.py:9)`. */
export const callText = ({ call, kind, name, place }: CallBrief): string => `${callTitle(kind, name)} (call ${call}${place.text ? `, ${place.text}` : ""})`;

function Call({ title, call, none }: { title: string; call: CallBrief | null; none: string }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd>{call ? <button type="button" class="link" onClick={() => show(`call:${call.call}`)}>{callText(call)}</button> : none}</dd>
    </div>
  );
}

function Known({ detail }: { detail: ObjectDetail }) {
  const texts = [["Kind", detail.kind], ["Type", detail.dtype], ["Shape", detail.shape], ["Module", detail.module], ["Operator", detail.operator], ["Pool", detail.pool]] as const;
  // Of the uses nothing is said where nobody saw them.
  const never = detail.has_accesses ? "none recorded" : "not recorded";
  return (
    <>
      <h3 class="long">{detail.name}</h3>
      <p class="bar"><Copy text={() => objectText(detail)} /> <button type="button" onClick={() => change(lifeOf(detail), "replace")}>Zoom to the object's lifetime</button></p>
      <dl class="pairs">
        <div><dt>Bytes</dt><dd title={`${detail.bytes}`}>{detail.requested === detail.bytes ? bytes(detail.bytes) : `${bytes(detail.bytes)} allocated for a request of ${bytes(detail.requested)}`}</dd></div>
        <div><dt>Device, stream</dt><dd>{detail.device}, {detail.stream}</dd></div>
        {texts.filter(([, text]) => text && text !== "unknown").map(([title, text]) => <div key={title}><dt>{title}</dt><dd>{text}</dd></div>)}
        <Call title="Allocated by" call={detail.allocated} none="before the recording began" />
        <Call title="First use" call={detail.first_use} none={never} />
        <Call title="Last use" call={detail.last_use} none={never} />
        <Call title="Freed by" call={detail.freed} none={detail.saw_end ? "never" : "not in the recording"} />
        {detail.has_accesses && <div><dt>Uses</dt><dd>{count(detail.uses)}{detail.fills > 0 && `; the program filled the object ${counted(detail.fills, "time")}`} ({detail.evidence})</dd></div>}
      </dl>
      <Patterns detail={detail} />
      <Advice detail={detail} />
      <SourceLocation place={detail.place} />
      <Path path={detail.path} />
      <Accesses detail={detail} />
    </>
  );
}

function Patterns({ detail: { patterns, has_accesses } }: { detail: ObjectDetail }) {
  if (patterns.length === 0) return has_accesses ? <p class="quiet">No pattern of wasted memory was found.</p> : <p class="quiet">No memory accesses were recorded, so no waste other than leaks can be found.</p>;
  return (
    <>
      <h3>Waste</h3>
      <ul class="events">
        {patterns.map((found, at) => (
          <li key={at}>
            <strong>{found.pattern}</strong> ({found.certainty}).
            {found.from !== null && found.to !== null && ` Memory is wasted from memory call ${count(found.from)} to memory call ${count(found.to)}.`}
            {found.distance !== null && ` In the dependency graph of all calls, these two calls are ${counted(found.distance, "level")} apart.`}
            {` During the waste, ${counted(found.kernels, "kernel")} ${found.kernels === 1 ? "runs" : "run"}.`}
            {found.times > 1 && ` This pattern was found ${count(found.times)} times.`}
            {found.other && <> This object could reuse the memory of the object <button type="button" class="link" onClick={() => show(`object:${found.other![0]}`)}>{found.other[1]}</button>.</>}
          </li>
        ))}
      </ul>
    </>
  );
}

function Advice({ detail: { suggestions } }: { detail: ObjectDetail }) {
  if (suggestions.length === 0) return null;
  const numbers = numbersOf(state.value.apply);
  return (
    <>
      <h3>Suggestions</h3>
      <ul class="events">
        {suggestions.map((one, at) => (
          <li key={at}>
            {one.what}: {one.peaks.map(savedText).join("; ")} ({one.certainty}).
            {one.copy_ns > 0 && ` One copy of the object takes ${amount(one.copy_ns, "ns")} at an assumed 25 GB/s.`}
            {one.cost_ns !== null && ` This change adds ${amount(one.cost_ns, "ns")} to the run time.`}{" "}
            <label>
              <input type="checkbox" checked={numbers.includes(one.number)} onChange={() => change({ apply: toggled(numbers, one.number) })} />{" "}
              {one.shared > 1 ? `apply suggestion ${one.number} to all ${one.shared} objects that are allocated on this line` : `apply suggestion ${one.number}`}
            </label>
          </li>
        ))}
      </ul>
    </>
  );
}

const SourceLocation = ({ place }: { place: PlaceOf }) => (place.file !== null && place.line !== null ? <Around file={place.file} line={place.line} /> : null);

function Path({ path }: { path: ObjectDetail["path"] }) {
  if (path.length === 0) return <p class="quiet">The call path is unknown.</p>;
  return (
    <details>
      <summary>Call path, {counted(path.length, "frame")}</summary>
      <ol class="events">
        {path.map(([fn, file, line], at) => <li class="long" key={at}>{fn ?? "?"}{file && ` (${file}${line > 0 ? `:${line}` : ""})`}</li>)}
      </ol>
    </details>
  );
}

function Accesses({ detail: { accesses, accesses_all } }: { detail: ObjectDetail }) {
  if (accesses.length === 0) return null;
  return (
    <details>
      <summary>{counted(accesses_all, "access", "accesses")}</summary>
      <ul class="events">
        {accesses.map(({ call, mode }, at) => (
          <li key={at}>{mode}: <button type="button" class="link long" onClick={() => show(`call:${call.call}`)}>{callText(call)}</button></li>
        ))}
      </ul>
      {accesses_all > accesses.length && <p class="quiet">and {count(accesses_all - accesses.length)} more</p>}
    </details>
  );
}

/** Lifetime of an object as parts of the address, with a margin of a tenth. */
function lifeOf({ life: [from, to] }: ObjectDetail): Record<"from" | "to", string> {
  const shown = rangeAround(from, to, { from: 0, to: Number.POSITIVE_INFINITY });
  return { from: `${shown.from}`, to: `${shown.to}` };
}

export function objectText(detail: ObjectDetail): string {
  const call = (title: string, of: CallBrief | null) => (of ? [`${title} ${callText(of)}`] : []);
  return [
    `${detail.name}: ${bytes(detail.bytes)} on ${detail.device}`,
    ...call("Allocated by", detail.allocated),
    ...call("First use:", detail.first_use),
    ...call("Last use:", detail.last_use),
    ...call("Freed by", detail.freed),
    ...detail.patterns.map((found) => `${found.pattern} (${found.certainty})`),
    ...detail.suggestions.map((one) => `${one.what}: ${one.peaks.map(savedText).join("; ")}`),
    ...(detail.path.length > 0 ? ["Call path:", ...detail.path.map(([fn, file, line]) => `  ${fn ?? "?"} (${file ?? "?"}:${line})`)] : []),
  ].join("\n");
}

export function CallDetails({ call }: { call: string }) {
  const query = useAnswer("memory-call", { call, rank: rank.value });
  return <Shown query={query}>{({ document }) => <KnownCall detail={document} />}</Shown>;
}

function KnownCall({ detail }: { detail: CallDetail }) {
  const { call, object, accesses, left_out } = detail;
  return (
    <>
      <h3 class="long">{callTitle(call.kind, call.name)}</h3>
      <p class="bar"><Copy text={() => `${callText(call)} on ${detail.stream}`} /></p>
      <dl class="pairs">
        <div><dt>Call</dt><dd>{count(call.call)}</dd></div>
        <div><dt>Device, stream</dt><dd>{detail.stream}</dd></div>
        {detail.start !== null && <div><dt>Start</dt><dd>{duration(detail.start)} after the first call</dd></div>}
        {detail.duration > 0 && <div><dt>Duration</dt><dd>{duration(detail.duration)}</dd></div>}
        {object && <div><dt>Object</dt><dd><button type="button" class="link" onClick={() => show(`object:${object[0]}`)}>{object[1]}</button>, {bytes(object[2])}</dd></div>}
      </dl>
      {detail.is_opaque && <p class="notice">Only a part of the memory accesses of this call is known.</p>}
      {accesses.length > 0 && (
        <>
          <h3>Accesses</h3>
          <ul class="events">
            {accesses.map((access, at) => (
              <li key={at}>{access.mode}: <button type="button" class="link" onClick={() => show(`object:${access.object}`)}>{access.name}</button>, {bytes(access.bytes)} <span class="quiet">({access.evidence})</span></li>
            ))}
          </ul>
          {left_out > 0 && <p class="quiet">and {count(left_out)} more</p>}
        </>
      )}
      <SourceLocation place={call.place} />
      <Path path={detail.path} />
    </>
  );
}
