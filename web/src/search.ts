/** Results of a search over all names, as entries that can be opened. */

import { selOf } from "./flame/chosen";
import { amount, counted, duration } from "./format";
import { nearest } from "./nearest";
import { change, changeCallView, PAGES } from "./state";
import { placeAround } from "./timeline/view";
import type { AnswerTo } from "./transport";
import type { Row, SearchAnswer } from "./generated/answers";

export interface Entry {
  /** Kind of the entry, for people. */
  readonly sort: string;
  readonly name: string;
  readonly more: string;
  readonly open: () => void;
}

/** Entries of one sort that are listed. */
const MOST = 12;
/** Names that are offered where none has a text. */
const NEAR = 5;

const holds = (text: string) => {
  const needle = text.trim().toLowerCase();
  return (name: string) => name.toLowerCase().includes(needle);
};

/** Entries for a text: pages and findings from loaded data, others from the server's answer, whose frames have a metric. */
export function entriesOf(text: string, findings: readonly Row[], answer: SearchAnswer | undefined, metric = ""): Entry[] {
  const has = holds(text);
  const pages = PAGES.filter(({ title }) => has(title)).map(({ id, title }): Entry => ({ sort: "page", name: title, more: "", open: () => change({ page: id }) }));
  const issues = findings
    .map((row, at): Entry => ({
      sort: "finding",
      name: `${row.code} ${row.title}`,
      more: typeof row.gain_ns === "number" ? `estimated gain ${duration(row.gain_ns)}` : "",
      open: () => change({ page: "issues", sel: `finding:${at}` }),
    }))
    .filter(({ name }) => has(name));
  if (!answer) return [...pages, ...issues.slice(0, MOST)];
  const frames = answer.frames.map((frame): Entry => ({
    sort: frame.kind,
    name: `${frame.name}${frame.file === "" ? "" : ` ${frame.file}`}`,
    more: `flame graph: ${amount(frame.inclusive, frame.unit)}${metric && ` ${metric}`}`,
    open: () => changeCallView({ page: "flame", shape: "", of: "", find: frame.name, sel: selOf(frame) }),
  }));
  const events = answer.names.map((event): Entry => ({
    sort: event.kind.replaceAll("_", " "),
    name: event.name,
    more: `timeline: ${counted(event.count, "event")}, ${duration(event.ns)} in total`,
    open: () => change({ page: "timeline", sel: `event:${event.event}`, ...placeAround(event.start, event.dur) }),
  }));
  const files = answer.files.map((file): Entry => ({ sort: "file", name: file, more: "", open: () => change({ page: "source", file, line: "" }) }));
  return [pages, issues, frames, events, files].flatMap((list) => list.slice(0, MOST));
}

/** The frames of an answer that have a text in their own name, those that take most first. */
export const framesWith = (text: string, { frames }: Pick<SearchAnswer, "frames">): SearchAnswer["frames"] => frames.filter(({ name }) => holds(text)(name));

/** Search results from the flat list of frames in a report. */
export function fromReport({ document, columns }: AnswerTo<"calls">, text: string): SearchAnswer {
  const has = holds(text);
  const sums = new Map<string, { kind: string; name: string; file: string; inclusive: number; unit: string }>();
  const { label, inclusive } = columns;
  for (let node = 1; node < label.length; node += 1) {
    const [kind, name, , file] = document.labels[label[node]!]!;
    if (text.trim() === "" || (!has(name) && !has(file))) continue;
    const key = `${kind} ${name} ${file}`;
    const known = sums.get(key);
    // Lines of one function, and inputs of one operator, are one name.
    sums.set(key, { kind, name, file, inclusive: (known?.inclusive ?? 0) + inclusive[node]!, unit: document.unit });
  }
  const frames = [...sums.values()].toSorted((a, b) => b.inclusive - a.inclusive);
  const near = frames.length === 0 ? nearest(text, document.labels.slice(1).flatMap(([, name, , file]) => [name, file]), NEAR) : [];
  return { text, names: [], frames, files: [...new Set(frames.map(({ file }) => file).filter((file) => file !== "" && has(file)))], left_out: 0, nearest: near };
}
