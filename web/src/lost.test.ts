import { expect, test } from "vitest";
import { lostOf, memoryAlone, noGpu } from "./lost";
import type { MemoryOverview, Meta } from "./generated/answers";

const problem = (severity: string) => ({ code: "truncated", severity, message: "the file ends in the middle", count: 1, example: "" });
const meta = (severity: string, gpus: object[] = []) => ({ traces: [{ info: { gpus }, report: { problems: [problem(severity)] } }], recording: null, memory: null }) as unknown as Meta;

test("missing GPU work is explained with and without lost records", () => {
  expect(noGpu(meta("repaired"))).toMatch(/^the program ran only on the CPU/);
  expect(noGpu(meta("lost"))).toMatch(/^either GPU records were lost, or the program ran only on the CPU/);
  expect(noGpu(meta("lost", [{ id: 0 }]))).toMatch(/^either GPU records were lost \(the file lists a GPU\),/);
});

test("lost records come from traces, a recording and memory", () => {
  const report = { problems: [problem("lost"), problem("note")] };
  expect(lostOf({ traces: [{ report }], recording: { report }, memory: { report } } as unknown as Meta)).toHaveLength(3);
});

test("diagnostics of memory exclude those of its trace", () => {
  const mended = { ...problem("repaired"), code: "overlapping_allocation" };
  const overview = { read_report: [{ problems: [problem("lost")] }, { problems: [mended] }] } as unknown as MemoryOverview;
  expect(memoryAlone(meta("lost"), overview)).toEqual([mended]);
});
