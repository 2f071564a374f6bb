import { expect, test } from "vitest";
import type { Label } from "../generated/answers";
import { coloring, modulesOf } from "./coloring";
import type { Tree } from "./layout";
import { framesOfFindings, otherLine } from "./named";

const label = (kind: string, name: string, file = ""): Label => [kind, name, "", file, 0, name];

//  0 ─ 1 step ─ 2 Linear ─ 3 aten::mm
//             └ 4 aten::add
const tree = {
  document: { labels: [label("", ""), label("python", "step", "t.py"), label("module", "Linear"), label("operator", "aten::mm"), label("operator", "aten::add")] },
  parent: Uint32Array.of(0, 0, 1, 2, 1),
  label: Uint32Array.of(0, 1, 2, 3, 4),
} as unknown as Tree;

test("callees of a module belong to the module", () => {
  expect([...modulesOf(tree)]).toEqual([-1, -1, 2, 2, -1]);
  const color = coloring("module", tree, framesOfFindings(tree, [], true));
  expect(color(3)).toEqual(color(2));
  expect(color(4)).not.toEqual(color(2));
});

test("a finding colors its frames and marks their callers", () => {
  const color = coloring("finding", tree, framesOfFindings(tree, [{ operator: "aten::mm", area: "kernels", function: null, file: null }], true));
  const [caller, module, own, other] = [1, 2, 3, 4].map(color) as [ReturnType<typeof color>, ReturnType<typeof color>, ReturnType<typeof color>, ReturnType<typeof color>];
  expect(own.stripe).toBeUndefined();
  expect([caller.stripe, module.stripe]).toEqual([own.fill, own.fill]);
  expect(other).toEqual({ fill: caller.fill });
});

test("a finding of another line of the function says which; where a line is not known nothing is said", () => {
  const at = (line: number): Label => ["python", "train", "", "t.py", line, "train"];
  const finding = (line: number | null) => ({ function: "train", file: "t.py", line });
  expect([otherLine(finding(53), at(54)), otherLine(finding(53), at(53)), otherLine(finding(53), at(0)), otherLine(finding(null), at(54))]).toEqual([53, undefined, undefined, undefined]);
});
