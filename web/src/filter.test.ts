import { expect, test } from "vitest";
import { parsed, rangeOfSteps } from "./filter";

test("steps as people write them", () => {
  expect([parsed("5"), parsed(" 5 .. 8 "), parsed("-2..0")]).toEqual([[5, 5], [5, 8], [-2, 0]]);
  expect([parsed(""), parsed("whole"), parsed("8..5"), parsed("5..")]).toEqual([undefined, undefined, undefined, undefined]);
});

test("where steps are", () => {
  const steps = [[1, 0, 10], [2, 10, 30], [3, 35, 40]] as const;
  const all = steps.map(([number, start, end]) => [number, start, end] as [number, number, number]);
  expect([rangeOfSteps(all, [1, 2]), rangeOfSteps(all, [3, 9]), rangeOfSteps(all, [7, 9])]).toEqual([{ from: 0, to: 30 }, { from: 35, to: 40 }, undefined]);
});
