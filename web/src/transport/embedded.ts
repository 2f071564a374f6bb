/** Answers that stand in the page itself, each as base64 of gzip. */

import { decode } from "./decode";
import { type Arguments, key, Refused, type Transport } from "./index";

interface Embedded {
  readonly answers: Readonly<Record<string, [ok: boolean, packed: string]>>;
  /** What did not fit, in words. */
  readonly left_out: string | null;
}

/** The transport of a report; none if this page is no report. */
export function embedded(): Transport | undefined {
  const text = document.getElementById("answers")?.textContent?.trim();
  if (!text) {
    return undefined;
  }
  const { answers, left_out } = JSON.parse(text) as Embedded;
  return {
    kind: "report",
    async ask<D>(name: string, args: Arguments = {}) {
      const found = answers[key(name, args)];
      if (found === undefined) {
        const pruned = left_out === null ? "" : ` ${left_out} did not fit into it: stackline report --html with a larger --max-size keeps more.`;
        throw new Refused(
          `This report has no answer to that: a file holds what is asked most, not what a text filters, nor each event.${pruned} For everything: stackline view on the run itself.`,
          "pruned",
        );
      }
      const [ok, packed] = found;
      const bytes = await unpack(packed);
      if (!ok) {
        throw new Refused(new TextDecoder().decode(bytes), "lacks");
      }
      return decode<D>(bytes);
    },
  };
}

async function unpack(packed: string): Promise<ArrayBuffer> {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}
