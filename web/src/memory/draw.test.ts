import { expect, test } from "vitest";
import { drawCurves, type Scene } from "./draw";

test("the sample of what is in use has the colour of its area", () => {
  const filled: Array<[fill: string, left: number]> = [];
  const context = new Proxy({ fillStyle: "", measureText: (text: string) => ({ width: 6 * text.length }), fillRect: (left: number) => void filled.push([context.fillStyle, left]) } as Record<string, unknown>, {
    get: (own, key: string) => own[key] ?? (() => undefined),
  }) as unknown as { fillStyle: string };
  const gutter = 120;
  const scene = { context, layout: { gutter, curve: 20 }, stretch: { from: 0, to: 100 }, width: 500, ink: { quiet: "quiet", line: "line", mark: "mark", ink: "ink", paper: "paper" } } as unknown as Scene;
  const columns = { curve: [0, 0], start: [0, 50], high: [10, 5], last: [10, 5] };
  drawCurves(scene, { document: { most: [10], has_reserved: false }, columns } as never, undefined, []);
  const [sample, ...area] = filled.filter(([fill]) => fill !== "line");
  expect(sample![1]).toBeLessThan(gutter);
  expect(area.length).toBeGreaterThan(0);
  expect(area.every(([fill, left]) => left >= gutter && fill === sample![0])).toBe(true);
});
