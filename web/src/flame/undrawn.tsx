/** Search matches without a box: too narrow to draw, or without the metric. */

import { amount, count } from "../format";
import { marked } from "../parts/report-limits";
import { Name } from "../parts/name";
import { Nearest, useSearch } from "../parts/nearest";
import { framesWith } from "../search";
import { change, changeCallView, state } from "../state";
import { useKeys } from "../timeline/keys";
import type { Calls, Label, SearchAnswer } from "../generated/answers";
import { fromHere } from "./question";

/** Names that are listed. */
const MOST = 4;

const callers = ({ kind, name, file }: SearchAnswer["frames"][number]) => fromHere("callers", [kind, name, "", file, 0, name] satisfies Label);

/** Names them, each with a way to its callers, where it is as wide as the picture; N takes the first. Where there are none, the names that come nearest. */
export function TooNarrowMatches({ text, document: { title: of, metrics, before } }: { text: string; document: Calls }) {
  const answer = useSearch(text);
  const frames = answer ? framesWith(text, answer) : [];
  useKeys((key) => {
    if ((key !== "n" && key !== "N") || !frames[0]) return false;
    callers(frames[0]);
    return true;
  });
  if (frames.length === 0) return <Nearest text={text} choose={(name) => change({ find: name }, "replace")} />;
  const isFlat = state.value.shape === "flat";
  const value = isFlat ? `self ${of}` : of;
  // What is searched is measured by the first metric of the run, whatever is shown.
  const by = before === null ? ` ${metrics[0]?.[1]}` : "";
  return (
    <span class="nearest">
      {frames.length === 1 ? `1 matching frame is too narrow to draw, or has no ${value}.` : `${count(frames.length)} matching frames are too narrow to draw, or have no ${value}.`} Show the callers of{" "}
      {frames.slice(0, MOST).map((frame, at) => (
        <span key={`${frame.name} ${frame.file}`}>
          {at > 0 && ", "}
          <button type="button" class="link" {...marked()} onClick={() => callers(frame)}><Name text={frame.name} lines={1} /></button> ({amount(frame.inclusive, frame.unit)}{by})
        </span>
      ))}
      {!isFlat && <>, or the <button type="button" class="link" onClick={() => changeCallView({ shape: "flat", of: "", here: "" })}>flat list</button></>}
      ; N selects the first.
    </span>
  );
}
