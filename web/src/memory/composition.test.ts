import { expect, test } from "vitest";
import { partsOf, sameOf } from "./composition";

const row = (peak: string, use: string, place: string | null) => ({ peak, use, bytes: 1, objects: 1, evidence: "call path", place });

test("a part is listed once with its row at each peak, and a source location only if all peaks have the same", () => {
  const rows = [row("P1", "parameters", null), row("P1", "activations", "a.py:1"), row("P2", "activations", "a.py:1"), row("P2", "other", "b.py:2"), row("P3", "activations", "c.py:3")];
  const parts = partsOf(rows, [{ name: "P1" }, { name: "P2" }]);
  expect(parts.map(({ use, at }) => [use, ...at.map((row) => row !== undefined)])).toEqual([["parameters", true, false], ["activations", true, true], ["other", false, true]]);
  expect(parts.map(({ at }) => sameOf(at, "place"))).toEqual(["–", "a.py:1", "b.py:2"]);
  expect(sameOf([rows[2], rows[4]], "place")).toBe("–");
  expect(sameOf([undefined, rows[2]], "evidence")).toBe("call path");
});
