/** Answers as components see them: not there yet, there, or why not. */

import { useEffect, useRef, useState } from "preact/hooks";
import { transport } from "./state";
import { type Arguments, key, Refused } from "./transport";
import type { Answer } from "./transport/decode";

export type Asked<D> =
  | { readonly state: "loading" }
  | { readonly state: "ok"; readonly answer: Answer<D> }
  | { readonly state: "refused"; readonly error: Refused };

/** Asks; again when the question changes. Without a name nothing is asked. */
export function useAnswer<D>(name: string | undefined, args: Arguments = {}): Asked<D> {
  const question = name === undefined ? "" : key(name, args);
  const [asked, setAsked] = useState<{ question: string; result: Asked<D> }>();
  useEffect(() => {
    if (name === undefined) {
      return;
    }
    let current = true;
    const show = (result: Asked<D>) => current && setAsked({ question, result });
    transport.ask<D>(name, args).then(
      (answer) => show({ state: "ok", answer }),
      (error: unknown) => show({ state: "refused", error: refused(error) }),
    );
    return () => {
      current = false;
    };
  }, [question]);
  return asked?.question === question ? asked.result : { state: "loading" };
}

/** The last answer that came, while another one is being worked out: what is shown does not flicker. */
export function useLast<D>(asked: Asked<D>): Answer<D> | undefined {
  const last = useRef<Answer<D>>(undefined);
  if (asked.state === "ok") last.current = asked.answer;
  return last.current;
}

/** Whatever went wrong, as a refusal that can be shown. */
export function refused(error: unknown): Refused {
  return error instanceof Refused ? error : new Refused(`The answer could not be read: ${String(error)}`, "wrong");
}
