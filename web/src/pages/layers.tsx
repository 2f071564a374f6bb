/** Layers page, not implemented: required data, and alternatives. */

import { noGpu } from "../lost";
import { changeCallView } from "../state";
import type { Meta } from "../generated/answers";

/** In a few words, for the list of pages. */
export const NEEDED = "This page is not available yet: it needs each kernel's module, and its FLOPs and bytes from hardware counters";

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
            {meta.has.gpu ? "kernels: present in this run" : `kernels: missing in this run, because ${noGpu(meta)}`}
          </li>
          <li>the module of each kernel: to record modules, use torch.profiler with <code>with_stack=True</code></li>
          <li>FLOPs and bytes of each kernel from hardware counters, and the GPU's peak rates: Stackline does not measure them yet</li>
        </ul>
      </div>
      <h2>Alternatives</h2>
      <ul>
        {meta.has.gpu && (
          <>
            <li>To see the kernels with the most time, open the <button type="button" class="link" onClick={() => changeCallView({ page: "overview" })}>Overview</button>. To print all kernels, run <code>stackline kernels</code>.</li>
            <li>To see the call paths that launch a kernel, open the <button type="button" class="link" onClick={() => changeCallView({ page: "flame", shape: "bottom-up", metric: "gpu_time", of: "" })}>Flame graph, bottom-up by GPU time</button>.</li>
          </>
        )}
        <li>To see the time of each module, if the run records modules, open the <button type="button" class="link" onClick={() => changeCallView({ page: "flame", shape: "", color: "module", of: "" })}>Flame graph, colored by module</button>.</li>
      </ul>
    </section>
  );
}
