/** Layers and kernels: which data it needs, and where what is known of them stands until then. */

import { noGpu } from "../lost";
import { lookAt } from "../state";
import type { Meta } from "../generated/answers";

/** In a few words, for the list of pages. */
export const NEEDED = "Not there yet. Needs kernels, the module that each belongs to, and their FLOPs and bytes from hardware counters";

export function Layers({ meta }: { meta: Meta }) {
  return (
    <section aria-labelledby="layers-title">
      <h1 id="layers-title">Layers &amp; kernels</h1>
      <div class="notice">
        <p>
          This page is not there yet. It will show each layer of the model in the order in which it runs, with its time, its memory and its kernels, and how near each
          kernel comes to what the GPU can do. For that it needs:
        </p>
        <ul>
          <li>
            kernels: {meta.has.gpu ? "this run has them" : `this run has none: ${noGpu(meta)}`}
          </li>
          <li>the module that each kernel belongs to: torch.profiler with <code>with_stack=True</code> names modules</li>
          <li>how many operations and bytes each kernel is of, by hardware counters, and what the GPU can do at most: nothing measures these for Stackline yet</li>
        </ul>
      </div>
      <h2>Until then</h2>
      <ul>
        {meta.has.gpu && (
          <>
            <li><button type="button" class="link" onClick={() => lookAt({ page: "overview" })}>Overview</button> lists kernels by time; <code>stackline kernels</code> gives all of them.</li>
            <li><button type="button" class="link" onClick={() => lookAt({ page: "flame", shape: "bottom-up", metric: "gpu_time", of: "" })}>Flame graph, bottom-up by GPU time</button> leads from a kernel to what launched it.</li>
          </>
        )}
        <li><button type="button" class="link" onClick={() => lookAt({ page: "flame", shape: "", colour: "module", of: "" })}>Flame graph, coloured by module</button> shows how long each module takes, where the run names modules.</li>
      </ul>
    </section>
  );
}
