/** The panel at the side: all that is known of what is selected. */

import { EventDetails } from "../details/event";
import { FrameDetails } from "../details/frame";
import { change, page, selection } from "../state";

export function Details() {
  const [kind, number] = selection.value.split(":");
  if (number === undefined || (kind !== "event" && kind !== "node")) return null;
  // Rows of the flame graph mean nothing elsewhere.
  if (kind === "node" && page.value !== "flame") return null;
  return (
    <aside class="details" aria-label="Details">
      <div class="bar">
        <h2>Details</h2>
        <button type="button" onClick={() => change({ sel: "" }, "replace")}>Close</button>
      </div>
      {kind === "event" ? <EventDetails event={number} /> : <FrameDetails />}
    </aside>
  );
}
