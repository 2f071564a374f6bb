import { expect, test } from "vitest";
import type { Label } from "../generated/answers";
import { patternOf } from "./question";

const label = (name: string, file: string, line: number): Label => ["python", name, "", file, line, name];

test("a frame is found by its name in its file, with any line and any letters", () => {
  const pattern = new RegExp(patternOf(label("Net.forward[x]", "a+b/t.py", 12)));
  expect(["Net.forward[x] a+b/t.py:12", "Net.forward[x] a+b/t.py:99", "Net.forward[x] a+b/t.py"].every((text) => pattern.test(text))).toBe(true);
  expect(["Net.forward[x] aab/t.py:12", "my Net.forward[x] a+b/t.py:12", "Net.forwardx a+b/t.py:1"].some((text) => pattern.test(text))).toBe(false);
  expect(new RegExp(patternOf(label("aten::mm", "", 0))).test("aten::mm_out")).toBe(false);
  expect(new RegExp(patternOf(label(`${"x".repeat(50)}…`, "", 0))).test("x".repeat(80))).toBe(true);
});
