/** Layers page, not implemented: required data, and alternatives. */

import { noGpu } from "../lost";
import { changeCallView } from "../state";
import type { Meta } from "../generated/answers";

/** In a few words, for the list of pages. */
export const NEEDED = "Not available yet: needs each kernel's module, and its FLOPs and bytes from hardware counters";

export function Layers({ meta }: { meta: Meta }) {
  return (
    <section aria-labelledby="layers-title">
      <h1 id="layers-title">Layers &amp; kernels</h1>
      <div class="notice">
        <p>
          This page is not available yet. It will show the layers of the model in execution order with time, memory and kernels, and each kernel's share of the
          GPU's peak rate. It needs:
        </p>
        <ul>
          <li>
            kernels: {meta.has.gpu ? "present in this run" : `missing in this run, because ${noGpu(meta)}`}
          </li>
          <li>the module of each kernel: torch.profiler with <code>with_stack=True</code> records modules</li>
          <li>FLOPs and bytes of each kernel from hardware counters, and the GPU's peak rates: not measured by Stackline yet</li>
        </ul>
      </div>
      <h2>Alternatives</h2>
      <ul>
        {meta.has.gpu && (
          <>
            <li><button type="button" class="link" onClick={() => changeCallView({ page: "overview" })}>Overview</button> lists kernels by time; <code>stackline kernels</code> prints all of them.</li>
            <li><button type="button" class="link" onClick={() => changeCallView({ page: "flame", shape: "bottom-up", metric: "gpu_time", of: "" })}>Flame graph, bottom-up by GPU time</button> shows which call paths launch a kernel.</li>
          </>
        )}
        <li><button type="button" class="link" onClick={() => changeCallView({ page: "flame", shape: "", colour: "module", of: "" })}>Flame graph, colored by module</button> shows the time of each module, if the run records modules.</li>
      </ul>
    </section>
  );
}
