/** Suggested names for a search without a match. */

import { useAnswer } from "../answers";
import { steps } from "../filter";
import { fromReport } from "../search";
import { rank, transport } from "../state";
import type { SearchAnswer } from "../generated/answers";
import { Name } from "./name";

/** Search results over all names; undefined while loading. A report searches its own data. */
export function useSearch(text: string): SearchAnswer | undefined {
  const isReport = transport.kind === "report";
  const searchText = text.trim();
  const found = useAnswer(!isReport && searchText !== "" ? "search" : undefined, { text: searchText, rank: rank.value, steps: steps() });
  const calls = useAnswer(isReport && searchText !== "" ? "calls" : undefined, { shape: "flat", steps: steps() });
  if (isReport) return calls.state === "ok" ? fromReport(calls.answer, searchText) : undefined;
  return found.state === "ok" ? found.answer.document : undefined;
}

/** Offers the nearest names, each to be chosen. */
export function Nearest({ text, choose }: { text: string; choose: (name: string) => void }) {
  const names = useSearch(text)?.nearest ?? [];
  if (names.length === 0) return null;
  return (
    <span class="nearest">
      {" "}Nearest:{" "}
      {names.map((name, at) => (
        <span key={name}>
          {at > 0 && ", "}
          <button type="button" class="link" onClick={() => choose(name)}><Name text={name} /></button>
        </span>
      ))}
    </span>
  );
}
