import { expect, test } from "vitest";
import type { Label } from "../generated/answers";
import { zoomTarget, frameIn, frameOfName, nodeOf, selOf } from "./chosen";
import type { Tree } from "./layout";

const label = (name: string, file = "", line = 0): Label => ["python", name, "", file, line, name];

//  0 ─ 1 main ─ 2 step:12 ─ 3 mm
//             └ 4 step:13 ─ 5 mm
//   \ 6 mm
const tree = {
  document: { labels: [label(""), label("main", "train.py", 3), label("step", "train.py", 12), label("step", "train.py", 13), label("mm")] },
  row: Uint32Array.of(0, 1, 2, 3, 4, 5, 6),
  parent: Uint32Array.of(0, 0, 1, 2, 1, 4, 0),
  label: Uint32Array.of(0, 1, 2, 4, 3, 4, 4),
  width: Float64Array.of(1000, 900, 600, 10, 200, 12, 50),
} as unknown as Tree;

test("a frame as the address names it", () => {
  for (const frame of [{ name: "aten::mm", file: "", line: 0 }, { name: "a b:c", file: "x y/t.py", line: 12 }]) expect(frameIn(selOf(frame))).toEqual(frame);
  expect([frameIn("node:3"), frameIn("frame:"), frameIn("")]).toEqual([undefined, undefined, undefined]);
});

test("the frame that an event counts at", () => {
  expect(frameOfName("lib/train.py(12): step")).toEqual({ name: "step", file: "lib/train.py", line: 12 });
  expect(["ProfilerStep#4", "nn.Module: Linear_0", "<built-in method item of Tensor object at 0x7f64>", "void k<4>(float*)"].map((name) => frameOfName(name).name)).toEqual([
    "ProfilerStep", "Linear_0", "<built-in method item of Tensor object>", "void k<4>(float*)",
  ]);
});

test("of nodes of a name the one at its line, then the one below the same callers, then the widest", () => {
  const mm = { name: "mm" };
  expect([nodeOf(tree, mm, []), nodeOf(tree, mm, ["main", "step"]), nodeOf(tree, mm, ["main"])]).toEqual([6, 5, 5]);
  const step = { name: "step", file: "/full/train.py", line: 13 };
  expect([nodeOf(tree, step, []), nodeOf(tree, { ...step, line: 0 }, []), nodeOf(tree, { ...step, file: "other.py" }, []), nodeOf(tree, { name: "none" }, [])]).toEqual([4, 2, undefined, undefined]);
});

test("a frame too narrow to see is zoomed to, with some context around it", () => {
  expect([zoomTarget(tree, 1), zoomTarget(tree, 3), zoomTarget(tree, 6), zoomTarget(tree, 5)]).toEqual([0, 3, 0, 5]);
  const wide = { ...tree, width: Float64Array.of(1000, 24, 22, 20, 1, 1, 1) } as Tree;
  expect(zoomTarget(wide, 3)).toBe(1);
});
