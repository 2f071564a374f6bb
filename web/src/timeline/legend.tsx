/** Legend of the visible colors of the timeline. */

import { useMemo } from "preact/hooks";
import { LAYERS } from "../colors";
import type { AnswerTo } from "../transport";
import type { Lanes } from "../generated/answers";
import { layersIn, layersOf } from "./boxes";

export function Legend({ answer, lanes }: { answer: AnswerTo<"tiles">; lanes: Lanes }) {
  const layers = useMemo(() => layersIn(answer, layersOf(lanes)), [answer, lanes]);
  return (
    <ul class="legend" aria-label="Colors">
      {layers.map((layer) => (
        <li key={layer}>
          <i style={{ background: LAYERS[layer].fill }} /> {LAYERS[layer].title}
        </li>
      ))}
    </ul>
  );
}
