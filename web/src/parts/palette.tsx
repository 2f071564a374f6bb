/** Search over all names: pages, findings, frames, kernels and other events, files. */

import { useEffect, useState } from "preact/hooks";
import { useAnswer, useLast } from "../answers";
import { rank, transport } from "../state";
import { steps } from "../filter";
import { useFindings } from "../findings";
import { entriesOf, type Entry, fromReport } from "../search";
import { close, Dialog } from "./dialog";
import { Nearest } from "./nearest";

/** Delay between the last keystroke and the search, in ms. */
const PAUSE_MS = 120;

export function Palette() {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const entries = useEntries(text);
  const at = Math.min(chosen, entries.length - 1);
  const choose = (entry: Entry | undefined) => {
    if (!entry) return;
    close();
    entry.open();
  };
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setChosen((at + step + entries.length) % Math.max(entries.length, 1));
    }
    if (event.key === "Enter") choose(entries[at]);
  };
  return (
    <Dialog title="Search" class="palette">
      <input
        type="text"
        role="combobox"
        aria-label="Search all names"
        aria-expanded={entries.length > 0}
        aria-controls="found"
        aria-activedescendant={entries.length > 0 ? `found-${at}` : undefined}
        placeholder="Name of a page, finding, function, kernel or file"
        autocomplete="off"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={press}
      />
      <ul id="found" role="listbox" aria-label="Found">
        {entries.map((entry, index) => (
          <Row key={`${entry.sort} ${entry.name} ${index}`} entry={entry} index={index} isChosen={index === at} choose={choose} />
        ))}
      </ul>
      <p class="quiet" role="note">{entries.length === 0 ? <>No matching name.<Nearest text={text} choose={setText} /></> : "Arrows select, Enter opens, Esc closes."}</p>
    </Dialog>
  );
}

interface RowProps {
  readonly entry: Entry;
  readonly index: number;
  readonly isChosen: boolean;
  readonly choose: (entry: Entry) => void;
}

function Row({ entry, index, isChosen, choose }: RowProps) {
  return (
    <li
      id={`found-${index}`}
      role="option"
      aria-selected={isChosen}
      ref={(element) => {
        if (isChosen) element?.scrollIntoView({ block: "nearest" });
      }}
      onClick={() => choose(entry)}
    >
      <span class="sort">{entry.sort}</span>
      <span class="name" title={entry.name}>{entry.name}</span>
      <span class="quiet">{entry.more}</span>
    </li>
  );
}

/** Entries whose name contains a text. A report searches its own data. */
function useEntries(text: string): readonly Entry[] {
  const [searchText, setSearchText] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setSearchText(text.trim()), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const isReport = transport.kind === "report";
  const findings = useFindings(rank.value);
  const found = useAnswer(!isReport && searchText !== "" ? "search" : undefined, { text: searchText, rank: rank.value, steps: steps() });
  const last = useLast(found)?.document;
  // All frames of a report are searched; of a server's the few groups tell by what metric frames are found.
  const needsCalls = isReport || (last?.frames.length ?? 0) > 0;
  const calls = useAnswer(needsCalls ? "calls" : undefined, isReport ? { shape: "flat", steps: steps() } : { shape: "flat", by: "phase", least: "0", steps: steps(), rank: rank.value });
  const rows = findings.state === "ok" ? findings.answer.document.tables.findings.rows : [];
  const answer = isReport ? (calls.state === "ok" ? fromReport(calls.answer, text) : undefined) : searchText === "" ? undefined : last;
  return entriesOf(text, rows, answer, calls.state === "ok" ? calls.answer.document.title : "");
}
