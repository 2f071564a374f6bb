/** What the colours of the timeline mean, of those that are seen. */

import { useMemo } from "preact/hooks";
import { LAYERS } from "../colors";
import type { Answer } from "../transport/decode";
import type { Lanes, TileDocument } from "../types";
import { layersIn, layersOf } from "./boxes";

export function Legend({ answer, lanes }: { answer: Answer<TileDocument>; lanes: Lanes }) {
  const layers = useMemo(() => layersIn(answer, layersOf(lanes)), [answer, lanes]);
  return (
    <ul class="legend" aria-label="Colours">
      {layers.map((layer) => (
        <li key={layer}>
          <i style={{ background: LAYERS[layer].fill }} /> {LAYERS[layer].title}
        </li>
      ))}
    </ul>
  );
}
