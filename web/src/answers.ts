/** Hook that asks a query and returns its state: loading, refused or answered. */

import { useEffect, useRef, useState } from "preact/hooks";
import { transport } from "./state";
import { type AnswerTo, type Arguments, key, type QueryName, Refused } from "./transport";

export type QueryState<A> =
  | { readonly state: "loading" }
  | { readonly state: "ok"; readonly answer: A }
  | { readonly state: "refused"; readonly error: Refused };

/** Asks; again when the question changes. Without a name nothing is asked. Known answers are available at once. */
export function useAnswer<Q extends QueryName>(name: Q | undefined, args: Arguments = {}): QueryState<AnswerTo<Q>> {
  const question = name === undefined ? "" : key(name, args);
  const [latest, setLatest] = useState<{ question: string; result: QueryState<AnswerTo<Q>> }>();
  const known = useRef<{ question: string; result: QueryState<AnswerTo<Q>> }>(undefined);
  if (known.current?.question !== question) {
    const answer = transport.known(question) as AnswerTo<Q> | undefined;
    known.current = answer && { question, result: { state: "ok", answer } };
  }
  const isKnown = known.current !== undefined;
  const isLost = latest?.question === question && latest.result.state === "refused" && latest.result.error.reason === "offline";
  // Once the server is back, it is asked again.
  const attempt = isLost ? transport.back.value : 0;
  useEffect(() => {
    if (name === undefined || isKnown) {
      return;
    }
    let current = true;
    const show = (result: QueryState<AnswerTo<Q>>) => current && setLatest({ question, result });
    transport.request(name, args).then(
      (answer) => show({ state: "ok", answer }),
      (error: unknown) => show({ state: "refused", error: refused(error) }),
    );
    return () => {
      current = false;
    };
  }, [question, isKnown, attempt]);
  return known.current?.result ?? (latest?.question === question ? latest.result : LOADING);
}

const LOADING = { state: "loading" } as const;

/** Last answer while a new one loads, so that the view does not flicker. */
export function useLast<A>(query: QueryState<A>): A | undefined {
  const last = useRef<A>(undefined);
  if (query.state === "ok") last.current = query.answer;
  return last.current;
}

/** Any error as a refusal that can be shown. */
export function refused(error: unknown): Refused {
  return error instanceof Refused ? error : new Refused(`The data of this view could not be read: ${String(error)}`, "wrong");
}
