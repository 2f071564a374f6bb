/** What somebody may have meant who looked for a name that nothing has. */

import { useAnswer } from "../answers";
import { steps } from "../filter";
import { fromReport } from "../search";
import { rank, transport } from "../state";
import type { Calls, SearchAnswer } from "../types";
import { Name } from "./name";

/** Names that come near to a text; none while it is not known, and where one holds the text. */
function useNearest(text: string): readonly string[] {
  const isReport = transport.kind === "report";
  const wanted = text.trim();
  const found = useAnswer<SearchAnswer>(!isReport && wanted !== "" ? "search" : undefined, { text: wanted, rank: rank.value, steps: steps() });
  const calls = useAnswer<Calls>(isReport && wanted !== "" ? "calls" : undefined, { shape: "flat", steps: steps() });
  if (isReport) return calls.state === "ok" ? fromReport(calls.answer, wanted).nearest : [];
  return found.state === "ok" ? found.answer.document.nearest : [];
}

/** Offers the nearest names, each to be chosen. */
export function Nearest({ text, choose }: { text: string; choose: (name: string) => void }) {
  const names = useNearest(text);
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
