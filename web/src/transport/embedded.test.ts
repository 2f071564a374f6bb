import { expect, test } from "vitest";
import { absent } from "./embedded";

const run = { name: "img.stackline", baseline: null };

test("a refused query of a report names the command for the run", () => {
  expect(absent(run, null)).toMatch(/^This view is not in the report, .* and single events\. Open the run instead: stackline view img\.stackline$/);
  expect(absent(run, "599 events")).toContain("599 events did not fit: a larger --max-size keeps more.");
});
