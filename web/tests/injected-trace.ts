/** Traces whose faults are known. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** A trace of steps that wait for `item()` at line 12 of a file, with more to say of itself, and events before the steps. */
export function writeInjectedTrace(folder: string, source: string, more: object = {}, before: readonly object[] = []): string {
  const events: object[] = [...before];
  const add = (name: string, cat: string, ts: number, dur: number, tid: number | string, args: object = {}) => events.push({ ph: "X", name, cat, ts, dur, pid: tid === 7 ? 0 : 1, tid, args });
  for (let step = 0; step < 6; step += 1) {
    const t = step * 1000;
    add(`ProfilerStep#${step + 1}`, "user_annotation", t, 990, 1);
    add(`${source}(12): train_step`, "python_function", t + 1, 980, 1, { "Python id": step * 2 + 1 });
    add("aten::mm", "cpu_op", t + 10, 30, 1);
    add("cudaLaunchKernel", "cuda_runtime", t + 15, 10, 1, { correlation: step * 10 + 1 });
    add("gemm", "kernel", t + 30, 400, 7, { correlation: step * 10 + 1, device: 0, stream: 7 });
    add("aten::item", "cpu_op", t + 50, 390, 1);
    add("aten::_local_scalar_dense", "cpu_op", t + 52, 386, 1);
    add("cudaMemcpyAsync", "cuda_runtime", t + 55, 6, 1, { correlation: step * 10 + 2 });
    add("Memcpy DtoH (Device -> Pageable)", "gpu_memcpy", t + 431, 2, 7, { correlation: step * 10 + 2, device: 0, stream: 7, bytes: 4 });
    add("cudaStreamSynchronize", "cuda_runtime", t + 62, 374, 1, { correlation: step * 10 + 3 });
    for (let at = 0; at < 8; at += 1) {
      add("aten::add_", "cpu_op", t + 450 + at * 60, 50, 1);
      add("cudaLaunchKernel", "cuda_runtime", t + 460 + at * 60, 10, 1, { correlation: step * 10 + 100_000 + at + step * 100 });
      add("add", "kernel", t + 480 + at * 60, 40, 7, { correlation: step * 10 + 100_000 + at + step * 100, device: 0, stream: 7 });
    }
  }
  const file = join(folder, "injected.json");
  writeFileSync(file, JSON.stringify({ schemaVersion: 1, ...more, traceEvents: events }));
  return file;
}
