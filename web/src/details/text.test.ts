import { expect, test } from "vitest";
import type { Tree } from "../flame/layout";
import type { EventDetail, FindingDetail, Label } from "../generated/answers";
import { eventText, factsOf, findingText, frameText } from "./text";

const label = (name: string, file = "", line = 0): Label => ["python", name, "", file, line, name];

const tree = {
  document: { labels: [label(""), label("main", "t.py", 3), label("aten::mm")], unit: "ns", title: "CPU time", total: 4_000_000, path: [] },
  row: Uint32Array.of(0, 7, 9),
  parent: Uint32Array.of(0, 0, 1),
  label: Uint32Array.of(0, 1, 2),
  inclusive: Float64Array.of(4e6, 4e6, 1e6),
  exclusive: Float64Array.of(0, 3e6, 1e6),
  calls: Float64Array.of(0, 5, 4),
} as unknown as Tree;

test("a frame with its metrics and its call path", () => {
  expect(frameText(tree, 2, undefined).split("\n")).toEqual([
    "aten::mm, called 4 times",
    "CPU time: 1 ms (25.0 %), self 1 ms",
    "Call path:",
    "  main (t.py:3)",
    "    aten::mm",
  ]);
});

test("an event with its enclosing events", () => {
  const brief = { event: 1, name: "gemm", kind: "kernel", start: 2000, dur: 1500, track: 0 };
  const detail = { event: brief, step: 4, place: { text: "t.py:3" }, enclosing: [], launch: { ...brief, name: "cudaLaunchKernel" }, launched: [], callers: [{ ...brief, name: "t.py(3): step" }], arguments: [["grid", "[1,1,1]"]] };
  expect(eventText(detail as unknown as EventDetail).split("\n")).toEqual([
    "gemm (kernel)",
    "Start 2 µs after the start of the trace, duration 1.50 µs, in step 4",
    "Source location: t.py:3",
    "Launched by: cudaLaunchKernel (1.50 µs)",
    "Launched from: t.py(3): step (1.50 µs)",
    "grid: [1,1,1]",
  ]);
});

test("facts have units for people", () => {
  expect(factsOf({ facts: [["waits", 12, "none"], ["waiting", 1_134_725.9, "us"]] } as unknown as FindingDetail)).toBe("waits 12; waiting 1.13 s");
});

test("a copied finding says if its bounds are unknown", () => {
  const row = { code: "SL001", name: "n", title: "t", gain_ns: 3e6, gain_low_ns: 0, gain_high_ns: 10e6, method: "replay", support: "s", evidence: "e" };
  const gainLine = (more: object) => findingText({ ...row, ...more } as never, "a.py:1", 10e6, undefined).split("\n")[2];
  expect(gainLine({})).toBe("Estimated gain 3 ms/step (bounds unknown), method: replay");
  expect(gainLine({ gain_low_ns: 2e6 })).toBe("Estimated gain 3 ms/step (bounds 2 ms to 10 ms), method: replay");
});
