import { expect, test } from "vitest";
import type { Label, Row } from "../generated/answers";
import type { Tree } from "./layout";
import { framesOfFindings } from "./named";
import { unseen } from "./notes";

const at = (line: number): Label => ["python", "main", "", "/code/train.py", line, `main train.py:${line}`];
const other = (name: string): Label => ["operator", name, "", "", 0, name];

//  0 ─ 1 main:61 ─ 2 aten::to
//    ├ 3 main:65 ─ 4 aten::to ─ 5 cudaDeviceSynchronize
//    └ 6 aten::to
const tree = {
  document: { labels: [other(""), at(61), at(65), other("aten::to"), other("cudaDeviceSynchronize")], path: [] },
  parent: Uint32Array.of(0, 0, 1, 0, 3, 4, 0),
  label: Uint32Array.of(0, 1, 3, 2, 3, 4, 3),
} as unknown as Tree;

const finding = (line: number, more: object = {}) => ({ area: "data", file: "train.py", line, function: "main", operator: null, edit_labels: "", ...more }) as Row;
const nodes = (row: Row, isTopDown = true, of = tree) => framesOfFindings(of, [row], isTopDown).of.flatMap((one, node) => (one === row ? [node] : []));

test("a finding names its line alone, not the function around it", () => {
  expect([nodes(finding(61)), nodes(finding(65)), nodes(finding(12))]).toEqual([[1], [3], []]);
  const merged = { ...tree, document: { ...tree.document, labels: tree.document.labels.map((label) => (label[4] > 0 ? at(0) : label)) } } as Tree;
  expect(nodes(finding(61), true, merged)).toEqual([1, 3]);
});

test("where it names an operator, or a call that waits, that is what it names, below its place", () => {
  expect(nodes(finding(65, { operator: "aten::to" }))).toEqual([4]);
  expect(nodes(finding(65, { edit_labels: "remove wait:cudaDeviceSynchronize" }))).toEqual([5]);
  expect(nodes(finding(65, { edit_labels: "scale kernel:~gemm 0.5" }))).toEqual([3]);
  // Elsewhere nobody knows what stands above; and where no place is known, neither.
  expect(nodes(finding(65, { operator: "aten::to" }), false)).toEqual([2, 4, 6]);
  expect(nodes(finding(0, { function: null, file: null, operator: "aten::to" }))).toEqual([2, 4, 6]);
  const zoomed = (short: string) => ({ ...tree, document: { ...tree.document, labels: tree.document.labels.map((label) => (label[4] > 0 ? other("f") : label)), path: [[3, short]] } }) as unknown as Tree;
  expect([nodes(finding(65, { operator: "aten::to" }), true, zoomed("main train.py:65")), nodes(finding(65, { operator: "aten::to" }), true, zoomed("f"))]).toEqual([[2, 4, 6], []]);
});

test("the legend says which findings have no frame here", () => {
  const rows = [finding(61), finding(12)];
  const named = framesOfFindings(tree, rows, true);
  expect([unseen(rows, named), unseen([rows[1]!], named), unseen([rows[0]!], named)]).toEqual([" (1 of 2 findings has no frame in this view)", " (none of these findings has a frame in this view)", ""]);
});
