/** Notices in place of an answer: loading, refused, or no events. */

import type { ComponentChildren } from "preact";
import type { QueryState } from "../answers";

/** Shows an answer, or why there is none. */
export function Shown<A>({ query, children }: { query: QueryState<A>; children: (answer: A) => ComponentChildren }) {
  switch (query.state) {
    case "loading":
      return <p class="quiet" role="status">Computing …</p>;
    case "refused":
      return (
        <p class="notice" role="alert">
          {query.error.message}
        </p>
      );
    case "ok":
      return <>{children(query.answer)}</>;
  }
}

/** Notice for traces without events with a duration. */
export const NoEvents = () => (
  <p class="notice">No event of this trace has a start and a duration, so nothing can be analyzed. The page "This run" shows how many events were read and which records are missing; <code>stackline doctor</code> shows details.</p>
);
