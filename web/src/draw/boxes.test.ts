import { expect, test } from "vitest";
import { type Box, labelBoxes } from "./boxes";

test("names use the ink of boxes, and on faded boxes that of the paper", () => {
  const written: Array<[text: string, ink: string]> = [];
  const context = { fillStyle: "", measureText: () => ({ width: 10 }), fillText: (text: string) => written.push([text, context.fillStyle]), strokeRect: () => undefined };
  const box = (label: string, faded: boolean): Box => ({ x: 0, y: 0, width: 100, height: 14, fill: "#8fc3ed", label, faded });
  labelBoxes(context as unknown as CanvasRenderingContext2D, [box("plain", false), box("faded", true)], { paper: "#15181d", label: "#14171b", mark: "#ffffff" });
  expect(written).toEqual([["plain", "#14171b"], ["faded", "#ffffff"]]);
});
