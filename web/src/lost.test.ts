import { expect, test } from "vitest";
import { lostOf, memoryAlone, noGpu } from "./lost";
import type { MemoryOverview, Meta } from "./generated/answers";

const problem = (severity: string) => ({ code: "truncated", severity, message: "the file ends in the middle", count: 1, example: "" });
const meta = (severity: string, gpus: object[] = []) => ({ traces: [{ info: { gpus }, report: { problems: [problem(severity)] } }], recording: null, memory: null }) as unknown as Meta;

test("that there is no GPU work is no word on what was lost", () => {
  expect(noGpu(meta("repaired"))).toMatch(/^it ran on the CPU/);
  expect(noGpu(meta("lost"))).toMatch(/^it may have been in the part that was lost; or it ran on the CPU/);
  expect(noGpu(meta("lost", [{ id: 0 }]))).toMatch(/^it may have been in the part that was lost, for the file names a GPU;/);
});

test("losses are those of traces, of a recording, and of memory", () => {
  const report = { problems: [problem("lost"), problem("note")] };
  expect(lostOf({ traces: [{ report }], recording: { report }, memory: { report } } as unknown as Meta)).toHaveLength(3);
});

test("what is said of memory alone is not what is said of its trace", () => {
  const mended = { ...problem("repaired"), code: "overlapping_allocation" };
  const overview = { read_report: [{ problems: [problem("lost")] }, { problems: [mended] }] } as unknown as MemoryOverview;
  expect(memoryAlone(meta("lost"), overview)).toEqual([mended]);
});
