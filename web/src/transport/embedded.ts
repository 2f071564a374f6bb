/** Answers embedded in the page, each as base64 of gzip. */

import { commandOf } from "../command";
import type { Meta } from "../generated/answers";
import { decode } from "./decode";
import { type AnswerTo, type Arguments, key, type QueryName, Refused, type Transport } from "./index";

interface Embedded {
  readonly answers: Readonly<Record<string, [ok: boolean, packed: string]>>;
  /** Omitted data as text. */
  readonly left_out: string | null;
}

/** The transport of a report; none if this page is no report. */
export function embedded(): Transport | undefined {
  const text = document.getElementById("answers")?.textContent?.trim();
  if (!text) {
    return undefined;
  }
  const { answers, left_out } = JSON.parse(text) as Embedded;
  const run = async (): Promise<Pick<Meta, "name" | "baseline">> => {
    const meta = answers[key("meta")];
    return meta?.[0] ? decode<Meta>(await unpack(meta[1])).document : { name: "RUN", baseline: null };
  };
  return {
    kind: "report",
    async request<Q extends QueryName>(name: Q, args: Arguments = {}) {
      const found = answers[key(name, args)];
      if (found === undefined) {
        throw new Refused(absent(await run(), left_out), "pruned");
      }
      const [ok, packed] = found;
      const bytes = await unpack(packed);
      if (!ok) {
        throw new Refused(new TextDecoder().decode(bytes), "lacks");
      }
      return decode(bytes) as AnswerTo<Q>;
    },
  };
}

/** Message for data that a report lacks, with the command to see it. */
export function absent(run: Pick<Meta, "name" | "baseline">, leftOut: string | null): string {
  const pruned = leftOut === null ? "" : ` These parts of the run did not fit into the report file: ${leftOut}. A larger --max-size includes more of them.`;
  return `The report file does not contain this view. Reports leave out some metrics, filtered views, views that start at a selected frame, and details of single events.${pruned} To see it, open the run: ${commandOf(run)}`;
}

async function unpack(packed: string): Promise<ArrayBuffer> {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}
