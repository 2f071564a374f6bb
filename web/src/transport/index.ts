/**
 * Source of answers. A page asks by name and arguments, and does not know its source: the server it came from, or the
 * file that contains it.
 */

import type { ReadonlySignal } from "@preact/signals";
import type { Answers, Columns } from "../generated/answers";
import type { Answer } from "./decode";
import { embedded } from "./embedded";
import { http } from "./http";
import { watchPresence } from "./presence";

export type Arguments = Readonly<Record<string, string | number | undefined>>;

/** Names of queries. */
export type QueryName = keyof Answers;

/** Answer to a query. Its name determines the types of document and columns. */
export type AnswerTo<Q extends QueryName> = Answer<Answers[Q], Q extends keyof Columns ? Columns[Q] : {}>;

export interface Transport {
  /** Kind of transport: a report cannot answer all queries. */
  readonly kind: "server" | "report";
  request<Q extends QueryName>(name: Q, args?: Arguments): Promise<AnswerTo<Q>>;
}

/** Transport with a cache of answers. */
export interface CachingTransport extends Transport {
  /** The answer to a question, by its `key`, if it is there already. */
  known(question: string): Answer | undefined;
  /** State of an offline server, which is polled until it answers. */
  readonly offline: ReadonlySignal<"" | "silent" | "other">;
  /** Number of reconnections; failed queries are then repeated. */
  readonly back: ReadonlySignal<number>;
  /** Asks now whether it is there again. */
  readonly retry: () => void;
}

/** A question that has no answer: `message` says why, in a sentence. */
export class Refused extends Error {
  constructor(
    message: string,
    /** Kind of refusal: missing data, an invalid query, or no answer. */
    readonly reason: "lacks" | "wrong" | "offline" | "pruned",
  ) {
    super(message);
  }
}

/** Arguments as one text: the same as the server makes of them. */
export function key(name: string, args: Arguments = {}): string {
  const given = Object.entries(args).filter(([, value]) => value !== undefined && value !== "");
  given.sort(([a], [b]) => (a < b ? -1 : 1));
  return `${name}\n${given.map(([argument, value]) => `${argument}=${value}\n`).join("")}`;
}

/** Transport of this page, with a cache of answers. */
export function connect(): CachingTransport {
  const carrier = embedded() ?? http();
  const cache = new Map<string, { answer: Promise<Answer>; known?: Answer; bytes: number }>();
  let bytes = 0;
  const presence = watchPresence(carrier, () => cache.get(key("meta"))?.known);
  const forget = (question: string) => {
    bytes -= cache.get(question)?.bytes ?? 0;
    cache.delete(question);
  };
  return {
    kind: carrier.kind,
    known: (question) => cache.get(question)?.known,
    offline: presence.offline,
    back: presence.back,
    retry: presence.retry,
    request<Q extends QueryName>(name: Q, args: Arguments = {}): Promise<AnswerTo<Q>> {
      const question = key(name, args);
      const before = cache.get(question);
      if (before !== undefined) {
        // What was asked last goes last.
        cache.delete(question);
        cache.set(question, before);
        return before.answer as Promise<AnswerTo<Q>>;
      }
      const answer = carrier.request(name, args);
      const entry: { answer: Promise<Answer>; known?: Answer; bytes: number } = { answer: answer as Promise<Answer>, bytes: 0 };
      cache.set(question, entry);
      answer.then(
        (known) => {
          entry.known = known as Answer;
          entry.bytes = Object.values(entry.known.columns).reduce((sum, column) => sum + column.byteLength, MIN_ENTRY_BYTES);
          bytes += entry.bytes;
          for (const oldest of cache.keys()) {
            if (bytes <= MAX_CACHED_BYTES) break;
            forget(oldest);
          }
        },
        // What failed may be asked again: the server may have come back.
        (error: unknown) => {
          cache.delete(question);
          if (error instanceof Refused && error.reason === "offline") presence.lost();
        },
      );
      return answer;
    },
  };
}

/** Bytes of cached answers, and the minimum size of each. */
const MAX_CACHED_BYTES = 64 << 20;
const MIN_ENTRY_BYTES = 4096;
