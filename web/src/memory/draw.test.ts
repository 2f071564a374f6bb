import { expect, test } from "vitest";
import { drawCurves, type Scene } from "./draw";
import { drawBlocks } from "./tabs";

test("the sample of live memory has the color of its area", () => {
  const filled: Array<[fill: string, left: number]> = [];
  const context = new Proxy({ fillStyle: "", measureText: (text: string) => ({ width: 6 * text.length }), fillRect: (left: number) => void filled.push([context.fillStyle, left]) } as Record<string, unknown>, {
    get: (own, key: string) => own[key] ?? (() => undefined),
  }) as unknown as { fillStyle: string };
  const gutter = 120;
  const scene = { context, layout: { gutter, curve: 20 }, range: { from: 0, to: 100 }, width: 500, ink: { quiet: "quiet", line: "line", mark: "mark", ink: "ink", paper: "paper" } } as unknown as Scene;
  const columns = { curve: [0, 0], start: [0, 50], high: [10, 5], last: [10, 5] };
  drawCurves(scene, { document: { most: [10], has_reserved: false }, columns } as never, undefined, []);
  const [sample, ...area] = filled.filter(([fill]) => fill !== "line");
  expect(sample![1]).toBeLessThan(gutter);
  expect(area.length).toBeGreaterThan(0);
  expect(area.every(([fill, left]) => left >= gutter && fill === sample![0])).toBe(true);
});

test("a small block in use of a large segment can be seen", () => {
  const filled: number[] = [];
  const context = { fillStyle: "", strokeStyle: "", lineWidth: 0, strokeRect: () => undefined, fillRect: (_: number, __: number, wide: number) => void filled.push(wide) };
  const columns = { segment: [0, 0], offset: [0, 6 << 10], bytes: [6 << 10, (20 << 20) - (6 << 10)], state: [0, 2] };
  drawBlocks(context as never, { document: {}, columns } as never, 1000, 20 << 20, "mark");
  expect(filled).toHaveLength(1);
  expect(filled[0]).toBeGreaterThanOrEqual(2);
});
