import { expect, test } from "vitest";
import type { AnswerTo } from "../transport";
import type { Lane } from "../generated/answers";
import { boxAt, countIn, boxLayout, layersIn, paint } from "./boxes";
import { HEAD, ROW } from "./view";

/** Two levels of a thread, whose columns are as narrow as their numbers. */
const answer = {
  document: { level: 0, texts: ["step", "aten::mm"], left_out: 0 },
  columns: {
    event: Uint16Array.of(500, 501, 502, 503),
    track: Uint8Array.of(0, 0, 0, 9),
    depth: Uint8Array.of(0, 1, 1, 0),
    start: Uint16Array.of(0, 250, 900, 0),
    length: Uint8Array.of(200, 100, 50, 200),
    count: Uint8Array.of(1, 1, 1, 1),
    name: Uint8Array.of(0, 1, 1, 0),
    kind: Uint8Array.of(0, 1, 1, 0),
  },
} as unknown as AnswerTo<"tiles">;

const laid = boxLayout(answer, ["module", "operator"], { placed: [{ lane: { track: 0, rows: 2 } as Lane, top: 0, rows: 2, outer: 0 }], offset: 0, onPath: undefined, isFound: undefined });
const range = { from: 200, to: 400 };

test("boxes end where columns of small numbers would run over", () => {
  expect(countIn(laid, { from: 340, to: 400 })).toBe(1);
  expect(countIn(laid, { from: 351, to: 899 })).toBe(0);
  expect(countIn(laid, { from: 0, to: 1000 })).toBe(3);
});

test("hit testing matches the drawing", () => {
  const drawn: number[][] = [];
  const context = { fillRect: (...rect: number[]) => void drawn.push(rect) } as unknown as CanvasRenderingContext2D;
  const named = paint(context, laid, { range, width: 400, top: 0, high: 100 }, undefined);
  // The first ends where the time range begins.
  expect(drawn).toEqual([[-400, HEAD, 399, ROW - 1], [100, HEAD + ROW, 199, ROW - 1]]);
  expect(named.map(({ label }) => label)).toEqual(["step", "aten::mm"]);
  const hit = (x: number) => boxAt(laid, { range, width: 400 }, x, HEAD + ROW + 5);
  expect([97, 100, 299, 303].map(hit)).toEqual([undefined, 1, 1, undefined]);
});

test("the legend has each layer once", () => {
  expect(layersIn(answer, ["module", "operator"]).toSorted()).toEqual(["module", "operator"]);
});
