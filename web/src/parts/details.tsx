/** Side panel with details of the selection. */

import { EventDetails } from "../details/event";
import { FrameDetails } from "../details/frame";
import { CallDetails, ObjectDetails } from "../details/object";
import { change, page, selection, state } from "../state";

export function Details() {
  const [kind, number] = selection.value.split(":");
  const isFlame = page.value === "flame";
  // Rows of the flame graph mean nothing elsewhere. Its panel stays: boxes that move when one is clicked are not hit again.
  const isMemory = page.value === "memory";
  const shown =
    kind === "event" && number !== undefined && !isMemory ? <EventDetails event={number} />
    : isFlame && (kind === "node" || kind === "frame") ? <FrameDetails />
    : isMemory && kind === "object" && number !== undefined ? <ObjectDetails object={number} />
    : isMemory && kind === "call" && number !== undefined ? <CallDetails call={number} />
    : undefined;
  // In the other views of memory nothing can be selected, and their tables are wide.
  const isOfObjects = isMemory && (state.value.tab ?? "") === "";
  if (!shown && !isFlame && !isOfObjects) return null;
  return (
    <aside class={shown ? "details" : "details idle"} aria-label="Details" tabIndex={-1}>
      <div class="sight">
        <div class="bar">
          <h2>Details</h2>
          {shown && <button type="button" onClick={() => change({ sel: "" }, "replace")}>Close</button>}
        </div>
        {shown ?? <p class="quiet">{isMemory ? "Select an object or call to see its allocation, accesses and suggestions." : "Select a frame to see all metrics, the call path and the source."}</p>}
      </div>
    </aside>
  );
}
